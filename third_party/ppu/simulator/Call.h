// What surrounds every exported call: counting, faults, the stub library, the
// state of the process, the log. The call itself is a function object that gets
// the Detail to add to.

#ifndef FLAGTREE_SIMULATOR_CALL_H
#define FLAGTREE_SIMULATOR_CALL_H

#include "CallLog.h"
#include "Configuration.h"
#include "Faults.h"
#include "ProcessState.h"

namespace flagtree::simulator {

/// Whether a call answers before initialization.
enum class Needs { Nothing, Initialization };

/// Sleeps, hangs or crashes as ordered.
void sufferFault(const Fault &fault, uint64_t start, const char *name);

/// Takes note of an error that a later call reports; the driver defines it.
void setAsynchronousError(int result);

template <typename Body> Result call(unsigned index, Needs needs, Body &&body) {
  uint64_t start = logEnabled() ? monotonicNanoseconds() : 0;
  uint64_t occurrence = countCall(index);
  const char *name = callNames.names[index];
  Fault fault;
  if (__builtin_expect(findFault(index, occurrence, fault), 0))
    sufferFault(fault, start, name);
  Detail detail;
  Result result;
  if (fault.hasResult)
    result = static_cast<Result>(fault.result);
  else if (configuration().isStub)
    result = StubLibrary;
  else if (needs == Needs::Nothing ||
           (result = requireInitialized()) == Success)
    result = body(detail);
  if (fault.asyncResult && result == Success)
    setAsynchronousError(fault.asyncResult);
  logCall(start, name, result, detail);
  return result;
}

} // namespace flagtree::simulator

#endif // FLAGTREE_SIMULATOR_CALL_H
