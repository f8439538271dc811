// What is simulated: how many devices, of which kind, and whether the library
// is a stub. Read once, when the library is loaded, from FLAGTREE_SIM_*
// variables (docs/simulator.md lists them). A value that cannot be understood
// ends the process with a message, since a test that runs on something other
// than what it asked for proves nothing.

#ifndef FLAGTREE_SIMULATOR_CONFIGURATION_H
#define FLAGTREE_SIMULATOR_CONFIGURATION_H

#include "Abi.h"

namespace flagtree::simulator {

inline constexpr unsigned MaximumDevices = 64;
inline constexpr unsigned MaximumMigInstances = 7;

/// One simulated device, as the machine has it: in the order of the PCI bus,
/// before CUDA_VISIBLE_DEVICES.
struct PhysicalDevice {
  unsigned index;
  int major, minor;
  int multiprocessors;
  uint64_t memoryBytes;
  unsigned minorNumber;  ///< of the device node
  unsigned migInstances; ///< 0: MIG mode is off
  char name[64];
  Uuid uuid;

  /// The identity of one of its MIG instances.
  Uuid migUuid(unsigned instance) const;
};

struct Configuration {
  unsigned deviceCount;
  int driverVersion; ///< as cuDriverGetVersion says it: 13000 is 13.0
  bool isStub;
  PhysicalDevice devices[MaximumDevices];
};

/// The configuration, read when the library was loaded.
const Configuration &configuration();

/// Reads the environment again; only for flagtree_sim_reset().
void readConfiguration();

/// "GPU-xxxxxxxx-..." or "MIG-...": 41 bytes with the final zero.
void formatUuid(char (&text)[48], const char *prefix, const Uuid &uuid);

/// The bus address "0000:17:00.0" of a device.
void formatBusId(char (&text)[32], unsigned device, int domainDigits);
unsigned busNumber(unsigned device);

/// Writes "flagtree simulator: <message>" to standard error and aborts.
[[noreturn]] void refuse(const char *message, const char *value);

} // namespace flagtree::simulator

#endif // FLAGTREE_SIMULATOR_CONFIGURATION_H
