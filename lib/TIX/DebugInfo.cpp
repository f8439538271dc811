//===- DebugInfo.cpp - Reads the nodes that describe places ---------------===//

#include "flagtree/TIX/DebugInfo.h"

#include <charconv>
#include <optional>

namespace flagtree::tix {
namespace {

/// How deep inlining and scopes are followed; a longer chain is a cycle.
constexpr unsigned DeepestChain = 256;

int hexValue(char c) {
  if (c >= '0' && c <= '9')
    return c - '0';
  if (c >= 'a' && c <= 'f')
    return c - 'a' + 10;
  if (c >= 'A' && c <= 'F')
    return c - 'A' + 10;
  return -1;
}

/// The text of an LLVM string, its escapes resolved.
std::string unescape(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size() && text[i + 1] == '\\') {
      result += '\\';
      i += 1;
    } else if (text[i] == '\\' && i + 2 < text.size() &&
               hexValue(text[i + 1]) >= 0 && hexValue(text[i + 2]) >= 0) {
      result +=
          static_cast<char>(hexValue(text[i + 1]) * 16 + hexValue(text[i + 2]));
      i += 2;
    } else {
      result += text[i];
    }
  }
  return result;
}

std::optional<uint64_t> number(std::string_view text) {
  uint64_t value = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

/// The number of `!N`.
std::optional<uint64_t> reference(std::string_view text) {
  if (text.empty() || text.front() != '!')
    return std::nullopt;
  return number(text.substr(1));
}

std::string_view trim(std::string_view text) {
  size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos)
    return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

/// Splits the fields `key: value` between a node's parentheses, and calls
/// `take`.
template <typename Take> void forEachField(std::string_view fields, Take take) {
  size_t start = 0;
  bool inString = false;
  unsigned depth = 0;
  for (size_t i = 0; i <= fields.size(); ++i) {
    if (i < fields.size()) {
      char c = fields[i];
      if (c == '"')
        inString = !inString;
      if (inString)
        continue;
      if (c == '(')
        ++depth;
      if (c == ')' && depth > 0)
        --depth;
      if (c != ',' || depth > 0)
        continue;
    }
    std::string_view field = trim(fields.substr(start, i - start));
    start = i + 1;
    size_t colon = field.find(':');
    if (colon != std::string_view::npos)
      take(trim(field.substr(0, colon)), trim(field.substr(colon + 1)));
  }
}

} // namespace

void DebugInfo::add(uint64_t id, std::string_view definition) {
  definition = trim(definition);
  constexpr std::string_view Distinct = "distinct ";
  if (definition.substr(0, Distinct.size()) == Distinct)
    definition = trim(definition.substr(Distinct.size()));
  size_t open = definition.find('(');
  size_t close = definition.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos ||
      close < open)
    return;
  std::string_view kind = definition.substr(0, open);
  bool isPlace = kind == "!DILocation" || kind == "!DILexicalBlock" ||
                 kind == "!DILexicalBlockFile" || kind == "!DISubprogram";
  Node node;
  node.isFile = kind == "!DIFile";
  if (!isPlace && !node.isFile)
    return;
  std::string filename, directory;
  forEachField(definition.substr(open + 1, close - open - 1),
               [&](std::string_view key, std::string_view value) {
                 auto string = [&] {
                   bool quoted = value.size() >= 2 && value.front() == '"';
                   return quoted ? unescape(value.substr(1, value.size() - 2))
                                 : std::string();
                 };
                 if (key == "filename")
                   filename = string();
                 else if (key == "directory")
                   directory = string();
                 else if (key == "line")
                   node.line = static_cast<unsigned>(number(value).value_or(0));
                 else if (key == "column")
                   node.column =
                       static_cast<unsigned>(number(value).value_or(0));
                 else if (auto target = reference(value)) {
                   if (key == "scope") {
                     node.scope = *target;
                     node.hasScope = true;
                   } else if (key == "file") {
                     node.fileNode = *target;
                     node.hasFileNode = true;
                   } else if (key == "inlinedAt") {
                     node.inlinedAt = *target;
                     node.hasInlinedAt = true;
                   }
                 }
               });
  if (node.isFile) {
    bool joined = !directory.empty() && !filename.empty() && filename[0] != '/';
    node.file = joined ? directory + "/" + filename : filename;
  }
  nodes[id] = std::move(node);
}

std::string DebugInfo::fileOf(const Node &node) const {
  const Node *scope = &node;
  for (unsigned depth = 0; depth < DeepestChain; ++depth) {
    if (scope->isFile)
      return scope->file;
    bool further = scope->hasFileNode || scope->hasScope;
    auto next = nodes.find(scope->hasFileNode ? scope->fileNode : scope->scope);
    if (!further || next == nodes.end())
      break;
    scope = &next->second;
  }
  return {};
}

std::vector<SourceLocation> DebugInfo::locate(uint64_t id) const {
  std::vector<SourceLocation> places;
  for (unsigned depth = 0; depth < DeepestChain; ++depth) {
    auto found = nodes.find(id);
    if (found == nodes.end() || found->second.isFile)
      break;
    const Node &node = found->second;
    std::string file = fileOf(node);
    if (!file.empty())
      places.push_back({std::move(file), node.line, node.column});
    if (!node.hasInlinedAt)
      break;
    id = node.inlinedAt;
  }
  return places;
}

} // namespace flagtree::tix
