//===- DeviceResolver.cpp -------------------------------------------------===//

#include "flagtree/Device/DeviceResolver.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace flagtree {

namespace {

/// What the process counts as when the driver's answer does not settle it.
ProcessState knownState(ProcessState Otherwise) noexcept {
  if (forkstate::initializedHere())
    return ProcessState::Initialized;
  if (forkstate::forkedAfterInit())
    return ProcessState::ForkedAfterInit;
  return Otherwise;
}

/// The process's state, by the driver's answer to DeviceGet(0).
ProcessState classify(Result Answer) noexcept {
  switch (Answer) {
  case Result::Success:
    forkstate::noteInitialized();
    return knownState(ProcessState::Initialized);
  case Result::InvalidDevice: // Only a live driver knows its ordinals.
  case Result::Deinitialized: // It was live, and the process is exiting.
    // Not noted: only a success is proof enough to be remembered.
    return forkstate::forkedAfterInit() ? ProcessState::ForkedAfterInit
                                        : ProcessState::Initialized;
  case Result::NotInitialized:
    // A driver that was live here and is not any more: this is a child whose
    // fork nothing noticed (a raw clone on a kernel without wipe-on-fork).
    forkstate::checkProcess();
    return knownState(ProcessState::Uninitialized);
  case Result::NoDevice:
  case Result::StubLibrary:
    return knownState(ProcessState::Absent);
  default:
    return knownState(ProcessState::Uninitialized);
  }
}

} // namespace

const char *stateName(ProcessState State) noexcept {
  switch (State) {
  case ProcessState::Absent:
    return "Absent";
  case ProcessState::Uninitialized:
    return "Uninitialized";
  case ProcessState::Initialized:
    return "Initialized";
  case ProcessState::ForkedAfterInit:
    return "ForkedAfterInit";
  }
  return "?";
}

const char *sourceName(DeviceSource Source) noexcept {
  switch (Source) {
  case DeviceSource::Context:
    return "context";
  case DeviceSource::ForkNote:
    return "fork note";
  case DeviceSource::Variable:
    return "FLAGTREE_PPU_DEVICE";
  case DeviceSource::Default:
    return "default";
  }
  return "?";
}

const char *sourceName(CapabilitySource Source) noexcept {
  switch (Source) {
  case CapabilitySource::Driver:
    return "driver";
  case CapabilitySource::ForkNote:
    return "fork note";
  case CapabilitySource::ManagementLibrary:
    return "management library";
  case CapabilitySource::None:
    return "unknown";
  }
  return "?";
}

bool parseOrdinal(const char *Text, int &Ordinal) noexcept {
  auto SkipSpace = [&Text] {
    while (*Text == ' ' || (*Text >= '\t' && *Text <= '\r'))
      ++Text;
  };
  SkipSpace();
  long long Value = 0;
  const char *First = Text;
  for (; *Text >= '0' && *Text <= '9'; ++Text) {
    Value = Value * 10 + (*Text - '0');
    if (Value > std::numeric_limits<int>::max())
      return false;
  }
  if (Text == First)
    return false;
  SkipSpace();
  if (*Text != '\0')
    return false;
  Ordinal = static_cast<int>(Value);
  return true;
}

DeviceResolver &DeviceResolver::get() noexcept {
  static DeviceResolver Resolver(DriverLibrary::get());
  return Resolver;
}

StateAnswer DeviceResolver::liveness() noexcept {
  const EntryPoints *Calls = Library.mapped();
  if (!Calls)
    return {knownState(ProcessState::Uninitialized), Result::NotInitialized};
  Device First;
  Result Answer = Calls->DeviceGet(&First, 0);
  return {classify(Answer), Answer};
}

StateAnswer DeviceResolver::state() noexcept {
  StateAnswer Answer = liveness();
  if (Answer.State == ProcessState::Uninitialized && !presence().present())
    Answer.State = ProcessState::Absent;
  return Answer;
}

