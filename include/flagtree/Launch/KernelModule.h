//===- KernelModule.h - Loading a compiled kernel ---------------*- C++ -*-===//
//
// From the bytes of a compiled kernel to a function that can be launched, with
// all that Triton reads back about it.
//
//===----------------------------------------------------------------------===//

#ifndef FLAGTREE_LAUNCH_KERNELMODULE_H
#define FLAGTREE_LAUNCH_KERNELMODULE_H

#include "flagtree/Launch/DriverFailure.h"
#include "flagtree/Support/Expected.h"

namespace flagtree {

/// Dynamic shared memory that every device grants without being asked, bytes
/// per block; a kernel that wants more has to opt in.
constexpr int DefaultSharedMemoryLimit = 48 * 1024;

/// A loaded kernel. The module stays loaded until the process ends.
struct LoadedKernel {
  Module Image = nullptr;
  Function Kernel = nullptr;
  /// Registers per thread.
  int NumRegisters = 0;
  /// Spilled 32-bit registers per thread (bytes of local memory, divided by 4).
  int NumSpills = 0;
  /// The largest block the function can be launched with.
  int MaxThreads = 0;
};

/// Loads `Image` into the calling thread's context (the primary context of
/// device `Ordinal` if it has none) and finds the function `Name` in it.
/// `SharedMemoryBytes` is what its launches will ask for; above
/// DefaultSharedMemoryLimit the function is given all the device can grant.
/// A module that turns out unusable is unloaded again.
Expected<LoadedKernel, DriverFailure>
loadKernel(const EntryPoints &Driver, const char *Name, const void *Image,
           int SharedMemoryBytes, int Ordinal) noexcept;

} // namespace flagtree

#endif // FLAGTREE_LAUNCH_KERNELMODULE_H
