//===- Assembly.cpp - Rewrites the opcodes of one assembly template -------===//

#include "flagtree/TIX/Assembly.h"
#include "flagtree/TIX/Encodings.h"

#include <algorithm>
#include <array>
#include <optional>

namespace flagtree::tix {
namespace {

constexpr char End = '\0';
constexpr size_t LongestName = 120;

bool isSpace(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' ||
         c == '\f';
}
bool isLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool isDigit(char c) { return c >= '0' && c <= '9'; }

int hexValue(char c) {
  if (isDigit(c))
    return c - '0';
  if (c >= 'a' && c <= 'f')
    return c - 'a' + 10;
  if (c >= 'A' && c <= 'F')
    return c - 'A' + 10;
  return -1;
}

/// Reads the template one character at a time, as the assembler will see it:
/// the escapes of LLVM's strings are one character each.
class Cursor {
public:
  explicit Cursor(std::string_view text) : text(text) { decode(); }

  bool atEnd() const { return position >= text.size(); }
  /// The current character; `End` past the last.
  char peek() const { return current; }
  /// The character after the current one.
  char peekNext() const {
    Cursor next = *this;
    next.advance();
    return next.peek();
  }
  /// Offset of the current character in the text as written.
  size_t offset() const { return position; }

  void advance() {
    position = std::min(position + length, text.size());
    decode();
  }

private:
  void decode() {
    length = 1;
    current = End;
    if (atEnd())
      return;
    current = text[position];
    if (current != '\\')
      return;
    std::string_view rest = text.substr(position);
    if (rest.size() >= 2 && rest[1] == '\\') {
      length = 2;
    } else if (rest.size() >= 3) {
      int high = hexValue(rest[1]), low = hexValue(rest[2]);
      if (high >= 0 && low >= 0) {
        current = static_cast<char>(high * 16 + low);
        length = 3;
      }
    }
    // An escaped NUL is a character that no grammar knows, not the end.
    if (current == End)
      current = '\x01';
  }

  std::string_view text;
  size_t position = 0;
  size_t length = 1;
  char current = End;
};

/// Directives that may stand in a function's body, and whether a line's end,
/// not a semicolon, ends them.
struct Directive {
  std::string_view name;
  bool endsWithLine;
};
constexpr std::array Directives = {
    Directive{".reg", false},           Directive{".local", false},
    Directive{".shared", false},        Directive{".param", false},
    Directive{".const", false},         Directive{".global", false},
    Directive{".align", false},         Directive{".pragma", false},
    Directive{".branchtargets", false}, Directive{".calltargets", false},
    Directive{".callprototype", false}, Directive{".loc", true},
    Directive{".file", true},
};

class Rewriter {
public:
  Rewriter(std::string_view assembly, PrefixAction action, std::string &out)
      : assembly(assembly), action(action), out(out), cursor(assembly) {}

  std::vector<Diagnostic> run() {
    while (!stopped && skipBlank() && !cursor.atEnd())
      statement();
    out.append(assembly.substr(copied));
    return std::move(diagnostics);
  }

private:
  void report(DiagnosticKind kind, std::string name, std::string_view reason) {
    if (name.size() > LongestName)
      name = name.substr(0, LongestName) + "...";
    Diagnostic diagnostic;
    diagnostic.kind = kind;
    diagnostic.name = std::move(name);
    diagnostic.reason = std::string(reason);
    diagnostics.push_back(std::move(diagnostic));
  }

  /// Reports text that cannot be read on from, and stops.
  void malformed(size_t from, std::string_view reason) {
    report(DiagnosticKind::Malformed,
           "inline assembly '" + std::string(assembly.substr(from)) + "'",
           reason);
    stopped = true;
  }

  /// Skips white space and comments. False if a comment has no end.
  bool skipBlank() {
    while (!cursor.atEnd()) {
      char c = cursor.peek();
      if (isSpace(c)) {
        cursor.advance();
      } else if (c == '/' && cursor.peekNext() == '/') {
        while (!cursor.atEnd() && cursor.peek() != '\n')
          cursor.advance();
      } else if (c == '/' && cursor.peekNext() == '*') {
        size_t start = cursor.offset();
        cursor.advance();
        cursor.advance();
        while (!cursor.atEnd() &&
               !(cursor.peek() == '*' && cursor.peekNext() == '/'))
          cursor.advance();
        if (cursor.atEnd()) {
          malformed(start, "a comment has no end");
          return false;
        }
        cursor.advance();
        cursor.advance();
      } else {
        break;
      }
    }
    return true;
  }

