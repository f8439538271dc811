//===- LaunchPlanTest.cpp -------------------------------------------------===//

#include "flagtree/Launch/LaunchPlan.h"

#include "gtest/gtest.h"

using namespace flagtree;

namespace {

SignatureEntry entry(std::string Type, std::string Name) {
  SignatureEntry Entry;
  Entry.Type = std::move(Type);
  Entry.Name = std::move(Name);
  return Entry;
}

SignatureEntry tuple(std::string Name, std::vector<SignatureEntry> Elements) {
  SignatureEntry Entry;
  Entry.Name = std::move(Name);
  Entry.IsTuple = true;
  Entry.Elements = std::move(Elements);
  return Entry;
}

LaunchPlan planOf(const std::vector<SignatureEntry> &Signature,
                  const std::vector<bool> &Mapped = {}) {
  std::string Error;
  auto Plan = LaunchPlan::create(Signature, Mapped, Error);
  EXPECT_TRUE(Plan) << Error;
  return std::move(*Plan);
}

TEST(LaunchPlanTest, AKernelWithoutArgumentsTakesTheScratchPointers) {
  const LaunchPlan Plan = planOf({});
  EXPECT_EQ(Plan.parameterCount(), 2u);
  EXPECT_EQ(Plan.scratchParameter(), 0u);
}

TEST(LaunchPlanTest, ConstexprsTakeAPositionAndNoParameter) {
  const LaunchPlan Plan =
      planOf({entry("*fp32", "x"), entry("constexpr", "n"), entry("i32", "m")});
  EXPECT_EQ(Plan.parameterCount(), 4u);
  EXPECT_EQ(Plan.arguments()[2].Parameter, 1u);
  EXPECT_EQ(Plan.arguments()[2].Position, 2);
}

TEST(LaunchPlanTest, TuplesFlattenInOrder) {
  const LaunchPlan Plan =
      planOf({entry("i64", "a"),
              tuple("t", {entry("*fp16", "t[0]"),
                          tuple("t[1]", {entry("constexpr", "t[1][0]"),
                                         entry("fp32", "t[1][1]")}),
                          tuple("t[2]", {})}),
              entry("u8", "b")});
  EXPECT_EQ(Plan.parameterCount(), 6u);
  const Argument &Tuple = Plan.arguments()[1];
  ASSERT_EQ(Tuple.Kind, ArgumentKind::Tuple);
  EXPECT_EQ(Tuple.Elements[0].Parameter, 1u);
  EXPECT_EQ(Tuple.Elements[0].Position, 1);
  EXPECT_EQ(Tuple.Elements[1].Elements[1].Parameter, 2u);
  EXPECT_EQ(Tuple.Elements[1].Elements[1].Position, 3);
  EXPECT_EQ(Tuple.Elements[1].Elements[1].Name, "t[1][1]");
  EXPECT_EQ(Plan.arguments()[2].Parameter, 3u);
  EXPECT_EQ(Plan.arguments()[2].Position, 4);
  ASSERT_EQ(Plan.steps().size(), Plan.arguments().size());
  for (size_t I = 0; I != Plan.steps().size(); ++I) {
    EXPECT_EQ(Plan.steps()[I].Kind, Plan.arguments()[I].Kind);
    EXPECT_EQ(Plan.steps()[I].Parameter, Plan.arguments()[I].Parameter);
  }
}

TEST(LaunchPlanTest, AnExpandedDescriptorIsPointerShapesStridesAndPadding) {
  const LaunchPlan Plan =
      planOf({entry("tensordesc<fp16[64, 32]>", "d"), entry("i32", "n")});
  EXPECT_EQ(Plan.arguments()[0].Rank, 2);
  EXPECT_EQ(Plan.arguments()[0].Form, DescriptorForm::Expanded);
  EXPECT_EQ(Plan.arguments()[1].Parameter, 1u + 4 + 1 + 4);
  EXPECT_EQ(Plan.arguments()[1].Position, 1 + 4 + 1 + 4);
}

TEST(LaunchPlanTest, AMappedDescriptorIsATensorMapShapesAndStrides) {
  const LaunchPlan Plan =
      planOf({entry("tensordesc<fp16[64, 32],Layout<[1]>>", "d"),
              entry("tensordesc<fp32[8]>", "e"), entry("i32", "n")},
             {true, false});
  EXPECT_EQ(Plan.arguments()[0].Form, DescriptorForm::Mapped);
  EXPECT_EQ(Plan.arguments()[1].Parameter, 5u);
  EXPECT_EQ(Plan.arguments()[1].DescriptorIndex, 1u);
  EXPECT_EQ(Plan.arguments()[2].Parameter, 5u + 1 + 2 + 1 + 2);
}

TEST(LaunchPlanTest, FaultsNameTheArgument) {
  std::string Error;
  EXPECT_FALSE(LaunchPlan::create({entry("fp8", "scale")}, {}, Error));
  EXPECT_NE(Error.find("'scale'"), std::string::npos);
  EXPECT_NE(Error.find("'fp8'"), std::string::npos);
  for (const char *Type :
       {"tensordesc", "tensordesc<fp16>", "tensordesc<fp16[]>",
        "tensordesc<fp16[1,1,1,1,1,1]>", "tensordescfp16[1]", ""})
    EXPECT_FALSE(LaunchPlan::create({entry(Type, "d")}, {}, Error)) << Type;
  EXPECT_FALSE(LaunchPlan::create({entry("i32", "n")}, {true}, Error));
  EXPECT_NE(Error.find("1 tensor descriptors"), std::string::npos);
}

TEST(LaunchPlanTest, IntegerRanges) {
  EXPECT_TRUE(integerRange(ArgumentKind::Int8).holds(-128));
  EXPECT_FALSE(integerRange(ArgumentKind::Int8).holds(128));
  EXPECT_TRUE(integerRange(ArgumentKind::UInt32).holds(4294967295));
  EXPECT_FALSE(integerRange(ArgumentKind::UInt32).holds(-1));
  EXPECT_TRUE(integerRange(ArgumentKind::UInt1).holds(1));
  EXPECT_FALSE(integerRange(ArgumentKind::UInt1).holds(2));
  EXPECT_TRUE(integerRange(ArgumentKind::Int64).holds(INT64_MIN));
}

TEST(ParameterBufferTest, AddressesPointAtValues) {
  for (uint32_t Count : {2u, ParameterBuffer::InlineCount,
                         ParameterBuffer::InlineCount + 1, 1000u}) {
    ParameterBuffer Buffer(Count);
    for (uint32_t I = 0; I != Count; ++I)
      Buffer.set(I, uint64_t(I) * 0x100000001);
    for (uint32_t I = 0; I != Count; ++I)
      EXPECT_EQ(*static_cast<uint64_t *>(Buffer.addresses()[I]),
                uint64_t(I) * 0x100000001);
  }
}

TEST(ParameterBufferTest, RefersToTheCallersMemory) {
  char Map[128];
  ParameterBuffer Buffer(3);
  Buffer.refer(1, Map);
  EXPECT_EQ(Buffer.addresses()[1], static_cast<void *>(Map));
}

} // namespace
