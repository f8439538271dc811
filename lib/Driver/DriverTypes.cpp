//===- DriverTypes.cpp ----------------------------------------------------===//

#include "flagtree/Driver/DriverTypes.h"

namespace flagtree {

namespace {
struct CodeText {
  Result Code;
  const char *Name;
  const char *Description;
};

// Our own words: the driver's are asked with GetErrorString where it is open.
constexpr CodeText Texts[] = {
    {Result::Success, "SUCCESS", "no error"},
    {Result::InvalidValue, "ERROR_INVALID_VALUE",
     "an argument was out of its range"},
    {Result::OutOfMemory, "ERROR_OUT_OF_MEMORY", "no memory left"},
    {Result::NotInitialized, "ERROR_NOT_INITIALIZED",
     "the driver is not initialized in this process"},
    {Result::Deinitialized, "ERROR_DEINITIALIZED",
     "the driver is shutting down, the process is exiting"},
    {Result::StubLibrary, "ERROR_STUB_LIBRARY",
     "the library is a stub for linking, not a driver"},
    {Result::DevicesUnavailable, "ERROR_DEVICES_UNAVAILABLE",
     "every device is busy or in an exclusive mode held by another process"},
    {Result::NoDevice, "ERROR_NO_DEVICE", "no device is visible"},
    {Result::InvalidDevice, "ERROR_INVALID_DEVICE",
     "there is no device with that ordinal"},
    {Result::InvalidImage, "ERROR_INVALID_IMAGE",
     "the kernel binary is not one for this device"},
    {Result::InvalidContext, "ERROR_INVALID_CONTEXT",
     "no context is current on this thread"},
    {Result::NoBinaryForDevice, "ERROR_NO_BINARY_FOR_GPU",
     "the binary holds no code for this device"},
    {Result::InvalidHandle, "ERROR_INVALID_HANDLE",
     "a handle was not made by this driver or is gone"},
    {Result::NotFound, "ERROR_NOT_FOUND", "a named thing was not found"},
    {Result::NotReady, "ERROR_NOT_READY", "earlier work has not finished"},
    {Result::IllegalAddress, "ERROR_ILLEGAL_ADDRESS",
     "a kernel accessed memory it does not own"},
    {Result::LaunchOutOfResources, "ERROR_LAUNCH_OUT_OF_RESOURCES",
     "the kernel needs more registers or threads than a block can have"},
    {Result::LaunchTimeout, "ERROR_LAUNCH_TIMEOUT", "a kernel ran too long"},
    {Result::LaunchFailed, "ERROR_LAUNCH_FAILED", "a kernel died"},
    {Result::CooperativeLaunchTooLarge, "ERROR_COOPERATIVE_LAUNCH_TOO_LARGE",
     "a cooperative grid must fit the device at once"},
    {Result::NotPermitted, "ERROR_NOT_PERMITTED",
     "the operation is not permitted"},
    {Result::NotSupported, "ERROR_NOT_SUPPORTED",
     "the device or driver does not support the operation"},
    {Result::SystemNotReady, "ERROR_SYSTEM_NOT_READY",
     "the system is not ready: a fabric or device daemon may not be running"},
    {Result::SystemDriverMismatch, "ERROR_SYSTEM_DRIVER_MISMATCH",
     "the driver library and the kernel module have different versions"},
    {Result::CompatNotSupportedOnDevice, "ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
     "the forward-compatibility driver does not support this device"},
    {Result::Unknown, "ERROR_UNKNOWN", "the driver gave no reason"},
};

const CodeText *find(Result Code) noexcept {
  for (const CodeText &Text : Texts)
    if (Text.Code == Code)
      return &Text;
  return nullptr;
}
} // namespace

const char *resultName(Result Code) noexcept {
  const CodeText *Text = find(Code);
  return Text ? Text->Name : "an unlisted code";
}

const char *resultDescription(Result Code) noexcept {
  const CodeText *Text = find(Code);
  return Text ? Text->Description : "a code this tree does not know";
}

} // namespace flagtree
