#include "flagtree/Hint/HintParser.h"

#include "CommentScanner.h"

namespace flagtree {
namespace {

bool isSpace(char C) { return C == ' ' || C == '\t' || C == '\f'; }

bool isNameStart(char C) {
  return (C >= 'a' && C <= 'z') || (C >= 'A' && C <= 'Z') || C == '_';
}

bool isNamePart(char C) { return isNameStart(C) || (C >= '0' && C <= '9'); }

bool isValuePart(char C) {
  return isNamePart(C) || C == '.' || C == '+' || C == '-';
}

// Reads one "@hint: ..." of a comment.
class ListParser {
public:
  ListParser(const Comment &From, size_t Begin, size_t End, HintTable &Table)
      : From(From), Text(From.Text.substr(0, End)), Position(Begin),
        Table(Table) {}

  void run() {
    const size_t Marker = Position;
    Position += HintMarker.size();
    if (isNamePart(peek())) {
      if (peek() == 's' && !isNamePart(peek(1)))
        problem(Marker, HintMarker.size() + 1,
                "a hint comment starts with '@hint:', without an 's'");
      return; // Another word that happens to begin with the marker.
    }
    skipSpace();
    if (peek() != ':') {
      problem(Marker, HintMarker.size(), "expected ':' after '@hint'");
      return;
    }
    ++Position;
    skipSpace();
    if (Position == Text.size()) {
      problem(Marker, Position - Marker, "no hint follows '@hint:'");
      return;
    }
    bool More = true;
    while (More)
      More = parseOne();
  }

private:
  char peek(size_t Ahead = 0) const {
    return Position + Ahead < Text.size() ? Text[Position + Ahead] : '\0';
  }

  void skipSpace() {
    while (Position < Text.size() && isSpace(Text[Position]))
      ++Position;
  }

  // Takes "name[=value]" and the comma after it; tells whether there was one.
  bool parseOne() {
    skipSpace();
    const size_t Begin = Position;
    if (!isNameStart(peek())) {
      problem(Begin, restLength(), "expected a hint's name");
      return skipPastComma();
    }
    while (isNamePart(peek()))
      ++Position;
    Hint Result;
    Result.Name = std::string(Text.substr(Begin, Position - Begin));
    size_t End = Position;
    skipSpace();
    if (peek() == '=') {
      ++Position;
      skipSpace();
      const size_t Value = Position;
      while (isValuePart(peek()))
        ++Position;
      if (Position == Value) {
        problem(Begin, Position - Begin,
                "expected a value after '" + Result.Name + "='");
        return skipPastComma();
      }
      Result.Value = std::string(Text.substr(Value, Position - Value));
      End = Position;
      skipSpace();
    }
    if (Position < Text.size() && peek() != ',') {
      problem(Position, restLength(),
              "expected ',' or the comment's end after '" +
                  std::string(Text.substr(Begin, End - Begin)) + "'");
      return skipPastComma();
    }
    Result.Range = {From.Line, From.Column + Begin, End - Begin};
    Result.Statement = From.Statement;
    Table.Hints.push_back(std::move(Result));
    return skipPastComma();
  }

  bool skipPastComma() {
    while (Position < Text.size() && peek() != ',')
      ++Position;
    if (Position == Text.size())
      return false;
    ++Position;
    return true;
  }

  // How far the text that is not understood reaches: to the next comma.
  size_t restLength() const {
    size_t End = Text.find(',', Position);
    if (End == std::string_view::npos)
      End = Text.size();
    while (End > Position && isSpace(Text[End - 1]))
      --End;
    return End > Position ? End - Position : 1;
  }

  void problem(size_t Begin, size_t Length, std::string Message) {
    Table.Problems.push_back(
        {{From.Line, From.Column + Begin, Length}, std::move(Message)});
  }

  const Comment &From;
  std::string_view Text;
  size_t Position;
  HintTable &Table;
};

void parseComment(const Comment &From, HintTable &Table) {
  const std::string_view Text = From.Text;
  for (size_t Hash = 0; Hash != std::string_view::npos;) {
    const size_t Next = Text.find('#', Hash + 1);
    size_t Begin = Hash + 1;
    while (Begin < Text.size() && isSpace(Text[Begin]))
      ++Begin;
    if (Text.substr(Begin, HintMarker.size()) == HintMarker) {
      size_t End = Next == std::string_view::npos ? Text.size() : Next;
      while (End > Begin && isSpace(Text[End - 1]))
        --End;
      ListParser(From, Begin, End, Table).run();
    }
    Hash = Next;
  }
}

} // namespace

HintTable parseHints(std::string_view Source) {
  HintTable Table;
  // Most source holds no hint: one search, and nothing more, for that.
  if (Source.find(HintMarker) == std::string_view::npos)
    return Table;
  for (const Comment &Found : scanComments(Source))
    parseComment(Found, Table);
  return Table;
}

} // namespace flagtree
