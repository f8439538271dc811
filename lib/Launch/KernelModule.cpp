//===- KernelModule.cpp - Loading a compiled kernel -----------------------===//

#include "flagtree/Launch/KernelModule.h"

#include "flagtree/Launch/KernelLaunch.h"

using namespace flagtree;

namespace {

MaybeFailure functionAttribute(const EntryPoints &Driver, int &Value,
                               FunctionAttribute Attribute,
                               Function Kernel) noexcept {
  const Result Code = Driver.FuncGetAttribute(&Value, Attribute, Kernel);
  if (Code == Result::Success)
    return std::nullopt;
  return DriverFailure{Code, "FuncGetAttribute"};
}

MaybeFailure deviceAttribute(const EntryPoints &Driver, int &Value,
                             DeviceAttribute Attribute,
                             Device Handle) noexcept {
  const Result Code = Driver.DeviceGetAttribute(&Value, Attribute, Handle);
  if (Code == Result::Success)
    return std::nullopt;
  return DriverFailure{Code, "DeviceGetAttribute"};
}

/// Lets `Kernel` use all the shared memory a block can have.
MaybeFailure optInToSharedMemory(const EntryPoints &Driver, Function Kernel,
                                 int SharedMemoryBytes, int Ordinal) noexcept {
  if (SharedMemoryBytes <= DefaultSharedMemoryLimit)
    return std::nullopt;
  Device Handle = 0;
  if (Result Code = Driver.DeviceGet(&Handle, Ordinal); Code != Result::Success)
    return DriverFailure{Code, "DeviceGet"};
  int OptIn = 0;
  if (auto Failure = deviceAttribute(
          Driver, OptIn, DeviceAttribute::MaxSharedMemoryPerBlockOptIn, Handle))
    return Failure;
  if (OptIn <= DefaultSharedMemoryLimit)
    return std::nullopt;
  if (Result Code =
          Driver.FuncSetCacheConfig(Kernel, FunctionCache::PreferShared);
      Code != Result::Success)
    return DriverFailure{Code, "FuncSetCacheConfig"};
  int Static = 0;
  if (auto Failure = functionAttribute(
          Driver, Static, FunctionAttribute::SharedSizeBytes, Kernel))
    return Failure;
  if (Result Code = Driver.FuncSetAttribute(
          Kernel, FunctionAttribute::MaxDynamicSharedSizeBytes, OptIn - Static);
      Code != Result::Success)
    return DriverFailure{Code, "FuncSetAttribute"};
  return std::nullopt;
}

MaybeFailure inspect(const EntryPoints &Driver, const char *Name,
                     int SharedMemoryBytes, int Ordinal,
                     LoadedKernel &Loaded) noexcept {
  if (Result Code =
          Driver.ModuleGetFunction(&Loaded.Kernel, Loaded.Image, Name);
      Code != Result::Success)
    return DriverFailure{Code, "ModuleGetFunction"};
  if (auto Failure =
          functionAttribute(Driver, Loaded.NumRegisters,
                            FunctionAttribute::NumRegisters, Loaded.Kernel))
    return Failure;
  int LocalBytes = 0;
  if (auto Failure = functionAttribute(
          Driver, LocalBytes, FunctionAttribute::LocalSizeBytes, Loaded.Kernel))
    return Failure;
  Loaded.NumSpills = LocalBytes / 4;
  if (auto Failure = functionAttribute(Driver, Loaded.MaxThreads,
                                       FunctionAttribute::MaxThreadsPerBlock,
                                       Loaded.Kernel))
    return Failure;
  return optInToSharedMemory(Driver, Loaded.Kernel, SharedMemoryBytes, Ordinal);
}

} // namespace

Expected<LoadedKernel, DriverFailure>
flagtree::loadKernel(const EntryPoints &Driver, const char *Name,
                     const void *Image, int SharedMemoryBytes,
                     int Ordinal) noexcept {
  using Answer = Expected<LoadedKernel, DriverFailure>;
  if (MaybeFailure Failure = ensureContext(Driver, Ordinal))
    return Answer::failure(*Failure);
  LoadedKernel Loaded;
  if (Result Code = Driver.ModuleLoadData(&Loaded.Image, Image);
      Code != Result::Success)
    return Answer::failure({Code, "ModuleLoadData"});
  if (MaybeFailure Failure =
          inspect(Driver, Name, SharedMemoryBytes, Ordinal, Loaded)) {
    Driver.ModuleUnload(Loaded.Image);
    return Answer::failure(*Failure);
  }
  return Loaded;
}
