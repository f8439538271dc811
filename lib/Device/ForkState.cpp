//===- ForkState.cpp ------------------------------------------------------===//

#include "flagtree/Device/ForkState.h"

#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

namespace flagtree::forkstate {

namespace {

/// What a thread noted about itself.
enum : int { NeverNoted = -2 };

/// The word's values: wiped (a new child), settled, in transition.
enum : std::uint32_t { Wiped = 0, Settled = 1, Settling = 2 };

/// Everything fork copies for us. All of it is written with plain atomic
/// stores, so a fork between two of them leaves each value whole; enterChild
/// tolerates any order of them.
struct Notes {
  std::atomic<std::uint32_t> Generation{0};
  std::atomic<bool> InitializedHere{false};
  std::atomic<bool> ForkedAfterInit{false};
  std::atomic<bool> ClonedAfterInit{false};
  std::atomic<bool> ForkProvenByInit{false};
  std::atomic<int> Initializer{0};
  std::atomic<int> LastOrdinal{NeverNoted};
  std::atomic<int> InheritedOrdinal{NoOrdinal};
  std::atomic<int> DeviceCount{-1};
  /// Major << 8 | Minor; 0 is unknown.
  std::atomic<int> Capabilities[MaxKnownDevices]{};
  std::atomic<bool> VariableHeld{false};
  std::atomic<bool> VariableIsSet{false};
  char Variable[256]{};
};

Notes Note;

// Per thread, and so the child's copy is that of the thread that forked. With
// this model it lies in the block every thread has anyway: reading it never
// allocates.
#if defined(__GNUC__)
__attribute__((tls_model("initial-exec")))
#endif
thread_local int ThreadOrdinal = NeverNoted;

std::atomic<std::uint32_t> StaticWord{Settled};
std::atomic<bool> Installed{false};

void settle() noexcept {
  if (Note.InitializedHere.load(std::memory_order_relaxed)) {
    // The order matters only if this child's other threads already read.
    int Mine = ThreadOrdinal;
    if (Mine == NeverNoted)
      Mine = Note.LastOrdinal.load(std::memory_order_relaxed);
    Note.InheritedOrdinal.store(Mine >= 0 ? Mine : NoOrdinal,
                                std::memory_order_relaxed);
    Note.ForkedAfterInit.store(true, std::memory_order_relaxed);
    Note.InitializedHere.store(false, std::memory_order_relaxed);
  }
  ThreadOrdinal = NeverNoted;
  Note.LastOrdinal.store(NeverNoted, std::memory_order_relaxed);
  Note.VariableHeld.store(false, std::memory_order_relaxed);
  Note.Generation.fetch_add(1, std::memory_order_relaxed);
}

void onFork() {
  // Only the forking thread lives in this child, so nobody competes.
  settle();
  detail::Alive->store(Settled, std::memory_order_release);
}

} // namespace

std::atomic<std::uint32_t> *detail::Alive = &StaticWord;

void detail::enterChild() noexcept {
  // A raw clone's child comes here on its first query, by when it may have
  // threads: one makes the transition, the others wait these few stores out.
  std::uint32_t Seen = Wiped;
  if (Alive->compare_exchange_strong(Seen, Settling,
                                     std::memory_order_acq_rel)) {
    // The fork handlers did not run, the driver's neither.
    if (Note.InitializedHere.load(std::memory_order_relaxed))
      Note.ClonedAfterInit.store(true, std::memory_order_relaxed);
    settle();
    Alive->store(Settled, std::memory_order_release);
    return;
  }
  while (Alive->load(std::memory_order_acquire) == Settling)
    sched_yield();
}

void install() noexcept {
  if (Installed.exchange(true, std::memory_order_acq_rel))
    return;
  long PageSize = sysconf(_SC_PAGESIZE);
  void *Page = mmap(nullptr, static_cast<std::size_t>(PageSize),
                    PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (Page != MAP_FAILED) {
    if (madvise(Page, static_cast<std::size_t>(PageSize), MADV_WIPEONFORK) ==
        0) {
      detail::Alive = new (Page) std::atomic<std::uint32_t>(Settled);
    } else {
      // A kernel older than 4.14: fork is still noticed by the handler.
      munmap(Page, static_cast<std::size_t>(PageSize));
    }
  }
  pthread_atfork(nullptr, nullptr, onFork);
}

std::uint32_t generation() noexcept {
  refresh();
  return Note.Generation.load(std::memory_order_relaxed);
}

bool forkedWithoutExec() noexcept {
  // The seventh word after the name is the process's flags; this one
  // (PF_FORKNOEXEC) is set by fork and cleared by exec.
  constexpr unsigned long Flag = 0x40;
  char Text[512];
  const int File = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  if (File < 0)
    return false;
  const ssize_t Size = read(File, Text, sizeof(Text) - 1);
  close(File);
  if (Size <= 0)
    return false;
  Text[Size] = '\0';
  // The name may hold anything.
  const char *Word = std::strrchr(Text, ')');
  for (int I = 0; Word && I < 7; ++I)
    Word = std::strchr(Word + 1, ' ');
  return Word && (std::strtoul(Word, nullptr, 10) & Flag) != 0;
}

bool initializedHere() noexcept {
  refresh();
  return Note.InitializedHere.load(std::memory_order_relaxed);
}

bool forkedAfterInit() noexcept {
  refresh();
  return Note.ForkedAfterInit.load(std::memory_order_relaxed);
}

bool forkProvenByInit() noexcept {
  refresh();
  return Note.ForkProvenByInit.load(std::memory_order_relaxed);
}

int initializer() noexcept {
  refresh();
  return Note.Initializer.load(std::memory_order_relaxed);
}

int inheritedOrdinal() noexcept {
  refresh();
  return Note.InheritedOrdinal.load(std::memory_order_relaxed);
}

bool isNoteComplete() noexcept {
  return Note.InitializedHere.load(std::memory_order_relaxed) &&
         Note.DeviceCount.load(std::memory_order_relaxed) == 1 &&
         Note.Capabilities[0].load(std::memory_order_relaxed) != 0 &&
         ThreadOrdinal == 0;
}

int deviceCount() noexcept {
  return Note.DeviceCount.load(std::memory_order_relaxed);
}

Capability capability(int Ordinal) noexcept {
  if (Ordinal < 0 || Ordinal >= MaxKnownDevices)
    return {};
  int Packed = Note.Capabilities[Ordinal].load(std::memory_order_relaxed);
  return {Packed >> 8, Packed & 0xff};
}

void noteInitialized() noexcept {
  refresh();
  // In a raw clone's child the driver takes itself to be live, as it was not
  // told of the fork.
  if (Note.InitializedHere.load(std::memory_order_relaxed) ||
      Note.ClonedAfterInit.load(std::memory_order_relaxed))
    return;
  Note.Initializer.store(getpid(), std::memory_order_relaxed);
  // Where the driver is live nothing an ancestor did matters any more.
  Note.ForkedAfterInit.store(false, std::memory_order_relaxed);
  Note.ForkProvenByInit.store(false, std::memory_order_relaxed);
  Note.InitializedHere.store(true, std::memory_order_release);
}

void noteForkedAfterInit() noexcept {
  refresh();
  Note.ForkedAfterInit.store(true, std::memory_order_relaxed);
}

void noteForkProvenByInit() noexcept {
  noteForkedAfterInit();
  Note.ForkProvenByInit.store(true, std::memory_order_relaxed);
}

void noteOrdinal(int Ordinal) noexcept {
  refresh();
  // Only what changes is written: after a fork each first write to a page makes
  // the kernel copy it.
  if (ThreadOrdinal != Ordinal)
    ThreadOrdinal = Ordinal;
  if (Note.LastOrdinal.load(std::memory_order_relaxed) != Ordinal)
    Note.LastOrdinal.store(Ordinal, std::memory_order_relaxed);
}

void noteDeviceCount(int Count) noexcept {
  Note.DeviceCount.store(Count, std::memory_order_relaxed);
}

void noteCapability(int Ordinal, Capability Value) noexcept {
  if (Ordinal >= 0 && Ordinal < MaxKnownDevices)
    Note.Capabilities[Ordinal].store(Value.Major << 8 | Value.Minor,
                                     std::memory_order_relaxed);
}

void checkProcess() noexcept {
  if (initializedHere() && getpid() != initializer())
    settle();
}

bool holdDeviceVariable(const char *Value) noexcept {
  refresh();
  if (Note.VariableHeld.load(std::memory_order_acquire) ||
      (Value && std::strlen(Value) >= sizeof(Note.Variable)))
    return false;
  Note.VariableIsSet.store(Value != nullptr, std::memory_order_relaxed);
  if (Value)
    std::strcpy(Note.Variable, Value);
  Note.VariableHeld.store(true, std::memory_order_release);
  return true;
}

void releaseDeviceVariable() noexcept {
  Note.VariableHeld.store(false, std::memory_order_release);
}

const char *deviceVariable() noexcept {
  refresh();
  if (Note.VariableHeld.load(std::memory_order_acquire))
    return Note.VariableIsSet.load(std::memory_order_relaxed) ? Note.Variable
                                                              : nullptr;
  return std::getenv("FLAGTREE_PPU_DEVICE");
}

} // namespace flagtree::forkstate
