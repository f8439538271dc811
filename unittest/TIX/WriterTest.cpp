//===- WriterTest.cpp -----------------------------------------------------===//

#include "flagtree/TIX/Writer.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <ctime>

using namespace flagtree::tix;

namespace {

constexpr const char *Head =
    "; ModuleID = 'm'\n"
    "source_filename = \"m; asm \\22mov.u32\\22\"\n"
    "target datalayout = \"e-p3:32:32-p4:32:32-p5:32:32-p6:32:32-p7:32:32-i64:"
    "64-i128:128-i256:256-v16:16-v32:32-n16:32:64\"\n"
    "target triple = \"nvptx64-nvidia-cuda\"\n\n";

constexpr const char *Tail =
    "attributes #0 = { nounwind \"nvvm.reqntid\"=\"128\" }\n\n"
    "!llvm.module.flags = !{!0}\n\n"
    "!0 = !{i32 4, !\"nvvm-reflect-ftz\", i32 1}\n"
    "!1 = !DIFile(filename: \"k.py\", directory: \"/src\")\n"
    "!2 = distinct !DISubprogram(name: \"k\", file: !1, line: 5)\n"
    "!3 = !DILocation(line: 7, column: 9, scope: !2)\n";

std::string module(const std::string &body) {
  return std::string(Head) +
         "define ptx_kernel void @k(ptr addrspace(1) %0) #0 !dbg !2 {\n" +
         body + "  ret void, !dbg !3\n}\n\n" + Tail;
}

Options options(Direction direction = Direction::ToTIX) {
  Options result;
  result.direction = direction;
  result.sharedBytes = 64;
  return result;
}

std::string written(const std::string &input) {
  Result result = convert(input, options());
  for (const Diagnostic &diagnostic : result.diagnostics)
    ADD_FAILURE() << diagnostic.message();
  return result.text;
}

Diagnostic refused(const std::string &input, Options given = options()) {
  Result result = convert(input, given);
  EXPECT_EQ(result.text, "");
  if (result.diagnostics.empty()) {
    ADD_FAILURE() << "accepted";
    return {};
  }
  return result.diagnostics[0];
}

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

TEST(Writer, ReplacesTheHead) {
  std::string text = written(module(""));
  EXPECT_TRUE(contains(text, "target datalayout = \"" +
                                 std::string(PPUDataLayout) + "\"\n"));
  EXPECT_FALSE(contains(text, "triple"));
  EXPECT_TRUE(contains(text, "source_filename = \"m; asm \\22mov.u32\\22\"\n"));
}

TEST(Writer, AddsAMissingDataLayoutBeforeTheFirstDefinition) {
  std::string text = written("; c\nsource_filename = \"m\"\n@g = global i32 0\n"
                             "define ptx_kernel void @k() #0 {\n ret void\n}\n"
                             "attributes #0 = { \"nvvm.reqntid\"=\"32\" }\n");
  EXPECT_EQ(text.find("; c\nsource_filename = \"m\"\ntarget datalayout = \""),
            0u);
}

TEST(Writer, AnnotatesEachKernel) {
  std::string text = written(module(""));
  EXPECT_TRUE(contains(text, "!llvm.module.flags = !{!0}\n"
                             "!nvvm.annotations = !{!4, !5}\n"
                             "!4 = !{ptr @k, !\"reqntidx\", i32 128}\n"
                             "!5 = !{ptr @k, !\"smemsize\", i32 64}\n"));
}

TEST(Writer, ReadsThreadsFromTheDefinitionToo) {
  Result result = convert("define ptx_kernel void @\"a b\"()\n"
                          "    \"nvvm.reqntid\"=\"64\" {\n ret void\n}\n"
                          "define void @helper() {\n ret void\n}\n",
                          options());
  EXPECT_TRUE(result.diagnostics.empty());
  EXPECT_TRUE(
      contains(result.text, "!1 = !{ptr @\"a b\", !\"reqntidx\", i32 64}\n"));
  EXPECT_FALSE(contains(result.text, "ptr @helper"));
  EXPECT_EQ(result.kernels, std::vector<std::string>{"a b"});
}

TEST(Writer, TakesThreadsThatTheIRDoesNotSay) {
  std::string input = "define ptx_kernel void @k() {\n ret void\n}\n";
  EXPECT_TRUE(contains(refused(input).reason, "threads per block"));
  Options given = options();
  given.threads = 96;
  EXPECT_TRUE(
      contains(convert(input, given).text, "!{ptr @k, !\"reqntidx\", i32 96}"));
  EXPECT_TRUE(contains(refused(module(""), given).reason, "differs"));
  given.threads = 128;
  EXPECT_TRUE(convert(module(""), given).diagnostics.empty());
}

TEST(Writer, RefusesABlockOfTwoDimensions) {
  std::string two = "define ptx_kernel void @k() \"nvvm.reqntid\"=\"8,8\" {\n"
                    " ret void\n}\n";
  EXPECT_TRUE(contains(refused(two).reason, "dimensions"));
  std::string one = "define ptx_kernel void @k() \"nvvm.reqntid\"=\"8,1,1\" {\n"
                    " ret void\n}\n";
  EXPECT_TRUE(convert(one, options()).diagnostics.empty());
  std::string none = "define ptx_kernel void @k() \"nvvm.reqntid\"=\"x\" {\n"
                     " ret void\n}\n";
  EXPECT_TRUE(contains(refused(none).reason, "from 1 to 1024"));
}

TEST(Writer, AddsTheReflectFlagWhereItIsMissing) {
  std::string text =
      written("define ptx_kernel void @k() \"nvvm.reqntid\"=\"32\" {\n"
              " ret void\n}\n!llvm.module.flags = !{!3}\n"
              "!3 = !{i32 2, !\"Debug Info Version\", i32 3}\n");
  EXPECT_TRUE(contains(text, "!llvm.module.flags = !{!3, !4}\n"));
  EXPECT_TRUE(contains(text, "!4 = !{i32 4, !\"nvvm-reflect-ftz\", i32 0}\n"));
}

TEST(Writer, RewritesInlineAssemblyAndNothingElse) {
  std::string body =
      "  ; asm \"mov.u32\", \"r\"\n"
      "  %asm = call i32 @\"asm \\22mov.u32\\22\"(i32 %\"mov.u32\"), !dbg !3\n"
      "  call void asm sideeffect \"mov.u32 $0, 1;\", \"r\"(i32 1) #1 ; asm "
      "\"st\"\n"
      "asm:\n"
      "  store [4 x i8] c\"asm \", ptr %p\n";
  std::string text = written(module(body));
  std::string expected = body;
  size_t at = expected.find("\"mov.u32 $0") + 1;
  expected.insert(at, "ppu.");
  EXPECT_TRUE(contains(text, expected)) << text;
}

TEST(Writer, SDK20HasNoPrefix) {
  Options given = options();
  given.dialect = Dialect::SDK20;
  std::string body = "  call void asm \"mov.u32 $0, 1;\", \"r\"(i32 1)\n";
  EXPECT_TRUE(contains(convert(module(body), given).text, body));
  EXPECT_EQ(
      refused(module("  call void asm \"mma.sync;\", \"\"()\n"), given).name,
      "mma.sync");
}

TEST(Writer, AssemblyMayGoOnOverTheEndOfALine) {
  std::string text = written(module("  call void asm\n  sideeffect\n  \"ret;\n"
                                    "exit;\",\n  \"r\"(i32 1)\n"));
  EXPECT_TRUE(contains(text, "\"ppu.ret;\nppu.exit;\""));
}

TEST(Writer, RefusalsNameTheSourceLine) {
  Diagnostic diagnostic = refused(module(
      "  call void asm \"ret; cp.async.wait_all;\", \"\"() #1, !dbg !3\n"));
  EXPECT_EQ(diagnostic.kind, DiagnosticKind::Refused);
  EXPECT_EQ(diagnostic.message(),
            "/src/k.py:7:9: cp.async.wait_all: asynchronous copies have no "
            "publicly known PPU encoding");
  EXPECT_EQ(diagnostic.irLine, 7u);
}

TEST(Writer, RefusalsWithoutDebugInformationNameTheLineOfTheIR) {
  EXPECT_EQ(
      refused(module("\n  call void asm \"wgmma.x;\", \"\"()\n")).message(),
      "IR line 8: wgmma.x: matrix instructions have no publicly known "
      "PPU encoding");
}

TEST(Writer, RefusesIntrinsicsAddressSpacesConstraintsAndAttributes) {
  EXPECT_EQ(refused(module("  call void @llvm.nvvm.cp.async.wait.all(), !dbg "
                           "!3\n"))
                .name,
            "@llvm.nvvm.cp.async.wait.all");
  EXPECT_EQ(
      refused(module("  %p = load i32, ptr addrspace(7) %q, !dbg !3\n")).name,
      "addrspace(7)");
  EXPECT_EQ(
      refused(module("  call void asm \"ret;\", \"=r,q\"(i128 1), !dbg !3\n"))
          .name,
      "constraint 'q'");
  Diagnostic attribute =
      refused("define ptx_kernel void @k() #0 !dbg !2 {\n ret void\n}\n"
              "attributes #0 = { \"nvvm.cluster_dim\"=\"2\" "
              "\"nvvm.reqntid\"=\"32\" }\n"
              "!1 = !DIFile(filename: \"k.py\", directory: \"/src\")\n"
              "!2 = distinct !DISubprogram(name: \"k\", file: !1, line: 5)\n");
  EXPECT_EQ(attribute.message().find("/src/k.py:5: attribute "
                                     "'nvvm.cluster_dim' of @k: "),
            0u)
      << attribute.message();
}

TEST(Writer, DeclarationsAloneAreNotRefused) {
  EXPECT_TRUE(contains(written("declare void @llvm.nvvm.cp.async.wait.all()\n" +
                               module("").substr(std::string(Head).size())),
                       "@llvm.nvvm.cp.async.wait.all"));
}

TEST(Writer, RefusesWhatIsNotACUDAModule) {
  EXPECT_TRUE(contains(refused("").reason, "no kernel"));
  EXPECT_TRUE(contains(refused("define void @f() {\n ret void\n}\n").reason,
                       "no kernel"));
  EXPECT_EQ(refused(module("") + "!9 = !{ptr @k, !\"smemsize\", i32 4}\n").name,
            "!9");
  EXPECT_TRUE(contains(
      refused("target datalayout = \"e-i64:64-v16:16-v32:32-n16:32:64\"\n")
          .reason,
      "p3:32:32"));
  EXPECT_EQ(refused(module("  call void asm \"ret;")).name, "string");
  EXPECT_EQ(refused("define ptx_kernel void @k()").name, "define @k");
  EXPECT_EQ(refused("module asm \"ret;\"\n" + module("")).name, "module asm");
}

TEST(Writer, OutputOfARefusedModuleIsNoModule) {
  std::string text;
  Writer writer(options(), [&](std::string_view part) { text += part; });
  writer.feed("define ptx_kernel void @k() {\n ret void\n}\n");
  EXPECT_FALSE(writer.finish().empty());
  EXPECT_TRUE(contains(text, "\n<refused"));
}

TEST(Writer, TheCutOfTheInputDoesNotMatter) {
  std::string input = module(
      "  call void asm \"mov.u32 $0, 1;\\0Aret;\", \"r\"(i32 1), !dbg !3\n");
  std::string whole = written(input);
  for (size_t size : {1u, 2u, 3u, 7u, 64u}) {
    std::string text;
    Writer writer(options(), [&](std::string_view part) { text += part; });
    for (size_t i = 0; i < input.size(); i += size)
      writer.feed(std::string_view(input).substr(i, size));
    EXPECT_TRUE(writer.finish().empty());
    EXPECT_EQ(text, whole) << size;
  }
}

TEST(Writer, UndoGivesTheInputBack) {
  std::string input = module("  call void asm sideeffect \"@$1 mov.u32 $0, "
                             "1;\", \"r,b\"(i32 1, i1 1), !dbg !3\n");
  Result back = convert(written(input), options(Direction::ToCUDA));
  ASSERT_TRUE(back.diagnostics.empty()) << back.diagnostics[0].message();
  std::string expected = input;
  std::string triple = "target triple = \"nvptx64-nvidia-cuda\"\n";
  expected.erase(expected.find(triple), triple.size());
  // The list of flags is written last.
  std::string flags = "!llvm.module.flags = !{!0}\n";
  expected.erase(expected.find(flags), flags.size());
  EXPECT_EQ(back.text, expected + flags);
}

TEST(Writer, UndoRefusesWhatWasNotWritten) {
  Result result = convert(module(""), options(Direction::ToCUDA));
  ASSERT_FALSE(result.diagnostics.empty());
  EXPECT_TRUE(contains(result.diagnostics[0].reason, "nothing to undo"));
}

TEST(Writer, DiagnosticsAreBounded) {
  std::string body;
  for (int i = 0; i < 10000; ++i)
    body += "  call void asm \"mma.sync;\", \"\"(), !dbg !3\n";
  EXPECT_EQ(convert(module(body), options()).diagnostics.size(), 64u);
}

/// The processor time that converting takes, the least of a few tries: what
/// else the machine does must not count.
double seconds(const std::string &input) {
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    std::clock_t start = std::clock();
    Result result = convert(input, options());
    std::clock_t end = std::clock();
    EXPECT_TRUE(result.diagnostics.empty());
    best = std::min(best, double(end - start) / CLOCKS_PER_SEC);
  }
  return best;
}

TEST(Writer, TimeIsLinear) {
  // Eight times the input takes eight times as long and, as caches fill,
  // somewhat more; a quadratic step would take sixty-four times as long.
  auto lines = [](int count) {
    std::string body;
    for (int i = 0; i < count; ++i)
      body += "  call void asm \"mov.u32 $0, 1;\", \"r\"(i32 1), !dbg !3\n";
    return module(body);
  };
  EXPECT_LT(seconds(lines(80000)), 24 * seconds(lines(10000)));
  auto oneLine = [](int count) {
    std::string assembly;
    for (int i = 0; i < count; ++i)
      assembly += "add.u32 $0, $0, 1;";
    return module("  call void asm \"" + assembly + "\", \"r\"(i32 1)\n");
  };
  EXPECT_LT(seconds(oneLine(80000)), 24 * seconds(oneLine(10000)));
}

} // namespace
