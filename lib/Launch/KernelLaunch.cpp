//===- KernelLaunch.cpp - One launch, and where it runs -------------------===//

#include "flagtree/Launch/KernelLaunch.h"

#include <chrono>

using namespace flagtree;

namespace {

/// Spreads the blocks of a cluster over multiprocessors.
constexpr int ClusterSchedulingSpread = 1;

/// The handles 0, 1 and 2 are the default streams: the null stream, the legacy
/// one and the calling thread's.
bool isDefaultStream(Stream LaunchStream) noexcept {
  return reinterpret_cast<uintptr_t>(LaunchStream) <= 2;
}

/// The attributes of one launch; at most four are ever needed.
class AttributeList {
public:
  explicit AttributeList(const LaunchShape &Shape) noexcept {
    if (Shape.ProgrammaticDependentLaunch)
      add(LaunchAttributeKind::ProgrammaticStreamSerialization)
          .ProgrammaticStreamSerializationAllowed = 1;
    if (Shape.Cooperative)
      add(LaunchAttributeKind::Cooperative).Cooperative = 1;
    if (Shape.NumCTAs != 1) {
      add(LaunchAttributeKind::ClusterDimension).ClusterDimension = {
          Shape.NumCTAs, 1, 1};
      add(LaunchAttributeKind::ClusterSchedulingPolicyPreference)
          .ClusterSchedulingPolicyPreference = ClusterSchedulingSpread;
    }
  }

  LaunchAttribute *data() noexcept { return Attributes; }
  unsigned size() const noexcept { return Count; }

private:
  decltype(LaunchAttribute::Value) &add(LaunchAttributeKind Kind) noexcept {
    LaunchAttribute &Attribute = Attributes[Count++];
    Attribute = LaunchAttribute{};
    Attribute.Kind = Kind;
    return Attribute.Value;
  }

  LaunchAttribute Attributes[4];
  unsigned Count = 0;
};

} // namespace

MaybeFailure flagtree::ensureContext(const EntryPoints &Driver,
                                     int Ordinal) noexcept {
  Context Current = nullptr;
  if (MaybeFailure Failure = currentContext(Driver, Current))
    return Failure;
  if (Current)
    return std::nullopt;
  Device Handle = 0;
  if (Result Code = Driver.DeviceGet(&Handle, Ordinal); Code != Result::Success)
    return DriverFailure{Code, "DeviceGet"};
  // Retained for good: the thread may launch again at any time.
  if (Result Code = Driver.DevicePrimaryCtxRetain(&Current, Handle);
      Code != Result::Success)
    return DriverFailure{Code, "DevicePrimaryCtxRetain"};
  if (Result Code = Driver.CtxSetCurrent(Current); Code != Result::Success)
    return DriverFailure{Code, "CtxSetCurrent"};
  return std::nullopt;
}

MaybeFailure flagtree::adoptContext(const EntryPoints &Driver,
                                    Stream LaunchStream, int Ordinal) noexcept {
  if (isDefaultStream(LaunchStream) || !Driver.StreamGetCtx)
    return ensureContext(Driver, Ordinal);
  Context Owner = nullptr;
  if (Result Code = Driver.StreamGetCtx(LaunchStream, &Owner);
      Code != Result::Success)
    return DriverFailure{Code, "StreamGetCtx"};
  if (Result Code = Driver.CtxSetCurrent(Owner); Code != Result::Success)
    return DriverFailure{Code, "CtxSetCurrent"};
  return std::nullopt;
}

MaybeFailure flagtree::launchKernel(const EntryPoints &Driver,
                                    const LaunchShape &Shape,
                                    Stream LaunchStream, Function Kernel,
                                    void **Parameters) noexcept {
  AttributeList Attributes(Shape);
  if (Shape.NumCTAs == NonPortableClusterSize) {
    if (Result Code = Driver.FuncSetAttribute(
            Kernel, FunctionAttribute::NonPortableClusterSizeAllowed, 1);
        Code != Result::Success)
      return DriverFailure{Code, "FuncSetAttribute"};
  }

  if (!Driver.LaunchKernelEx) {
    // Older drivers take plain launches through the older call.
    if (Attributes.size() != 0)
      return DriverFailure{Result::Success, "LaunchKernelEx"};
    const Result Code = Driver.LaunchKernel(
        Kernel, Shape.GridX, Shape.GridY, Shape.GridZ,
        WarpSize * Shape.NumWarps, 1, 1, Shape.SharedMemoryBytes, LaunchStream,
        Parameters, nullptr);
    if (Code == Result::Success)
      return std::nullopt;
    return DriverFailure{Code, "LaunchKernel"};
  }

  LaunchConfig Config{};
  Config.GridX = Shape.GridX * Shape.NumCTAs;
  Config.GridY = Shape.GridY;
  Config.GridZ = Shape.GridZ;
  Config.BlockX = WarpSize * Shape.NumWarps;
  Config.BlockY = 1;
  Config.BlockZ = 1;
  Config.SharedMemoryBytes = Shape.SharedMemoryBytes;
  Config.LaunchStream = LaunchStream;
  Config.Attributes = Attributes.data();
  Config.NumAttributes = Attributes.size();
  const Result Code =
      Driver.LaunchKernelEx(&Config, Kernel, Parameters, nullptr);
  if (Code == Result::Success)
    return std::nullopt;
  return DriverFailure{Code, "LaunchKernelEx"};
}

Expected<std::vector<double>, DriverFailure>
flagtree::timeLaunches(const EntryPoints &Driver, const LaunchShape &Shape,
                       Stream LaunchStream, Function Kernel, void **Parameters,
                       unsigned Batches, unsigned PerBatch) {
  using Answer = Expected<std::vector<double>, DriverFailure>;
  using Clock = std::chrono::steady_clock;
  if (!Driver.StreamSynchronize)
    return Answer::failure({Result::Success, "StreamSynchronize"});
  std::vector<double> Means;
  Means.reserve(Batches);
  for (unsigned Batch = 0; Batch != Batches; ++Batch) {
    // The first launch after a wait finds the device idle and costs more.
    if (MaybeFailure Failure =
            launchKernel(Driver, Shape, LaunchStream, Kernel, Parameters))
      return Answer::failure(*Failure);
    const auto Start = Clock::now();
    for (unsigned I = 0; I != PerBatch; ++I)
      if (MaybeFailure Failure =
              launchKernel(Driver, Shape, LaunchStream, Kernel, Parameters))
        return Answer::failure(*Failure);
    const std::chrono::duration<double, std::nano> Elapsed =
        Clock::now() - Start;
    if (Result Code = Driver.StreamSynchronize(LaunchStream);
        Code != Result::Success)
      return Answer::failure({Code, "StreamSynchronize"});
    Means.push_back(Elapsed.count() / PerBatch);
  }
  return Means;
}
