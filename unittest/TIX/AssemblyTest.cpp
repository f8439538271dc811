//===- AssemblyTest.cpp ---------------------------------------------------===//

#include "flagtree/TIX/Assembly.h"

#include "gtest/gtest.h"

using namespace flagtree::tix;

namespace {

std::string added(std::string_view assembly) {
  std::string out;
  std::vector<Diagnostic> problems =
      rewriteAssembly(assembly, PrefixAction::Add, out);
  EXPECT_TRUE(problems.empty())
      << assembly << ": " << (problems.empty() ? "" : problems[0].name) << ": "
      << (problems.empty() ? "" : problems[0].reason);
  std::string back;
  EXPECT_TRUE(rewriteAssembly(out, PrefixAction::Remove, back).empty());
  EXPECT_EQ(back, assembly);
  std::string kept;
  EXPECT_TRUE(rewriteAssembly(assembly, PrefixAction::Keep, kept).empty());
  EXPECT_EQ(kept, assembly);
  return out;
}

/// Name and reason of the first problem.
std::pair<std::string, std::string>
problem(std::string_view assembly, PrefixAction action = PrefixAction::Add) {
  std::string out;
  std::vector<Diagnostic> problems = rewriteAssembly(assembly, action, out);
  if (problems.empty()) {
    ADD_FAILURE() << "accepted: " << assembly;
    return {};
  }
  return {problems[0].name, problems[0].reason};
}

TEST(Assembly, PrefixesTheOpcode) {
  EXPECT_EQ(added("mov.u32 $0, 0x0;"), "ppu.mov.u32 $0, 0x0;");
  EXPECT_EQ(added("ret;"), "ppu.ret;");
  EXPECT_EQ(added("ld.global.L1::evict_last.L2::cache_hint.b32 { $0 }, [ $1 + "
                  "0 ], $2;"),
            "ppu.ld.global.L1::evict_last.L2::cache_hint.b32 { $0 }, [ $1 + 0 "
            "], $2;");
}

TEST(Assembly, KeepsAMissingLastSemicolon) {
  EXPECT_EQ(added("mov.u64 $0, %globaltimer"), "ppu.mov.u64 $0, %globaltimer");
}

TEST(Assembly, FindsEveryInstruction) {
  EXPECT_EQ(added("add.u32 $0, $1, 1;xor.b32 $0,$0,2; ;shl.b32 $0, $0, 1;"),
            "ppu.add.u32 $0, $1, 1;ppu.xor.b32 $0,$0,2; ;ppu.shl.b32 $0, $0, "
            "1;");
  EXPECT_EQ(added("mov.u32 $0, 0x0;\\0A\\09@$2 ld.global.b32 { $0 }, [ $1 + 0 "
                  "];"),
            "ppu.mov.u32 $0, 0x0;\\0A\\09@$2 ppu.ld.global.b32 { $0 }, [ $1 + "
            "0 ];");
}

TEST(Assembly, PredicatesStayInFront) {
  EXPECT_EQ(added("@p bra L;"), "@p ppu.bra L;");
  EXPECT_EQ(added("@!p bra L;"), "@!p ppu.bra L;");
  EXPECT_EQ(added("@%p1 bra L;"), "@%p1 ppu.bra L;");
  EXPECT_EQ(added("@!$3\\0Abra L;"), "@!$3\\0Appu.bra L;");
  EXPECT_EQ(added("@ ! p bra L;"), "@ ! p ppu.bra L;");
  EXPECT_EQ(added("@${1:x} bra L;"), "@${1:x} ppu.bra L;");
}

TEST(Assembly, LabelsAreNotOpcodes) {
  EXPECT_EQ(added("mov: mov.u32 $0, 1;"), "mov: ppu.mov.u32 $0, 1;");
  EXPECT_EQ(added("L_${:uid}:\\0Abra L_${:uid};"),
            "L_${:uid}:\\0Appu.bra L_${:uid};");
  EXPECT_EQ(added("$$L__1 : ret;"), "$$L__1 : ppu.ret;");
  EXPECT_EQ(added("A: B: ret;"), "A: B: ppu.ret;");
}

TEST(Assembly, BracesOpenBlocksAndVectors) {
  EXPECT_EQ(added("{ .reg .b16 l, h; mov.b32 {l, h}, $1; }"),
            "{ .reg .b16 l, h; ppu.mov.b32 {l, h}, $1; }");
  EXPECT_EQ(added("{{ ret; }} { exit; }"), "{{ ppu.ret; }} { ppu.exit; }");
}

TEST(Assembly, DirectivesAreNotOpcodes) {
  EXPECT_EQ(added(".reg .pred p<4>;\\0A.reg .b32 mov, a<2>;ret;"),
            ".reg .pred p<4>;\\0A.reg .b32 mov, a<2>;ppu.ret;");
  EXPECT_EQ(added(".pragma \\22nounroll; mov.u32\\22; ret;"),
            ".pragma \\22nounroll; mov.u32\\22; ppu.ret;");
  EXPECT_EQ(added(".loc 1 2 3\\0A ret;"), ".loc 1 2 3\\0A ppu.ret;");
}

TEST(Assembly, CommentsAreLeftAlone) {
  EXPECT_EQ(added("// mov.u32 a, b;\\0Aret; // add $0"),
            "// mov.u32 a, b;\\0Appu.ret; // add $0");
  EXPECT_EQ(added("/* mma.sync; \\0A */ ret /* a ; */ ;"),
            "/* mma.sync; \\0A */ ppu.ret /* a ; */ ;");
  EXPECT_EQ(added("@p /* x */ ret;"), "@p /* x */ ppu.ret;");
}

TEST(Assembly, EscapesAreOneCharacter) {
  EXPECT_EQ(added("\\09ret\\3B\\0D\\0Aexit;"),
            "\\09ppu.ret\\3B\\0D\\0Appu.exit;");
  // The opcode itself spelled with escapes: `\72et` is `ret`.
  EXPECT_EQ(added("\\72et;"), "ppu.\\72et;");
}

TEST(Assembly, EmptyTemplatesStayEmpty) {
  EXPECT_EQ(added(""), "");
  EXPECT_EQ(added(" \\0A "), " \\0A ");
  EXPECT_EQ(added("{}"), "{}");
}

TEST(Assembly, PairsAndExpressionsAreOperands) {
  EXPECT_EQ(added("setp.lt.f16x2 p0|p1, a0, b0;"),
            "ppu.setp.lt.f16x2 p0|p1, a0, b0;");
  EXPECT_EQ(added("st.shared.b32 [ $0 + -8 ], 0f3F800000;"),
            "ppu.st.shared.b32 [ $0 + -8 ], 0f3F800000;");
  EXPECT_EQ(added("call (r), f, (a, b);"), "ppu.call (r), f, (a, b);");
}

TEST(Assembly, NamesWhatItRefuses) {
  auto [name, reason] = problem("mov.u32 a, b; mma.sync.aligned.m16n8k8.x $0;");
  EXPECT_EQ(name, "mma.sync.aligned.m16n8k8.x");
  EXPECT_NE(reason.find("matrix"), std::string::npos);
  EXPECT_EQ(problem("mov.u32 $0, %clusterid.x;").first, "%clusterid.x");
  EXPECT_EQ(problem("frobnicate.b32 $0;").first, "frobnicate.b32");
  EXPECT_EQ(problem("$0.b32 $1;").second,
            "an opcode that is itself an operand cannot be checked");
}

TEST(Assembly, ReportsEachInstruction) {
  std::string out;
  auto problems = rewriteAssembly("cp.async.wait_all; ret; wgmma.fence;",
                                  PrefixAction::Add, out);
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_EQ(problems[0].name, "cp.async.wait_all");
  EXPECT_EQ(problems[1].name, "wgmma.fence");
}

TEST(Assembly, AMissingSemicolonCannotHideAnOpcode) {
  EXPECT_EQ(problem("mov.b32 $0, $1\\0Amma.sync $0;").second,
            "a ';' is missing");
  EXPECT_EQ(problem("{ mov.b32 $0, $1 }").second, "a ';' is missing");
  EXPECT_EQ(problem("mov.b32 $0, [a] @p mma.sync;").second, "a ';' is missing");
}

TEST(Assembly, RefusesWhatItCannotRead) {
  EXPECT_EQ(problem("/* open").second, "a comment has no end");
  EXPECT_EQ(problem(".pragma \\22open;").second, "a string has no end");
  EXPECT_EQ(problem("@;").second, "'@' is not followed by a predicate");
  EXPECT_EQ(problem("@p").second, "no instruction follows the predicate");
  EXPECT_EQ(problem("@p L: ret;").second, "a label has a predicate");
  EXPECT_EQ(problem("42;").second, "no instruction begins like this");
  EXPECT_EQ(problem(".func f() { mma.sync; }").second,
            "the directive is not one of a function's body");
  EXPECT_EQ(problem("mov.b32 $(a$|b$), 1;").second,
            "'$' is followed by neither '$', an operand's number nor '{...}'");
  EXPECT_EQ(problem("mov.b32 $0, ${1:x").second,
            "'$' is followed by neither '$', an operand's number nor '{...}'");
}

TEST(Assembly, APrefixIsNeitherDoubledNorInvented) {
  EXPECT_EQ(problem("ppu.mov.u32 $0, 1;").second,
            "the opcode already has the prefix 'ppu.'");
  EXPECT_EQ(problem("ppu.mov.u32 $0, 1;", PrefixAction::Keep).second,
            "the opcode already has the prefix 'ppu.'");
  EXPECT_EQ(problem("mov.u32 $0, 1;", PrefixAction::Remove).second,
            "the opcode has no prefix 'ppu.'");
}

} // namespace
