//===- ScalarPacking.h - Host values to kernel parameter bits ---*- C++ -*-===//
//
// How a number given by the caller becomes the bits of a kernel parameter.
//
// The contract is to give every kernel the bits that Triton 3.6 gives it:
//   fp64  the value itself;
//   fp32  rounded to nearest, ties to even; too large becomes infinity;
//   fp16  rounded to nearest, ties to even, in one step from the double; too
//         large is an error rather than infinity;
//   bf16  rounded to fp32 as above, then *truncated* to its upper half.
// An integer is never wrapped: a value its type cannot hold is an error.
//
//===----------------------------------------------------------------------===//

#ifndef FLAGTREE_LAUNCH_SCALARPACKING_H
#define FLAGTREE_LAUNCH_SCALARPACKING_H

#include <cstdint>
#include <cstring>
#include <optional>

namespace flagtree {

/// The bits of `Value` as an IEEE half, or nothing where a finite value is too
/// large for one.
std::optional<uint16_t> packHalf(double Value) noexcept;

/// The bits of `Value` as a single, rounded to nearest.
inline uint32_t packSingle(double Value) noexcept {
  const float Rounded = static_cast<float>(Value);
  uint32_t Bits;
  std::memcpy(&Bits, &Rounded, sizeof(Bits));
  return Bits;
}

/// The upper half of `packSingle(Value)`.
inline uint16_t packBFloat16(double Value) noexcept {
  return static_cast<uint16_t>(packSingle(Value) >> 16);
}

/// The bits of `Value`.
inline uint64_t packDouble(double Value) noexcept {
  uint64_t Bits;
  std::memcpy(&Bits, &Value, sizeof(Bits));
  return Bits;
}

/// The smallest and the largest value of an integer type of at most 64 bits,
/// except that of the unsigned 64-bit type, whose largest does not fit here.
struct IntegerRange {
  int64_t Smallest;
  int64_t Largest;

  constexpr bool holds(int64_t Value) const noexcept {
    return Smallest <= Value && Value <= Largest;
  }
};

} // namespace flagtree

#endif // FLAGTREE_LAUNCH_SCALARPACKING_H
