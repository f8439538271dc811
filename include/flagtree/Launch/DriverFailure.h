//===- DriverFailure.h - A driver call that did not succeed -----*- C++ -*-===//
//
// The error value of everything in lib/Launch: which call, what it answered.
// It is small and owns nothing, so that a launch can return one without
// allocating; describe() makes the text, and only once something has failed.
//
//===----------------------------------------------------------------------===//

#ifndef FLAGTREE_LAUNCH_DRIVERFAILURE_H
#define FLAGTREE_LAUNCH_DRIVERFAILURE_H

#include "flagtree/Driver/DriverLibrary.h"

#include <optional>
#include <string>

namespace flagtree {

struct DriverFailure {
  /// What the driver answered; Success if it was not asked at all because the
  /// entry point is absent.
  Result Code = Result::Success;
  /// The call, without its ABI prefix: a string literal.
  const char *Call = "";

  bool isMissingEntryPoint() const noexcept { return Code == Result::Success; }
};

/// Nothing, or why a step failed.
using MaybeFailure = std::optional<DriverFailure>;

/// Whether the driver can answer `Code` to a call that did nothing wrong,
/// because work submitted earlier has failed since.
bool mayStemFromEarlierWork(Result Code) noexcept;

/// The driver's own description, name and number of what went wrong and the
/// call that said so; for an absent entry point, the driver version that has
/// it and the one at hand. One line, no prefix, no full stop.
std::string describeFailure(const EntryPoints &Driver,
                            const DriverFailure &Failure);

} // namespace flagtree

#endif // FLAGTREE_LAUNCH_DRIVERFAILURE_H
