// The state of the driver in this process, as facts/driver_in_forks.md has it:
// not initialized, initialized, forked after initialization, torn down.
//
// The contract: state that must not survive a fork lies in pages that the
// kernel wipes in a child (MADV_WIPEONFORK), so that a fork made in C and a raw
// clone are seen just like os.fork(). Only one word survives it: that an
// ancestor was initialized. No call here takes a lock or allocates, and a child
// forked after initialization never reaches code that does.

#ifndef FLAGTREE_SIMULATOR_PROCESSSTATE_H
#define FLAGTREE_SIMULATOR_PROCESSSTATE_H

#include "Abi.h"

namespace flagtree::simulator {

enum class Phase : uint32_t {
  Fresh = 0,
  Initializing = 1,
  Initialized = 2,
  Deinitialized = 3,
};

inline constexpr unsigned MaximumCalls = 256;

/// Success, NotInitialized or Deinitialized: what a call answers that needs an
/// initialized driver.
Result requireInitialized();

/// Begins initialization. Success: the caller initializes and must call
/// finishInitialization(); alreadyDone is set when there is nothing left to do.
/// NotInitialized: this process was forked after initialization.
Result beginInitialization(bool &alreadyDone);
void finishInitialization(bool succeeded);

/// Counts a call and says which occurrence in this process it is, from 1.
uint64_t countCall(unsigned index);
uint64_t callCount(unsigned index);

/// Back to a fresh process; only for flagtree_sim_reset().
void resetProcessState();

} // namespace flagtree::simulator

#endif // FLAGTREE_SIMULATOR_PROCESSSTATE_H
