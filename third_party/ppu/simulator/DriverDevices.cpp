// The calls that ask about the driver, its devices, and contexts.

#include "DriverState.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

namespace flagtree::simulator {
namespace {

constexpr unsigned MaximumContextDepth = 64;
thread_local ContextRecord *contextStack[MaximumContextDepth];
thread_local unsigned contextDepth;
std::atomic<int> kernelError{0};

// The size of shared memory in bytes by capability, from the table of features
// per compute capability in the CUDA programming guide: per multiprocessor, and
// per block when the kernel opts in.
struct SharedMemory {
  int perMultiprocessor, perBlockOptIn;
};
SharedMemory sharedMemoryOf(const PhysicalDevice &device) {
  if (device.major < 8)
    return {65536, 65536};
  if (device.major == 8 && (device.minor == 0 || device.minor == 7))
    return {167936, 166912};
  if (device.major == 9 || device.major == 10)
    return {233472, 232448};
  return {102400, 101376};
}

// CUdevice_attribute by number; false: not one the simulator knows.
bool deviceAttribute(const PhysicalDevice &device, int attribute, int &value) {
  switch (attribute) {
  case 1: // threads per block
  case 2: // block x
  case 3: // block y
    value = 1024;
    return true;
  case 4: // block z
    value = 64;
    return true;
  case 5: // grid x
    value = 2147483647;
    return true;
  case 6: // grid y
  case 7: // grid z
    value = 65535;
    return true;
  case 8: // shared memory per block, in bytes, without opting in
    value = 49152;
    return true;
  case 9: // constant memory, in bytes
    value = 65536;
    return true;
  case 10: // threads per warp
    value = 32;
    return true;
  case 11: // largest pitch, in bytes
    value = 2147483647;
    return true;
  case 12: // registers per block
  case 82: // registers per multiprocessor
    value = 65536;
    return true;
  case 13: // clock, in kHz
    value = 1500000;
    return true;
  case 14: // texture alignment, in bytes
    value = 512;
    return true;
  case 16:
    value = device.multiprocessors;
    return true;
  case 33: // PCI bus
    value = int(busNumber(device.index));
    return true;
  case 34: // PCI device
  case 50: // PCI domain
    value = 0;
    return true;
  case 36: // memory clock, in kHz
    value = 1600000;
    return true;
  case 37: // memory bus width, in bits
    value = 4096;
    return true;
  case 38: // L2 cache, in bytes
    value = 41943040;
    return true;
  case 39: // threads per multiprocessor
    value = device.major == 8 && device.minor != 0 ? 1536 : 2048;
    return true;
  case 41: // unified addressing
  case 83: // managed memory
  case 95: // cooperative launch
    value = 1;
    return true;
  case 75:
    value = device.major;
    return true;
  case 76:
    value = device.minor;
    return true;
  case 81:
    value = sharedMemoryOf(device).perMultiprocessor;
    return true;
  case 97:
    value = sharedMemoryOf(device).perBlockOptIn;
    return true;
  case 106: // blocks per multiprocessor
    value = 32;
    return true;
  case 111: // shared memory reserved per block, in bytes
    value = 1024;
    return true;
  case 120: // cluster launch
  case 127: // tensor maps
    value = device.major >= 9;
    return true;
  default:
    value = 0;
    return attribute > 0 && attribute < 140;
  }
}

int asciiLower(char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; }

Result retainPrimary(Device device, ContextRecord *&context) {
  DriverState &state = driver();
  std::unique_ptr<ContextRecord> &primary = state.primaries[device];
  if (!primary) {
    primary = std::make_unique<ContextRecord>();
    primary->device = device;
    primary->isPrimary = true;
    primary->flags = 0;
  }
  ++state.primaryReferences[device];
  context = primary.get();
  return Success;
}

Result releasePrimary(Device device, bool all) {
  if (!isDevice(device))
    return InvalidDevice;
  DriverState &state = driver();
  std::lock_guard<std::mutex> guard(state.lock);
  unsigned &references = state.primaryReferences[device];
  if (references == 0)
    return all ? Success : InvalidContext;
  references = all ? 0 : references - 1;
  // The handle stays valid, so that a stale current context is recognized.
  if (references == 0)
    destroyObjectsOf(state.primaries[device].get());
  return Success;
}

} // namespace

// Never destroyed: other libraries' exit handlers may still call.
static std::atomic<DriverState *> theState{new DriverState};

DriverState &driver() { return *theState.load(std::memory_order_acquire); }

// Contexts that are gone stay in memory, so that no later one gets the same
// handle while a thread still has it as its current one.
static void bury(std::unique_ptr<ContextRecord> context) {
  static std::vector<std::unique_ptr<ContextRecord>> *buried =
      new std::vector<std::unique_ptr<ContextRecord>>;
  buried->push_back(std::move(context));
}

void resetDriverState() {
  DriverState *old = theState.exchange(new DriverState);
  for (auto &context : old->contexts)
    bury(std::move(context.second));
  for (auto &primary : old->primaries)
    bury(std::move(primary));
  for (const auto &allocation : old->allocations)
    munmap(reinterpret_cast<void *>(allocation.first),
           allocation.second.mappedSize);
  delete old;
  contextDepth = 0;
}

void setAsynchronousError(int result) { kernelError.store(result); }
int asynchronousError() { return kernelError.load(std::memory_order_relaxed); }

ContextRecord *currentContext() {
  return contextDepth ? contextStack[contextDepth - 1] : nullptr;
}

void setCurrentContext(ContextRecord *context) {
  if (!contextDepth) {
    if (!context)
      return;
    contextDepth = 1;
  } else if (!context) {
    --contextDepth;
    return;
  }
  contextStack[contextDepth - 1] = context;
}

bool isDevice(Device device) {
  return device >= 0 && unsigned(device) < driver().visible.count;
}

const PhysicalDevice &physical(Device device) {
  return *driver().visible.devices[device].physical;
}

bool isAlive(ContextRecord *context) {
  DriverState &state = driver();
  for (unsigned i = 0; i < state.visible.count; ++i)
    if (state.primaries[i].get() == context)
      return state.primaryReferences[i] > 0;
  return state.contexts.count(context) != 0;
}

Result requireContext(ContextRecord *&context) {
  context = currentContext();
  if (!context)
    return InvalidContext;
  return isAlive(context) ? Success : ContextIsDestroyed;
}

void destroyObjectsOf(ContextRecord *context) {
  DriverState &state = driver();
  for (auto it = state.modules.begin(); it != state.modules.end();) {
    if (it->first->context == context) {
      for (const auto &function : it->first->functions)
        state.functions.erase(function.get());
      it = state.modules.erase(it);
    } else {
      ++it;
    }
  }
  for (auto it = state.streams.begin(); it != state.streams.end();)
    it =
        it->first->context == context ? state.streams.erase(it) : std::next(it);
  for (auto it = state.events.begin(); it != state.events.end();)
    it = it->first->context == context ? state.events.erase(it) : std::next(it);
  for (auto it = state.allocations.begin(); it != state.allocations.end();) {
    auto next = std::next(it);
    if (it->second.context == context)
      releaseAllocation(it);
    it = next;
  }
}

FLAGTREE_SIM_DRIVER(Init)(unsigned flags) {
  return call(DriverCall::Init, Needs::Nothing, [&](Detail &) {
    if (flags)
      return InvalidValue;
    bool alreadyDone;
    Result result = beginInitialization(alreadyDone);
    if (result != Success || alreadyDone)
      return result;
    DriverState &state = driver();
    readVisibleDevices(std::getenv("CUDA_VISIBLE_DEVICES"),
                       std::getenv("CUDA_DEVICE_ORDER"), configuration(),
                       state.visible);
    finishInitialization(state.visible.count != 0);
    return state.visible.count ? Success : NoDevice;
  });
}

FLAGTREE_SIM_DRIVER(DriverGetVersion)(int *version) {
  return call(DriverCall::DriverGetVersion, Needs::Nothing, [&](Detail &) {
    if (!version)
      return InvalidValue;
    *version = configuration().driverVersion;
    return Success;
  });
}

FLAGTREE_SIM_DRIVER(DeviceGet)(Device *device, int ordinal) {
  return call(DriverCall::DeviceGet, Needs::Initialization, [&](Detail &d) {
    d.add("ordinal=%d", ordinal);
    if (!device)
      return InvalidValue;
    if (!isDevice(ordinal))
      return InvalidDevice;
    *device = ordinal;
    return Success;
  });
}

FLAGTREE_SIM_DRIVER(DeviceGetCount)(int *count) {
  return call(DriverCall::DeviceGetCount, Needs::Initialization, [&](Detail &) {
    if (!count)
      return InvalidValue;
    *count = int(driver().visible.count);
    return Success;
  });
}

FLAGTREE_SIM_DRIVER(DeviceGetName)(char *name, int length, Device device) {
  return call(DriverCall::DeviceGetName, Needs::Initialization, [&](Detail &) {
    if (!name || length <= 0)
      return InvalidValue;
    if (!isDevice(device))
      return InvalidDevice;
    std::strncpy(name, physical(device).name, size_t(length));
    name[length - 1] = 0;
    return Success;
  });
}

static Result getUuid(Uuid *uuid, Device device, bool instance) {
  if (!uuid)
    return InvalidValue;
  if (!isDevice(device))
    return InvalidDevice;
  const VisibleDevice &seen = driver().visible.devices[device];
  *uuid = instance && seen.migInstance >= 0
              ? seen.physical->migUuid(unsigned(seen.migInstance))
              : seen.physical->uuid;
  return Success;
}

FLAGTREE_SIM_DRIVER(DeviceGetUuid)(Uuid *uuid, Device device) {
  return call(DriverCall::DeviceGetUuid, Needs::Initialization,
              [&](Detail &) { return getUuid(uuid, device, false); });
}

FLAGTREE_SIM_DRIVER(DeviceGetUuid_v2)(Uuid *uuid, Device device) {
  return call(DriverCall::DeviceGetUuid_v2, Needs::Initialization,
              [&](Detail &) { return getUuid(uuid, device, true); });
}

FLAGTREE_SIM_DRIVER(DeviceTotalMem_v2)(size_t *bytes, Device device) {
  return call(DriverCall::DeviceTotalMem_v2, Needs::Initialization,
              [&](Detail &) {
                if (!bytes)
                  return InvalidValue;
                if (!isDevice(device))
                  return InvalidDevice;
                *bytes = physical(device).memoryBytes;
                return Success;
              });
}

FLAGTREE_SIM_DRIVER(DeviceGetAttribute)
(int *value, int attribute, Device device) {
  return call(DriverCall::DeviceGetAttribute, Needs::Initialization,
              [&](Detail &d) {
                d.add("attribute=%d device=%d", attribute, device);
                if (!value)
                  return InvalidValue;
                if (!isDevice(device))
                  return InvalidDevice;
                return deviceAttribute(physical(device), attribute, *value)
                           ? Success
                           : InvalidValue;
              });
}

FLAGTREE_SIM_DRIVER(DeviceComputeCapability)
(int *major, int *minor, Device device) {
  return call(DriverCall::DeviceComputeCapability, Needs::Initialization,
              [&](Detail &) {
                if (!major || !minor)
                  return InvalidValue;
                if (!isDevice(device))
                  return InvalidDevice;
                *major = physical(device).major;
                *minor = physical(device).minor;
                return Success;
              });
}

FLAGTREE_SIM_DRIVER(DeviceGetPCIBusId)(char *text, int length, Device device) {
  return call(DriverCall::DeviceGetPCIBusId, Needs::Initialization,
              [&](Detail &) {
                if (!text)
                  return InvalidValue;
                if (!isDevice(device))
                  return InvalidDevice;
                char address[32];
                formatBusId(address, physical(device).index, 4);
                if (length <= int(std::strlen(address)))
                  return InvalidValue;
                std::strcpy(text, address);
                return Success;
              });
}

FLAGTREE_SIM_DRIVER(DeviceGetByPCIBusId)(Device *device, const char *text) {
  return call(DriverCall::DeviceGetByPCIBusId, Needs::Initialization,
              [&](Detail &) {
                if (!device || !text)
                  return InvalidValue;
                for (unsigned i = 0; i < driver().visible.count; ++i) {
                  char address[32];
                  formatBusId(address, physical(Device(i)).index, 4);
                  if (std::strlen(text) == std::strlen(address) &&
                      std::equal(address, address + std::strlen(address), text,
                                 [](char a, char b) {
                                   return asciiLower(a) == asciiLower(b);
                                 })) {
                    *device = Device(i);
                    return Success;
                  }
                }
                return InvalidDevice;
              });
}

FLAGTREE_SIM_DRIVER(CtxGetCurrent)(Context *context) {
  return call(DriverCall::CtxGetCurrent, Needs::Initialization, [&](Detail &d) {
    if (!context)
      return InvalidValue;
    *context = currentContext();
    d.add("context=%p", static_cast<void *>(*context));
    return Success;
  });
}

FLAGTREE_SIM_DRIVER(CtxSetCurrent)(Context context) {
  return call(DriverCall::CtxSetCurrent, Needs::Initialization, [&](Detail &d) {
    d.add("context=%p", static_cast<void *>(context));
    std::lock_guard<std::mutex> guard(driver().lock);
    if (context && !isAlive(context))
      return InvalidContext;
    setCurrentContext(context);
    return Success;
  });
}

FLAGTREE_SIM_DRIVER(CtxGetDevice)(Device *device) {
  return call(DriverCall::CtxGetDevice, Needs::Initialization, [&](Detail &d) {
    if (!device)
      return InvalidValue;
    ContextRecord *context = currentContext();
    if (!context)
      return InvalidContext;
    *device = context->device;
    d.add("device=%d", *device);
    return Success;
  });
}

FLAGTREE_SIM_DRIVER(CtxPushCurrent_v2)(Context context) {
  return call(DriverCall::CtxPushCurrent_v2, Needs::Initialization,
              [&](Detail &) {
                std::lock_guard<std::mutex> guard(driver().lock);
                if (!context || !isAlive(context))
                  return InvalidContext;
                if (contextDepth == MaximumContextDepth)
                  return InvalidValue;
                contextStack[contextDepth++] = context;
                return Success;
              });
}

FLAGTREE_SIM_DRIVER(CtxPopCurrent_v2)(Context *context) {
  return call(DriverCall::CtxPopCurrent_v2, Needs::Initialization,
              [&](Detail &) {
                if (!contextDepth)
                  return InvalidContext;
                ContextRecord *popped = contextStack[--contextDepth];
                if (context)
                  *context = popped;
                return Success;
              });
}

FLAGTREE_SIM_DRIVER(CtxCreate_v2)
(Context *context, unsigned flags, Device device) {
  return call(DriverCall::CtxCreate_v2, Needs::Initialization, [&](Detail &d) {
    if (!context)
      return InvalidValue;
    if (!isDevice(device))
      return InvalidDevice;
    if (contextDepth == MaximumContextDepth)
      return InvalidValue;
    auto record = std::make_unique<ContextRecord>();
    record->device = device;
    record->isPrimary = false;
    record->flags = flags;
    *context = record.get();
    contextStack[contextDepth++] = record.get();
    d.add("device=%d context=%p", device, static_cast<void *>(*context));
    std::lock_guard<std::mutex> guard(driver().lock);
    driver().contexts.emplace(*context, std::move(record));
    return Success;
  });
}

FLAGTREE_SIM_DRIVER(CtxDestroy_v2)(Context context) {
  return call(DriverCall::CtxDestroy_v2, Needs::Initialization, [&](Detail &) {
    DriverState &state = driver();
    std::lock_guard<std::mutex> guard(state.lock);
    auto found = state.contexts.find(context);
    if (found == state.contexts.end())
      return InvalidContext;
    if (currentContext() == context)
      --contextDepth;
    destroyObjectsOf(context);
    bury(std::move(found->second));
    state.contexts.erase(found);
    return Success;
  });
}

FLAGTREE_SIM_DRIVER(CtxSynchronize)() {
  return call(DriverCall::CtxSynchronize, Needs::Initialization, [&](Detail &) {
    std::lock_guard<std::mutex> guard(driver().lock);
    ContextRecord *context;
    Result result = requireContext(context);
    return result ? result : static_cast<Result>(asynchronousError());
  });
}

FLAGTREE_SIM_DRIVER(CtxGetLimit)(size_t *value, int limit) {
  return call(DriverCall::CtxGetLimit, Needs::Initialization, [&](Detail &) {
    std::lock_guard<std::mutex> guard(driver().lock);
    ContextRecord *context;
    if (Result result = requireContext(context))
      return result;
    if (!value || limit < LimitStackSize || limit > LimitMallocHeapSize)
      return InvalidValue;
    *value = context->limits[limit];
    return Success;
  });
}

FLAGTREE_SIM_DRIVER(CtxSetLimit)(int limit, size_t value) {
  return call(DriverCall::CtxSetLimit, Needs::Initialization, [&](Detail &d) {
    d.add("limit=%d value=%zu", limit, value);
    std::lock_guard<std::mutex> guard(driver().lock);
    ContextRecord *context;
    if (Result result = requireContext(context))
      return result;
    if (limit < LimitStackSize || limit > LimitMallocHeapSize)
      return InvalidValue;
    context->limits[limit] = value;
    return Success;
  });
}

FLAGTREE_SIM_DRIVER(CtxGetStreamPriorityRange)(int *least, int *greatest) {
  return call(DriverCall::CtxGetStreamPriorityRange, Needs::Initialization,
              [&](Detail &) {
                std::lock_guard<std::mutex> guard(driver().lock);
                ContextRecord *context;
                if (Result result = requireContext(context))
                  return result;
                if (least)
                  *least = 0;
                if (greatest)
                  *greatest = -5;
                return Success;
              });
}

FLAGTREE_SIM_DRIVER(DevicePrimaryCtxRetain)(Context *context, Device device) {
  return call(DriverCall::DevicePrimaryCtxRetain, Needs::Initialization,
              [&](Detail &d) {
                if (!context)
                  return InvalidValue;
                if (!isDevice(device))
                  return InvalidDevice;
                std::lock_guard<std::mutex> guard(driver().lock);
                Result result = retainPrimary(device, *context);
                d.add("device=%d context=%p", device,
                      static_cast<void *>(*context));
                return result;
              });
}

FLAGTREE_SIM_DRIVER(DevicePrimaryCtxRelease)(Device device) {
  return call(DriverCall::DevicePrimaryCtxRelease, Needs::Initialization,
              [&](Detail &) { return releasePrimary(device, false); });
}

FLAGTREE_SIM_DRIVER(DevicePrimaryCtxRelease_v2)(Device device) {
  return call(DriverCall::DevicePrimaryCtxRelease_v2, Needs::Initialization,
              [&](Detail &) { return releasePrimary(device, false); });
}

FLAGTREE_SIM_DRIVER(DevicePrimaryCtxReset)(Device device) {
  return call(DriverCall::DevicePrimaryCtxReset, Needs::Initialization,
              [&](Detail &) { return releasePrimary(device, true); });
}

FLAGTREE_SIM_DRIVER(DevicePrimaryCtxReset_v2)(Device device) {
  return call(DriverCall::DevicePrimaryCtxReset_v2, Needs::Initialization,
              [&](Detail &) { return releasePrimary(device, true); });
}

FLAGTREE_SIM_DRIVER(DevicePrimaryCtxGetState)
(Device device, unsigned *flags, int *active) {
  return call(DriverCall::DevicePrimaryCtxGetState, Needs::Initialization,
              [&](Detail &d) {
                if (!isDevice(device))
                  return InvalidDevice;
                std::lock_guard<std::mutex> guard(driver().lock);
                int isActive = driver().primaryReferences[device] > 0;
                if (flags)
                  *flags = 0;
                if (active)
                  *active = isActive;
                d.add("device=%d active=%d", device, isActive);
                return Success;
              });
}

} // namespace flagtree::simulator
