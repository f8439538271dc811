//===- Encodings.h - Which CUDA constructs the PPU has an encoding for ----===//
//
// Contract: the one place that decides what may be written. Answers come from
// tables (Encodings.cpp); an opcode that is in none of them is refused, never
// passed through. All functions are pure and allocate nothing.
//
//===----------------------------------------------------------------------===//

#ifndef FLAGTREE_TIX_ENCODINGS_H
#define FLAGTREE_TIX_ENCODINGS_H

#include <string_view>

namespace flagtree::tix {

/// Why the PTX instruction `opcode`, given with all of its modifiers
/// (`ld.global.v4.b32`), has no known encoding. Empty if it has one.
std::string_view refusalOfOpcode(std::string_view opcode);

/// Why the LLVM function `name` (without `@`), called from a kernel, has no
/// known encoding. Empty if it has one.
std::string_view refusalOfFunction(std::string_view name);

/// Why the special register `name` (with its `%`) of PTX does not exist. Empty
/// if it does.
std::string_view refusalOfRegister(std::string_view name);

/// Why a kernel with the function attribute `name` cannot be written. Empty if
/// it can.
std::string_view refusalOfAttribute(std::string_view name);

/// Why a pointer into address space `number` cannot be written. Empty if it
/// can.
std::string_view refusalOfAddressSpace(unsigned number);

/// Why one item of an inline-assembly constraint string (`=r`, `l`,
/// `~{memory}`) cannot be written. Empty if it can.
std::string_view refusalOfConstraint(std::string_view constraint);

} // namespace flagtree::tix

#endif // FLAGTREE_TIX_ENCODINGS_H
