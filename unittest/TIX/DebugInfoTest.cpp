//===- DebugInfoTest.cpp --------------------------------------------------===//

#include "flagtree/TIX/DebugInfo.h"

#include "gtest/gtest.h"

using namespace flagtree::tix;

namespace {

std::vector<std::string> places(const DebugInfo &info, uint64_t id) {
  std::vector<std::string> result;
  for (const SourceLocation &place : info.locate(id))
    result.push_back(place.str());
  return result;
}

using List = std::vector<std::string>;

TEST(DebugInfo, FollowsScopesToTheFile) {
  DebugInfo info;
  info.add(1, "!DIFile(filename: \"k.py\", directory: \"/src\")");
  info.add(4, "distinct !DISubprogram(name: \"k\", linkageName: \"k, (odd)\", "
              "scope: !1, file: !1, line: 23, unit: !0)");
  info.add(7, "!DILocation(line: 24, column: 5, scope: !4)");
  EXPECT_EQ(places(info, 7), List{"/src/k.py:24:5"});
  EXPECT_EQ(places(info, 4), List{"/src/k.py:23"});
}

TEST(DebugInfo, FollowsInlining) {
  DebugInfo info;
  info.add(1, "!DIFile(filename: \"k.py\", directory: \"/src\")");
  info.add(2, "!DIFile(filename: \"/abs/standard.py\", directory: \"/src\")");
  info.add(4, "distinct !DISubprogram(name: \"k\", file: !1, line: 23)");
  info.add(15, "distinct !DILexicalBlockFile(scope: !4, file: !2, "
               "discriminator: 0)");
  info.add(14,
           "!DILocation(line: 170, column: 27, scope: !15, inlinedAt: !17)");
  info.add(17, "!DILocation(line: 28, column: 19, scope: !4)");
  EXPECT_EQ(places(info, 14),
            (List{"/abs/standard.py:170:27", "/src/k.py:28:19"}));
}

TEST(DebugInfo, ResolvesEscapesInNames) {
  DebugInfo info;
  info.add(1, "!DIFile(filename: \"a\\22b,(\\5C.py\", directory: \"/s\\20p\")");
  info.add(2, "!DILocation(line: 3, scope: !1)");
  EXPECT_EQ(places(info, 2), List{"/s p/a\"b,(\\.py:3"});
}

TEST(DebugInfo, EndsOnCyclesAndGaps) {
  DebugInfo info;
  info.add(1, "!DILocation(line: 1, column: 1, scope: !2, inlinedAt: !1)");
  info.add(2, "distinct !DILexicalBlock(scope: !2, line: 1)");
  EXPECT_TRUE(info.locate(1).empty());
  EXPECT_TRUE(info.locate(99).empty());
  info.add(3, "!DILocation(line: 1, column: 1, scope: !77)");
  EXPECT_TRUE(info.locate(3).empty());
}

TEST(DebugInfo, IgnoresOtherNodes) {
  DebugInfo info;
  info.add(1, "!{i32 4, !\"nvvm-reflect-ftz\", i32 1}");
  info.add(2, "!DIBasicType(name: \"int\", size: 32)");
  info.add(3, "!DILocation(");
  info.add(4, ")!DILocation(line: 1)");
  EXPECT_TRUE(info.locate(1).empty());
  EXPECT_TRUE(info.locate(3).empty());
}

} // namespace
