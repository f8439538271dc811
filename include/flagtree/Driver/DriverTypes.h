//===- DriverTypes.h - The driver API's types, declared by us ---*- C++ -*-===//
//
// The few types of the CUDA-compatible driver API that this tree passes across
// the library boundary. They are declared here, with the driver's binary
// layout, because no CUDA header is used at build time. Only layouts, sizes and
// numeric values are the driver's; static_asserts below hold them in place.
//
//===----------------------------------------------------------------------===//

#ifndef FLAGTREE_DRIVER_DRIVERTYPES_H
#define FLAGTREE_DRIVER_DRIVERTYPES_H

#include <cstddef>
#include <cstdint>

namespace flagtree {

/// What a driver call answers. Values not listed are possible: a newer driver
/// may answer anything, so switch over this with a default.
enum class Result : int {
  Success = 0,
  InvalidValue = 1,
  OutOfMemory = 2,
  NotInitialized = 3,
  Deinitialized = 4,
  StubLibrary = 34,
  DevicesUnavailable = 46,
  NoDevice = 100,
  InvalidDevice = 101,
  InvalidImage = 200,
  InvalidContext = 201,
  NoBinaryForDevice = 209,
  InvalidHandle = 400,
  NotFound = 500,
  NotReady = 600,
  IllegalAddress = 700,
  LaunchOutOfResources = 701,
  LaunchTimeout = 702,
  LaunchFailed = 719,
  CooperativeLaunchTooLarge = 720,
  NotPermitted = 800,
  NotSupported = 801,
  SystemNotReady = 802,
  SystemDriverMismatch = 803,
  CompatNotSupportedOnDevice = 804,
  Unknown = 999,
};

/// A device ordinal as the driver hands it out.
using Device = int;
/// An address in device memory.
using DevicePointer = std::uint64_t;

using Context = struct ContextOpaque *;
using Module = struct ModuleOpaque *;
using Function = struct FunctionOpaque *;
using Stream = struct StreamOpaque *;
using Event = struct EventOpaque *;

/// Properties asked for with DeviceGetAttribute.
enum class DeviceAttribute : int {
  MaxThreadsPerBlock = 1,
  WarpSize = 10,
  MaxRegistersPerBlock = 12,
  ClockRate = 13, // kHz
  MultiprocessorCount = 16,
  MemoryClockRate = 36,      // kHz
  GlobalMemoryBusWidth = 37, // bits
  ComputeCapabilityMajor = 75,
  ComputeCapabilityMinor = 76,
  MaxSharedMemoryPerMultiprocessor = 81, // bytes
  CooperativeLaunch = 95,
  MaxSharedMemoryPerBlockOptIn = 97, // bytes
};

/// Properties of a loaded function.
enum class FunctionAttribute : int {
  MaxThreadsPerBlock = 0,
  SharedSizeBytes = 1,
  ConstSizeBytes = 2,
  LocalSizeBytes = 3,
  NumRegisters = 4,
  BinaryVersion = 6,
  MaxDynamicSharedSizeBytes = 8,
  PreferredSharedMemoryCarveout = 9,
  NonPortableClusterSizeAllowed = 14,
};

/// How a function prefers its on-chip memory to be split.
enum class FunctionCache : int {
  PreferNone = 0,
  PreferShared = 1,
  PreferL1 = 2,
  PreferEqual = 3,
};

/// Limits of a context.
enum class Limit : int {
  StackSize = 0,
  PrintfFifoSize = 1,
  MallocHeapSize = 2
};

/// What PointerGetAttribute can be asked.
enum class PointerAttribute : int {
  Context = 1,
  MemoryType = 2,
  DevicePointer = 3,
  HostPointer = 4,
  IsManaged = 8,
  DeviceOrdinal = 9,
};

/// Which property a LaunchAttribute carries.
enum class LaunchAttributeKind : int {
  Ignore = 0,
  Cooperative = 2,
  ClusterDimension = 4,
  ClusterSchedulingPolicyPreference = 5,
  ProgrammaticStreamSerialization = 6,
};

/// One launch property. The value is a 64-byte union of which only these
/// members are used here.
struct LaunchAttribute {
  LaunchAttributeKind Kind;
  char Padding[8 - sizeof(LaunchAttributeKind)];
  union {
    char Bytes[64];
    int Cooperative;
    struct {
      unsigned X, Y, Z;
    } ClusterDimension;
    int ClusterSchedulingPolicyPreference;
    int ProgrammaticStreamSerializationAllowed;
  } Value;
};
static_assert(sizeof(LaunchAttribute) == 72 &&
              offsetof(LaunchAttribute, Value) == 8);

/// The configuration that LaunchKernelEx reads.
struct LaunchConfig {
  unsigned GridX, GridY, GridZ;
  unsigned BlockX, BlockY, BlockZ;
  unsigned SharedMemoryBytes;
  Stream LaunchStream;
  LaunchAttribute *Attributes;
  unsigned NumAttributes;
};
static_assert(sizeof(LaunchConfig) == 56 &&
              offsetof(LaunchConfig, LaunchStream) == 32);

/// An opaque tensor map (TMA descriptor); the driver fills it in.
struct alignas(64) TensorMap {
  std::uint64_t Opaque[16];
};
static_assert(sizeof(TensorMap) == 128 && alignof(TensorMap) == 64);

enum class TensorMapDataType : int {
  UInt8 = 0,
  UInt16 = 1,
  UInt32 = 2,
  Int32 = 3,
  UInt64 = 4,
  Int64 = 5,
  Float16 = 6,
  Float32 = 7,
  Float64 = 8,
  BFloat16 = 9,
};
enum class TensorMapInterleave : int { None = 0, Bytes16 = 1, Bytes32 = 2 };
enum class TensorMapSwizzle : int {
  None = 0,
  Bytes32 = 1,
  Bytes64 = 2,
  Bytes128 = 3,
};
enum class TensorMapL2Promotion : int {
  None = 0,
  Bytes64 = 1,
  Bytes128 = 2,
  Bytes256 = 3,
};
enum class TensorMapFill : int { None = 0, NanRequestZeroFma = 1 };

static_assert(sizeof(Result) == 4 && sizeof(Context) == 8);

/// The name of a result code as the driver spells it without its prefix, e.g.
/// "ERROR_NOT_INITIALIZED"; "an unlisted code" for any other.
const char *resultName(Result Code) noexcept;

/// One line that says what a result code means.
const char *resultDescription(Result Code) noexcept;

} // namespace flagtree

#endif // FLAGTREE_DRIVER_DRIVERTYPES_H
