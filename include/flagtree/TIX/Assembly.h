//===- Assembly.h - Opcodes inside one inline-assembly template -----------===//
//
// Contract: works on the template as it stands between the quotes of an LLVM IR
// string, escapes and all (`\0A`, `\22`, `$$`, `${0:x}`), and changes nothing
// but opcodes: every other byte is copied. Time and space are linear in the
// template. Errors are returned, never thrown.
//
//===----------------------------------------------------------------------===//

#ifndef FLAGTREE_TIX_ASSEMBLY_H
#define FLAGTREE_TIX_ASSEMBLY_H

#include "flagtree/TIX/Diagnostic.h"

#include <string>
#include <string_view>
#include <vector>

namespace flagtree::tix {

/// The prefix of every opcode in the PPU's assembly dialect from SDK 2.1 on.
inline constexpr std::string_view OpcodePrefix = "ppu.";

enum class PrefixAction {
  /// Check the opcodes, write them as they are (SDK 2.0's grammar).
  Keep,
  /// Check the opcodes, put `ppu.` before each.
  Add,
  /// Take `ppu.` away from each opcode; one without it is malformed.
  Remove,
};

/// Appends the rewritten `assembly` to `out`. Returns what is wrong with it,
/// one entry for each instruction, with neither lines nor source set.
std::vector<Diagnostic> rewriteAssembly(std::string_view assembly,
                                        PrefixAction action, std::string &out);

} // namespace flagtree::tix

#endif // FLAGTREE_TIX_ASSEMBLY_H
