//===- DevicePresence.h - Which devices there are, without a driver -*- C++
//-*-===//
//
// Answers whether a device is visible to this process, how many, and what their
// compute capability is, without initializing or even mapping the driver: from
// the device nodes, then from the management library, filtered by
// CUDA_VISIBLE_DEVICES (see VisibleDevices.h).
//
// Contract
//  - Nothing is kept but the management library's description of the host:
//  nodes
//    and variables are read whenever a question is asked, so an answer follows
//    a change of the environment made before the driver is initialized, as the
//    driver itself does.
//  - Not for the hot path: it lists a directory, and may load the management
//    library. It takes no lock and may be called in a forked child.
//  - FLAGTREE_DEVICE_ROOT (default "/") is the root under which dev/ is looked
//    at. It exists for tests.
//
//===----------------------------------------------------------------------===//

#ifndef FLAGTREE_DEVICE_DEVICEPRESENCE_H
#define FLAGTREE_DEVICE_DEVICEPRESENCE_H

#include "flagtree/Device/VisibleDevices.h"

#include <string>

namespace flagtree {

/// Device nodes of the host.
struct DeviceNodes {
  /// /dev/alixpu_ppu<N>
  int Ppu = 0;
  /// /dev/nvidia<N>
  int Nvidia = 0;
  /// /dev/dxg, the paravirtual device of WSL: at least one device.
  bool Dxg = false;

  bool any() const noexcept { return Ppu > 0 || Nvidia > 0 || Dxg; }
};

/// Lists the device nodes under FLAGTREE_DEVICE_ROOT.
DeviceNodes listDeviceNodes();

enum class PresenceSource : int { None, DeviceNodes, ManagementLibrary };

enum class AbsentBecause : int {
  /// A device is visible.
  NotAbsent,
  NoDriverLibrary,
  /// The driver library is a stub for linking.
  StubLibrary,
  /// Neither a device node nor a device known to the management library.
  NoDevice,
  /// CUDA_VISIBLE_DEVICES hides every device.
  Hidden,
};

/// What is known of the visible devices without a driver.
struct Presence {
  VisibleAnswer Visible;
  PresenceSource Source = PresenceSource::None;
  AbsentBecause Absent = AbsentBecause::NotAbsent;
  /// Where the driver library lies; empty if it was not found.
  std::string DriverPath;
  /// For an absent device: the whole story, in a sentence or two.
  std::string Explanation;

  bool present() const noexcept { return Absent == AbsentBecause::NotAbsent; }
};

/// Looks for devices and for the driver library. May throw std::bad_alloc.
Presence findDevices();

enum class CapabilityUnknown : int {
  Known,
  /// No management library answered.
  NoManagementLibrary,
  /// There is no such ordinal.
  NoSuchDevice,
  /// The host's devices differ and the driver's order cannot be told before it
  /// is initialized.
  AmbiguousOrder,
};

/// A visible device's compute capability, from the management library.
struct ManagedCapability {
  Capability Compute;
  CapabilityUnknown Why = CapabilityUnknown::Known;
  /// The management library's own words, if it failed.
  std::string Detail;
};

ManagedCapability askCapability(int Ordinal);

} // namespace flagtree

#endif // FLAGTREE_DEVICE_DEVICEPRESENCE_H
