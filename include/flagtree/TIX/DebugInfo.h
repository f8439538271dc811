//===- DebugInfo.h - From `!dbg !N` back to a line of the source ----------===//
//
// Contract: fed with the numbered metadata definitions of one module, in any
// order; keeps only those that describe places. Answers once all were added;
// a cycle or a missing node ends the answer, it never loops or fails.
//
//===----------------------------------------------------------------------===//

#ifndef FLAGTREE_TIX_DEBUGINFO_H
#define FLAGTREE_TIX_DEBUGINFO_H

#include "flagtree/TIX/Diagnostic.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace flagtree::tix {

class DebugInfo {
public:
  /// Takes note of `!id = definition` if it describes a place.
  void add(uint64_t id, std::string_view definition);

  /// The places of node `id`, the innermost first, following `inlinedAt`.
  std::vector<SourceLocation> locate(uint64_t id) const;

private:
  struct Node {
    bool isFile = false;
    std::string file;
    unsigned line = 0;
    unsigned column = 0;
    uint64_t scope = 0;
    uint64_t fileNode = 0;
    uint64_t inlinedAt = 0;
    bool hasScope = false;
    bool hasFileNode = false;
    bool hasInlinedAt = false;
  };

  std::string fileOf(const Node &node) const;

  std::unordered_map<uint64_t, Node> nodes;
};

} // namespace flagtree::tix

#endif // FLAGTREE_TIX_DEBUGINFO_H
