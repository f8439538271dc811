// Finds the hint comments of Triton kernel source.
//
// A hint is a comment "# @hint: name[=value][, name[=value]]..." (also
// "#@hint:"). It may follow other text in the same comment, as in
// "# noqa  # @hint: unroll=4", and ends at the next '#' or at the line's end.
//
// Contract:
//  - The parser knows exactly as much of Python as is needed to tell a comment
//    from the inside of a string and to find where statements begin and end:
//    string prefixes, triple quotes, nested f-strings and t-strings (PEP 701),
//    brackets, backslash continuation, and all three line endings. It does not
//    check the source; Python itself does that before a kernel is compiled.
//  - A hint belongs to the logical line (Python's term: one or several physical
//    lines that brackets, triple quotes or backslashes join) it stands on. A
//    comment between logical lines belongs to none.
//  - Any bytes are accepted, valid UTF-8 or not. Nothing throws but
//    std::bad_alloc, no recursion, and the time is linear in the source's size.
//  - Lines count from 1 and columns are byte offsets from 0, as in Python's
//  ast.

#ifndef FLAGTREE_HINT_HINTPARSER_H
#define FLAGTREE_HINT_HINTPARSER_H

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace flagtree {

/// What every hint comment contains; source without it holds no hint.
inline constexpr std::string_view HintMarker = "@hint";

/// A piece of one physical line.
struct SourceRange {
  size_t Line = 0;
  size_t Column = 0;
  size_t Length = 0;
};

/// The physical lines of one logical line, both included.
struct StatementLines {
  size_t First = 0;
  size_t Last = 0;
};

struct Hint {
  std::string Name;
  std::optional<std::string> Value;
  /// The text "name" or "name=value".
  SourceRange Range;
  /// Empty where the comment stands between statements.
  std::optional<StatementLines> Statement;
};

/// A hint comment, or a part of one, that does not follow the grammar.
struct HintProblem {
  SourceRange Range;
  std::string Message;
};

struct HintTable {
  std::vector<Hint> Hints;
  std::vector<HintProblem> Problems;
};

/// Parses \p Source, the text of one function or of a whole file.
HintTable parseHints(std::string_view Source);

} // namespace flagtree

#endif // FLAGTREE_HINT_HINTPARSER_H