OrdinalAnswer DeviceResolver::ordinal() noexcept {
  OrdinalAnswer Answer;
  const EntryPoints *Calls = Library.mapped();
  if (!Calls)
    return ordinalWithoutContext(Answer);

  Device Current = 0;
  Result Said = Calls->CtxGetDevice(&Current);
  Answer.DriverAnswer = Said;
  switch (Said) {
  case Result::Success:
    forkstate::noteInitialized();
    forkstate::noteOrdinal(Current);
    Answer.Ordinal = Current;
    Answer.Source = DeviceSource::Context;
    return Answer;
  case Result::InvalidContext:
    // Live, without a context on this thread. The first time DeviceGet has to
    // say so as well before it is noted.
    if (!forkstate::initializedHere())
      (void)liveness();
    forkstate::noteOrdinal(forkstate::NoOrdinal);
    return ordinalWithoutContext(Answer);
  case Result::NotInitialized:
    forkstate::checkProcess();
    break;
  case Result::NoDevice:
  case Result::StubLibrary:
    break;
  default:
    Answer.Error = OrdinalError::Driver;
    return Answer;
  }
  // The driver is live here and denies it: its answer is wrong, and a guess at
  // the device would be, too.
  if (forkstate::initializedHere()) {
    Answer.Error = OrdinalError::Driver;
    return Answer;
  }
  return ordinalWithoutContext(Answer);
}

OrdinalAnswer
DeviceResolver::ordinalWithoutContext(OrdinalAnswer Answer) noexcept {
  if (forkstate::forkedAfterInit()) {
    int Inherited = forkstate::inheritedOrdinal();
    if (Inherited != forkstate::NoOrdinal) {
      Answer.Ordinal = Inherited;
      Answer.Source = DeviceSource::ForkNote;
      return Answer;
    }
  }
  const char *Text = forkstate::deviceVariable();
  if (!Text || *Text == '\0')
    return Answer;
  Answer.Source = DeviceSource::Variable;
  if (!parseOrdinal(Text, Answer.Ordinal))
    Answer.Error = OrdinalError::MalformedVariable;
  return Answer;
}

CapabilityAnswer DeviceResolver::capability(int Ordinal) noexcept {
  CapabilityAnswer Answer;
  try {
    auto [State, Said] = liveness();
    // A driver that missed a raw clone may not be used, but what it says of its
    // devices is right.
    bool FromDriver =
        State == ProcessState::Initialized || Said == Result::Success;
    if (FromDriver || State == ProcessState::ForkedAfterInit) {
      const EntryPoints *Calls = Library.mapped();
      if (FromDriver && Calls && !forkstate::capability(Ordinal).known())
        Answer = learnCapability(*Calls, Ordinal);
      Answer.Compute = forkstate::capability(Ordinal);
      if (Answer.Compute.known()) {
        Answer.Source =
            FromDriver ? CapabilitySource::Driver : CapabilitySource::ForkNote;
        return Answer;
      }
      // A live driver that says there is no such device is believed.
      if (Answer.Why == CapabilityUnknown::NoSuchDevice)
        return Answer;
    }
    ManagedCapability Managed = askCapability(Ordinal);
    Answer.Compute = Managed.Compute;
    Answer.Why = Managed.Why;
    Answer.Detail = std::move(Managed.Detail);
    if (Answer.Compute.known())
      Answer.Source = CapabilitySource::ManagementLibrary;
  } catch (...) {
    Answer.Why = CapabilityUnknown::NoManagementLibrary; // Out of memory.
  }
  return Answer;
}

int DeviceResolver::deviceCount() noexcept {
  auto [State, Said] = liveness();
  if (State == ProcessState::Initialized || Said == Result::Success) {
    const EntryPoints *Calls = Library.mapped();
    int Count = 0;
    if (Calls && forkstate::deviceCount() < 0 &&
        Calls->DeviceGetCount(&Count) == Result::Success)
      forkstate::noteDeviceCount(Count);
  }
  if (State == ProcessState::Initialized ||
      State == ProcessState::ForkedAfterInit)
    if (int Count = forkstate::deviceCount(); Count >= 0)
      return Count;
  Presence Present = presence();
  return Present.present() ? Present.Visible.Count : 0;
}

Presence DeviceResolver::presence() noexcept {
  try {
    return findDevices();
  } catch (...) {
    return {}; // Out of memory: claims nothing but that it is not absent.
  }
}

