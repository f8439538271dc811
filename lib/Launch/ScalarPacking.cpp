//===- ScalarPacking.cpp - Host values to kernel parameter bits -----------===//

#include "flagtree/Launch/ScalarPacking.h"

using namespace flagtree;

namespace {
constexpr int DoubleMantissaBits = 52;
constexpr int HalfMantissaBits = 10;
constexpr int DoubleBias = 1023;
constexpr int HalfBias = 15;
constexpr int SmallestNormalExponent = -14;
constexpr uint16_t HalfInfinity = 0x7c00;
constexpr uint16_t HalfNaN = 0x7e00;
} // namespace

std::optional<uint16_t> flagtree::packHalf(double Value) noexcept {
  const uint64_t Bits = packDouble(Value);
  const uint16_t Sign = static_cast<uint16_t>((Bits >> 48) & 0x8000);
  const int BiasedExponent =
      static_cast<int>((Bits >> DoubleMantissaBits) & 0x7ff);
  const uint64_t Fraction = Bits & ((uint64_t(1) << DoubleMantissaBits) - 1);

  if (BiasedExponent == 0x7ff)
    return static_cast<uint16_t>(Sign | (Fraction ? HalfNaN : HalfInfinity));

  const int Exponent = BiasedExponent - DoubleBias;
  if (Exponent > HalfBias)
    return std::nullopt;

  // Below half of the smallest subnormal (2^-24) everything rounds to zero,
  // and so does every subnormal double.
  if (Exponent < SmallestNormalExponent - HalfMantissaBits - 1)
    return Sign;

  // `Kept` are the bits of exponent and fraction that stay; rounding up may
  // carry from the fraction into the exponent, which is what it should do.
  int Dropped = DoubleMantissaBits - HalfMantissaBits;
  uint64_t Significand = Fraction;
  uint64_t Kept;
  if (Exponent >= SmallestNormalExponent) {
    Kept = (static_cast<uint64_t>(Exponent + HalfBias) << HalfMantissaBits) |
           (Significand >> Dropped);
  } else {
    Significand |= uint64_t(1) << DoubleMantissaBits;
    Dropped += SmallestNormalExponent - Exponent;
    Kept = Significand >> Dropped;
  }
  const uint64_t Rest = Significand & ((uint64_t(1) << Dropped) - 1);
  const uint64_t Tie = uint64_t(1) << (Dropped - 1);
  if (Rest > Tie || (Rest == Tie && (Kept & 1)))
    ++Kept;
  if (Kept >= HalfInfinity)
    return std::nullopt;
  return static_cast<uint16_t>(Sign | Kept);
}
