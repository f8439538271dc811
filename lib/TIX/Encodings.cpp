//===- Encodings.cpp - Tables of what can and cannot be written -----------===//
//
// What is public about the PPU's dialect is PTX's grammar and operand syntax
// for ordinary instructions. The tables follow from that: an instruction of the
// PTX ISA that belongs to one thread, warp or block is written; everything that
// drives a unit whose encoding is T-Head's own is refused with its reason.
//
//===----------------------------------------------------------------------===//

#include "flagtree/TIX/Encodings.h"

#include <algorithm>
#include <iterator>

namespace flagtree::tix {
namespace {

constexpr std::string_view MatrixReason =
    "matrix instructions have no publicly known PPU encoding";
constexpr std::string_view AsyncCopyReason =
    "asynchronous copies have no publicly known PPU encoding";
constexpr std::string_view TMAReason =
    "bulk and tensor copies (TMA) have no publicly known PPU encoding";
constexpr std::string_view MBarrierReason =
    "asynchronous barriers in shared memory have no publicly known PPU "
    "encoding";
constexpr std::string_view ClusterReason =
    "thread block clusters do not exist on the PPU as far as is publicly known";
constexpr std::string_view DependencyReason =
    "programmatic dependent launch has no publicly known PPU encoding";
constexpr std::string_view TextureReason =
    "texture and surface instructions have no publicly known PPU encoding";
constexpr std::string_view RegisterReason =
    "moving registers between warps has no publicly known PPU encoding";
constexpr std::string_view MultimemReason =
    "multicast memory has no publicly known PPU encoding";
constexpr std::string_view CacheReason =
    "no instruction has both a cache operator and an eviction priority";
constexpr std::string_view UnknownReason =
    "not an instruction that is known to exist on the PPU";

struct Refusal {
  std::string_view pattern;
  std::string_view reason;
};

/// PTX instructions, by their first word, that belong to a thread, a warp or a
/// block and need no special unit. Sorted.
constexpr std::string_view PlainOpcodes[] = {
    "abs",     "activemask", "add",       "addc",         "and",   "atom",
    "bar",     "barrier",    "bfe",       "bfi",          "bfind", "bmsk",
    "bra",     "brev",       "brkpt",     "brx",          "call",  "clz",
    "cnot",    "copysign",   "cos",       "createpolicy", "cvt",   "cvta",
    "discard", "div",        "dp2a",      "dp4a",         "ex2",   "exit",
    "fence",   "fma",        "fns",       "isspacep",     "ld",    "ldmatrix",
    "ldu",     "lg2",        "lop3",      "mad",          "mad24", "madc",
    "match",   "max",        "membar",    "min",          "mov",   "mul",
    "mul24",   "nanosleep",  "neg",       "not",          "or",    "pmevent",
    "popc",    "prefetch",   "prefetchu", "prmt",         "rcp",   "red",
    "redux",   "rem",        "ret",       "rsqrt",        "sad",   "selp",
    "set",     "setp",       "shf",       "shfl",         "shl",   "shr",
    "sin",     "slct",       "sqrt",      "st",           "sub",   "subc",
    "szext",   "tanh",       "testp",     "trap",         "vote",  "xor"};

/// Instructions refused by the words they begin with.
constexpr Refusal RefusedOpcodes[] = {
    {"mma", MatrixReason},
    {"wmma", MatrixReason},
    {"wgmma", MatrixReason},
    {"tcgen05", MatrixReason},
    {"stmatrix", MatrixReason},
    {"movmatrix", MatrixReason},
    {"cp.async.bulk", TMAReason},
    {"cp.reduce.async.bulk", TMAReason},
    {"cp.async.mbarrier", MBarrierReason},
    {"cp.async", AsyncCopyReason},
    {"tensormap", TMAReason},
    {"prefetch.tensormap", TMAReason},
    {"fence.proxy", AsyncCopyReason},
    {"fence.mbarrier_init", MBarrierReason},
    {"st.async", AsyncCopyReason},
    {"st.bulk", TMAReason},
    {"red.async", AsyncCopyReason},
    {"mbarrier", MBarrierReason},
    {"barrier.cluster", ClusterReason},
    {"mapa", ClusterReason},
    {"getctarank", ClusterReason},
    {"clusterlaunchcontrol", ClusterReason},
    {"isspacep.shared::cluster", ClusterReason},
    {"griddepcontrol", DependencyReason},
    {"setmaxnreg", RegisterReason},
    {"multimem", MultimemReason},
    {"tex", TextureReason},
    {"tld4", TextureReason},
    {"txq", TextureReason},
    {"istypep", TextureReason},
    {"suld", TextureReason},
    {"sust", TextureReason},
    {"sured", TextureReason},
    {"suq", TextureReason},
};

/// Modifiers that make any instruction one of the refused kind.
constexpr Refusal RefusedModifiers[] = {
    {"cluster", ClusterReason},
    {"shared::cluster", ClusterReason},
    {"tensormap", TMAReason},
};

constexpr std::string_view CacheOperators[] = {"ca", "cg", "cs", "cv",
                                               "lu", "wb", "wt"};

/// Intrinsics refused by what follows `llvm.nvvm.`.
constexpr Refusal RefusedIntrinsics[] = {
    {"mma.", MatrixReason},
    {"wmma.", MatrixReason},
    {"wgmma.", MatrixReason},
    {"tcgen05.", MatrixReason},
    // The assembly instruction is public, this intrinsic's encoding is not.
    {"ldmatrix.", MatrixReason},
    {"stmatrix.", MatrixReason},
    {"movmatrix.", MatrixReason},
    {"cp.async.bulk.", TMAReason},
    {"cp.async.mbarrier.", MBarrierReason},
    {"cp.async.", AsyncCopyReason},
    {"cp.reduce.async.", TMAReason},
    {"prefetch.tensormap", TMAReason},
    {"tensormap.", TMAReason},
    {"st.bulk", TMAReason},
    {"fence.proxy.", AsyncCopyReason},
    {"fence.mbarrier_init.", MBarrierReason},
    {"mbarrier.", MBarrierReason},
    {"barrier.cluster.", ClusterReason},
    {"mapa", ClusterReason},
    {"getctarank", ClusterReason},
    {"isspacep.shared.cluster", ClusterReason},
    {"read.ptx.sreg.cluster", ClusterReason},
    {"read.ptx.sreg.ncluster", ClusterReason},
    {"read.ptx.sreg.is_explicit_cluster", ClusterReason},
    {"is_explicit_cluster", ClusterReason},
    {"clusterlaunchcontrol.", ClusterReason},
    {"fence.acquire.sync_restrict.", ClusterReason},
    {"fence.release.sync_restrict.", ClusterReason},
    {"griddepcontrol.", DependencyReason},
    {"setmaxnreg.", RegisterReason},
    {"elect.sync", UnknownReason},
    {"multimem.", MultimemReason},
    {"tex.", TextureReason},
    {"tld4.", TextureReason},
    {"txq.", TextureReason},
    {"suld.", TextureReason},
    {"sust.", TextureReason},
    {"suq.", TextureReason},
};

constexpr Refusal RefusedRegisters[] = {
    {"%cluster", ClusterReason},
    {"%ncluster", ClusterReason},
    {"%is_explicit_cluster", ClusterReason},
};

constexpr Refusal RefusedAttributes[] = {
    {"nvvm.cluster", ClusterReason},
    {"nvvm.maxclusterrank", ClusterReason},
    {"nvvm.blocksareclusters", ClusterReason},
    {"nvvm.grid_constant", TMAReason},
    {"nvvm.maxnreg",
     "a limit of registers per thread has no publicly known annotation"},
    {"nvvm.", "has no publicly known counterpart on the PPU"},
};

bool startsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

/// Whether `text` is `words` or begins with it and goes on with another
/// modifier.
bool beginsWithWords(std::string_view text, std::string_view words) {
  return startsWith(text, words) &&
         (text.size() == words.size() || text[words.size()] == '.' ||
          text.substr(words.size(), 2) == "::");
}

template <typename Table>
std::string_view findPrefix(const Table &table, std::string_view text) {
  for (const Refusal &entry : table)
    if (startsWith(text, entry.pattern))
      return entry.reason;
  return {};
}

/// The forms of ldmatrix that exist for a chip of capability 8.0.
bool isPlainLdmatrix(std::string_view opcode) {
  return startsWith(opcode, "ldmatrix.sync.aligned.m8n8.x") &&
         opcode.size() > 4 && opcode.substr(opcode.size() - 4) == ".b16";
}

} // namespace

std::string_view refusalOfOpcode(std::string_view opcode) {
  for (const Refusal &entry : RefusedOpcodes)
    if (beginsWithWords(opcode, entry.pattern))
      return entry.reason;
  std::string_view base = opcode.substr(0, opcode.find('.'));
  if (!std::binary_search(std::begin(PlainOpcodes), std::end(PlainOpcodes),
                          base))
    return UnknownReason;
  if (base == "ldmatrix" && !isPlainLdmatrix(opcode))
    return MatrixReason;
  std::string_view rest = opcode.substr(base.size());
  bool hasCacheOperator = false;
  bool hasEvictionPriority = false;
  while (!rest.empty()) {
    rest.remove_prefix(1);
    std::string_view modifier = rest.substr(0, rest.find('.'));
    for (const Refusal &entry : RefusedModifiers)
      if (modifier == entry.pattern)
        return entry.reason;
    hasCacheOperator |=
        std::find(std::begin(CacheOperators), std::end(CacheOperators),
                  modifier) != std::end(CacheOperators);
    hasEvictionPriority |= startsWith(modifier, "L1::evict_");
    rest.remove_prefix(modifier.size());
  }
  if ((base == "ld" || base == "st") && hasCacheOperator && hasEvictionPriority)
    return CacheReason;
  return {};
}

std::string_view refusalOfFunction(std::string_view name) {
  constexpr std::string_view NVVM = "llvm.nvvm.";
  if (!startsWith(name, NVVM))
    return {};
  return findPrefix(RefusedIntrinsics, name.substr(NVVM.size()));
}

std::string_view refusalOfRegister(std::string_view name) {
  return findPrefix(RefusedRegisters, name);
}

std::string_view refusalOfAttribute(std::string_view name) {
  if (name == "nvvm.reqntid" || name == "nvvm.kernel")
    return {};
  return findPrefix(RefusedAttributes, name);
}

std::string_view refusalOfAddressSpace(unsigned number) {
  constexpr unsigned LastOfBlock = 5; // local memory
  if (number <= LastOfBlock)
    return {};
  if (number == 6)
    return MatrixReason; // tensor memory
  if (number == 7)
    return ClusterReason;
  return "not an address space of the PPU";
}

std::string_view refusalOfConstraint(std::string_view constraint) {
  while (!constraint.empty() &&
         std::string_view("=+&*!").find(constraint.front()) !=
             std::string_view::npos)
    constraint.remove_prefix(1);
  if (startsWith(constraint, "~{"))
    return {};
  bool digits =
      !constraint.empty() &&
      constraint.find_first_not_of("0123456789") == std::string_view::npos;
  if (digits)
    return {};
  // Registers by what they hold, and immediates, which become text.
  if (constraint.size() == 1 &&
      std::string_view("rlchfdbni").find(constraint.front()) !=
          std::string_view::npos)
    return {};
  if (constraint == "q")
    return "128-bit registers have no publicly known PPU constraint";
  return "not a constraint of the PPU's inline assembly";
}

} // namespace flagtree::tix