CapabilityAnswer DeviceResolver::learnCapability(const EntryPoints &Calls,
                                                 int Ordinal) noexcept {
  CapabilityAnswer Answer;
  Device Handle;
  Answer.DriverCall = "DeviceGet";
  Answer.DriverAnswer = Calls.DeviceGet(&Handle, Ordinal);
  if (Answer.DriverAnswer == Result::InvalidDevice)
    Answer.Why = CapabilityUnknown::NoSuchDevice;
  if (Answer.DriverAnswer != Result::Success)
    return Answer;
  Answer.DriverCall = "DeviceGetAttribute";
  Capability Compute;
  const std::pair<DeviceAttribute, int *> Wanted[] = {
      {DeviceAttribute::ComputeCapabilityMajor, &Compute.Major},
      {DeviceAttribute::ComputeCapabilityMinor, &Compute.Minor},
  };
  for (const auto &[Attribute, Value] : Wanted) {
    Answer.DriverAnswer = Calls.DeviceGetAttribute(Value, Attribute, Handle);
    if (Answer.DriverAnswer != Result::Success)
      return Answer;
  }
  forkstate::noteCapability(Ordinal, Compute);
  return Answer;
}

void DeviceResolver::noteDevices() noexcept {
  const EntryPoints *Known = Library.mapped();
  if (!Known || !forkstate::initializedHere())
    return;
  const EntryPoints &Calls = *Known;
  int Count = forkstate::deviceCount();
  if (Count < 0) {
    if (Calls.DeviceGetCount(&Count) != Result::Success)
      return;
    forkstate::noteDeviceCount(Count);
  }
  // They are learnt in order, so the last one known means that all are.
  int Kept = std::min(Count, MaxKnownDevices);
  if (Kept == 0 || forkstate::capability(Kept - 1).known())
    return;
  for (int Ordinal = 0; Ordinal < Kept; ++Ordinal)
    if (!forkstate::capability(Ordinal).known() &&
        learnCapability(Calls, Ordinal).DriverAnswer != Result::Success)
      return;
}

void DeviceResolver::noteBeforeFork() noexcept {
  // One device leaves no choice to a thread that was seen on it.
  if (forkstate::isNoteComplete())
    return;
  const EntryPoints *Calls = Library.mapped();
  // ordinal() notes the state as well as the thread's device.
  OrdinalAnswer Answer = ordinal();
  if (!Calls || (Answer.ok() && Answer.DriverAnswer == Result::NotInitialized))
    // The driver is not live, so this thread has no device. Another thread may
    // initialize it before the fork is made, and the child must not take that
    // thread's device for this one's.
    forkstate::noteOrdinal(forkstate::NoOrdinal);
  else if (!forkstate::initializedHere())
    (void)liveness();
  noteDevices();
}

UseAnswer DeviceResolver::makeUsable() {
  UseAnswer Answer;
  if (forkstate::initializedHere() && Library.mapped())
    return Answer;

  const EntryPoints *Calls = nullptr;
  ProcessState State = liveness().State;
  // What Init itself said is asked again, like everything else that a driver
  // answers; in a forked child it says it for ever.
  const bool OnlyInitSaysForked = forkstate::forkProvenByInit();
  // Only where it may still turn out well is the loader entered: in a forked
  // child another thread's hold on it would never end.
  if (State != ProcessState::ForkedAfterInit || OnlyInitSaysForked) {
    auto Opened = Library.load();
    if (!Opened) {
      Answer.Kind = Usability::NoLibrary;
      Answer.Text = Opened.error().describe();
      return Answer;
    }
    Calls = *Opened;
    Device First;
    State = classify(Calls->DeviceGet(&First, 0));
  }
  // Only a success was noted. What else counts as live may be a wrong answer of
  // a driver that is not: Init settles that, and does nothing where it is.
  if (forkstate::initializedHere())
    return Answer;
  if (State == ProcessState::ForkedAfterInit && !OnlyInitSaysForked) {
    Answer.Kind = Usability::Forked;
    Answer.Initializer = forkstate::initializer();
    return Answer;
  }

  Answer.DriverAnswer = Calls->Init(0);
  switch (Answer.DriverAnswer) {
  case Result::Success:
    forkstate::noteInitialized();
    return Answer;
  case Result::NotInitialized:
    // Only a child of an initialized process gets this from Init.
    forkstate::noteForkProvenByInit();
    Answer.Kind = Usability::Forked;
    Answer.Initializer = forkstate::initializer();
    Answer.ProvenByInit = true;
    return Answer;
  case Result::NoDevice:
    Answer.Kind = Usability::NoDevice;
    Answer.Text = presence().Explanation;
    return Answer;
  default:
    Answer.Kind = Usability::DriverFailed;
    Answer.Text = Calls->Path;
    return Answer;
  }
}

} // namespace flagtree
