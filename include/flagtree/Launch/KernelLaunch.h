//===- KernelLaunch.h - One launch, and where it runs -----------*- C++ -*-===//
//
// The driver's side of a launch: the calling thread's context, the launch
// itself, and the same launch timed without anything around it.
//
// Contract: launchKernel() and currentContext() neither allocate nor lock nor
// throw. Everything they are given must stay valid until they return; the
// driver copies parameters before it does. They may be called from any thread
// and block where the driver blocks (a full queue), so no caller may hold a
// lock that the device's work can wait for.
//
//===----------------------------------------------------------------------===//

#ifndef FLAGTREE_LAUNCH_KERNELLAUNCH_H
#define FLAGTREE_LAUNCH_KERNELLAUNCH_H

#include "flagtree/Launch/DriverFailure.h"
#include "flagtree/Support/Expected.h"

#include <cstdint>
#include <vector>

namespace flagtree {

/// Threads in a warp, on every device this tree compiles for.
constexpr unsigned WarpSize = 32;

/// Clusters of this many blocks need the function's consent: above eight, a
/// cluster size is not portable between devices.
constexpr unsigned NonPortableClusterSize = 16;

/// How many threads run a kernel and with what.
struct LaunchShape {
  /// Clusters (blocks, where NumCTAs is 1) per axis; none may be zero.
  unsigned GridX = 1, GridY = 1, GridZ = 1;
  unsigned NumWarps = 1;
  /// Blocks per cluster.
  unsigned NumCTAs = 1;
  /// Dynamic shared memory, bytes per block.
  unsigned SharedMemoryBytes = 0;
  bool Cooperative = false;
  bool ProgrammaticDependentLaunch = false;
};

/// Puts the calling thread's context into `Current`; null if it has none.
inline MaybeFailure currentContext(const EntryPoints &Driver,
                                   Context &Current) noexcept {
  const Result Code = Driver.CtxGetCurrent(&Current);
  if (Code == Result::Success)
    return std::nullopt;
  return DriverFailure{Code, "CtxGetCurrent"};
}

/// Gives a thread without a context the one that `LaunchStream` belongs to. A
/// default stream belongs to none; then it is the primary context of device
/// `Ordinal`.
MaybeFailure adoptContext(const EntryPoints &Driver, Stream LaunchStream,
                          int Ordinal) noexcept;

/// Makes the primary context of device `Ordinal` current if the calling
/// thread has no context.
MaybeFailure ensureContext(const EntryPoints &Driver, int Ordinal) noexcept;

/// Launches `Kernel` with the parameters that `Parameters` points at.
MaybeFailure launchKernel(const EntryPoints &Driver, const LaunchShape &Shape,
                          Stream LaunchStream, Function Kernel,
                          void **Parameters) noexcept;

/// Times the bare driver call: `Batches` times, launches once uncounted, then
/// `PerBatch` kernels one after the other, and then waits for the stream.
/// Answers with the mean time of one call per batch, in nanoseconds, the wait
/// not counted.
Expected<std::vector<double>, DriverFailure>
timeLaunches(const EntryPoints &Driver, const LaunchShape &Shape,
             Stream LaunchStream, Function Kernel, void **Parameters,
             unsigned Batches, unsigned PerBatch);

} // namespace flagtree

#endif // FLAGTREE_LAUNCH_KERNELLAUNCH_H
