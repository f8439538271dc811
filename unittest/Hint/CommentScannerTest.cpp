#include "CommentScanner.h"

#include <gtest/gtest.h>

#include <string>

using namespace flagtree;

namespace {

// The comments of Source as "line:column first-last text", one per line.
std::string scan(std::string_view Source) {
  std::string Result;
  for (const Comment &Each : scanComments(Source)) {
    Result += std::to_string(Each.Line) + ':' + std::to_string(Each.Column);
    if (Each.Statement)
      Result += ' ' + std::to_string(Each.Statement->First) + '-' +
                std::to_string(Each.Statement->Last);
    else
      Result += " none";
    Result += ' ' + std::string(Each.Text) + '\n';
  }
  return Result;
}

TEST(CommentScanner, FindsCommentsAndTheirStatements) {
  EXPECT_EQ(scan("x = 1  # one\n# two\ny = 2"), "1:7 1-1 # one\n"
                                                "2:0 none # two\n");
  EXPECT_EQ(scan(""), "");
  EXPECT_EQ(scan("#"), "1:0 none #\n");
  EXPECT_EQ(scan("x #"), "1:2 1-1 #\n");
}

TEST(CommentScanner, KnowsStrings) {
  EXPECT_EQ(scan("a = '# no' # yes"), "1:11 1-1 # yes\n");
  EXPECT_EQ(scan("a = \"it's # no\" # yes"), "1:16 1-1 # yes\n");
  EXPECT_EQ(scan("a = '\\'# no' # yes"), "1:13 1-1 # yes\n");
  EXPECT_EQ(scan("a = r'\\'# no' # yes"), "1:14 1-1 # yes\n");
  EXPECT_EQ(scan("a = '''\n# no ' '' \\'''\n''' # yes"), "3:4 1-3 # yes\n");
  EXPECT_EQ(scan("a = '' # yes"), "1:7 1-1 # yes\n");
  EXPECT_EQ(scan("a = '' '#' # yes"), "1:11 1-1 # yes\n");
  EXPECT_EQ(scan("a = 'x\\\n# no' # yes"), "2:6 1-2 # yes\n");
  EXPECT_EQ(scan("a = Rb'# no' # yes"), "1:13 1-1 # yes\n");
}

TEST(CommentScanner, KnowsFormattedStrings) {
  EXPECT_EQ(scan("a = f'{x:#x} # no' # yes"), "1:19 1-1 # yes\n");
  EXPECT_EQ(scan("a = f'{{#}} {x}' # yes"), "1:17 1-1 # yes\n");
  EXPECT_EQ(scan("a = f'{d[\"#\"]}' # yes"), "1:16 1-1 # yes\n");
  // Python 3.12 nests the same quotes, and comments in triple-quoted fields.
  EXPECT_EQ(scan("a = f'{d['#']}' # yes"), "1:16 1-1 # yes\n");
  EXPECT_EQ(scan("a = f'''{x # field\n}''' # yes"), "1:11 1-2 # field\n"
                                                    "2:5 1-2 # yes\n");
  EXPECT_EQ(scan("a = f'{x!r:{'#'}^{w}}#' # yes"), "1:24 1-1 # yes\n");
  EXPECT_EQ(scan("a = f'{x != \"#\"}#' # yes"), "1:19 1-1 # yes\n");
  EXPECT_EQ(scan("a = f'{(lambda: {\"#\": 1})}#' # yes"), "1:29 1-1 # yes\n");
  EXPECT_EQ(scan("a = f'\\N{NUMBER SIGN}#' # yes"), "1:24 1-1 # yes\n");
  EXPECT_EQ(scan("a = rf'\\{x}#' # yes"), "1:14 1-1 # yes\n");
  EXPECT_EQ(scan("a = t'{x}#' # yes"), "1:12 1-1 # yes\n");
  EXPECT_EQ(scan("a = f'{f'{f'#'}'}' # yes"), "1:19 1-1 # yes\n");
}

TEST(CommentScanner, JoinsLines) {
  EXPECT_EQ(scan("f(a,  # one\n  # two\n  b)  # three\n"), "1:6 1-3 # one\n"
                                                           "2:2 1-3 # two\n"
                                                           "3:6 1-3 # three\n");
  EXPECT_EQ(scan("x = 1 + \\\n  2 # sum\n# none"), "2:4 1-2 # sum\n"
                                                   "3:0 none # none\n");
  EXPECT_EQ(scan("x = [\n\n1] # end"), "3:3 1-3 # end\n");
  EXPECT_EQ(scan("a = 1; b = (\n2) # both"), "2:3 1-2 # both\n");
}

TEST(CommentScanner, KnowsAllLineEndings) {
  EXPECT_EQ(scan("x\r\ny # crlf\r\nz # z"), "2:2 2-2 # crlf\n3:2 3-3 # z\n");
  EXPECT_EQ(scan("x\ry # cr\rz # z"), "2:2 2-2 # cr\n3:2 3-3 # z\n");
  EXPECT_EQ(scan("a = '\\\r\n#' # yes"), "2:3 1-2 # yes\n");
  // A form feed and the Unicode line separator end no line.
  EXPECT_EQ(scan("x\f # \xe2\x80\xa8 same"), "1:3 1-1 # \xe2\x80\xa8 same\n");
}

TEST(CommentScanner, SkipsAByteOrderMark) {
  EXPECT_EQ(scan("\xef\xbb\xbfx # a"), "1:2 1-1 # a\n");
}

TEST(CommentScanner, GoesOnAfterBrokenSource) {
  EXPECT_EQ(scan("x = 'open # no\ny # yes"), "2:2 2-2 # yes\n");
  EXPECT_EQ(scan("x = f'open # no\ny # yes"), "2:2 2-2 # yes\n");
  EXPECT_EQ(scan("x = )]} # yes\ny"), "1:8 1-1 # yes\n");
  EXPECT_EQ(scan("x = ( # open\ny # b"), "1:6 1-2 # open\n2:2 1-2 # b\n");
  EXPECT_EQ(scan("f'{"), "");
  EXPECT_EQ(scan("f'{x:"), "");
  EXPECT_EQ(scan("'\\"), "");
}

TEST(CommentScanner, IsLinearInDeepNesting) {
  std::string Source(1 << 20, '(');
  EXPECT_EQ(scan(Source), "");
  Source.clear();
  for (int I = 0; I < 200000; ++I)
    Source += "f'{";
  EXPECT_EQ(scan(Source), "");
}

} // namespace
