# A load that feeds tl.dot is pipelined anyway, two deep with num_stages=3. The hint says how deep
# for this load; the loop's other load stays as it was.
#
# REQUIRES: triton
# RUN: %python %s ttgir | FileCheck %s --check-prefix=WITH
# RUN: env FLAGTREE_HINTS=off %python %s ttgir | FileCheck %s --check-prefix=WITHOUT

import os
import sys

import triton
import triton.language as tl

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "Inputs"))
from show import show

# WITH:      ttg.local_alloc : () -> !ttg.memdesc<4x64x32xf16
# WITH-NEXT: ttg.local_alloc : () -> !ttg.memdesc<2x32x64xf16
# WITH:      scf.for
# WITH:        tt.dot


# WITHOUT:      ttg.local_alloc : () -> !ttg.memdesc<2x64x32xf16
# WITHOUT-NEXT: ttg.local_alloc : () -> !ttg.memdesc<2x32x64xf16
# WITHOUT:      scf.for
# WITHOUT:        tt.dot
@triton.jit
def matmul(
    a_ptr, b_ptr, c_ptr, N, K, M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    rows = tl.arange(0, M)
    columns = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    accumulator = tl.zeros((M, BLOCK_N), tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + rows[:, None] * K + (k + inner)[None, :])  # @hint: shared_memory=4
        b = tl.load(b_ptr + (k + inner)[:, None] * N + columns[None, :])
        accumulator = tl.dot(a, b, accumulator)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], accumulator)


show(matmul, "*fp16 *fp16 *fp32 i32 i32", {"M": 64, "BLOCK_N": 64, "BLOCK_K": 32})
