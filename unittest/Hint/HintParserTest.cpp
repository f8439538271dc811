#include "flagtree/Hint/HintParser.h"

#include <gtest/gtest.h>

#include <string>

using namespace flagtree;

namespace {

std::string place(const SourceRange &Range) {
  return std::to_string(Range.Line) + ':' + std::to_string(Range.Column) + '+' +
         std::to_string(Range.Length);
}

// The table as "line:column+length name=value" and "line:column+length! text".
std::string parse(std::string_view Source) {
  const HintTable Table = parseHints(Source);
  std::string Result;
  for (const Hint &Each : Table.Hints) {
    Result += place(Each.Range) + ' ' + Each.Name;
    if (Each.Value)
      Result += '=' + *Each.Value;
    Result += '\n';
  }
  for (const HintProblem &Each : Table.Problems)
    Result += place(Each.Range) + "! " + Each.Message + '\n';
  return Result;
}

TEST(HintParser, ReadsNamesAndValues) {
  EXPECT_EQ(parse("x  # @hint: a"), "1:12+1 a\n");
  EXPECT_EQ(parse("x  #@hint: a=3"), "1:11+3 a=3\n");
  EXPECT_EQ(parse("x # @hint: a=3, b ,c_1 = .cg\t"), "1:11+3 a=3\n"
                                                     "1:16+1 b\n"
                                                     "1:19+9 c_1=.cg\n");
  EXPECT_EQ(parse("x #\t@hint :a"), "1:11+1 a\n");
}

TEST(HintParser, SharesTheCommentWithOthers) {
  EXPECT_EQ(parse("x # noqa # @hint: a # more, text"), "1:18+1 a\n");
  EXPECT_EQ(parse("x # @hint: a # @hint: b"), "1:11+1 a\n1:22+1 b\n");
  EXPECT_EQ(parse("x # see @hint: a"), "");
  EXPECT_EQ(parse("x # @hinted: a"), "");
  EXPECT_EQ(parse("x = '# @hint: a'"), "");
}

TEST(HintParser, ReportsWhatIsMalformed) {
  EXPECT_EQ(parse("x # @hint a"), "1:4+5! expected ':' after '@hint'\n");
  EXPECT_EQ(parse("x # @hint"), "1:4+5! expected ':' after '@hint'\n");
  EXPECT_EQ(parse("x # @hint:"), "1:4+6! no hint follows '@hint:'\n");
  EXPECT_EQ(parse("x # @hints: a"),
            "1:4+6! a hint comment starts with '@hint:', without an 's'\n");
  EXPECT_EQ(parse("x # @hint: a="), "1:11+2! expected a value after 'a='\n");
  EXPECT_EQ(parse("x # @hint: =3"), "1:11+2! expected a hint's name\n");
  EXPECT_EQ(parse("x # @hint: a,"),
            "1:11+1 a\n1:13+1! expected a hint's name\n");
  EXPECT_EQ(parse("x # @hint: a,,b"), "1:11+1 a\n1:14+1 b\n"
                                      "1:13+1! expected a hint's name\n");
  EXPECT_EQ(parse("x # @hint: a b, c"),
            "1:16+1 c\n"
            "1:13+1! expected ',' or the comment's end after 'a'\n");
  EXPECT_EQ(parse("x # @hint: a=1 2"),
            "1:15+1! expected ',' or the comment's end after 'a=1'\n");
  EXPECT_EQ(parse("x # @hint: \xc3\xa4"), "1:11+2! expected a hint's name\n");
}

TEST(HintParser, KnowsTheStatement) {
  const HintTable Table = parseHints("f(\n  a, # @hint: a\n)\n# @hint: b\n");
  ASSERT_EQ(Table.Hints.size(), 2u);
  ASSERT_TRUE(Table.Hints[0].Statement);
  EXPECT_EQ(Table.Hints[0].Statement->First, 1u);
  EXPECT_EQ(Table.Hints[0].Statement->Last, 3u);
  EXPECT_FALSE(Table.Hints[1].Statement);
}

TEST(HintParser, ReadsThousandsOfLines) {
  std::string Source;
  for (int I = 0; I < 20000; ++I)
    Source += "x = tl.load(p + " + std::to_string(I) + ")  # @hint: a=1\n";
  EXPECT_EQ(parseHints(Source).Hints.size(), 20000u);
}

} // namespace
