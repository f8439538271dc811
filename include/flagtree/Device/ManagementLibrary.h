//===- ManagementLibrary.h - The host's devices without a driver -*- C++
//-*-===//
//
// NVML (libnvidia-ml.so.1) and the PPU's HGML (libhgml.so) describe the host's
// devices without initializing the driver. One typed table serves both.
//
// Contract
//  - Initializing the management library does not initialize the driver; it
//    takes some 13 ms on a host with a device (measured, NVML 580), so device
//    nodes are asked first.
//  - What devices a host has does not change under a running driver: the first
//    complete answer is kept for the life of the process and inherited by
//    forked children. A failure is not kept, unless it is that no answer came
//    in time: then this process does not wait for one again.
//  - No lock of ours is taken.
//  - A forked child never calls a management library that an ancestor had
//    mapped. A thread of the ancestor - ours, torch's, a monitor's - may have
//    been inside it at the fork, and then its locks are held for ever: NVML 580
//    spins in nvmlInit_v2. A program that the child starts is asked instead
//    (ManagementProcess.h).
//
//===----------------------------------------------------------------------===//

#ifndef FLAGTREE_DEVICE_MANAGEMENTLIBRARY_H
#define FLAGTREE_DEVICE_MANAGEMENTLIBRARY_H

#include "flagtree/Device/VisibleDevices.h"

#include <chrono>
#include <string>
#include <vector>

namespace flagtree {

/// How long the program that a forked child asks may take. NVML initializes in
/// some 13 ms where a daemon or a process keeps the device awake, and in
/// seconds per device where none does.
inline constexpr std::chrono::milliseconds ManagementProgramLimit{60000};

/// What a management library said.
struct Inventory {
  /// The library that was asked; empty if there is none.
  std::string Library;
  std::vector<PhysicalDevice> Devices;
  /// Why there is no answer; empty if there is one.
  std::string Failure;
  /// Whether that is because none came in time.
  bool TimedOut = false;
};

/// Asks a management library for the host's devices. May throw std::bad_alloc.
Inventory askManagement();

/// Names the program that is asked in a forked child which may not call the
/// library itself: flagtree-device, by its path. Called once, at import;
/// without it such a child gets a Failure that says so.
void setManagementProgram(
    std::string Path, std::chrono::milliseconds Limit = ManagementProgramLimit);

/// The answer already at hand; null if nobody has asked with success.
const Inventory *knownInventory() noexcept;

} // namespace flagtree

#endif // FLAGTREE_DEVICE_MANAGEMENTLIBRARY_H
