#include "ProcessState.h"

#include "Configuration.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

namespace flagtree::simulator {
namespace {

struct ProcessPage {
  std::atomic<Phase> phase;
  std::atomic<pid_t> owner; ///< used only where the kernel cannot wipe
  std::atomic<uint64_t> calls[MaximumCalls];
};

ProcessPage *page;
bool kernelWipes;
std::atomic<bool> ancestorInitialized{false};
std::atomic<bool> exitHandlerInstalled{false};

void clear(ProcessPage &cleared) {
  cleared.phase.store(Phase::Fresh);
  for (std::atomic<uint64_t> &count : cleared.calls)
    count.store(0, std::memory_order_relaxed);
}

__attribute__((constructor(101))) void mapPage() {
  void *memory = mmap(nullptr, sizeof(ProcessPage), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    refuse("no memory for the state of the process", "");
  page = static_cast<ProcessPage *>(memory);
  kernelWipes = madvise(memory, sizeof(ProcessPage), MADV_WIPEONFORK) == 0;
  page->owner.store(getpid());
}

ProcessPage &state() {
  if (__builtin_expect(!kernelWipes, 0)) {
    // Kernels before 4.14 and some sandboxes: the process identifier has to do.
    pid_t self = getpid();
    if (page->owner.load() != self) {
      clear(*page);
      page->owner.store(self);
    }
  }
  return *page;
}

// A child forked after initialization keeps answering "not initialized".
void deinitializeAtExit() {
  Phase expected = Phase::Initialized;
  state().phase.compare_exchange_strong(expected, Phase::Deinitialized);
}

} // namespace

Result requireInitialized() {
  switch (state().phase.load(std::memory_order_acquire)) {
  case Phase::Initialized:
    return Success;
  case Phase::Deinitialized:
    return Deinitialized;
  case Phase::Fresh:
  case Phase::Initializing:
    break;
  }
  return NotInitialized;
}

Result beginInitialization(bool &alreadyDone) {
  alreadyDone = false;
  std::atomic<Phase> &phase = state().phase;
  for (;;) {
    Phase seen = phase.load(std::memory_order_acquire);
    switch (seen) {
    case Phase::Initialized:
      alreadyDone = true;
      return Success;
    case Phase::Deinitialized:
      return Deinitialized;
    case Phase::Initializing:
      sched_yield();
      continue;
    case Phase::Fresh:
      break;
    }
    if (ancestorInitialized.load(std::memory_order_acquire))
      return NotInitialized;
    if (phase.compare_exchange_strong(seen, Phase::Initializing))
      return Success;
  }
}

void finishInitialization(bool succeeded) {
  if (!succeeded) {
    state().phase.store(Phase::Fresh);
    return;
  }
  if (!exitHandlerInstalled.exchange(true))
    std::atexit(deinitializeAtExit);
  // In this order: a child forked between the two can never initialize, as if
  // it had been forked a moment later.
  ancestorInitialized.store(true);
  state().phase.store(Phase::Initialized, std::memory_order_release);
}

uint64_t countCall(unsigned index) {
  return state().calls[index].fetch_add(1, std::memory_order_relaxed) + 1;
}

uint64_t callCount(unsigned index) {
  return state().calls[index].load(std::memory_order_relaxed);
}

void resetProcessState() {
  ancestorInitialized.store(false);
  exitHandlerInstalled.store(false);
  clear(state());
}

} // namespace flagtree::simulator
