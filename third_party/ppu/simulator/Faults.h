// Faults on order: FLAGTREE_SIM_FAULTS says which call, at which occurrence in
// its process, does what.
//
//     orders  := order { ";" order }
//     order   := call "@" when "=" action { "+" action }
//     call    := name of a call | beginning of a name "*"
//     when    := "first" | N | N "-" M | N "-" | "every" | "every:" K
//              | "random:" PROBABILITY ":" SEED
//     action  := RESULT | "delay:" MILLISECONDS | "hang" | "abort" | "segv"
//              | "async:" RESULT
//
// Occurrences count from 1 and begin anew in a forked child. A result is
// answered in place of doing the call; a delay comes first, and alone it lets
// the call go on. `async` lets the call succeed and makes the next call that
// waits for the device, and every later one, answer the result, as a faulting
// kernel does. The first order that applies is taken.

#ifndef FLAGTREE_SIMULATOR_FAULTS_H
#define FLAGTREE_SIMULATOR_FAULTS_H

#include <cstdint>

namespace flagtree::simulator {

enum class Ending : uint8_t { None, Hang, Abort, Segv };

struct Fault {
  bool hasResult = false;
  int result = 0;
  int asyncResult = 0; ///< 0: none
  double delayMilliseconds = 0;
  Ending ending = Ending::None;
};

/// The names of this library's calls and the prefixes of names that are another
/// library's; filled in by each library.
struct CallNames {
  const char *const *names;
  unsigned count;
  /// Whether an order for this name is this library's to understand.
  bool (*owns)(const char *name);
};
extern const CallNames callNames;

/// The order for this occurrence of this call, if there is one.
bool findFault(unsigned index, uint64_t occurrence, Fault &fault);

/// Replaces the orders. Malformed orders and calls that do not exist end the
/// process with a message.
void setFaults(const char *orders);

} // namespace flagtree::simulator

#endif // FLAGTREE_SIMULATOR_FAULTS_H
