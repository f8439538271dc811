//===- EncodingsTest.cpp --------------------------------------------------===//

#include "flagtree/TIX/Encodings.h"

#include "gtest/gtest.h"

#include <string>

using namespace flagtree::tix;

namespace {

void expectRefused(std::string_view reason, std::string_view word) {
  EXPECT_NE(reason.find(word), std::string_view::npos)
      << "'" << reason << "' does not speak of " << word;
}

TEST(Encodings, AllThatIsPubliclySeenIsWritten) {
  for (const char *opcode : {"mov.u32", "ld.global.b32",
                             "ld.global.L1::evict_last.L2::cache_hint.b32",
                             "createpolicy.fractional.L2::evict_first.b64",
                             "ld.global.gpu.acquire.b32",
                             "ldmatrix.sync.aligned.m8n8.x4.shared.b16"})
    EXPECT_EQ(refusalOfOpcode(opcode), "") << opcode;
}

TEST(Encodings, OrdinaryInstructionsAreWritten) {
  for (const char *opcode :
       {"abs.f32", "xor.b32", "atom.global.gpu.acq_rel.cas.b32",
        "red.global.add.f32", "cvt.rn.bf16x2.f32", "bar.sync", "barrier.sync",
        "shfl.sync.bfly.b32", "ret", "st.global.cs.v4.b32", "isspacep.shared",
        "ld.volatile.global.b32", "fence.acq_rel.gpu", "prefetch.global.L2",
        "mad.lo.cc.u32", "tanh.approx.f32"})
    EXPECT_EQ(refusalOfOpcode(opcode), "") << opcode;
}

TEST(Encodings, UnitsWithoutAKnownEncodingAreRefused) {
  struct {
    const char *opcode;
    const char *word;
  } cases[] = {
      {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "matrix"},
      {"wmma.load.a.sync.aligned.row.m16n16k16.global.f16", "matrix"},
      {"wgmma.fence.sync.aligned", "matrix"},
      {"tcgen05.mma.cta_group::1.kind::f16", "matrix"},
      {"stmatrix.sync.aligned.m8n8.x1.shared.b16", "matrix"},
      {"ldmatrix.sync.aligned.m16n16.x1.shared.b8", "matrix"},
      {"cp.async.cg.shared.global", "asynchronous copies"},
      {"cp.async.commit_group", "asynchronous copies"},
      {"cp.async.bulk.tensor.2d.shared::cluster.global", "TMA"},
      {"cp.async.mbarrier.arrive.shared.b64", "asynchronous barriers"},
      {"mbarrier.init.shared.b64", "asynchronous barriers"},
      {"fence.proxy.async", "asynchronous copies"},
      {"barrier.cluster.arrive", "clusters"},
      {"mapa.shared::cluster.u32", "clusters"},
      {"ld.shared::cluster.b32", "clusters"},
      {"fence.acq_rel.cluster", "clusters"},
      {"griddepcontrol.wait", "dependent launch"},
      {"setmaxnreg.inc.sync.aligned.u32", "registers"},
      {"multimem.red.add.f32", "multicast"},
      {"tex.2d.v4.f32.s32", "texture"},
      {"elect.sync", "not an instruction"},
      {"no.such.thing", "not an instruction"},
      {"movx.b32", "not an instruction"},
      {"", "not an instruction"},
      {"ld.global.ca.L1::evict_last.b32", "cache operator"},
  };
  for (const auto &[opcode, word] : cases) {
    SCOPED_TRACE(opcode);
    expectRefused(refusalOfOpcode(opcode), word);
  }
}

TEST(Encodings, APrefixOfARefusedWordIsNotIt) {
  // `mma` must not be found in the front of another word.
  expectRefused(refusalOfOpcode("mmax.b32"), "not an instruction");
  EXPECT_EQ(refusalOfOpcode("max.b32"), "");
}

TEST(Encodings, Functions) {
  EXPECT_EQ(refusalOfFunction("llvm.nvvm.read.ptx.sreg.tid.x"), "");
  EXPECT_EQ(refusalOfFunction("llvm.nvvm.shfl.sync.bfly.i32"), "");
  EXPECT_EQ(refusalOfFunction("llvm.maxnum.f32"), "");
  EXPECT_EQ(refusalOfFunction("vprintf"), "");
  EXPECT_EQ(refusalOfFunction("mma.like.name"), "");
  expectRefused(refusalOfFunction("llvm.nvvm.mma.m16n8k16.row.col.bf16"),
                "matrix");
  expectRefused(refusalOfFunction("llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16"
                                  ".p3"),
                "matrix");
  expectRefused(refusalOfFunction("llvm.nvvm.cp.async.commit.group"),
                "asynchronous copies");
  expectRefused(refusalOfFunction("llvm.nvvm.cp.async.bulk.tensor.g2s.tile.2d"),
                "TMA");
  expectRefused(refusalOfFunction("llvm.nvvm.mbarrier.init.shared"),
                "asynchronous barriers");
  expectRefused(refusalOfFunction("llvm.nvvm.read.ptx.sreg.cluster.ctaid.x"),
                "clusters");
}

TEST(Encodings, Registers) {
  EXPECT_EQ(refusalOfRegister("%laneid"), "");
  EXPECT_EQ(refusalOfRegister("%globaltimer"), "");
  expectRefused(refusalOfRegister("%cluster_ctarank"), "clusters");
  expectRefused(refusalOfRegister("%nclusterid.x"), "clusters");
}

TEST(Encodings, Attributes) {
  EXPECT_EQ(refusalOfAttribute("nvvm.reqntid"), "");
  EXPECT_EQ(refusalOfAttribute("target-cpu"), "");
  expectRefused(refusalOfAttribute("nvvm.maxnreg"), "registers per thread");
  expectRefused(refusalOfAttribute("nvvm.cluster_dim"), "clusters");
  expectRefused(refusalOfAttribute("nvvm.whatever"), "counterpart");
}

TEST(Encodings, AddressSpaces) {
  for (unsigned space : {0u, 1u, 3u, 4u, 5u})
    EXPECT_EQ(refusalOfAddressSpace(space), "") << space;
  expectRefused(refusalOfAddressSpace(6), "matrix");
  expectRefused(refusalOfAddressSpace(7), "clusters");
  expectRefused(refusalOfAddressSpace(101), "not an address space");
}

TEST(Encodings, Constraints) {
  for (const char *constraint : {"=r", "l", "c", "h", "f", "d", "b", "=&r",
                                 "+f", "0", "n", "i", "~{memory}"})
    EXPECT_EQ(refusalOfConstraint(constraint), "") << constraint;
  expectRefused(refusalOfConstraint("=q"), "128-bit");
  expectRefused(refusalOfConstraint("=*m"), "not a constraint");
  expectRefused(refusalOfConstraint(""), "not a constraint");
}

} // namespace
