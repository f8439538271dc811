//===- ForkState.h - What a process knows of its ancestors ------*- C++ -*-===//
//
// In a child forked after initialization the driver answers exactly as in a
// fresh process, so only the parent can tell the two apart. ForkState holds
// what the parent knew - whether the driver was live, in which process, the
// forking thread's device, the devices' compute capabilities - in storage that
// fork copies, and notices in the child that it *is* a child.
//
// Contract
//  - Nothing here calls the driver. DeviceResolver reports what it learned with
//    the note* functions; they are plain stores, safe from any thread.
//  - How a child is noticed: a word on a page that the kernel wipes for a child
//    (MADV_WIPEONFORK), which also catches a raw clone, and a pthread_atfork
//    child handler, which catches every fork made through the C library where
//    the kernel has no such page. A vfork child shares its parent's memory, has
//    not changed anything, and goes on to exec.
//  - What holds across fork: the notes of the thread that forked. Other
//  threads'
//    notes vanish with the threads. A child of a ForkedAfterInit process is
//    ForkedAfterInit with the same ordinal and initializer. The child handler
//    only stores to memory, so it is async-signal-safe.
//  - Reading is a load of that word and of a flag: no lock, no allocation, no
//    system call.
//
//===----------------------------------------------------------------------===//

#ifndef FLAGTREE_DEVICE_FORKSTATE_H
#define FLAGTREE_DEVICE_FORKSTATE_H

#include <atomic>
#include <cstdint>

namespace flagtree {

/// Devices beyond these are counted, but no capability is kept for them.
inline constexpr int MaxKnownDevices = 128;

/// A compute capability; Major 0 means unknown.
struct Capability {
  int Major = 0;
  int Minor = 0;

  bool known() const noexcept { return Major > 0; }
  /// As Triton writes it: 8.0 is 80.
  int asNumber() const noexcept { return Major * 10 + Minor; }
  bool operator==(const Capability &Other) const noexcept {
    return Major == Other.Major && Minor == Other.Minor;
  }
};

namespace forkstate {

/// No ordinal was noted, or the thread had none of its own.
inline constexpr int NoOrdinal = -1;

namespace detail {
extern std::atomic<std::uint32_t> *Alive;
void enterChild() noexcept;
} // namespace detail

/// Maps the page and registers the handler. Idempotent; to be called before the
/// process forks for the first time, e.g. when the module is imported.
void install() noexcept;

/// Makes the transition if this process is a child that has not made it yet.
/// Every query below does it by itself.
inline void refresh() noexcept {
  if (__builtin_expect(detail::Alive->load(std::memory_order_acquire) != 1, 0))
    detail::enterChild();
}

/// How many times this process was found to be a child, over all its ancestors.
/// A value kept from before a fork differs from the child's.
std::uint32_t generation() noexcept;

/// Whether this process was forked and has not started a program since, even if
/// that was before this tree was imported. Reads /proc; false where it cannot.
bool forkedWithoutExec() noexcept;

/// Whether the driver is known to have been initialized in this very process.
bool initializedHere() noexcept;

/// Whether an ancestor was initialized when it forked.
bool forkedAfterInit() noexcept;

/// Whether that is only known because Init answered NotInitialized, here or in
/// an ancestor.
bool forkProvenByInit() noexcept;

/// The process that initialized: this one, or the ancestor. 0 if unknown.
int initializer() noexcept;

/// In a ForkedAfterInit process: the current ordinal of the thread that forked.
int inheritedOrdinal() noexcept;

/// Whether all that a child of this thread may ask is noted already, and cannot
/// change: the driver is live here, there is one device, its capability is
/// known, and this thread was seen on it. Right after a fork each page is slow
/// to reach at first, so this reads two, and leaves the child's transition to
/// the queries: a child's child inherits the right note either way.
bool isNoteComplete() noexcept;

/// How many devices the driver reported, here or in an ancestor; -1 if unknown.
int deviceCount() noexcept;

/// The capability the driver reported, here or in an ancestor.
Capability capability(int Ordinal) noexcept;

/// The driver was found to be live in this process. Not believed in the child
/// that a raw clone made of an initialized process: no fork handler ran there,
/// so the driver answers as if it were live, and is not.
void noteInitialized() noexcept;

/// An ancestor must have been initialized: a witness other than our own note
/// says so (torch's bad-fork flag).
void noteForkedAfterInit() noexcept;

/// The same where the witness is Init, which answered NotInitialized.
void noteForkProvenByInit() noexcept;

/// The calling thread's current ordinal; NoOrdinal if no context is current.
void noteOrdinal(int Ordinal) noexcept;

void noteDeviceCount(int Count) noexcept;
void noteCapability(int Ordinal, Capability Value) noexcept;

/// Compares process ids, and makes the child's transition if the driver was
/// initialized under another one. A system call: only for a driver whose answer
/// contradicts the note.
void checkProcess() noexcept;

/// Makes this process read FLAGTREE_PPU_DEVICE as Value (null: not set) until
/// released, whatever the environment says; for the moment in which the
/// variable is set for a child that is being spawned. Not inherited by forked
/// children. Answers false if another hold is in effect.
bool holdDeviceVariable(const char *Value) noexcept;
void releaseDeviceVariable() noexcept;

/// The value of FLAGTREE_PPU_DEVICE as this process sees it; null if not set.
const char *deviceVariable() noexcept;

} // namespace forkstate
} // namespace flagtree

#endif // FLAGTREE_DEVICE_FORKSTATE_H
