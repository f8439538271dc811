// The management library: nvml* (libnvidia-ml.so.1) or hgml* (libhgml.so). It
// knows every device of the machine, in the order of the bus, whatever
// CUDA_VISIBLE_DEVICES says, and initializes nothing of the driver.

#include "Call.h"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <unistd.h>

#if FLAGTREE_SIM_IS_HG
#define FLAGTREE_SIM_PREFIX hgml
#else
#define FLAGTREE_SIM_PREFIX nvml
#endif
#define FLAGTREE_SIM_MANAGEMENT(Name)                                          \
  extern "C" FLAGTREE_SIM_EXPORT ManagementResult FLAGTREE_SIM_JOIN(           \
      FLAGTREE_SIM_PREFIX, Name)

namespace flagtree::simulator {

#define FLAGTREE_SIM_CALL(Name)                                                \
  FLAGTREE_SIM_TEXT(FLAGTREE_SIM_JOIN(FLAGTREE_SIM_PREFIX, Name)),
static const char *const names[] = {
#include "ManagementCalls.def"
};

static bool owns(const char *name) {
  return !*name ||
         std::strncmp(name, FLAGTREE_SIM_TEXT(FLAGTREE_SIM_PREFIX), 4) == 0;
}

constexpr unsigned NumberOfCalls = sizeof(names) / sizeof(names[0]);
static_assert(NumberOfCalls <= MaximumCalls);
const CallNames callNames = {names, NumberOfCalls, owns};

// Only the driver has kernels that fail later.
void setAsynchronousError(int) {}

namespace {

enum class ManagementCall : unsigned {
#define FLAGTREE_SIM_CALL(Name) Name,
#include "ManagementCalls.def"
};

// The library can be used in forked children, whoever initialized it, unless a
// thread of the parent was inside it at the fork: its lock is then held for
// ever, and NVML 580 spins for it.
std::atomic<int> initializations{0};
std::atomic<int> threadsInside{0};
std::atomic<pid_t> usedBy{0};

class Inside {
public:
  Inside() {
    const pid_t self = getpid();
    pid_t user = usedBy.load();
    while (user != self) {
      while (user != 0 && threadsInside.load() > 0)
        pause();
      usedBy.compare_exchange_strong(user, self);
    }
    threadsInside.fetch_add(1);
  }
  ~Inside() { threadsInside.fetch_sub(1); }
  Inside(const Inside &) = delete;
  Inside &operator=(const Inside &) = delete;
};

/// A device or one of its MIG instances.
struct HandleRecord {
  unsigned device;
  int migInstance; ///< -1: the device
};
HandleRecord devices[MaximumDevices];
HandleRecord migDevices[MaximumDevices][MaximumMigInstances];

using Handle = const HandleRecord *;

__attribute__((constructor)) void makeHandles() {
  for (unsigned i = 0; i < MaximumDevices; ++i) {
    devices[i] = {i, -1};
    for (unsigned j = 0; j < MaximumMigInstances; ++j)
      migDevices[i][j] = {i, int(j)};
  }
}

bool isHandle(Handle handle) {
  const char *at = reinterpret_cast<const char *>(handle);
  auto within = [&](const void *start, size_t size) {
    const char *first = static_cast<const char *>(start);
    return at >= first && at < first + size &&
           size_t(at - first) % sizeof(HandleRecord) == 0;
  };
  if (!within(devices, sizeof(devices)) &&
      !within(migDevices, sizeof(migDevices)))
    return false;
  return handle->device < configuration().deviceCount &&
         (handle->migInstance < 0 ||
          unsigned(handle->migInstance) <
              configuration().devices[handle->device].migInstances);
}

const PhysicalDevice &physical(Handle handle) {
  return configuration().devices[handle->device];
}

template <typename Body>
ManagementResult manage(ManagementCall which, Needs needs, Body &&body) {
  const Inside inside;
  // Not Needs::Initialization, which asks about the driver.
  return static_cast<ManagementResult>(
      call(static_cast<unsigned>(which), Needs::Nothing, [&](Detail &detail) {
        if (needs == Needs::Initialization && initializations.load() <= 0)
          return static_cast<Result>(ManagementUninitialized);
        return static_cast<Result>(body(detail));
      }));
}

/// A call about one device.
template <typename Body>
ManagementResult manageDevice(ManagementCall which, Handle handle,
                              Body &&body) {
  return manage(which, Needs::Initialization, [&](Detail &detail) {
    if (!isHandle(handle))
      return ManagementInvalidArgument;
    detail.add("device=%u", handle->device);
    return body(detail);
  });
}

ManagementResult copyText(char *to, unsigned length, const char *text) {
  if (!to)
    return ManagementInvalidArgument;
  if (std::strlen(text) >= length)
    return ManagementInsufficientSize;
  std::strcpy(to, text);
  return ManagementSuccess;
}

ManagementResult initialize() {
  initializations.fetch_add(1);
  return ManagementSuccess;
}

const char *errorText(int code) {
  switch (code) {
  case ManagementSuccess:
    return "Success";
  case ManagementUninitialized:
    return "Uninitialized";
  case ManagementInvalidArgument:
    return "Invalid Argument";
  case ManagementNotSupported:
    return "Not Supported";
  case ManagementNotFound:
    return "Not Found";
  case ManagementInsufficientSize:
    return "Insufficient Size";
  case ManagementDriverNotLoaded:
    return "Driver Not Loaded";
  default:
    return "Unknown Error";
  }
}

ManagementResult computeCapability(Handle handle, int *major, int *minor) {
  if (!major || !minor)
    return ManagementInvalidArgument;
  *major = physical(handle).major;
  *minor = physical(handle).minor;
  return ManagementSuccess;
}

void formatHandleUuid(char (&text)[48], Handle handle) {
  if (handle->migInstance < 0)
    formatUuid(text, "GPU", physical(handle).uuid);
  else
    formatUuid(text, "MIG",
               physical(handle).migUuid(unsigned(handle->migInstance)));
}

} // namespace

FLAGTREE_SIM_MANAGEMENT(Init_v2)() {
  return manage(ManagementCall::Init_v2, Needs::Nothing,
                [](Detail &) { return initialize(); });
}

FLAGTREE_SIM_MANAGEMENT(InitWithFlags)(unsigned) {
  return manage(ManagementCall::InitWithFlags, Needs::Nothing,
                [](Detail &) { return initialize(); });
}

FLAGTREE_SIM_MANAGEMENT(Shutdown)() {
  return manage(ManagementCall::Shutdown, Needs::Initialization, [](Detail &) {
    initializations.fetch_sub(1);
    return ManagementSuccess;
  });
}

// Answers a text, so it is the one call that faults do not reach.
extern "C" FLAGTREE_SIM_EXPORT const char *
FLAGTREE_SIM_JOIN(FLAGTREE_SIM_PREFIX, ErrorString)(ManagementResult code) {
  manage(ManagementCall::ErrorString, Needs::Nothing, [&](Detail &d) {
    d.add("code=%d", code);
    return ManagementSuccess;
  });
  return errorText(code);
}

FLAGTREE_SIM_MANAGEMENT(SystemGetDriverVersion)(char *text, unsigned length) {
  return manage(ManagementCall::SystemGetDriverVersion, Needs::Initialization,
                [&](Detail &) { return copyText(text, length, "580.0.0"); });
}

#if FLAGTREE_SIM_IS_HG
FLAGTREE_SIM_MANAGEMENT(SystemGetHggcDriverVersion)(int *version) {
  return manage(ManagementCall::SystemGetHggcDriverVersion,
#else
FLAGTREE_SIM_MANAGEMENT(SystemGetCudaDriverVersion)(int *version) {
  return manage(ManagementCall::SystemGetCudaDriverVersion,
#endif
                Needs::Nothing, [&](Detail &) {
                  if (!version)
                    return ManagementInvalidArgument;
                  *version = configuration().driverVersion;
                  return ManagementSuccess;
                });
}

FLAGTREE_SIM_MANAGEMENT(DeviceGetCount_v2)(unsigned *count) {
  return manage(ManagementCall::DeviceGetCount_v2, Needs::Initialization,
                [&](Detail &) {
                  if (!count)
                    return ManagementInvalidArgument;
                  *count = configuration().deviceCount;
                  return ManagementSuccess;
                });
}

FLAGTREE_SIM_MANAGEMENT(DeviceGetHandleByIndex_v2)
(unsigned index, Handle *handle) {
  return manage(ManagementCall::DeviceGetHandleByIndex_v2,
                Needs::Initialization, [&](Detail &d) {
                  d.add("index=%u", index);
                  if (!handle || index >= configuration().deviceCount)
                    return ManagementInvalidArgument;
                  *handle = &devices[index];
                  return ManagementSuccess;
                });
}

FLAGTREE_SIM_MANAGEMENT(DeviceGetHandleByUUID)
(const char *uuid, Handle *handle) {
  return manage(ManagementCall::DeviceGetHandleByUUID, Needs::Initialization,
                [&](Detail &) {
                  if (!uuid || !handle)
                    return ManagementInvalidArgument;
                  for (unsigned i = 0; i < configuration().deviceCount; ++i) {
                    char text[48];
                    formatHandleUuid(text, &devices[i]);
                    if (std::strcmp(text, uuid) == 0) {
                      *handle = &devices[i];
                      return ManagementSuccess;
                    }
                    for (unsigned j = 0;
                         j < configuration().devices[i].migInstances; ++j) {
                      formatHandleUuid(text, &migDevices[i][j]);
                      if (std::strcmp(text, uuid) == 0) {
                        *handle = &migDevices[i][j];
                        return ManagementSuccess;
                      }
                    }
                  }
                  return ManagementNotFound;
                });
}

FLAGTREE_SIM_MANAGEMENT(DeviceGetIndex)(Handle handle, unsigned *index) {
  return manageDevice(ManagementCall::DeviceGetIndex, handle, [&](Detail &) {
    if (!index)
      return ManagementInvalidArgument;
    *index = handle->migInstance < 0 ? handle->device
                                     : unsigned(handle->migInstance);
    return ManagementSuccess;
  });
}

FLAGTREE_SIM_MANAGEMENT(DeviceGetUUID)
(Handle handle, char *text, unsigned length) {
  return manageDevice(ManagementCall::DeviceGetUUID, handle, [&](Detail &) {
    char uuid[48];
    formatHandleUuid(uuid, handle);
    return copyText(text, length, uuid);
  });
}

FLAGTREE_SIM_MANAGEMENT(DeviceGetName)
(Handle handle, char *text, unsigned length) {
  return manageDevice(ManagementCall::DeviceGetName, handle, [&](Detail &) {
    return copyText(text, length, physical(handle).name);
  });
}

FLAGTREE_SIM_MANAGEMENT(DeviceGetPciInfo_v3)
(Handle handle, ManagementPciInfo *info) {
  return manageDevice(ManagementCall::DeviceGetPciInfo_v3, handle,
                      [&](Detail &) {
                        if (!info)
                          return ManagementInvalidArgument;
                        if (handle->migInstance >= 0)
                          return ManagementNotSupported;
                        *info = {};
                        char text[32];
                        formatBusId(text, handle->device, 4);
                        std::memcpy(info->legacyBusId, text, 13);
                        formatBusId(info->busId, handle->device, 8);
                        info->bus = busNumber(handle->device);
                        return ManagementSuccess;
                      });
}

FLAGTREE_SIM_MANAGEMENT(DeviceGetMinorNumber)(Handle handle, unsigned *number) {
  return manageDevice(ManagementCall::DeviceGetMinorNumber, handle,
                      [&](Detail &) {
                        if (!number)
                          return ManagementInvalidArgument;
                        if (handle->migInstance >= 0)
                          return ManagementNotSupported;
                        *number = physical(handle).minorNumber;
                        return ManagementSuccess;
                      });
}

#if FLAGTREE_SIM_IS_HG
FLAGTREE_SIM_MANAGEMENT(DeviceGetHggcComputeCapability)
(Handle handle, int *major, int *minor) {
  return manageDevice(
      ManagementCall::DeviceGetHggcComputeCapability, handle,
      [&](Detail &) { return computeCapability(handle, major, minor); });
}
#else
FLAGTREE_SIM_MANAGEMENT(DeviceGetCudaComputeCapability)
(Handle handle, int *major, int *minor) {
  return manageDevice(
      ManagementCall::DeviceGetCudaComputeCapability, handle,
      [&](Detail &) { return computeCapability(handle, major, minor); });
}
#endif

FLAGTREE_SIM_MANAGEMENT(DeviceGetMigMode)
(Handle handle, unsigned *current, unsigned *pending) {
  return manageDevice(ManagementCall::DeviceGetMigMode, handle, [&](Detail &) {
    if (!current || !pending || handle->migInstance >= 0)
      return ManagementInvalidArgument;
    *current = *pending = physical(handle).migInstances != 0;
    return ManagementSuccess;
  });
}

FLAGTREE_SIM_MANAGEMENT(DeviceGetMaxMigDeviceCount)
(Handle handle, unsigned *count) {
  return manageDevice(ManagementCall::DeviceGetMaxMigDeviceCount, handle,
                      [&](Detail &) {
                        if (!count)
                          return ManagementInvalidArgument;
                        *count = MaximumMigInstances;
                        return ManagementSuccess;
                      });
}

FLAGTREE_SIM_MANAGEMENT(DeviceGetMigDeviceHandleByIndex)
(Handle handle, unsigned index, Handle *found) {
  return manageDevice(
      ManagementCall::DeviceGetMigDeviceHandleByIndex, handle, [&](Detail &d) {
        d.add(" index=%u", index);
        if (!found || handle->migInstance >= 0 || index >= MaximumMigInstances)
          return ManagementInvalidArgument;
        if (index >= physical(handle).migInstances)
          return ManagementNotFound;
        *found = &migDevices[handle->device][index];
        return ManagementSuccess;
      });
}

FLAGTREE_SIM_MANAGEMENT(DeviceGetDeviceHandleFromMigDeviceHandle)
(Handle handle, Handle *device) {
  return manageDevice(ManagementCall::DeviceGetDeviceHandleFromMigDeviceHandle,
                      handle, [&](Detail &) {
                        if (!device || handle->migInstance < 0)
                          return ManagementInvalidArgument;
                        *device = &devices[handle->device];
                        return ManagementSuccess;
                      });
}

FLAGTREE_SIM_MANAGEMENT(DeviceIsMigDeviceHandle)
(Handle handle, unsigned *isMig) {
  return manageDevice(ManagementCall::DeviceIsMigDeviceHandle, handle,
                      [&](Detail &) {
                        if (!isMig)
                          return ManagementInvalidArgument;
                        *isMig = handle->migInstance >= 0;
                        return ManagementSuccess;
                      });
}

} // namespace flagtree::simulator
