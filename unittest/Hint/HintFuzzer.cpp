// A libFuzzer target: whatever the bytes, parsing neither crashes nor reports a
// place that is not in the source.

#include "flagtree/Hint/HintParser.h"

#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

using namespace flagtree;

namespace {

std::vector<std::string_view> splitLines(std::string_view Source) {
  std::vector<std::string_view> Lines;
  size_t Begin = 0;
  for (size_t I = 0; I < Source.size(); ++I) {
    if (Source[I] != '\n' && Source[I] != '\r')
      continue;
    Lines.push_back(Source.substr(Begin, I - Begin));
    if (Source[I] == '\r' && I + 1 < Source.size() && Source[I + 1] == '\n')
      ++I;
    Begin = I + 1;
  }
  Lines.push_back(Source.substr(Begin));
  return Lines;
}

void require(bool Condition) {
  if (!Condition)
    std::abort();
}

void checkRange(const SourceRange &Range,
                const std::vector<std::string_view> &Lines, bool Bom) {
  require(Range.Line >= 1 && Range.Line <= Lines.size());
  require(Range.Length >= 1);
  const size_t Offset = Bom && Range.Line == 1 ? 3 : 0;
  const size_t Size = Lines[Range.Line - 1].size() - Offset;
  // A problem at the comment's end points just behind it.
  require(Range.Column + Range.Length <= Size + 1);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *Data, size_t Size) {
  const std::string_view Source(reinterpret_cast<const char *>(Data), Size);
  const HintTable Table = parseHints(Source);
  const std::vector<std::string_view> Lines = splitLines(Source);
  const bool Bom = Source.substr(0, 3) == "\xef\xbb\xbf";
  for (const Hint &Each : Table.Hints) {
    checkRange(Each.Range, Lines, Bom);
    const size_t Column =
        Each.Range.Column + (Bom && Each.Range.Line == 1 ? 3 : 0);
    const std::string_view Text =
        Lines[Each.Range.Line - 1].substr(Column, Each.Range.Length);
    require(!Each.Name.empty() &&
            Text.substr(0, Each.Name.size()) == Each.Name);
    require(!Each.Value || !Each.Value->empty());
    if (Each.Statement) {
      require(Each.Statement->First <= Each.Range.Line);
      require(Each.Statement->Last >= Each.Range.Line);
      require(Each.Statement->Last <= Lines.size());
    }
  }
  for (const HintProblem &Each : Table.Problems)
    checkRange(Each.Range, Lines, Bom);
  return 0;
}
