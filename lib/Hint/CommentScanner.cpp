#include "CommentScanner.h"

#include <algorithm>

namespace flagtree {
namespace {

bool isNewline(char C) { return C == '\n' || C == '\r'; }

bool isQuote(char C) { return C == '"' || C == '\''; }

// Identifiers, keywords and numbers alike: whatever may stand directly before a
// quote and be, or not be, a string prefix.
bool isWord(char C) {
  return (C >= 'a' && C <= 'z') || (C >= 'A' && C <= 'Z') ||
         (C >= '0' && C <= '9') || C == '_' ||
         static_cast<unsigned char>(C) >= 0x80;
}

// Where the scanner is. The stack's bottom is a Code frame; literals and the
// replacement fields in them nest above it.
struct Frame {
  enum Kind {
    Code,    // Statements, or the expression of a replacement field.
    Literal, // The text of an f-string or t-string.
    Spec,    // The format specification of a replacement field.
  };
  Kind Where;
  size_t Brackets = 0; // Code: how many are open.
  char Quote = 0;      // Literal and Spec: the enclosing literal's ...
  bool Triple = false; // ... kind.
  bool Raw = false;
};

class Scanner {
public:
  explicit Scanner(std::string_view Source) : Source(Source) {
    Frames.push_back({Frame::Code});
  }

  std::vector<Comment> run() {
    // A byte order mark is no part of the first line.
    if (Source.substr(0, 3) == "\xef\xbb\xbf")
      LineStart = Position = 3;
    while (Position < Source.size()) {
      if (Frames.back().Where == Frame::Code)
        scanCode();
      else
        scanLiteral();
    }
    endStatement();
    return std::move(Comments);
  }

private:
  char peek(size_t Ahead = 0) const {
    return Position + Ahead < Source.size() ? Source[Position + Ahead] : '\0';
  }

  // Whether the three quotes that open or close a triple-quoted string stand
  // here.
  bool atTriple(char Quote) const {
    return Position + 2 < Source.size() && Source[Position] == Quote &&
           Source[Position + 1] == Quote && Source[Position + 2] == Quote;
  }

  void takeNewline() {
    Position += peek() == '\r' && peek(1) == '\n' ? 2 : 1;
    ++Line;
    LineStart = Position;
  }

  // Takes the character after a backslash, which has been taken.
  void takeEscaped() {
    if (Position >= Source.size())
      return;
    if (isNewline(peek()))
      takeNewline();
    else
      ++Position;
  }

  void beginStatement() {
    if (!StatementFirst)
      StatementFirst = Line;
  }

  void endStatement() {
    if (!StatementFirst)
      return;
    for (; FirstOpenComment < Comments.size(); ++FirstOpenComment)
      Comments[FirstOpenComment].Statement = {*StatementFirst, Line};
    StatementFirst.reset();
  }

  void scanCode() {
    const char C = peek();
    if (C == ' ' || C == '\t' || C == '\f') {
      ++Position;
      return;
    }
    if (isNewline(C)) {
      if (Frames.size() == 1 && Frames.back().Brackets == 0)
        endStatement();
      takeNewline();
      // A comment between statements stays without one.
      if (!StatementFirst)
        FirstOpenComment = Comments.size();
      return;
    }
    if (C == '\\') {
      ++Position;
      if (isNewline(peek()))
        takeNewline();
      return;
    }
    if (C == '#') {
      scanComment();
      return;
    }
    beginStatement();
    if (isQuote(C)) {
      scanString("");
      return;
    }
    if (isWord(C)) {
      const size_t Begin = Position;
      while (Position < Source.size() && isWord(peek()))
        ++Position;
      if (isQuote(peek()))
        scanString(Source.substr(Begin, Position - Begin));
      return;
    }
    scanPunctuation(C);
  }

  void scanPunctuation(char C) {
    Frame &Top = Frames.back();
    const bool InField = Frames.size() > 1 && Top.Brackets == 0;
    ++Position;
    switch (C) {
    case '(':
    case '[':
    case '{':
      ++Top.Brackets;
      return;
    case ')':
    case ']':
      Top.Brackets -= Top.Brackets > 0;
      return;
    case '}':
      if (InField)
        Frames.pop_back();
      else
        Top.Brackets -= Top.Brackets > 0;
      return;
    case '!':
      // "!=" is an operator, "!r" a conversion; neither ends the field.
      Position += peek() == '=';
      return;
    case ':':
      if (InField) {
        const Frame &Outer = Frames[Frames.size() - 2];
        Top = {Frame::Spec, 0, Outer.Quote, Outer.Triple, Outer.Raw};
      }
      return;
    default:
      return;
    }
  }

