// Splits Python source into comments and logical lines. Private to lib/Hint;
// the contract is HintParser.h's.

#ifndef FLAGTREE_LIB_HINT_COMMENTSCANNER_H
#define FLAGTREE_LIB_HINT_COMMENTSCANNER_H

#include "flagtree/Hint/HintParser.h"

#include <string_view>
#include <vector>

namespace flagtree {

/// One comment, from its '#' to the end of its physical line.
struct Comment {
  std::string_view Text;
  size_t Line = 0;
  size_t Column = 0;
  std::optional<StatementLines> Statement;
};

/// Returns the comments of \p Source, in order.
std::vector<Comment> scanComments(std::string_view Source);

} // namespace flagtree

#endif // FLAGTREE_LIB_HINT_COMMENTSCANNER_H
