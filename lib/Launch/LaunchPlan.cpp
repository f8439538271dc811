//===- LaunchPlan.cpp - What one kernel wants as arguments ----------------===//

#include "flagtree/Launch/LaunchPlan.h"

#include <algorithm>

using namespace flagtree;

namespace {

struct NamedKind {
  std::string_view Name;
  ArgumentKind Kind;
};

constexpr NamedKind Kinds[] = {
    {"constexpr", ArgumentKind::Constexpr},
    {"i1", ArgumentKind::Int1},
    {"i8", ArgumentKind::Int8},
    {"i16", ArgumentKind::Int16},
    {"i32", ArgumentKind::Int32},
    {"i64", ArgumentKind::Int64},
    {"u1", ArgumentKind::UInt1},
    {"u8", ArgumentKind::UInt8},
    {"u16", ArgumentKind::UInt16},
    {"u32", ArgumentKind::UInt32},
    {"u64", ArgumentKind::UInt64},
    {"fp16", ArgumentKind::Half},
    {"bf16", ArgumentKind::BFloat16},
    {"fp32", ArgumentKind::Single},
    {"f32", ArgumentKind::Single},
    {"fp64", ArgumentKind::Double},
    {"nvTmaDesc", ArgumentKind::TensorMap},
};

constexpr std::string_view DescriptorPrefix = "tensordesc";

/// The driver's tensor maps have at most this many dimensions.
constexpr unsigned MaxDescriptorRank = 5;

/// Rank of "tensordesc<fp16[64, 32], ...>": one more than the commas between
/// the first brackets.
std::optional<uint8_t> descriptorRank(std::string_view Type) {
  const size_t Open = Type.find('[');
  const size_t Close = Type.find(']', Open == Type.npos ? 0 : Open);
  if (Type.size() <= DescriptorPrefix.size() ||
      Type[DescriptorPrefix.size()] != '<' || Open == Type.npos ||
      Close == Type.npos || Close == Open + 1)
    return std::nullopt;
  const auto Shape = Type.substr(Open + 1, Close - Open - 1);
  const auto Commas = std::count(Shape.begin(), Shape.end(), ',');
  if (Commas + 1 > static_cast<ptrdiff_t>(MaxDescriptorRank))
    return std::nullopt;
  return static_cast<uint8_t>(Commas + 1);
}

/// Turns signature entries into arguments and hands out parameters and
/// positions in order.
class PlanBuilder {
public:
  explicit PlanBuilder(const std::vector<bool> &Mapped) : Mapped(Mapped) {}

  bool build(const std::vector<SignatureEntry> &Entries,
             std::vector<Argument> &Out, std::string &Error) {
    Out.reserve(Entries.size());
    for (const SignatureEntry &Entry : Entries) {
      Argument Arg;
      if (!buildOne(Entry, Arg, Error))
        return false;
      Out.push_back(std::move(Arg));
    }
    return true;
  }

  uint32_t parameters() const { return NextParameter; }
  uint32_t descriptors() const { return NextDescriptor; }

private:
  bool buildOne(const SignatureEntry &Entry, Argument &Arg,
                std::string &Error) {
    Arg.Name = Entry.Name;
    Arg.Type = Entry.Type;
    Arg.Parameter = NextParameter;
    Arg.Position = NextPosition;
    if (Entry.IsTuple) {
      Arg.Kind = ArgumentKind::Tuple;
      return build(Entry.Elements, Arg.Elements, Error);
    }
    if (Entry.Type.compare(0, DescriptorPrefix.size(), DescriptorPrefix) == 0)
      return buildDescriptor(Entry, Arg, Error);
    const std::optional<ArgumentKind> Kind = parseArgumentKind(Entry.Type);
    if (!Kind) {
      Error = "argument '" + Entry.Name + "' has type '" + Entry.Type +
              "', which is none a kernel can be launched with";
      return false;
    }
    Arg.Kind = *Kind;
    ++NextPosition;
    if (*Kind != ArgumentKind::Constexpr)
      ++NextParameter;
    return true;
  }

  bool buildDescriptor(const SignatureEntry &Entry, Argument &Arg,
                       std::string &Error) {
    const std::optional<uint8_t> Rank = descriptorRank(Entry.Type);
    if (!Rank) {
      Error = "argument '" + Entry.Name + "' has type '" + Entry.Type +
              "'; expected tensordesc<ELEMENT[D0, ...]> with 1 to " +
              std::to_string(MaxDescriptorRank) + " dimensions";
      return false;
    }
    Arg.Kind = ArgumentKind::Descriptor;
    Arg.Rank = *Rank;
    Arg.DescriptorIndex = NextDescriptor++;
    const bool IsMapped =
        Arg.DescriptorIndex < Mapped.size() && Mapped[Arg.DescriptorIndex];
    Arg.Form = IsMapped ? DescriptorForm::Mapped : DescriptorForm::Expanded;
    const uint32_t Parameters = IsMapped ? 1 + 2 * *Rank : 2 + 4 * *Rank;
    NextParameter += Parameters;
    NextPosition += static_cast<int32_t>(Parameters);
    return true;
  }

  const std::vector<bool> &Mapped;
  uint32_t NextParameter = 0;
  uint32_t NextDescriptor = 0;
  int32_t NextPosition = 0;
};

} // namespace

std::optional<ArgumentKind>
flagtree::parseArgumentKind(std::string_view Type) noexcept {
  if (!Type.empty() && Type.front() == '*')
    return ArgumentKind::Pointer;
  for (const NamedKind &Candidate : Kinds)
    if (Candidate.Name == Type)
      return Candidate.Kind;
  return std::nullopt;
}

std::optional<LaunchPlan>
LaunchPlan::create(const std::vector<SignatureEntry> &Signature,
                   const std::vector<bool> &MappedDescriptors,
                   std::string &Error) {
  LaunchPlan Plan;
  PlanBuilder Builder(MappedDescriptors);
  if (!Builder.build(Signature, Plan.Arguments, Error))
    return std::nullopt;
  if (!MappedDescriptors.empty() &&
      MappedDescriptors.size() != Builder.descriptors()) {
    Error = "the kernel was compiled with " +
            std::to_string(MappedDescriptors.size()) +
            " tensor descriptors and its signature has " +
            std::to_string(Builder.descriptors());
    return std::nullopt;
  }
  Plan.ParameterCount = Builder.parameters() + 2;
  Plan.Steps.reserve(Plan.Arguments.size());
  for (const Argument &Arg : Plan.Arguments)
    Plan.Steps.push_back({Arg.Kind, Arg.Parameter});
  return Plan;
}
