#include "Configuration.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace flagtree::simulator {
namespace {

Configuration current;

// Steps through a comma-separated list; after its end the last entry repeats,
// so that "8.0" describes any number of devices.
class List {
public:
  explicit List(const char *text) : rest(text) {}

  bool next(char (&entry)[64]) {
    if (!rest)
      return false;
    const char *comma = std::strchr(rest, ',');
    size_t length = comma ? size_t(comma - rest) : std::strlen(rest);
    if (length >= sizeof(entry))
      refuse("an entry of a FLAGTREE_SIM_* list is too long", rest);
    std::memcpy(entry, rest, length);
    entry[length] = 0;
    if (comma)
      rest = comma + 1;
    return true;
  }

private:
  const char *rest;
};

const char *variable(const char *name) {
  const char *value = std::getenv(name);
  return value && *value ? value : nullptr;
}

uint64_t number(const char *text, const char *what) {
  char *end = nullptr;
  uint64_t value = std::strtoull(text, &end, 10);
  if (end == text || *end)
    refuse(what, text);
  return value;
}

// Multiprocessors by capability. 72 for 8.0 is the PPU-ZW810E's; the others are
// numbers of the same order that differ, so that a test sees which one
// answered.
int multiprocessorsOf(int major, int minor) {
  if (major < 8)
    return 40;
  if (major == 8)
    return minor == 0 ? 72 : 84;
  return major == 9 ? 132 : 148;
}

uint64_t mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15ull;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
  return value ^ (value >> 31);
}

// Every identity begins with f1a9, so that a prefix can be ambiguous.
Uuid makeUuid(uint64_t seed) {
  Uuid uuid;
  uint64_t halves[2] = {mix(seed), mix(~seed)};
  std::memcpy(uuid.bytes, halves, sizeof(uuid.bytes));
  uuid.bytes[0] = 0xf1;
  uuid.bytes[1] = 0xa9;
  return uuid;
}

__attribute__((constructor)) void readAtLoad() { readConfiguration(); }

} // namespace

Uuid PhysicalDevice::migUuid(unsigned instance) const {
  return makeUuid(1000 + 100 * uint64_t(index) + instance);
}

const Configuration &configuration() { return current; }

void readConfiguration() {
  Configuration read{};
  const char *count = variable("FLAGTREE_SIM_DEVICES");
  uint64_t devices =
      count ? number(count, "FLAGTREE_SIM_DEVICES is not a number") : 1;
  if (devices > MaximumDevices)
    refuse("FLAGTREE_SIM_DEVICES is above 64", count);
  read.deviceCount = unsigned(devices);

  const char *version = variable("FLAGTREE_SIM_DRIVER_VERSION");
  read.driverVersion = version
                           ? int(number(version, "FLAGTREE_SIM_DRIVER_VERSION "
                                                 "is not a number like 13000"))
                           : 13000;
  const char *stub = variable("FLAGTREE_SIM_STUB");
  if (stub && std::strcmp(stub, "0") != 0 && std::strcmp(stub, "1") != 0)
    refuse("FLAGTREE_SIM_STUB is neither 0 nor 1", stub);
  read.isStub = stub && *stub == '1';

  const char *capabilityText = variable("FLAGTREE_SIM_CAPABILITY");
  const char *nameText = variable("FLAGTREE_SIM_NAME");
  const char *memoryText = variable("FLAGTREE_SIM_MEMORY");
  const char *minorText = variable("FLAGTREE_SIM_MINORS");
  const char *migText = variable("FLAGTREE_SIM_MIG");
  List capabilities(capabilityText ? capabilityText : "8.0");
  List names(nameText ? nameText : "Simulated PPU");
  List memories(memoryText ? memoryText : "98304");
  List minors(minorText);
  List migs(migText ? migText : "0");
  char entry[64];
  for (unsigned i = 0; i < read.deviceCount; ++i) {
    PhysicalDevice &device = read.devices[i];
    device.index = i;
    capabilities.next(entry);
    char trailing;
    if (std::sscanf(entry, "%d.%d%c", &device.major, &device.minor,
                    &trailing) != 2)
      refuse("FLAGTREE_SIM_CAPABILITY is not like 8.0 or 8.0,9.0", entry);
    device.multiprocessors = multiprocessorsOf(device.major, device.minor);
    names.next(entry);
    std::memcpy(device.name, entry, sizeof(entry));
    memories.next(entry);
    device.memoryBytes =
        number(entry, "FLAGTREE_SIM_MEMORY is not a number of MiB") << 20;
    device.minorNumber =
        minors.next(entry)
            ? unsigned(number(entry, "FLAGTREE_SIM_MINORS is not a number"))
            : i;
    migs.next(entry);
    uint64_t instances =
        number(entry, "FLAGTREE_SIM_MIG is not a number of instances");
    if (instances > MaximumMigInstances)
      refuse("FLAGTREE_SIM_MIG is above 7", entry);
    device.migInstances = unsigned(instances);
    device.uuid = makeUuid(i + 1);
  }
  current = read;
}

void formatUuid(char (&text)[48], const char *prefix, const Uuid &uuid) {
  char *end = text + std::snprintf(text, sizeof(text), "%s-", prefix);
  for (unsigned i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10)
      *end++ = '-';
    end += std::snprintf(end, 3, "%02x", uuid.bytes[i]);
  }
}

unsigned busNumber(unsigned device) { return 0x10 + device; }

void formatBusId(char (&text)[32], unsigned device, int domainDigits) {
  std::snprintf(text, sizeof(text), "%0*x:%02x:00.0", domainDigits, 0u,
                busNumber(device));
}

void refuse(const char *message, const char *value) {
  char text[512];
  int length =
      std::snprintf(text, sizeof(text), "flagtree simulator: %s: \"%s\"\n",
                    message, value ? value : "");
  if (length > 0) {
    size_t bytes =
        size_t(length) < sizeof(text) ? size_t(length) : sizeof(text) - 1;
    if (write(STDERR_FILENO, text, bytes) < 0) {
      // Nothing is left to say it with.
    }
  }
  std::abort();
}

} // namespace flagtree::simulator
