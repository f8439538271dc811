//===- FakeDriver.cpp - See FakeDriver.h ----------------------------------===//
//
// Built with FAKE_PREFIX cu or hg; with FAKE_STUB every call answers 34, with
// FAKE_INCOMPLETE there is no CtxGetDevice, with FAKE_NO_MODULES nothing to
// load a kernel with.
//
//===----------------------------------------------------------------------===//

#include "FakeDriver.h"

#include "flagtree/Driver/DriverTypes.h"

#include <unistd.h>

using namespace flagtree;
using namespace flagtree::testing;

#define PASTE_(A, B) A##B
#define PASTE(A, B) PASTE_(A, B)
#define EXPORT(Name)                                                           \
  extern "C" __attribute__((visibility("default"))) Result PASTE(FAKE_PREFIX,  \
                                                                 Name)

namespace {
thread_local int Current = -1;
void setCurrent(int Ordinal) { Current = Ordinal; }
} // namespace

extern "C" {
__attribute__((visibility("default"))) FakeDriver fakeDriver = {
    {0}, {2}, setCurrent, {}, {}};
}

namespace {

bool isLive() { return fakeDriver.InitializedBy == getpid(); }
bool isForkedAfterInit() { return fakeDriver.InitializedBy != 0 && !isLive(); }

/// Counts a call; true if it is to answer Fault.
bool begin(FakeCall Call, Result &Fault) {
  int Index = static_cast<int>(Call);
  int Occurrence = ++fakeDriver.Calls[Index];
#ifdef FAKE_STUB
  Fault = Result::StubLibrary;
  return Occurrence > 0;
#else
  auto &Order = fakeDriver.Faults[Index];
  Fault = static_cast<Result>(Order.Result.load());
  return Order.First > 0 && Occurrence >= Order.First &&
         Occurrence <= Order.Last;
#endif
}

} // namespace

EXPORT(Init)(unsigned) {
  Result Fault;
  if (begin(FakeCall::Init, Fault))
    return Fault;
  if (isForkedAfterInit())
    return Result::NotInitialized;
  if (fakeDriver.DeviceCount == 0)
    return Result::NoDevice;
  fakeDriver.InitializedBy = getpid();
  return Result::Success;
}

EXPORT(DriverGetVersion)(int *Version) {
  Result Fault;
  if (begin(FakeCall::DriverGetVersion, Fault))
    return Fault;
  *Version = 13000;
  return Result::Success;
}

EXPORT(DeviceGet)(Device *Handle, int Ordinal) {
  Result Fault;
  if (begin(FakeCall::DeviceGet, Fault))
    return Fault;
  if (!isLive())
    return Result::NotInitialized;
  if (Ordinal < 0 || Ordinal >= fakeDriver.DeviceCount)
    return Result::InvalidDevice;
  *Handle = Ordinal;
  return Result::Success;
}

EXPORT(DeviceGetCount)(int *Count) {
  Result Fault;
  if (begin(FakeCall::DeviceGetCount, Fault))
    return Fault;
  if (!isLive())
    return Result::NotInitialized;
  *Count = fakeDriver.DeviceCount;
  return Result::Success;
}

EXPORT(DeviceGetAttribute)(int *Value, DeviceAttribute Attribute,
                           Device Handle) {
  Result Fault;
  if (begin(FakeCall::DeviceGetAttribute, Fault))
    return Fault;
  if (!isLive())
    return Result::NotInitialized;
  // Device N has capability 8.N.
  *Value = Attribute == DeviceAttribute::ComputeCapabilityMajor ? 8 : Handle;
  return Result::Success;
}

#ifndef FAKE_INCOMPLETE
EXPORT(CtxGetDevice)(Device *Handle) {
  Result Fault;
  if (begin(FakeCall::CtxGetDevice, Fault))
    return Fault;
  if (!isLive())
    return Result::NotInitialized;
  if (Current < 0)
    return Result::InvalidContext;
  *Handle = Current;
  return Result::Success;
}
#endif

#ifndef FAKE_NO_MODULES
// What load() insists on and no test of this library calls: one body for all.
#define REFUSE(Name)                                                           \
  EXPORT(Name)() { return Result::NotSupported; }
REFUSE(CtxGetCurrent)
REFUSE(CtxSetCurrent)
REFUSE(DevicePrimaryCtxRetain)
REFUSE(CtxGetLimit)
REFUSE(CtxSetLimit)
REFUSE(ModuleLoadData)
REFUSE(ModuleUnload)
REFUSE(ModuleGetFunction)
REFUSE(FuncGetAttribute)
REFUSE(FuncSetAttribute)
REFUSE(FuncSetCacheConfig)
REFUSE(PointerGetAttribute)
REFUSE(LaunchKernel)
#endif
