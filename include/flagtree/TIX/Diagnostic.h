//===- Diagnostic.h - What the TIX writer has to say about its input ------===//
//
// Contract: plain values. A diagnostic names the construct, says why it cannot
// be written, and where it came from: always the line of the IR, and the line
// of the kernel's source wherever the IR carries debug information.
//
//===----------------------------------------------------------------------===//

#ifndef FLAGTREE_TIX_DIAGNOSTIC_H
#define FLAGTREE_TIX_DIAGNOSTIC_H

#include <string>
#include <vector>

namespace flagtree::tix {

enum class DiagnosticKind {
  /// Well-formed, but has no publicly known encoding on the PPU.
  Refused,
  /// Not what Triton's CUDA lowering writes, so its meaning is unknown.
  Malformed,
};

struct SourceLocation {
  std::string file;
  unsigned line = 0;
  unsigned column = 0;

  /// `file:line:column`, without the column where it is 0.
  std::string str() const;
};

struct Diagnostic {
  DiagnosticKind kind = DiagnosticKind::Refused;
  /// The construct, spelled as in the input: an opcode, an intrinsic, ...
  std::string name;
  std::string reason;
  /// 1-based line of the IR text.
  unsigned irLine = 0;
  /// Where the source asked for it, the innermost call first and the kernel's
  /// own line last. Empty if the IR does not say.
  std::vector<SourceLocation> source;

  /// One line for people: the kernel's own line, the construct and the reason.
  std::string message() const;
};

} // namespace flagtree::tix

#endif // FLAGTREE_TIX_DIAGNOSTIC_H
