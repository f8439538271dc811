//===- DeviceResolver.h - Right answers in every kind of process -*- C++
//-*-===//
//
// What state the driver is in here, which device is current, what it can do -
// answered without initializing anything, and right in a fresh process, in one
// that is initialized, and in children forked before or after initialization.
//
// Contract
//  - No query calls Init, makes or retains a context, calls a run-time library,
//    or loads the driver library. All of them are noexcept.
//  - liveness() and ordinal() are the hot path: where the driver is mapped they
//    make at most one call into it, and do not allocate, lock or enter the
//    kernel. state(), capability() and presence() may (see DevicePresence.h).
//  - makeUsable() is for a caller that is about to *use* the device. It is the
//    one function that loads the library and calls Init.
//  - A driver that answers an error makes that one answer say so; nothing is
//    remembered of it, so the next query is right again when the driver is.
//  - All of it may be called from any thread, and between fork and exec.
//
//===----------------------------------------------------------------------===//

#ifndef FLAGTREE_DEVICE_DEVICERESOLVER_H
#define FLAGTREE_DEVICE_DEVICERESOLVER_H

#include "flagtree/Device/DevicePresence.h"
#include "flagtree/Device/ForkState.h"
#include "flagtree/Driver/DriverLibrary.h"

#include <string>

namespace flagtree {

enum class ProcessState : int {
  /// No driver library, or no device visible to this process.
  Absent,
  /// There is a driver, and nobody initialized it here or, as far as is known,
  /// in an ancestor.
  Uninitialized,
  /// It is live in this process.
  Initialized,
  /// An ancestor was Initialized when it forked: the driver can never be used
  /// in this process.
  ForkedAfterInit,
};

/// "Absent", "Uninitialized", ...
const char *stateName(ProcessState State) noexcept;

struct StateAnswer {
  ProcessState State = ProcessState::Absent;
  /// What the driver said when asked; NotInitialized if it is not mapped.
  Result DriverAnswer = Result::NotInitialized;
};

/// Where an ordinal comes from.
enum class DeviceSource : int {
  /// The device of the context that is current on this thread.
  Context,
  /// A forked child: the forking thread's device, noted before the fork.
  ForkNote,
  /// FLAGTREE_PPU_DEVICE.
  Variable,
  /// Nothing says otherwise: device 0.
  Default,
};

/// "context", "fork note", ...
const char *sourceName(DeviceSource Source) noexcept;

enum class OrdinalError : int {
  None,
  /// FLAGTREE_PPU_DEVICE is not a device ordinal.
  MalformedVariable,
  /// The driver answered DriverAnswer.
  Driver,
};

struct OrdinalAnswer {
  int Ordinal = 0;
  DeviceSource Source = DeviceSource::Default;
  OrdinalError Error = OrdinalError::None;
  Result DriverAnswer = Result::Success;

  bool ok() const noexcept { return Error == OrdinalError::None; }
};

/// Who a compute capability comes from.
enum class CapabilitySource : int { Driver, ForkNote, ManagementLibrary, None };

/// "driver", "fork note", ...
const char *sourceName(CapabilitySource Source) noexcept;

struct CapabilityAnswer {
  Capability Compute;
  CapabilitySource Source = CapabilitySource::None;
  /// Why it is unknown, for Source None.
  CapabilityUnknown Why = CapabilityUnknown::Known;
  /// What the driver said, where it was asked and failed, and the call that
  /// said so, without its ABI prefix.
  Result DriverAnswer = Result::Success;
  const char *DriverCall = "";
  std::string Detail;
};

enum class Usability : int {
  Usable,
  /// No driver library could be opened; Text is the whole error.
  NoLibrary,
  /// The driver says that no device is visible; Text says why, if it is known.
  NoDevice,
  /// An ancestor initialized the driver and forked.
  Forked,
  /// The driver answered DriverAnswer to Init.
  DriverFailed,
};

struct UseAnswer {
  Usability Kind = Usability::Usable;
  Result DriverAnswer = Result::Success;
  /// For Forked: the process that initialized; 0 if it is not known.
  int Initializer = 0;
  /// For Forked: Init itself proved the fork; there was no note.
  bool ProvenByInit = false;
  std::string Text;
};

class DeviceResolver {
public:
  /// The process's resolver.
  static DeviceResolver &get() noexcept;

  explicit constexpr DeviceResolver(DriverLibrary &Library) noexcept
      : Library(Library) {}

  /// The state as far as the driver and the note tell it. Where neither knows
  /// of an initialization it is Uninitialized, without a look at whether there
  /// is a device (but Absent if the mapped driver says that there is none).
  StateAnswer liveness() noexcept;

  /// liveness(), told from Absent by a look at what is present.
  StateAnswer state() noexcept;

  /// The calling thread's device: that of the current context; else, in a
  /// forked child, the one in the note; else FLAGTREE_PPU_DEVICE; else 0.
  OrdinalAnswer ordinal() noexcept;

  /// A device's compute capability: from the driver where it is live, from the
  /// note in a forked child, else from the management library.
  CapabilityAnswer capability(int Ordinal) noexcept;

  /// The number of visible devices: from the driver, the note, or what is
  /// present. -1 if it is unknown.
  int deviceCount() noexcept;

  /// What is present, whatever the driver's state.
  Presence presence() noexcept;

  /// Takes the note: state, this thread's device, and once also the devices'
  /// number and capabilities. To be called just before a fork.
  void noteBeforeFork() noexcept;

  /// The part of the note that is the same for all threads: the devices' number
  /// and capabilities, once, where the driver is live.
  void noteDevices() noexcept;

  /// Opens and initializes the driver, unless it is live already. Does not
  /// create a context. May block for as long as the driver's Init does.
  UseAnswer makeUsable();

private:
  CapabilityAnswer learnCapability(const EntryPoints &Calls,
                                   int Ordinal) noexcept;
  OrdinalAnswer ordinalWithoutContext(OrdinalAnswer Answer) noexcept;

  DriverLibrary &Library;
};

/// Reads a device ordinal: decimal digits only, with white space around them.
/// False if the text is none.
bool parseOrdinal(const char *Text, int &Ordinal) noexcept;

} // namespace flagtree

#endif // FLAGTREE_DEVICE_DEVICERESOLVER_H
