# Attention's loop has two loads that feed a tl.dot each. Hints make the keys three deep and leave
# the values to the base. The query's load is in no loop and the base stages it through shared
# memory itself, so the hint on it has no effect, which is said.
#
# REQUIRES: triton
# RUN: %python %s ttgir 2>%t.warnings | FileCheck %s --check-prefix=WITH
# RUN: FileCheck %s --check-prefix=WARNS < %t.warnings
# RUN: env FLAGTREE_HINTS=off %python %s ttgir | FileCheck %s --check-prefix=WITHOUT

import os
import sys

import triton
import triton.language as tl

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "Inputs"))
from show import show

# WITH:     tt.load
# WITH-DAG: ttg.local_alloc : () -> !ttg.memdesc<3x64x32xf16
# WITH-DAG: ttg.local_alloc : () -> !ttg.memdesc<2x32x64xf16
# WITH:     scf.for
# WITH-NOT:   tt.load

# WARNS:      HintWarning:
# WARNS-SAME: hint 'shared_memory' does not apply here: the compiler already stages this load
# WARNS-NEXT: q = tl.load({{.*}} # @hint: shared_memory
# WARNS-NEXT: {{^ *}}^~~~~~~~~~~~~
# WARNS-NOT:  HintWarning:


# WITHOUT:     tt.load
# WITHOUT-DAG: ttg.local_alloc : () -> !ttg.memdesc<2x64x32xf16
# WITHOUT-DAG: ttg.local_alloc : () -> !ttg.memdesc<2x32x64xf16
# WITHOUT:     scf.for
@triton.jit
def attention(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    length,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    HEAD: tl.constexpr,
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    features = tl.arange(0, HEAD)
    q = tl.load(q_ptr + rows[:, None] * HEAD + features[None, :])  # @hint: shared_memory
    highest = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    accumulator = tl.zeros((BLOCK_M, HEAD), tl.float32)
    for start in range(0, length, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptr + keys[None, :] * HEAD + features[:, None])  # @hint: shared_memory=3
        scores = tl.dot(q, k)
        new_highest = tl.maximum(highest, tl.max(scores, axis=1))
        correction = tl.exp(highest - new_highest)
        weights = tl.exp(scores - new_highest[:, None])
        total = total * correction + tl.sum(weights, axis=1)
        v = tl.load(v_ptr + keys[:, None] * HEAD + features[None, :])
        accumulator = tl.dot(weights.to(v.dtype), v, accumulator * correction[:, None])
        highest = new_highest
    tl.store(out_ptr + rows[:, None] * HEAD + features[None, :], accumulator / total[:, None])


show(
    attention,
    "*fp16 *fp16 *fp16 *fp32 i32",
    {"BLOCK_M": 64, "BLOCK_N": 32, "HEAD": 64},
)
