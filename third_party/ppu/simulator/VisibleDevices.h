// Which devices a process sees, in which order: CUDA_VISIBLE_DEVICES and
// CUDA_DEVICE_ORDER as a driver reads them when it is initialized.
//
// The rules (docs/simulator.md gives them with examples): entries are all
// indices or all of one kind of identity; an index is read like strtol reads
// it, so "1x" is 1; the first entry that is not valid ends the list; an entry
// that names a device a second time empties the list; an identity may be
// shortened to any prefix that names one device. Once a MIG instance is among
// the devices the process sees, it sees only that one.

#ifndef FLAGTREE_SIMULATOR_VISIBLEDEVICES_H
#define FLAGTREE_SIMULATOR_VISIBLEDEVICES_H

#include "Configuration.h"

namespace flagtree::simulator {

struct VisibleDevice {
  const PhysicalDevice *physical;
  int migInstance; ///< -1: the whole device
};

struct VisibleDevices {
  unsigned count;
  VisibleDevice devices[MaximumDevices];
};

/// Reads both variables. No allocation: it runs in children forked from
/// processes with many threads.
void readVisibleDevices(const char *visible, const char *order,
                        const Configuration &machine, VisibleDevices &result);

} // namespace flagtree::simulator

#endif // FLAGTREE_SIMULATOR_VISIBLEDEVICES_H
