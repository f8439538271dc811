// The objects of the simulated driver: contexts, modules, functions, streams,
// events and allocations, and which of them are alive. Everything here is
// reached only while the driver is initialized in this process, so its one lock
// is never met by a forked child.

#ifndef FLAGTREE_SIMULATOR_DRIVERSTATE_H
#define FLAGTREE_SIMULATOR_DRIVERSTATE_H

#include "Call.h"
#include "KernelImage.h"
#include "VisibleDevices.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#if FLAGTREE_SIM_IS_HG
#define FLAGTREE_SIM_PREFIX hg
#else
#define FLAGTREE_SIM_PREFIX cu
#endif

/// Opens the definition of an exported call.
#define FLAGTREE_SIM_DRIVER(Name)                                              \
  extern "C" FLAGTREE_SIM_EXPORT Result FLAGTREE_SIM_JOIN(FLAGTREE_SIM_PREFIX, \
                                                          Name)

namespace flagtree::simulator {

enum class DriverCall : unsigned {
#define FLAGTREE_SIM_CALL(Name, Suffix, Introduced) Name##Suffix,
#include "DriverCalls.def"
};

template <typename Body>
Result call(DriverCall which, Needs needs, Body &&body) {
  return call(static_cast<unsigned>(which), needs, body);
}

struct ContextRecord {
  Device device;
  bool isPrimary;
  unsigned flags;
  size_t limits[3] = {1024, 1048576, 8388608}; ///< bytes, by CUlimit
  std::atomic<bool> launchedPrintf{false};
};

struct FunctionRecord {
  ModuleRecord *module;
  KernelDescription kernel;
  int maxDynamicSharedBytes = 49152;
  int preferredCarveout = -1;
  int nonPortableClusterSizeAllowed = 0;
};

struct ModuleRecord {
  ContextRecord *context;
  int architecture;
  std::vector<std::unique_ptr<FunctionRecord>> functions;
};

struct StreamRecord {
  ContextRecord *context;
  unsigned flags;
  int priority;
};

struct EventRecord {
  ContextRecord *context;
  unsigned flags;
  uint64_t recordedAt = 0; ///< monotonic nanoseconds; 0: never
};

struct Allocation {
  size_t size;
  size_t mappedSize;
  ContextRecord *context;
};

struct DriverState {
  VisibleDevices visible; ///< written by cuInit only

  std::mutex lock; ///< guards all below
  std::unique_ptr<ContextRecord> primaries[MaximumDevices];
  unsigned primaryReferences[MaximumDevices] = {};
  std::map<ContextRecord *, std::unique_ptr<ContextRecord>> contexts;
  std::map<ModuleRecord *, std::unique_ptr<ModuleRecord>> modules;
  std::set<const FunctionRecord *> functions;
  std::map<StreamRecord *, std::unique_ptr<StreamRecord>> streams;
  std::map<EventRecord *, std::unique_ptr<EventRecord>> events;
  std::map<DevicePointer, Allocation> allocations;
  size_t allocated[MaximumDevices] = {};
};

DriverState &driver();

/// Forgets every object; only for flagtree_sim_reset().
void resetDriverState();

/// The kernel error that calls which wait for the device report; 0: none.
int asynchronousError();

/// The calling thread's current context; null: none.
ContextRecord *currentContext();
void setCurrentContext(ContextRecord *context);

/// Whether a context may be used. Caller holds the lock.
bool isAlive(ContextRecord *context);

/// Success, InvalidContext or ContextIsDestroyed. Caller holds the lock.
Result requireContext(ContextRecord *&context);

bool isDevice(Device device);
const PhysicalDevice &physical(Device device);

/// The allocation that holds an address, or end(). Caller holds the lock.
std::map<DevicePointer, Allocation>::iterator findAllocation(DevicePointer at);
void releaseAllocation(std::map<DevicePointer, Allocation>::iterator found);

/// The three streams that have no record: default, legacy, per thread.
inline bool isBuiltInStream(Stream stream) {
  return reinterpret_cast<std::uintptr_t>(stream) <= 2;
}
/// The context that work on a stream goes to. Caller holds the lock.
Result contextOfStream(Stream stream, ContextRecord *&context);

/// Frees what belongs to a context. Caller holds the lock.
void destroyObjectsOf(ContextRecord *context);

} // namespace flagtree::simulator

#endif // FLAGTREE_SIMULATOR_DRIVERSTATE_H
