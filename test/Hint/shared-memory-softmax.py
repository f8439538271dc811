# The loads of a row that is reduced piece by piece feed no tl.dot, so the base loads them where
# they are used. With the hint the loop keeps three copies in flight.
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

# WITH-LABEL: tt.func public @softmax_denominator
# WITH:         ttg.local_alloc : () -> !ttg.memdesc<3x1024xf32
# WITH-COUNT-3: ttg.async_copy_global_to_local
# WITH:         scf.for
# WITH:           ttg.async_wait {{.*}} {num = 2 : i32}
# WITH:           ttg.local_load
# WITH:           math.exp
# WITH:           ttg.async_copy_global_to_local
# WITH:           scf.yield
# WITH-NOT:     tt.load


# WITHOUT-LABEL: tt.func public @softmax_denominator
# WITHOUT-NOT:     async_copy
# WITHOUT:         scf.for
# WITHOUT:           tt.load
# WITHOUT:           math.exp
@triton.jit
def softmax_denominator(x_ptr, y_ptr, n_columns, highest, BLOCK: tl.constexpr):
    row = tl.program_id(0) * n_columns
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n_columns, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(  # @hint: shared_memory=3
            x_ptr + row + columns, mask=columns < n_columns, other=-float("inf")
        )
        total += tl.exp(x - highest)
    tl.store(y_ptr + tl.program_id(0), tl.sum(total, axis=0))


show(softmax_denominator, "*fp32 *fp32 i32 fp32", {"BLOCK": 1024})