  /// Consumes `$$`, `$N`, `${...}`; the cursor stands on `$`. False if it is
  /// none of them. Sets `operand` if the text comes from an operand.
  bool dollar(bool &operand) {
    size_t start = cursor.offset();
    cursor.advance();
    char c = cursor.peek();
    if (c == '$') {
      cursor.advance();
      return true;
    }
    if (isDigit(c)) {
      operand = true;
      while (isDigit(cursor.peek()))
        cursor.advance();
      return true;
    }
    if (c == '{') {
      cursor.advance();
      // `${:uid}` and its like are made by LLVM; only a number is an operand.
      operand |= isDigit(cursor.peek());
      while (!cursor.atEnd() && cursor.peek() != '}')
        cursor.advance();
      if (!cursor.atEnd()) {
        cursor.advance();
        return true;
      }
    }
    malformed(start, "'$' is followed by neither '$', an operand's number nor "
                     "'{...}'");
    return false;
  }

  struct Word {
    size_t start = 0;
    std::string text;
    bool hasOperand = false;
    bool isLabel = false;
  };

  /// Reads a word that an instruction or a label begins with, modifiers and
  /// all.
  std::optional<Word> word() {
    Word result;
    result.start = cursor.offset();
    while (!cursor.atEnd()) {
      char c = cursor.peek();
      if (c == '$') {
        size_t from = cursor.offset();
        if (!dollar(result.hasOperand))
          return std::nullopt;
        result.text += assembly.substr(from, cursor.offset() - from);
      } else if (isLetter(c) || isDigit(c) || c == '.' || c == '%') {
        result.text += c;
        cursor.advance();
      } else if (c == ':' && cursor.peekNext() == ':') {
        result.text += "::";
        cursor.advance();
        cursor.advance();
      } else {
        break;
      }
    }
    bool plain = result.text.find('.') == std::string::npos;
    if (plain) {
      Cursor saved = cursor;
      if (!skipBlank())
        return std::nullopt;
      if (cursor.peek() == ':') {
        cursor.advance();
        result.isLabel = true;
      } else {
        cursor = saved;
      }
    }
    return result;
  }

  void statement() {
    char c = cursor.peek();
    size_t start = cursor.offset();
    if (c == ';' || c == '{' || c == '}') {
      cursor.advance();
      return;
    }
    if (c == '.') {
      directive();
      return;
    }
    if (c == '@' && !predicate())
      return;
    bool predicated = c == '@';
    c = cursor.peek();
    if (!isLetter(c) && c != '$' && c != '%') {
      malformed(start, predicated ? "no instruction follows the predicate"
                                  : "no instruction begins like this");
      return;
    }
    std::optional<Word> first = word();
    if (!first)
      return;
    if (first->isLabel) {
      if (predicated)
        malformed(start, "a label has a predicate");
      return;
    }
    opcode(*first);
    if (!stopped)
      operands(start);
  }

  /// Consumes `@p`, `@!p`, `@$3`. False if there is no predicate after `@`.
  bool predicate() {
    size_t start = cursor.offset();
    cursor.advance();
    if (!skipBlank())
      return false;
    if (cursor.peek() == '!') {
      cursor.advance();
      if (!skipBlank())
        return false;
    }
    size_t from = cursor.offset();
    bool operand = false;
    while (!cursor.atEnd()) {
      char c = cursor.peek();
      if (c == '$') {
        if (!dollar(operand))
          return false;
      } else if (isLetter(c) || isDigit(c) || c == '%') {
        cursor.advance();
      } else {
        break;
      }
    }
    if (cursor.offset() == from) {
      malformed(start, "'@' is not followed by a predicate");
      return false;
    }
    return skipBlank();
  }

  void directive() {
    size_t start = cursor.offset();
    std::string name = ".";
    cursor.advance();
    while (isLetter(cursor.peek())) {
      name += cursor.peek();
      cursor.advance();
    }
    auto known = std::find_if(
        Directives.begin(), Directives.end(),
        [&](const Directive &directive) { return directive.name == name; });
    if (known == Directives.end()) {
      malformed(start, "the directive is not one of a function's body");
      return;
    }
    while (!cursor.atEnd()) {
      char c = cursor.peek();
      if (known->endsWithLine ? c == '\n' : c == ';')
        break;
      if (c == '"') {
        if (!quoted())
          return;
      } else if (c == '/') {
        size_t before = cursor.offset();
        if (!skipBlank())
          return;
        if (cursor.offset() == before)
          cursor.advance();
      } else {
        cursor.advance();
      }
    }
    cursor.advance();
  }

