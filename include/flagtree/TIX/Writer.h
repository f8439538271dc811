//===- Writer.h - CUDA-flavoured LLVM IR to what ppu-llc reads ------------===//
//
// Contract: text in, text out, in pieces of any size; the result does not
// depend on how the input is cut. Linear in time; memory is bounded by the
// longest line, the kernels' names and - once something was refused - the debug
// information. Nothing is written after the first diagnostic but a last line
// that no LLVM parses, so an input with one never gives a module. No
// exceptions, no locale, no environment.
//
// What is rewritten, and nothing else (`docs/tix.md` has the reasons):
//   - the data layout becomes the PPU's, a target triple is dropped;
//   - opcodes inside inline assembly get the prefix `ppu.` (SDK 2.1 and later);
//   - each kernel gets the annotations `reqntidx` and `smemsize`;
//   - the module flag `nvvm-reflect-ftz` is added with 0 where it is missing.
//
//===----------------------------------------------------------------------===//

#ifndef FLAGTREE_TIX_WRITER_H
#define FLAGTREE_TIX_WRITER_H

#include "flagtree/TIX/Diagnostic.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace flagtree::tix {

/// The PPU's data layout.
inline constexpr std::string_view PPUDataLayout =
    "e-p:64:64-p1:64:64-p2:32:32-p3:32:32-p4:64:64-p5:32:32-p6:32:32-i64:64-"
    "f16:16-f32:32-v16:16-v32:32-n16:32:64";

/// The data layout that Triton 3.6's CUDA lowering writes; what undoing puts
/// back.
inline constexpr std::string_view CUDADataLayout =
    "e-p3:32:32-p4:32:32-p5:32:32-p6:32:32-p7:32:32-i64:64-i128:128-i256:256-"
    "v16:16-v32:32-n16:32:64";

/// The grammar of the assembly dialect, named by the first SDK that reads it.
enum class Dialect {
  /// SDK 2.0: opcodes as in PTX; a prefix makes ppu-llc abort.
  SDK20,
  /// SDK 2.1 and later: opcodes with the prefix `ppu.`.
  SDK21,
};

enum class Direction {
  ToTIX,
  /// Undoes the rewriting; `threads` and `sharedBytes` are not used.
  ToCUDA,
};

struct Options {
  Dialect dialect = Dialect::SDK21;
  Direction direction = Direction::ToTIX;
  /// Threads of a block, for kernels whose IR does not say (`nvvm.reqntid`);
  /// where both are given they must agree.
  std::optional<uint32_t> threads;
  /// Bytes of dynamic shared memory each kernel of the module needs.
  uint32_t sharedBytes = 0;
};

class Writer {
public:
  using Sink = std::function<void(std::string_view)>;

  Writer(const Options &options, Sink sink);
  Writer(const Writer &) = delete;
  Writer &operator=(const Writer &) = delete;
  ~Writer();

  /// Takes the next piece of the input.
  void feed(std::string_view piece);

  /// Ends the input. Returns what is wrong with it, in the order of the input;
  /// if empty, all of the output has been given to the sink.
  std::vector<Diagnostic> finish();

  /// The kernels seen so far, by their names without quotes.
  std::vector<std::string> kernels() const;

private:
  class Implementation;
  std::unique_ptr<Implementation> implementation;
};

struct Result {
  /// The module; empty if there are diagnostics.
  std::string text;
  std::vector<std::string> kernels;
  std::vector<Diagnostic> diagnostics;
};

/// The whole of `Writer` for an input that is in memory.
Result convert(std::string_view input, const Options &options);

} // namespace flagtree::tix

#endif // FLAGTREE_TIX_WRITER_H
