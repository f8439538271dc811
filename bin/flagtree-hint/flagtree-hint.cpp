// flagtree-hint: prints the hint comments of Python source, as text or JSON.
//
// It shows what the parser sees. Whether a name means anything, and whether a
// hint applies to the operation on its line, is decided when the kernel is
// compiled.

#include "flagtree/Hint/HintParser.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

using namespace flagtree;

namespace {

constexpr char Usage[] =
    "usage: flagtree-hint [--json] FILE\n"
    "\n"
    "Prints the hint comments ('# @hint: name[=value], ...') of a Python file; "
    "'-'\n"
    "reads standard input. Lines and columns count from 1.\n"
    "Exit status: 0, or 1 where a hint comment is malformed, or 2 where the "
    "file\n"
    "cannot be read or the command line is wrong.\n";

std::string quoted(const std::string &Text) {
  std::string Result = "\"";
  for (char C : Text) {
    const auto Byte = static_cast<unsigned char>(C);
    if (C == '"' || C == '\\') {
      Result += '\\';
      Result += C;
    } else if (Byte < 0x20 || Byte >= 0x7f) {
      // Names and values are ASCII; a message may quote other bytes.
      char Escape[8];
      std::snprintf(Escape, sizeof Escape, "\\u%04x", Byte);
      Result += Escape;
    } else {
      Result += C;
    }
  }
  return Result + '"';
}

void printRange(const SourceRange &Range) {
  std::cout << "\"line\": " << Range.Line
            << ", \"column\": " << Range.Column + 1
            << ", \"length\": " << Range.Length;
}

void printJson(const HintTable &Table) {
  std::cout << "{\"hints\": [";
  const char *Separator = "\n  ";
  for (const Hint &Each : Table.Hints) {
    std::cout << Separator << "{\"name\": " << quoted(Each.Name)
              << ", \"value\": "
              << (Each.Value ? quoted(*Each.Value) : std::string("null"))
              << ", ";
    printRange(Each.Range);
    if (Each.Statement)
      std::cout << ", \"statement\": [" << Each.Statement->First << ", "
                << Each.Statement->Last << "]}";
    else
      std::cout << ", \"statement\": null}";
    Separator = ",\n  ";
  }
  std::cout << "],\n \"problems\": [";
  Separator = "\n  ";
  for (const HintProblem &Each : Table.Problems) {
    std::cout << Separator << "{\"message\": " << quoted(Each.Message) << ", ";
    printRange(Each.Range);
    std::cout << "}";
    Separator = ",\n  ";
  }
  std::cout << "]}\n";
}

void printText(const std::string &Path, const HintTable &Table) {
  for (const Hint &Each : Table.Hints) {
    std::cout << Path << ':' << Each.Range.Line << ':' << Each.Range.Column + 1
              << ": " << Each.Name;
    if (Each.Value)
      std::cout << '=' << *Each.Value;
    if (!Each.Statement)
      std::cout << ", between statements: belongs to none";
    else if (Each.Statement->First == Each.Statement->Last)
      std::cout << ", statement on line " << Each.Statement->First;
    else
      std::cout << ", statement on lines " << Each.Statement->First << " to "
                << Each.Statement->Last;
    std::cout << '\n';
  }
  std::cout.flush();
  for (const HintProblem &Each : Table.Problems)
    std::cerr << Path << ':' << Each.Range.Line << ':' << Each.Range.Column + 1
              << ": malformed hint: " << Each.Message << '\n';
}

} // namespace

int main(int ArgumentCount, char **Arguments) {
  bool Json = false;
  std::string Path;
  for (int Index = 1; Index < ArgumentCount; ++Index) {
    const std::string Argument = Arguments[Index];
    if (Argument == "--help" || Argument == "-h") {
      std::cout << Usage;
      return 0;
    }
    if (Argument == "--json") {
      Json = true;
    } else if (Path.empty() && (Argument == "-" || Argument[0] != '-')) {
      Path = Argument;
    } else {
      std::cerr << "flagtree-hint: unexpected argument '" << Argument << "'\n"
                << Usage;
      return 2;
    }
  }
  if (Path.empty()) {
    std::cerr << "flagtree-hint: no file given\n" << Usage;
    return 2;
  }
  std::string Source;
  if (Path == "-") {
    Source.assign(std::istreambuf_iterator<char>(std::cin), {});
  } else {
    std::ifstream File(Path, std::ios::binary);
    // Reading finds out that the path is a directory; opening does not.
    if (!File || File.peek() == std::ifstream::traits_type::eof()) {
      if (!File.eof()) {
        std::cerr << "flagtree-hint: cannot read '" << Path
                  << "': " << std::strerror(errno) << '\n';
        return 2;
      }
      File.clear();
    }
    Source.assign(std::istreambuf_iterator<char>(File), {});
  }
  const HintTable Table = parseHints(Source);
  if (Json)
    printJson(Table);
  else
    printText(Path, Table);
  return Table.Problems.empty() ? 0 : 1;
}
