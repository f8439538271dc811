//===- EntryPointsTest.cpp - The list of driver calls is true -------------===//

#include "Isolated.h"

#include "flagtree/Driver/DriverLibrary.h"

#include <set>

using namespace flagtree;

TEST(EntryPoints, NamesAreUniqueAndUnprefixed) {
  std::set<std::string> Seen;
  for (const EntryPointInfo &Info : EntryPointList) {
    std::string Name = Info.Name;
    EXPECT_TRUE(Seen.insert(Name).second) << Name << " is listed twice";
    EXPECT_NE(Name.rfind("cu", 0), 0u) << Name << " carries a prefix";
    EXPECT_NE(Name.rfind("hg", 0), 0u) << Name << " carries a prefix";
  }
}

TEST(EntryPoints, VersionsAreWrittenAsTheDriverCounts) {
  for (const EntryPointInfo &Info : EntryPointList) {
    EXPECT_GE(Info.Introduced, 2000) << Info.Name;
    EXPECT_LT(Info.Introduced, 20000) << Info.Name;
    EXPECT_EQ(Info.Introduced % 10, 0) << Info.Name;
  }
}

TEST(EntryPoints, OffsetsAreTheTablesPointersInOrder) {
  std::size_t Expected = 0;
  for (const EntryPointInfo &Info : EntryPointList) {
    EXPECT_EQ(Info.Offset, Expected) << Info.Name;
    Expected += sizeof(void *);
  }
  EXPECT_EQ(Expected, sizeof(EntryPointTable));
}

TEST(EntryPoints, SymbolsCarryPrefixAndSuffix) {
  EntryPointInfo Plain{"Init", "", 2000, EntryPointNeed::Query, 0};
  EntryPointInfo Versioned{"MemAlloc", "_v2", 3020, EntryPointNeed::Optional,
                           0};
  EXPECT_EQ(Plain.symbol(DriverAbi::Cu), "cuInit");
  EXPECT_EQ(Plain.symbol(DriverAbi::Hg), "hgInit");
  EXPECT_EQ(Versioned.symbol(DriverAbi::Hg), "hgMemAlloc_v2");
}

TEST(EntryPoints, AnEmptyTableHoldsNothing) {
  EntryPoints Empty;
  for (const EntryPointInfo &Info : EntryPointList)
    EXPECT_FALSE(Info.isIn(Empty)) << Info.Name;
}

TEST(EntryPoints, EveryKnownCodeHasItsOwnText) {
  std::set<std::string> Names;
  for (int Code : {0, 1, 3, 4, 34, 46, 100, 101, 201, 802, 803, 804, 999}) {
    auto Value = static_cast<Result>(Code);
    EXPECT_TRUE(Names.insert(resultName(Value)).second) << Code;
    EXPECT_STRNE(resultDescription(Value), "") << Code;
  }
  EXPECT_STREQ(resultName(static_cast<Result>(12345)), "an unlisted code");
}
