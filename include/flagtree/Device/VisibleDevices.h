//===- VisibleDevices.h - CUDA_VISIBLE_DEVICES, as a driver reads it -*- C++
//-*-===//
//
// The driver filters and renumbers the host's devices by CUDA_VISIBLE_DEVICES
// when it is initialized. This is that reading, without a driver:
//
//  - not set: every device; empty: none.
//  - A list separated by commas. Each entry is read as strtoul would: white
//    space in front is skipped, what follows the digits is ignored ("1gpu" is
//    1). The list ends before the first entry that is no device: a negative
//    number, no number at all, an index beyond the last device.
//  - An entry may be a UUID ("GPU-..." or "PPU-...") or the unambiguous
//    beginning of one, or a MIG device's name ("MIG-<uuid>", or
//    "MIG-GPU-<uuid>/<gpu instance>/<compute instance>"). The first entry's
//    kind is the list's: an entry of another kind ends it.
//  - A device named twice makes the whole list void: no device is visible.
//  - Of MIG devices a driver shows one process only one.
//
// The rules on duplicates and kinds are those that PyTorch's own reading of the
// variable applies (torch.cuda.device_count before initialization); the others
// are in NVIDIA's CUDA C++ Programming Guide.
//
//===----------------------------------------------------------------------===//

#ifndef FLAGTREE_DEVICE_VISIBLEDEVICES_H
#define FLAGTREE_DEVICE_VISIBLEDEVICES_H

#include "flagtree/Device/ForkState.h"

#include <string>
#include <vector>

namespace flagtree {

/// A device of the host, as the management library describes it.
struct PhysicalDevice {
  std::string Uuid;
  Capability Compute;
  /// Whether the device is split, and its parts' names.
  bool MigEnabled = false;
  std::vector<std::string> MigUuids;
};

/// The devices of the host before the filter.
struct HostDevices {
  /// How many; -1 if there are some and their number is unknown.
  int Count = 0;
  /// Their description in PCI order; empty if nobody described them.
  std::vector<PhysicalDevice> Described;
};

enum class VisibleKind : int { All, Indices, Uuids, Migs };

/// The variable's text, taken apart.
struct VisibleList {
  VisibleKind Kind = VisibleKind::All;
  std::vector<int> Indices;
  /// UUIDs or beginnings of them, or MIG names.
  std::vector<std::string> Names;
  /// The entry that ended the list, if one did.
  std::string EndedBy;
  bool HasEnd = false;
};

/// Takes the variable's value apart; null means that it is not set.
VisibleList parseVisibleDevices(const char *Value);

/// A device the process sees.
struct VisibleDevice {
  /// Its index in HostDevices::Described, or -1 if that cannot be told.
  int Physical = -1;
};

enum class HiddenBecause : int {
  /// Something is visible, or there was nothing to hide.
  NotHidden,
  /// The variable is set and empty.
  Empty,
  /// The first entry is no device.
  FirstEntryInvalid,
  /// A device is named twice.
  Duplicate,
};

/// What the filter lets through.
struct VisibleAnswer {
  /// Whether a device is visible.
  bool Any = false;
  /// How many; -1 if some are and their number is unknown.
  int Count = 0;
  /// The visible devices by ordinal; empty if Count is -1.
  std::vector<VisibleDevice> Devices;
  HiddenBecause Hidden = HiddenBecause::NotHidden;
  /// The entry at fault, for FirstEntryInvalid and Duplicate.
  std::string Entry;
};

/// Applies the list to the host's devices. Where UUIDs are listed and the
/// host's devices are not described, the list is believed.
/// \p PciOrder says whether indices count in PCI order
/// (CUDA_DEVICE_ORDER=PCI_BUS_ID); otherwise the driver counts the fastest
/// first, which nobody can foretell on a host of unlike devices.
VisibleAnswer applyVisibleDevices(const VisibleList &List,
                                  const HostDevices &Host, bool PciOrder);

} // namespace flagtree

#endif // FLAGTREE_DEVICE_VISIBLEDEVICES_H
