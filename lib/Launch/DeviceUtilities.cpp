//===- DeviceUtilities.cpp - What Triton's driver utilities ask -----------===//

#include "flagtree/Launch/DeviceUtilities.h"

#include "flagtree/Launch/KernelLaunch.h"

#include <cinttypes>
#include <cstdio>

using namespace flagtree;

Expected<DeviceProperties, DriverFailure>
flagtree::deviceProperties(const EntryPoints &Driver, int Ordinal) noexcept {
  using Answer = Expected<DeviceProperties, DriverFailure>;
  Device Handle = 0;
  if (Result Code = Driver.DeviceGet(&Handle, Ordinal); Code != Result::Success)
    return Answer::failure({Code, "DeviceGet"});
  DeviceProperties Properties;
  const std::pair<DeviceAttribute, int *> Wanted[] = {
      {DeviceAttribute::MaxSharedMemoryPerBlockOptIn,
       &Properties.MaxSharedMemory},
      {DeviceAttribute::MaxRegistersPerBlock, &Properties.MaxRegisters},
      {DeviceAttribute::MultiprocessorCount, &Properties.MultiprocessorCount},
      {DeviceAttribute::WarpSize, &Properties.WarpSize},
      {DeviceAttribute::ClockRate, &Properties.ClockRate},
      {DeviceAttribute::MemoryClockRate, &Properties.MemoryClockRate},
      {DeviceAttribute::GlobalMemoryBusWidth, &Properties.MemoryBusWidth},
  };
  for (const auto &[Attribute, Value] : Wanted)
    if (Result Code = Driver.DeviceGetAttribute(Value, Attribute, Handle);
        Code != Result::Success)
      return Answer::failure({Code, "DeviceGetAttribute"});
  return Properties;
}

MaybeFailure flagtree::setPrintfFifoSize(const EntryPoints &Driver,
                                         std::size_t Bytes,
                                         int Ordinal) noexcept {
  if (MaybeFailure Failure = ensureContext(Driver, Ordinal))
    return Failure;
  std::size_t Present = 0;
  if (Result Code = Driver.CtxGetLimit(&Present, Limit::PrintfFifoSize);
      Code != Result::Success)
    return DriverFailure{Code, "CtxGetLimit"};
  if (Present == Bytes)
    return std::nullopt;
  if (Result Code = Driver.CtxSetLimit(Limit::PrintfFifoSize, Bytes);
      Code != Result::Success)
    return DriverFailure{Code, "CtxSetLimit"};
  return std::nullopt;
}

Expected<int, DriverFailure>
flagtree::maxActiveClusters(const EntryPoints &Driver, Function Kernel,
                            int SharedMemoryBytes, int ClusterSize) noexcept {
  using Answer = Expected<int, DriverFailure>;
  if (!Driver.OccupancyMaxActiveClusters)
    return Answer::failure({Result::Success, "OccupancyMaxActiveClusters"});
  for (const auto &[Attribute, Value] :
       {std::pair{FunctionAttribute::MaxDynamicSharedSizeBytes,
                  SharedMemoryBytes},
        std::pair{FunctionAttribute::NonPortableClusterSizeAllowed, 1}})
    if (Result Code = Driver.FuncSetAttribute(Kernel, Attribute, Value);
        Code != Result::Success)
      return Answer::failure({Code, "FuncSetAttribute"});

  LaunchAttribute Attribute{};
  Attribute.Kind = LaunchAttributeKind::ClusterDimension;
  Attribute.Value.ClusterDimension = {static_cast<unsigned>(ClusterSize), 1, 1};
  LaunchConfig Config{};
  Config.GridX = static_cast<unsigned>(ClusterSize);
  Config.GridY = Config.GridZ = 1;
  // Triton asks for blocks of four warps.
  Config.BlockX = 4 * WarpSize;
  Config.BlockY = Config.BlockZ = 1;
  Config.SharedMemoryBytes = static_cast<unsigned>(SharedMemoryBytes);
  Config.Attributes = &Attribute;
  Config.NumAttributes = 1;
  int Clusters = 0;
  if (Result Code =
          Driver.OccupancyMaxActiveClusters(&Clusters, Kernel, &Config);
      Code != Result::Success)
    return Answer::failure({Code, "OccupancyMaxActiveClusters"});
  return Clusters;
}

std::string TiledTensor::describe() const {
  char Head[160];
  std::snprintf(Head, sizeof(Head),
                "address 0x%" PRIx64 ", rank %u, element type %d of %u bytes, "
                "swizzle %d",
                Address, Rank, static_cast<int>(ElementType), ElementSize,
                static_cast<int>(Swizzle));
  std::string Out = Head;
  const auto list = [&](const char *Title, const auto &Values) {
    Out += std::string(", ") + Title + " [";
    for (unsigned I = 0; I != Rank; ++I)
      Out += (I ? ", " : "") + std::to_string(Values[I]);
    Out += "]";
  };
  list("shape", Shape);
  list("strides", Strides);
  list("block", Block);
  return Out;
}

MaybeFailure flagtree::encodeTensorMap(const EntryPoints &Driver,
                                       const TiledTensor &Tensor,
                                       TensorMap &Map) noexcept {
  if (!Driver.TensorMapEncodeTiled)
    return DriverFailure{Result::Success, "TensorMapEncodeTiled"};
  // The driver wants the innermost dimension first, strides in bytes and none
  // for the innermost dimension.
  std::array<std::uint64_t, TiledTensor::MaxRank> Shape{}, Strides{};
  std::array<std::uint32_t, TiledTensor::MaxRank> Block{}, ElementStrides{};
  ElementStrides.fill(1);
  const unsigned Rank = Tensor.Rank;
  for (unsigned I = 0; I != Rank; ++I) {
    Shape[Rank - 1 - I] = Tensor.Shape[I];
    Block[Rank - 1 - I] = Tensor.Block[I];
    if (I + 1 != Rank)
      Strides[Rank - 2 - I] =
          static_cast<std::uint64_t>(Tensor.Strides[I]) * Tensor.ElementSize;
  }
  const Result Code = Driver.TensorMapEncodeTiled(
      &Map, Tensor.ElementType, Rank, reinterpret_cast<void *>(Tensor.Address),
      Shape.data(), Strides.data(), Block.data(), ElementStrides.data(),
      TensorMapInterleave::None, Tensor.Swizzle, TensorMapL2Promotion::Bytes128,
      Tensor.PadWithNaN ? TensorMapFill::NanRequestZeroFma
                        : TensorMapFill::None);
  if (Code == Result::Success)
    return std::nullopt;
  return DriverFailure{Code, "TensorMapEncodeTiled"};
}
