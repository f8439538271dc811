//===- Diagnostic.cpp - Diagnostics as text -------------------------------===//

#include "flagtree/TIX/Diagnostic.h"

using namespace flagtree::tix;

std::string SourceLocation::str() const {
  std::string text = file + ":" + std::to_string(line);
  if (column != 0)
    text += ":" + std::to_string(column);
  return text;
}

std::string Diagnostic::message() const {
  std::string text;
  if (source.empty())
    text = "IR line " + std::to_string(irLine);
  else
    text = source.back().str();
  text += ": " + name + ": " + reason;
  if (source.size() > 1)
    text += " (by way of " + source.front().str() + ")";
  return text;
}