  /// Consumes a quoted string of the assembly. False if it has no end.
  bool quoted() {
    size_t start = cursor.offset();
    cursor.advance();
    while (!cursor.atEnd() && cursor.peek() != '"')
      cursor.advance();
    if (cursor.atEnd()) {
      malformed(start, "a string has no end");
      return false;
    }
    cursor.advance();
    return true;
  }

  void opcode(const Word &word) {
    if (word.hasOperand) {
      report(DiagnosticKind::Refused, word.text,
             "an opcode that is itself an operand cannot be checked");
      return;
    }
    std::string_view plain = word.text;
    bool prefixed = plain.substr(0, OpcodePrefix.size()) == OpcodePrefix;
    if (action == PrefixAction::Remove) {
      // The writer never escapes the prefix, so it stands there as it is.
      if (!prefixed ||
          assembly.substr(word.start, OpcodePrefix.size()) != OpcodePrefix) {
        report(DiagnosticKind::Malformed, word.text,
               "the opcode has no prefix 'ppu.'");
        return;
      }
      plain.remove_prefix(OpcodePrefix.size());
    } else if (prefixed) {
      report(DiagnosticKind::Malformed, word.text,
             "the opcode already has the prefix 'ppu.'");
      return;
    }
    std::string_view reason = refusalOfOpcode(plain);
    if (!reason.empty()) {
      report(DiagnosticKind::Refused, std::string(plain), reason);
      return;
    }
    if (action == PrefixAction::Keep)
      return;
    out.append(assembly.substr(copied, word.start - copied));
    copied = word.start;
    if (action == PrefixAction::Add)
      out.append(OpcodePrefix);
    else
      copied += OpcodePrefix.size();
  }

  /// Consumes an instruction's operands and the semicolon. Two operands without
  /// anything between them mean that a semicolon is missing, and then an opcode
  /// would hide among the operands.
  void operands(size_t instruction) {
    bool afterOperand = false;
    unsigned depth = 0;
    while (skipBlank() && !cursor.atEnd()) {
      char c = cursor.peek();
      size_t start = cursor.offset();
      if (c == ';') {
        cursor.advance();
        return;
      }
      bool begins = isLetter(c) || isDigit(c) || c == '%' || c == '$' ||
                    c == '"' || c == '{' || c == '[' || c == '@';
      if ((begins && afterOperand) || (c == '}' && depth == 0)) {
        malformed(instruction, "a ';' is missing");
        return;
      }
      afterOperand = false;
      if (c == '"') {
        if (!quoted())
          return;
        afterOperand = true;
      } else if (c == '{' || c == '[' || c == '(') {
        ++depth;
        cursor.advance();
      } else if (c == '}' || c == ']' || c == ')') {
        depth -= depth != 0;
        cursor.advance();
        afterOperand = true;
      } else if (begins) {
        operand(start);
        if (stopped)
          return;
        afterOperand = true;
      } else {
        cursor.advance();
      }
    }
  }

  void operand(size_t start) {
    bool isOperand = false;
    while (!cursor.atEnd()) {
      char c = cursor.peek();
      if (c == '$') {
        if (!dollar(isOperand))
          return;
      } else if (isLetter(c) || isDigit(c) || c == '.' || c == '%') {
        cursor.advance();
      } else {
        break;
      }
    }
    if (cursor.offset() == start) { // '@' among the operands
      malformed(start, "no operand begins like this");
      return;
    }
    std::string_view name = assembly.substr(start, cursor.offset() - start);
    std::string_view reason = refusalOfRegister(name);
    if (!reason.empty())
      report(DiagnosticKind::Refused, std::string(name), reason);
  }

  std::string_view assembly;
  PrefixAction action;
  std::string &out;
  Cursor cursor;
  size_t copied = 0;
  bool stopped = false;
  std::vector<Diagnostic> diagnostics;
};

} // namespace

std::vector<Diagnostic> rewriteAssembly(std::string_view assembly,
                                        PrefixAction action, std::string &out) {
  return Rewriter(assembly, action, out).run();
}

} // namespace flagtree::tix