  void scanComment() {
    const size_t Begin = Position;
    while (Position < Source.size() && !isNewline(peek()))
      ++Position;
    Comments.push_back({Source.substr(Begin, Position - Begin), Line,
                        Begin - LineStart, std::nullopt});
  }

  // Takes a string literal whose prefix has been taken, or opens a frame for it
  // where code may nest in it.
  void scanString(std::string_view Prefix) {
    bool Formatted = false, Raw = false;
    if (Prefix.size() <= 2) {
      std::string Lower(Prefix);
      for (char &C : Lower)
        C = static_cast<char>(C | 0x20);
      static constexpr std::string_view FormattedPrefixes[] = {"f", "fr", "rf",
                                                               "t", "tr", "rt"};
      Formatted =
          std::find(std::begin(FormattedPrefixes), std::end(FormattedPrefixes),
                    Lower) != std::end(FormattedPrefixes);
      Raw = Lower.find('r') != std::string::npos;
    }
    const char Quote = peek();
    const bool Triple = atTriple(Quote);
    Position += Triple ? 3 : 1;
    if (Formatted)
      Frames.push_back({Frame::Literal, 0, Quote, Triple, Raw});
    else
      scanPlainString(Quote, Triple);
  }

  void scanPlainString(char Quote, bool Triple) {
    while (Position < Source.size()) {
      const char C = peek();
      if (C == '\\') {
        ++Position;
        takeEscaped();
      } else if (isNewline(C)) {
        if (!Triple)
          return; // Unterminated: Python refuses it, we go on.
        takeNewline();
      } else if (C == Quote && (!Triple || atTriple(Quote))) {
        Position += Triple ? 3 : 1;
        return;
      } else {
        ++Position;
      }
    }
  }

  // Takes the text of an f-string, or of a format specification in it, up to
  // the next replacement field or its end.
  void scanLiteral() {
    const Frame Top = Frames.back();
    const bool InSpec = Top.Where == Frame::Spec;
    while (Position < Source.size()) {
      const char C = peek();
      if (C == Top.Quote && (!Top.Triple || atTriple(Top.Quote))) {
        Position += Top.Triple ? 3 : 1;
        closeLiteral();
        return;
      }
      if (isNewline(C)) {
        if (!Top.Triple) {
          closeLiteral(); // Unterminated.
          return;
        }
        takeNewline();
        continue;
      }
      ++Position;
      if (C == '\\') {
        takeEscapedInLiteral(Top.Raw);
      } else if (C == '{') {
        if (!InSpec && peek() == '{') {
          ++Position;
          continue;
        }
        Frames.push_back({Frame::Code});
        return;
      } else if (C == '}' && InSpec) {
        Frames.pop_back();
        return;
      }
    }
  }

  // In an f-string a backslash does not hide a brace, and "\N{...}" is a
  // character's name, not a field.
  void takeEscapedInLiteral(bool Raw) {
    if (peek() == '{' || peek() == '}')
      return;
    const bool Named = !Raw && peek() == 'N' && peek(1) == '{';
    takeEscaped();
    if (!Named)
      return;
    while (Position < Source.size() && peek() != '}' && !isQuote(peek()) &&
           !isNewline(peek()))
      ++Position;
    Position += peek() == '}' && Position < Source.size();
  }

  // Leaves the innermost literal, with what is nested in it and still open.
  void closeLiteral() {
    while (Frames.back().Where != Frame::Literal)
      Frames.pop_back();
    Frames.pop_back();
  }

  std::string_view Source;
  size_t Position = 0;
  size_t Line = 1;
  size_t LineStart = 0;
  std::vector<Frame> Frames;
  std::vector<Comment> Comments;
  // The first line of the logical line being scanned, where there is one, and
  // the first comment that waits to learn its last line.
  std::optional<size_t> StatementFirst;
  size_t FirstOpenComment = 0;
};

} // namespace

std::vector<Comment> scanComments(std::string_view Source) {
  return Scanner(Source).run();
}

} // namespace flagtree
