// Names: of the calls (with what is exported under each), of the errors, and
// the control functions for C++ tests that live in the same process.

#include "DriverState.h"

#include <cstring>

namespace flagtree::simulator {

#define FLAGTREE_SIM_CALL(Name, Suffix, Introduced)                            \
  FLAGTREE_SIM_TEXT(FLAGTREE_SIM_JOIN(FLAGTREE_SIM_PREFIX, Name##Suffix)),
static const char *const names[] = {
#include "DriverCalls.def"
};

static bool owns(const char *name) {
  static const char prefix[] = FLAGTREE_SIM_TEXT(FLAGTREE_SIM_PREFIX);
  return !*name || (std::strncmp(name, prefix, 2) == 0 &&
                    std::strncmp(name, "hgml", 4) != 0);
}

constexpr unsigned NumberOfCalls = sizeof(names) / sizeof(names[0]);
static_assert(NumberOfCalls <= MaximumCalls);
const CallNames callNames = {names, NumberOfCalls, owns};

namespace {

struct ErrorName {
  int code;
  const char *name;
  const char *description;
};

#if FLAGTREE_SIM_IS_HG
#define FLAGTREE_SIM_ERROR(Name) "HGGC_" Name
#else
#define FLAGTREE_SIM_ERROR(Name) "CUDA_" Name
#endif

const ErrorName errorNames[] = {
    {0, FLAGTREE_SIM_ERROR("SUCCESS"), "no error"},
    {1, FLAGTREE_SIM_ERROR("ERROR_INVALID_VALUE"), "invalid argument"},
    {2, FLAGTREE_SIM_ERROR("ERROR_OUT_OF_MEMORY"), "out of memory"},
    {3, FLAGTREE_SIM_ERROR("ERROR_NOT_INITIALIZED"), "initialization error"},
    {4, FLAGTREE_SIM_ERROR("ERROR_DEINITIALIZED"), "driver shutting down"},
    {34, FLAGTREE_SIM_ERROR("ERROR_STUB_LIBRARY"), "stub library"},
    {46, FLAGTREE_SIM_ERROR("ERROR_DEVICE_UNAVAILABLE"), "device unavailable"},
    {100, FLAGTREE_SIM_ERROR("ERROR_NO_DEVICE"), "no device is visible"},
    {101, FLAGTREE_SIM_ERROR("ERROR_INVALID_DEVICE"), "invalid device ordinal"},
    {200, FLAGTREE_SIM_ERROR("ERROR_INVALID_IMAGE"), "invalid kernel image"},
    {201, FLAGTREE_SIM_ERROR("ERROR_INVALID_CONTEXT"),
     "invalid device context"},
    {209, FLAGTREE_SIM_ERROR("ERROR_NO_BINARY_FOR_GPU"),
     "kernel image for another device"},
    {400, FLAGTREE_SIM_ERROR("ERROR_INVALID_HANDLE"),
     "invalid resource handle"},
    {500, FLAGTREE_SIM_ERROR("ERROR_NOT_FOUND"), "named symbol not found"},
    {600, FLAGTREE_SIM_ERROR("ERROR_NOT_READY"), "device not ready"},
    {700, FLAGTREE_SIM_ERROR("ERROR_ILLEGAL_ADDRESS"), "illegal memory access"},
    {701, FLAGTREE_SIM_ERROR("ERROR_LAUNCH_OUT_OF_RESOURCES"),
     "too many resources requested for launch"},
    {702, FLAGTREE_SIM_ERROR("ERROR_LAUNCH_TIMEOUT"), "launch timed out"},
    {708, FLAGTREE_SIM_ERROR("ERROR_PRIMARY_CONTEXT_ACTIVE"),
     "primary context is active"},
    {709, FLAGTREE_SIM_ERROR("ERROR_CONTEXT_IS_DESTROYED"),
     "context is destroyed"},
    {710, FLAGTREE_SIM_ERROR("ERROR_ASSERT"), "device-side assertion"},
    {719, FLAGTREE_SIM_ERROR("ERROR_LAUNCH_FAILED"), "launch failure"},
    {720, FLAGTREE_SIM_ERROR("ERROR_COOPERATIVE_LAUNCH_TOO_LARGE"),
     "too many blocks in cooperative launch"},
    {801, FLAGTREE_SIM_ERROR("ERROR_NOT_SUPPORTED"), "operation not supported"},
    {802, FLAGTREE_SIM_ERROR("ERROR_SYSTEM_NOT_READY"), "system not ready"},
    {803, FLAGTREE_SIM_ERROR("ERROR_SYSTEM_DRIVER_MISMATCH"),
     "driver and system do not match"},
    {804, FLAGTREE_SIM_ERROR("ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"),
     "compatibility mode not supported on this device"},
    {912, FLAGTREE_SIM_ERROR("ERROR_INVALID_CLUSTER_SIZE"),
     "invalid cluster size"},
    {999, FLAGTREE_SIM_ERROR("ERROR_UNKNOWN"), "unknown error"},
};

const ErrorName *findError(int code) {
  for (const ErrorName &error : errorNames)
    if (error.code == code)
      return &error;
  return nullptr;
}

Result findAddress(const char *symbol, void **address, int version,
                   int *status);

} // namespace

FLAGTREE_SIM_DRIVER(GetErrorName)(Result code, const char **name) {
  return call(DriverCall::GetErrorName, Needs::Nothing, [&](Detail &d) {
    d.add("code=%d", code);
    if (!name)
      return InvalidValue;
    const ErrorName *error = findError(code);
    *name = error ? error->name : nullptr;
    return error ? Success : InvalidValue;
  });
}

FLAGTREE_SIM_DRIVER(GetErrorString)(Result code, const char **description) {
  return call(DriverCall::GetErrorString, Needs::Nothing, [&](Detail &d) {
    d.add("code=%d", code);
    if (!description)
      return InvalidValue;
    const ErrorName *error = findError(code);
    *description = error ? error->description : nullptr;
    return error ? Success : InvalidValue;
  });
}

FLAGTREE_SIM_DRIVER(GetProcAddress)
(const char *symbol, void **address, int version, uint64_t) {
  return call(DriverCall::GetProcAddress, Needs::Nothing, [&](Detail &d) {
    d.add("symbol=%s version=%d", symbol ? symbol : "", version);
    return findAddress(symbol, address, version, nullptr);
  });
}

FLAGTREE_SIM_DRIVER(GetProcAddress_v2)
(const char *symbol, void **address, int version, uint64_t, int *status) {
  return call(DriverCall::GetProcAddress_v2, Needs::Nothing, [&](Detail &d) {
    d.add("symbol=%s version=%d", symbol ? symbol : "", version);
    return findAddress(symbol, address, version, status);
  });
}

} // namespace flagtree::simulator

// Only their addresses are taken here; their types are where they are defined.
#define FLAGTREE_SIM_CALL(Name, Suffix, Introduced)                            \
  extern "C" void                                                              \
      FLAGTREE_SIM_JOIN(FLAGTREE_SIM_ADDRESS_OF_, Name##Suffix)() __asm__(     \
          FLAGTREE_SIM_TEXT(                                                   \
              FLAGTREE_SIM_JOIN(FLAGTREE_SIM_PREFIX, Name##Suffix)));
#include "DriverCalls.def"

namespace flagtree::simulator {
namespace {

struct Exported {
  const char *base; ///< the name without its version's suffix
  int introduced;
  void (*address)();
};

const Exported exportedCalls[] = {
#define FLAGTREE_SIM_CALL(Name, Suffix, Introduced)                            \
  {FLAGTREE_SIM_TEXT(FLAGTREE_SIM_JOIN(FLAGTREE_SIM_PREFIX, Name)),            \
   Introduced, FLAGTREE_SIM_JOIN(FLAGTREE_SIM_ADDRESS_OF_, Name##Suffix)},
#include "DriverCalls.def"
};

// The newest version of a call that the caller's version of the API and the
// driver have. Status: 0 found, 1 no such call, 2 only in a later version.
Result findAddress(const char *symbol, void **address, int version,
                   int *status) {
  if (!symbol || !address)
    return InvalidValue;
  *address = nullptr;
  bool anyName = false;
  int newest = -1;
  for (const Exported &exported : exportedCalls) {
    if (std::strcmp(exported.base, symbol) != 0)
      continue;
    anyName = true;
    if (exported.introduced <= version && exported.introduced > newest &&
        exported.introduced <= configuration().driverVersion) {
      newest = exported.introduced;
      *address = reinterpret_cast<void *>(exported.address);
    }
  }
  if (status)
    *status = *address ? 0 : anyName ? 2 : 1;
  return *address ? Success : NotFound;
}

} // namespace
} // namespace flagtree::simulator

using namespace flagtree::simulator;

/// Replaces the faults on order; see Faults.h.
extern "C" FLAGTREE_SIM_EXPORT void
flagtree_sim_set_faults(const char *orders) {
  setFaults(orders);
}

/// Logs to another file, or, with null, to none.
extern "C" FLAGTREE_SIM_EXPORT void flagtree_sim_set_log(const char *path) {
  setLog(path);
}

/// How often this process made a call; -1: there is no such call.
extern "C" FLAGTREE_SIM_EXPORT long long
flagtree_sim_call_count(const char *name) {
  for (unsigned i = 0; i < callNames.count; ++i)
    if (std::strcmp(callNames.names[i], name) == 0)
      return static_cast<long long>(callCount(i));
  return -1;
}

/// A fresh process again: not initialized, counts at zero, no faults, no kernel
/// error, the configuration read anew from the environment. For tests in one
/// process, while no other thread uses the driver.
extern "C" FLAGTREE_SIM_EXPORT void flagtree_sim_reset() {
  setAsynchronousError(0);
  setFaults(nullptr);
  readConfiguration();
  resetDriverState();
  resetProcessState();
}
