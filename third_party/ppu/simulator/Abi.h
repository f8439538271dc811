// The binary interface that the simulated libraries offer: the types and
// numbers of the CUDA driver API and of NVML that this tree and Triton use.
// Declared here from the published API documentation, apart from
// include/flagtree/Driver, so that the simulator checks the tree's own
// declarations rather than sharing their mistakes.

#ifndef FLAGTREE_SIMULATOR_ABI_H
#define FLAGTREE_SIMULATOR_ABI_H

#include <cstddef>
#include <cstdint>

#define FLAGTREE_SIM_EXPORT __attribute__((visibility("default")))
#define FLAGTREE_SIM_JOIN_EXPANDED(a, b) a##b
#define FLAGTREE_SIM_JOIN(a, b) FLAGTREE_SIM_JOIN_EXPANDED(a, b)
#define FLAGTREE_SIM_TEXT_EXPANDED(a) #a
#define FLAGTREE_SIM_TEXT(a) FLAGTREE_SIM_TEXT_EXPANDED(a)

namespace flagtree::simulator {

/// What a driver call answers (CUresult).
enum Result : int {
  Success = 0,
  InvalidValue = 1,
  OutOfMemory = 2,
  NotInitialized = 3,
  Deinitialized = 4,
  StubLibrary = 34,
  DeviceUnavailable = 46,
  NoDevice = 100,
  InvalidDevice = 101,
  InvalidImage = 200,
  InvalidContext = 201,
  NoBinaryForGpu = 209,
  InvalidHandle = 400,
  NotFound = 500,
  NotReady = 600,
  LaunchOutOfResources = 701,
  PrimaryContextActive = 708,
  ContextIsDestroyed = 709,
  CooperativeLaunchTooLarge = 720,
  NotSupported = 801,
  SystemNotReady = 802,
  SystemDriverMismatch = 803,
  CompatNotSupportedOnDevice = 804,
  InvalidClusterSize = 912,
  Unknown = 999,
};

/// What a management call answers (nvmlReturn_t).
enum ManagementResult : int {
  ManagementSuccess = 0,
  ManagementUninitialized = 1,
  ManagementInvalidArgument = 2,
  ManagementNotSupported = 3,
  ManagementNotFound = 6,
  ManagementInsufficientSize = 7,
  ManagementDriverNotLoaded = 9,
  ManagementUnknown = 999,
};

using Device = int;
using DevicePointer = unsigned long long;

struct ContextRecord;
struct ModuleRecord;
struct FunctionRecord;
struct StreamRecord;
struct EventRecord;
using Context = ContextRecord *;
using Module = ModuleRecord *;
using Function = FunctionRecord *;
using Stream = StreamRecord *;
using Event = EventRecord *;

struct Uuid {
  unsigned char bytes[16];
};

/// CUlaunchAttribute: an identifier and a value of 64 bytes, aligned to 8.
struct LaunchAttribute {
  int id;
  char padding[4];
  union {
    unsigned char bytes[64];
    uint32_t words[16];
    uint64_t doubleWords[8];
  } value;
};
static_assert(sizeof(LaunchAttribute) == 72);

enum LaunchAttributeId : int {
  AttributeCooperative = 2,
  AttributeClusterDimension = 4,
  AttributeClusterSchedulingPolicy = 5,
  AttributeProgrammaticStreamSerialization = 6,
};

/// CUlaunchConfig.
struct LaunchConfig {
  unsigned gridX, gridY, gridZ;
  unsigned blockX, blockY, blockZ;
  unsigned sharedBytes;
  Stream stream;
  LaunchAttribute *attributes;
  unsigned attributeCount;
};
static_assert(sizeof(LaunchConfig) == 56);

/// CUtensorMap.
struct alignas(64) TensorMap {
  unsigned char bytes[128];
};

/// Markers of the `extra` argument of a launch.
inline constexpr std::uintptr_t LaunchParameterEnd = 0;
inline constexpr std::uintptr_t LaunchParameterBuffer = 1;
inline constexpr std::uintptr_t LaunchParameterBufferSize = 2;

/// CUfunction_attribute.
enum FunctionAttribute : int {
  FunctionMaxThreadsPerBlock = 0,
  FunctionSharedBytes = 1,
  FunctionConstantBytes = 2,
  FunctionLocalBytes = 3,
  FunctionRegisters = 4,
  FunctionPtxVersion = 5,
  FunctionBinaryVersion = 6,
  FunctionCacheModeCa = 7,
  FunctionMaxDynamicSharedBytes = 8,
  FunctionPreferredSharedCarveout = 9,
  FunctionNonPortableClusterSizeAllowed = 14,
};

/// CUpointer_attribute.
enum PointerAttribute : int {
  PointerContext = 1,
  PointerMemoryType = 2,
  PointerDevicePointer = 3,
  PointerHostPointer = 4,
  PointerIsManaged = 8,
  PointerDeviceOrdinal = 9,
  PointerRangeStart = 11,
  PointerRangeSize = 12,
  PointerMapped = 13,
};

/// CUlimit of the printf buffer, in bytes.
inline constexpr int LimitStackSize = 0;
inline constexpr int LimitPrintfFifoSize = 1;
inline constexpr int LimitMallocHeapSize = 2;

/// nvmlPciInfo_t of version 3.
struct ManagementPciInfo {
  char legacyBusId[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pciDeviceId;
  unsigned pciSubSystemId;
  char busId[32];
};
static_assert(sizeof(ManagementPciInfo) == 68);

} // namespace flagtree::simulator

#endif // FLAGTREE_SIMULATOR_ABI_H
