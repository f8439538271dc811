//===- FakeDriver.h - Control of the drivers that unit tests open -*- C++
//-*-===//
//
// FakeDriver.cpp is a driver library made of a few counters, built once per
// ABI. A test opens it, finds this structure by its symbol `fakeDriver`, and
// orders faults. It answers after a fork as docs/resolver.md says a real driver
// does.
//
//===----------------------------------------------------------------------===//

#ifndef FLAGTREE_UNITTEST_SUPPORT_FAKEDRIVER_H
#define FLAGTREE_UNITTEST_SUPPORT_FAKEDRIVER_H

#include <atomic>

namespace flagtree::testing {

/// The calls a test can count and order a fault for.
enum class FakeCall : int {
  Init,
  DriverGetVersion,
  DeviceGet,
  DeviceGetCount,
  DeviceGetAttribute,
  CtxGetDevice,
  NumCalls
};

struct FakeDriver {
  /// The process that called Init with success.
  std::atomic<int> InitializedBy;
  std::atomic<int> DeviceCount;
  /// Threads' current devices are kept in the library; -1 is no context.
  void (*SetCurrent)(int Ordinal);
  /// How often a call was made.
  std::atomic<int> Calls[static_cast<int>(FakeCall::NumCalls)];
  /// What a call answers instead, on the occurrences First to Last (from 1).
  struct {
    std::atomic<int> Result, First, Last;
  } Faults[static_cast<int>(FakeCall::NumCalls)];
};

} // namespace flagtree::testing

#endif // FLAGTREE_UNITTEST_SUPPORT_FAKEDRIVER_H
