//===- DriverFailure.cpp - A driver call that did not succeed -------------===//

#include "flagtree/Launch/DriverFailure.h"

using namespace flagtree;

namespace {

/// "12.8" for 12080, as DriverGetVersion counts.
std::string versionText(int Version) {
  if (Version == 0)
    return "unknown";
  return std::to_string(Version / 1000) + "." +
         std::to_string(Version % 1000 / 10);
}

} // namespace

bool flagtree::mayStemFromEarlierWork(Result Code) noexcept {
  switch (static_cast<int>(Code)) {
  case 214: // uncorrectable ECC error
  case 220: // uncorrectable NVLink error
  case 226: // contained memory error
  case 700: // illegal address
  case 702: // launch timeout
  case 710: // device-side assertion
  case 714: // hardware stack error
  case 715: // illegal instruction
  case 716: // misaligned address
  case 717: // invalid address space
  case 718: // invalid program counter
  case 719: // launch failed
  case 721: // tensor memory leak
  case 999: // unknown
    return true;
  default:
    return false;
  }
}

std::string flagtree::describeFailure(const EntryPoints &Driver,
                                      const DriverFailure &Failure) {
  const std::string Symbol = std::string(abiPrefix(Driver.Abi)) + Failure.Call;
  if (Failure.isMissingEntryPoint()) {
    int Introduced = 0;
    for (const EntryPointInfo &Info : EntryPointList)
      if (std::string(Info.Name) == Failure.Call)
        Introduced = Info.Introduced;
    return "this driver has no " + Symbol + ", which driver version " +
           versionText(Introduced) + " introduced; " + Driver.Path +
           " is version " + versionText(driverVersion(Driver));
  }
  const char *Name = nullptr;
  const char *Description = nullptr;
  if (!Driver.GetErrorName ||
      Driver.GetErrorName(Failure.Code, &Name) != Result::Success || !Name)
    Name = resultName(Failure.Code);
  if (!Driver.GetErrorString ||
      Driver.GetErrorString(Failure.Code, &Description) != Result::Success ||
      !Description)
    Description = resultDescription(Failure.Code);
  return std::string(Description) + " (" + Name + ", " +
         std::to_string(static_cast<int>(Failure.Code)) + ") from " + Symbol;
}
