//===- LaunchPlan.h - What one kernel wants as arguments --------*- C++ -*-===//
//
// A LaunchPlan is made once from a kernel's signature; every launch then only
// walks it and fills a ParameterBuffer. Neither knows of Python or the driver.
//
// Contract:
//  - A plan is immutable after create(), so any number of threads may walk one.
//  - The order of parameters is the order in which the compiler lowers the
//    signature: tuples flattened, constexprs left out, each tensor descriptor
//    replaced by what the kernel was compiled for (DescriptorForm), and after
//    them all two pointers, global and profile scratch.
//  - `Position` counts flattened entries, constexprs included, because that is
//    the number Triton's own messages show.
//
//===----------------------------------------------------------------------===//

#ifndef FLAGTREE_LAUNCH_LAUNCHPLAN_H
#define FLAGTREE_LAUNCH_LAUNCHPLAN_H

#include "flagtree/Launch/ScalarPacking.h"

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace flagtree {

enum class ArgumentKind : uint8_t {
  /// Compiled in: an argument is given and takes no parameter.
  Constexpr,
  Pointer,
  Int1,
  Int8,
  Int16,
  Int32,
  Int64,
  UInt1,
  UInt8,
  UInt16,
  UInt32,
  UInt64,
  Half,
  BFloat16,
  Single,
  Double,
  /// A 128-byte tensor map made by the caller.
  TensorMap,
  /// A host tensor descriptor; see DescriptorForm.
  Descriptor,
  /// A tuple: its elements are in Argument::Elements.
  Tuple,
};

/// How a kernel takes a host-side tensor descriptor of rank N.
enum class DescriptorForm : uint8_t {
  /// Base pointer, N shape and N stride i64, one i1 for padding, N shape i32,
  /// N stride i64: targets without a tensor memory accelerator.
  Expanded,
  /// Tensor map, N shape i32, N stride i64.
  Mapped,
};

/// What a signature says about one argument, as the border hands it over.
struct SignatureEntry {
  /// A type as Triton writes it: "*fp32", "i32", "constexpr",
  /// "tensordesc<fp16[64, 32]>". Empty for a tuple.
  std::string Type;
  /// How to call the argument in messages: "x_ptr", "shape[1]".
  std::string Name;
  bool IsTuple = false;
  std::vector<SignatureEntry> Elements;
};

/// One argument, ready to be filled in.
struct Argument {
  ArgumentKind Kind = ArgumentKind::Constexpr;
  DescriptorForm Form = DescriptorForm::Expanded;
  /// Rank of a descriptor.
  uint8_t Rank = 0;
  /// Index of the argument's first parameter.
  uint32_t Parameter = 0;
  /// Number in the flattened signature, as Triton counts.
  int32_t Position = 0;
  /// Which descriptor this is, counted over the whole signature.
  uint32_t DescriptorIndex = 0;
  std::string Name;
  std::string Type;
  std::vector<Argument> Elements;
};

/// What a launch needs of an argument that is given in its plainest form: an
/// Argument without all that is there for messages and for the other forms, so
/// that a plan of any usual size is a few cache lines.
struct ArgumentStep {
  ArgumentKind Kind = ArgumentKind::Constexpr;
  uint32_t Parameter = 0;
};
static_assert(sizeof(ArgumentStep) == 8);

/// The integers an argument of `Kind` can hold. UInt64 answers the signed
/// range from zero; its upper half needs a check of its own.
constexpr IntegerRange integerRange(ArgumentKind Kind) noexcept {
  switch (Kind) {
  case ArgumentKind::Int1:
  case ArgumentKind::UInt1:
    return {0, 1};
  case ArgumentKind::Int8:
    return {INT8_MIN, INT8_MAX};
  case ArgumentKind::Int16:
    return {INT16_MIN, INT16_MAX};
  case ArgumentKind::Int32:
    return {INT32_MIN, INT32_MAX};
  case ArgumentKind::UInt8:
    return {0, UINT8_MAX};
  case ArgumentKind::UInt16:
    return {0, UINT16_MAX};
  case ArgumentKind::UInt32:
    return {0, UINT32_MAX};
  case ArgumentKind::UInt64:
    return {0, INT64_MAX};
  default:
    return {INT64_MIN, INT64_MAX};
  }
}

/// Reads one scalar or pointer type name; nothing for a name that is none.
std::optional<ArgumentKind> parseArgumentKind(std::string_view Type) noexcept;

class LaunchPlan {
public:
  /// Makes the plan for `Signature`. `MappedDescriptors` says, per tensor
  /// descriptor in order, whether the kernel takes it as a tensor map; empty
  /// means that none is. On failure returns nothing and says in `Error` which
  /// argument is at fault.
  static std::optional<LaunchPlan>
  create(const std::vector<SignatureEntry> &Signature,
         const std::vector<bool> &MappedDescriptors, std::string &Error);

  const std::vector<Argument> &arguments() const noexcept { return Arguments; }

  /// One step per argument, in the same order.
  const std::vector<ArgumentStep> &steps() const noexcept { return Steps; }

  /// Number of kernel parameters, the two scratch pointers included.
  uint32_t parameterCount() const noexcept { return ParameterCount; }

  /// Index of the global scratch pointer; the profile one follows it.
  uint32_t scratchParameter() const noexcept { return ParameterCount - 2; }

private:
  LaunchPlan() = default;

  std::vector<Argument> Arguments;
  std::vector<ArgumentStep> Steps;
  uint32_t ParameterCount = 0;
};

/// The parameters of one launch, in the form the driver takes them: an array
/// of addresses, each of a value. Lives on the launching thread's stack;
/// allocates only for kernels with more than InlineCount parameters.
class ParameterBuffer {
public:
  static constexpr uint32_t InlineCount = 64;

  explicit ParameterBuffer(uint32_t Count) : Count(Count) {
    if (Count > InlineCount) {
      HeapSlots = std::make_unique<uint64_t[]>(Count);
      HeapAddresses = std::make_unique<void *[]>(Count);
      Slots = HeapSlots.get();
      Addresses = HeapAddresses.get();
    }
    // Locals, since what is stored here could be these members for all that the
    // compiler knows.
    uint64_t *const Values = Slots;
    void **const Pointers = Addresses;
    for (uint32_t I = 0; I != Count; ++I)
      Pointers[I] = &Values[I];
  }
  ParameterBuffer(const ParameterBuffer &) = delete;
  ParameterBuffer &operator=(const ParameterBuffer &) = delete;

  /// Sets parameter `Index`; the driver reads as many low bytes as the kernel
  /// declares.
  void set(uint32_t Index, uint64_t Bits) noexcept {
    assert(Index < Count && "parameter out of range");
    Slots[Index] = Bits;
  }

  /// Has the driver read parameter `Index` at `Address`, which must stay valid
  /// until the launch has returned.
  void refer(uint32_t Index, void *Address) noexcept {
    assert(Index < Count && "parameter out of range");
    Addresses[Index] = Address;
  }

  void **addresses() noexcept { return Addresses; }
  uint32_t size() const noexcept { return Count; }

private:
  uint32_t Count;
  uint64_t InlineSlots[InlineCount];
  void *InlineAddresses[InlineCount];
  std::unique_ptr<uint64_t[]> HeapSlots;
  std::unique_ptr<void *[]> HeapAddresses;
  uint64_t *Slots = InlineSlots;
  void **Addresses = InlineAddresses;
};

} // namespace flagtree

#endif // FLAGTREE_LAUNCH_LAUNCHPLAN_H
