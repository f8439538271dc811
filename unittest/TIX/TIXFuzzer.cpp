//===- TIXFuzzer.cpp - libFuzzer target of the TIX writer -----------------===//
//
// Whatever the input: no crash, the same result however the input is cut, and a
// module that was written can be undone, written and undone again to the same
// text.
//
//===----------------------------------------------------------------------===//

#include "flagtree/TIX/Writer.h"

#include <cstdlib>

using namespace flagtree::tix;

namespace {

void require(bool condition) {
  if (!condition)
    std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  Options options;
  options.dialect = data[0] & 1 ? Dialect::SDK21 : Dialect::SDK20;
  options.direction = data[0] & 2 ? Direction::ToCUDA : Direction::ToTIX;
  options.threads = 128;
  size_t step = (data[0] >> 2) + 1;
  std::string_view input(reinterpret_cast<const char *>(data + 1), size - 1);

  Result whole = convert(input, options);
  std::string pieces;
  Writer writer(options, [&](std::string_view part) { pieces += part; });
  for (size_t i = 0; i < input.size(); i += step)
    writer.feed(input.substr(i, step));
  require(writer.finish().size() == whole.diagnostics.size());
  if (!whole.diagnostics.empty() || options.direction == Direction::ToCUDA)
    return 0;
  require(pieces == whole.text);

  Options undo = options;
  undo.direction = Direction::ToCUDA;
  Result back = convert(whole.text, undo);
  require(back.diagnostics.empty());
  Result again = convert(back.text, options);
  require(again.diagnostics.empty());
  Result backAgain = convert(again.text, undo);
  require(backAgain.diagnostics.empty());
  // The first undoing keeps a flag that was added, so compare from there on.
  require(backAgain.text == back.text);
  return 0;
}
