//===- ScalarPackingTest.cpp ----------------------------------------------===//

#include "flagtree/Launch/ScalarPacking.h"

#include "gtest/gtest.h"

#include <cmath>
#include <limits>
#include <random>

using namespace flagtree;

namespace {

/// The value of a half's bits, from the format's definition.
double unpackHalf(uint16_t Bits) {
  const int Exponent = (Bits >> 10) & 0x1f;
  const int Fraction = Bits & 0x3ff;
  const double Magnitude = Exponent == 0
                               ? std::ldexp(Fraction, -24)
                               : std::ldexp(1024 + Fraction, Exponent - 25);
  return Bits & 0x8000 ? -Magnitude : Magnitude;
}

TEST(ScalarPackingTest, EveryHalfPacksToItself) {
  for (uint32_t Bits = 0; Bits != 0x10000; ++Bits) {
    if ((Bits & 0x7c00) == 0x7c00)
      continue;
    EXPECT_EQ(packHalf(unpackHalf(uint16_t(Bits))), uint16_t(Bits)) << Bits;
  }
}

TEST(ScalarPackingTest, HalfRoundsToNearestAndTiesToEven) {
  for (uint16_t Low = 0; Low != 0x7bff; ++Low) {
    const double Below = unpackHalf(Low), Above = unpackHalf(Low + 1);
    const double Middle = (Below + Above) / 2; // exact in a double
    const uint16_t Even = Low & 1 ? Low + 1 : Low;
    EXPECT_EQ(packHalf(Middle), Even) << Low;
    EXPECT_EQ(packHalf(std::nextafter(Middle, Below)), Low) << Low;
    EXPECT_EQ(packHalf(std::nextafter(Middle, Above)), Low + 1) << Low;
  }
}

TEST(ScalarPackingTest, HalfTooLargeIsAnError) {
  EXPECT_EQ(packHalf(65504.0), 0x7bff);
  EXPECT_EQ(packHalf(std::nextafter(65520.0, 0.0)), 0x7bff);
  EXPECT_FALSE(packHalf(65520.0));
  EXPECT_FALSE(packHalf(-65520.0));
  EXPECT_FALSE(packHalf(1e300));
}

TEST(ScalarPackingTest, HalfSpecialValues) {
  const double Infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(packHalf(Infinity), 0x7c00);
  EXPECT_EQ(packHalf(-Infinity), 0xfc00);
  EXPECT_EQ(packHalf(std::numeric_limits<double>::quiet_NaN()), 0x7e00);
  EXPECT_EQ(packHalf(-0.0), 0x8000);
  EXPECT_EQ(packHalf(std::numeric_limits<double>::denorm_min()), 0);
  EXPECT_EQ(packHalf(std::ldexp(1.0, -25)), 0);
  EXPECT_EQ(packHalf(std::nextafter(std::ldexp(1.0, -25), 1.0)), 1);
}

TEST(ScalarPackingTest, SingleRoundsAndOverflowsToInfinity) {
  EXPECT_EQ(packSingle(0.1), 0x3dcccccdu);
  EXPECT_EQ(packSingle(16777217.0), 0x4b800000u); // a tie, to even
  EXPECT_EQ(packSingle(1e300), 0x7f800000u);
  EXPECT_EQ(packSingle(-1e300), 0xff800000u);
}

TEST(ScalarPackingTest, BFloat16IsTheUpperHalfOfTheSingle) {
  EXPECT_EQ(packBFloat16(1.0), 0x3f80);
  // 0x3dcccccd would round up; Triton truncates.
  EXPECT_EQ(packBFloat16(0.1), 0x3dcc);
  std::mt19937_64 Random(1);
  std::uniform_real_distribution<double> Values(-1e6, 1e6);
  for (int I = 0; I != 1000; ++I) {
    const double Value = Values(Random);
    EXPECT_EQ(packBFloat16(Value), packSingle(Value) >> 16);
  }
}

TEST(ScalarPackingTest, DoubleIsItself) {
  EXPECT_EQ(packDouble(1.0), 0x3ff0000000000000u);
  EXPECT_EQ(packDouble(-0.0), 0x8000000000000000u);
}

} // namespace
