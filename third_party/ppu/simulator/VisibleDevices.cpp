#include "VisibleDevices.h"

#include <cctype>
#include <cstdlib>
#include <cstring>

namespace flagtree::simulator {
namespace {

// The default order puts the faster devices first; equals keep the order of the
// bus. Newer capabilities count as faster, then more multiprocessors.
bool faster(const PhysicalDevice &a, const PhysicalDevice &b) {
  int capabilityA = a.major * 10 + a.minor,
      capabilityB = b.major * 10 + b.minor;
  if (capabilityA != capabilityB)
    return capabilityA > capabilityB;
  return a.multiprocessors > b.multiprocessors;
}

VisibleDevice asSeen(const PhysicalDevice &device) {
  return {&device, device.migInstances ? 0 : -1};
}

bool sameDevice(const VisibleDevice &a, const VisibleDevice &b) {
  return a.physical == b.physical && a.migInstance == b.migInstance;
}

// One entry of the list, without the blanks before it.
struct Entry {
  const char *text;
  size_t length;

  bool startsWith(const char *prefix) const {
    size_t size = std::strlen(prefix);
    return length >= size && std::memcmp(text, prefix, size) == 0;
  }
  bool isPrefixOf(const char *name) const {
    return length <= std::strlen(name) && std::memcmp(text, name, length) == 0;
  }
};

// A device by its index in the process's order.
bool byIndex(const Entry &entry, const VisibleDevices &all,
             VisibleDevice &found) {
  char *end = nullptr;
  long index = std::strtol(entry.text, &end, 10);
  if (end == entry.text || end > entry.text + entry.length || index < 0 ||
      index >= long(all.count))
    return false;
  found = all.devices[index];
  return true;
}

bool byUuid(const Entry &entry, const VisibleDevices &all,
            VisibleDevice &found) {
  bool any = false;
  for (unsigned i = 0; i < all.count; ++i) {
    char name[48];
    formatUuid(name, "GPU", all.devices[i].physical->uuid);
    if (!entry.isPrefixOf(name))
      continue;
    if (any)
      return false; // more than one device has this prefix
    found = all.devices[i];
    any = true;
  }
  return any;
}

// A MIG instance, by its own identity or as MIG-GPU-<uuid>/<instance>/0.
bool byMig(const Entry &entry, const VisibleDevices &all,
           VisibleDevice &found) {
  bool any = false;
  for (unsigned i = 0; i < all.count; ++i) {
    const PhysicalDevice &device = *all.devices[i].physical;
    for (unsigned instance = 0; instance < device.migInstances; ++instance) {
      char own[48], gpu[48];
      formatUuid(own, "MIG", device.migUuid(instance));
      formatUuid(gpu, "MIG-GPU", device.uuid);
      char byDevice[64];
      std::strcpy(byDevice, gpu);
      char suffix[] = {'/', char('0' + instance), '/', '0', 0};
      std::strcat(byDevice, suffix);
      bool matchesDevice =
          entry.length == std::strlen(byDevice) && entry.isPrefixOf(byDevice);
      if (!entry.isPrefixOf(own) && !matchesDevice)
        continue;
      if (any)
        return false;
      found = {&device, int(instance)};
      any = true;
    }
  }
  return any;
}

void keepOneMigInstance(VisibleDevices &result) {
  for (unsigned i = 0; i < result.count; ++i) {
    if (result.devices[i].migInstance >= 0) {
      result.devices[0] = result.devices[i];
      result.count = 1;
      return;
    }
  }
}

} // namespace

void readVisibleDevices(const char *visible, const char *order,
                        const Configuration &machine, VisibleDevices &result) {
  VisibleDevices all{};
  bool byBus = order && std::strcmp(order, "PCI_BUS_ID") == 0;
  for (unsigned i = 0; i < machine.deviceCount; ++i) {
    unsigned at = all.count++;
    if (!byBus)
      for (;
           at > 0 && faster(machine.devices[i], *all.devices[at - 1].physical);
           --at)
        all.devices[at] = all.devices[at - 1];
    all.devices[at] = asSeen(machine.devices[i]);
  }
  result.count = 0;
  if (!visible) {
    result = all;
    keepOneMigInstance(result);
    return;
  }

  const char *kind = nullptr; // that of the first entry
  for (const char *rest = visible; rest;) {
    while (std::isspace(static_cast<unsigned char>(*rest)))
      ++rest;
    const char *comma = std::strchr(rest, ',');
    Entry entry{rest, comma ? size_t(comma - rest) : std::strlen(rest)};
    while (entry.length && std::isspace(static_cast<unsigned char>(
                               entry.text[entry.length - 1])))
      --entry.length;
    rest = comma ? comma + 1 : nullptr;

    const char *thisKind = entry.startsWith("GPU-")   ? "GPU"
                           : entry.startsWith("MIG-") ? "MIG"
                                                      : "index";
    if (!kind)
      kind = thisKind;
    VisibleDevice found{};
    bool valid =
        kind == thisKind && (*kind == 'G'   ? byUuid(entry, all, found)
                             : *kind == 'M' ? byMig(entry, all, found)
                                            : byIndex(entry, all, found));
    if (!valid)
      break;
    for (unsigned i = 0; i < result.count; ++i) {
      if (sameDevice(result.devices[i], found)) {
        result.count = 0;
        return;
      }
    }
    result.devices[result.count++] = found;
  }
  keepOneMigInstance(result);
}

} // namespace flagtree::simulator
