//===- DeviceUtilities.h - What Triton's driver utilities ask ---*- C++ -*-===//
//
// The remaining calls behind Triton's `driver.active.utils`: properties of a
// device, the size of the device's printf buffer, how many clusters fit, and
// tensor maps. All of them use the device; none is a mere query.
//
//===----------------------------------------------------------------------===//

#ifndef FLAGTREE_LAUNCH_DEVICEUTILITIES_H
#define FLAGTREE_LAUNCH_DEVICEUTILITIES_H

#include "flagtree/Launch/DriverFailure.h"
#include "flagtree/Support/Expected.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace flagtree {

/// What Triton asks about a device.
struct DeviceProperties {
  /// Bytes per block, with the opt-in.
  int MaxSharedMemory = 0;
  /// 32-bit registers per block.
  int MaxRegisters = 0;
  int MultiprocessorCount = 0;
  int WarpSize = 0;
  /// Clocks in kHz.
  int ClockRate = 0;
  int MemoryClockRate = 0;
  /// Bits.
  int MemoryBusWidth = 0;
};

Expected<DeviceProperties, DriverFailure>
deviceProperties(const EntryPoints &Driver, int Ordinal) noexcept;

/// Sets the size in bytes of the buffer for printf on the device. The driver
/// refuses any change, even to the same value, once a kernel that prints has
/// run; so a size that is set already is not set again.
MaybeFailure setPrintfFifoSize(const EntryPoints &Driver, std::size_t Bytes,
                               int Ordinal) noexcept;

/// How many clusters of `ClusterSize` blocks of `Kernel`, each with
/// `SharedMemoryBytes` of dynamic shared memory, the device can hold at once.
Expected<int, DriverFailure> maxActiveClusters(const EntryPoints &Driver,
                                               Function Kernel,
                                               int SharedMemoryBytes,
                                               int ClusterSize) noexcept;

/// A tiled tensor in device memory, described in Triton's order: outermost
/// dimension first.
struct TiledTensor {
  static constexpr unsigned MaxRank = 5;

  DevicePointer Address = 0;
  unsigned Rank = 0;
  /// Bytes of one element.
  unsigned ElementSize = 0;
  TensorMapDataType ElementType = TensorMapDataType::UInt8;
  TensorMapSwizzle Swizzle = TensorMapSwizzle::None;
  /// Elements outside the tensor read as NaN instead of zero.
  bool PadWithNaN = false;
  std::array<std::uint32_t, MaxRank> Block{};
  std::array<std::uint64_t, MaxRank> Shape{};
  /// In elements; the innermost one is 1.
  std::array<std::int64_t, MaxRank> Strides{};

  /// "address=0x7f..., rank 2, shape [..], ..." for messages.
  std::string describe() const;
};

/// Fills `Map`, which must be aligned to 64 bytes.
MaybeFailure encodeTensorMap(const EntryPoints &Driver,
                             const TiledTensor &Tensor,
                             TensorMap &Map) noexcept;

} // namespace flagtree

#endif // FLAGTREE_LAUNCH_DEVICEUTILITIES_H
