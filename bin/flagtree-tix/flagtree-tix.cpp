//===- flagtree-tix.cpp - The TIX writer as a filter ----------------------===//
//
// Reads CUDA-flavoured LLVM IR from a file or standard input and writes what
// ppu-llc reads to standard output. Exit status: 0 written, 1 refused or
// malformed (each reason on standard error), 2 wrong usage or unreadable file.
//
//===----------------------------------------------------------------------===//

#include "flagtree/TIX/Writer.h"

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

using namespace flagtree::tix;

namespace {

constexpr const char *Usage =
    "usage: flagtree-tix [--sdk 2.0|2.1] [--threads N] [--shared BYTES] "
    "[--undo] FILE|-\n"
    "\n"
    "Writes the LLVM IR of a CUDA kernel the way the PPU SDK's ppu-llc reads "
    "it.\n"
    "  --sdk 2.0|2.1   the SDK's assembly grammar (default 2.1, also for "
    "later)\n"
    "  --threads N     threads per block, where the IR does not say\n"
    "  --shared BYTES  dynamic shared memory of each kernel (default 0)\n"
    "  --undo          turn the PPU's IR back into CUDA's\n";

struct Arguments {
  Options options;
  std::string file;
};

int usageError(const std::string &message) {
  std::fprintf(stderr, "flagtree-tix: %s\n%s", message.c_str(), Usage);
  return 2;
}

bool parseNumber(std::string_view text, uint32_t &value) {
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  return !text.empty() && error == std::errc() &&
         end == text.data() + text.size();
}

/// Fills `arguments`. Returns 0, or the exit status after a message.
int parse(int argc, char **argv, Arguments &arguments) {
  for (int i = 1; i < argc; ++i) {
    std::string option = argv[i];
    std::string value;
    bool inlineValue = false;
    size_t equals = option.find('=');
    if (option.substr(0, 2) == "--" && equals != std::string::npos) {
      value = option.substr(equals + 1);
      option = option.substr(0, equals);
      inlineValue = true;
    }
    if (option == "--undo" && !inlineValue) {
      arguments.options.direction = Direction::ToCUDA;
      continue;
    }
    if (option == "--sdk" || option == "--threads" || option == "--shared") {
      if (!inlineValue) {
        if (++i == argc)
          return usageError(option + " needs a value");
        value = argv[i];
      }
      if (option == "--sdk") {
        if (value != "2.0" && value != "2.1")
          return usageError("--sdk is 2.0 or 2.1, not '" + value + "'");
        arguments.options.dialect =
            value == "2.0" ? Dialect::SDK20 : Dialect::SDK21;
        continue;
      }
      uint32_t parsed = 0;
      if (!parseNumber(value, parsed))
        return usageError(option + " needs a number, not '" + value + "'");
      if (option == "--threads") {
        if (parsed < 1 || parsed > 1024)
          return usageError("--threads is from 1 to 1024, not " + value);
        arguments.options.threads = parsed;
      } else {
        arguments.options.sharedBytes = parsed;
      }
      continue;
    }
    if (option.size() > 1 && option.front() == '-')
      return usageError("unknown option '" + std::string(argv[i]) + "'");
    if (!arguments.file.empty())
      return usageError("more than one file given");
    arguments.file = argv[i];
  }
  if (arguments.file.empty())
    return usageError("no file given");
  return 0;
}

struct CloseFile {
  void operator()(std::FILE *file) const {
    if (file != stdin)
      std::fclose(file);
  }
};

int fail(const std::string &what) {
  std::fprintf(stderr, "flagtree-tix: %s: %s\n", what.c_str(),
               std::strerror(errno));
  return 2;
}

} // namespace

int main(int argc, char **argv) {
  for (int i = 1; i < argc; ++i)
    if (std::string_view(argv[i]) == "--help") {
      std::fputs(Usage, stdout);
      return 0;
    }
  Arguments arguments;
  if (int status = parse(argc, argv, arguments))
    return status;
  bool fromStandardInput = arguments.file == "-";
  std::unique_ptr<std::FILE, CloseFile> input(
      fromStandardInput ? stdin : std::fopen(arguments.file.c_str(), "rb"));
  if (!input)
    return fail(arguments.file);

  Writer writer(arguments.options, [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
  });
  char piece[1 << 16];
  while (size_t size = std::fread(piece, 1, sizeof(piece), input.get()))
    writer.feed({piece, size});
  if (std::ferror(input.get()))
    return fail(arguments.file);
  std::vector<Diagnostic> diagnostics = writer.finish();
  if (std::fflush(stdout) != 0 || std::ferror(stdout))
    return fail("standard output");
  for (const Diagnostic &diagnostic : diagnostics)
    std::fprintf(stderr, "flagtree-tix: %s: %s\n",
                 diagnostic.kind == DiagnosticKind::Refused ? "refused"
                                                            : "malformed",
                 diagnostic.message().c_str());
  return diagnostics.empty() ? 0 : 1;
}
