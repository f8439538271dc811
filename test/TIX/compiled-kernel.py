# A kernel as Triton compiles it, all the way: the text that is rewritten is Triton's own.
# REQUIRES: triton
# RUN: env TRITON_PPU_TOOLCHAIN=cuda %python %s > %t.ll
# RUN: %flagtree-tix --shared 128 %t.ll | FileCheck %s

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget


@triton.jit
def copy(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(y + offsets, tl.load(x + offsets, mask=mask, other=2.0), mask=mask)


source = triton.compiler.ASTSource(
    copy, {"x": "*fp32", "y": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": 128}
)
kernel = triton.compile(source, target=GPUTarget("cuda", 80, 32), options={"num_warps": 4})
print(kernel.asm["llir"])

# CHECK: target datalayout = "e-p:64:64-
# CHECK-LABEL: define ptx_kernel void @copy(
# CHECK: asm sideeffect "ppu.mov.u32 $0, $1;\0A\09@$3 ppu.ld.global.b32 { $0 }, [ $2 + 0 ];", "=r,r,l,b"
# CHECK: asm sideeffect "@$2 ppu.st.global.b32 [ $1 + 0 ], { $0 };", "r,l,b"
# CHECK: !{ptr @copy, !"reqntidx", i32 128}
# CHECK: !{ptr @copy, !"smemsize", i32 128}
