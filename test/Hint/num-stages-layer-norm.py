# num_stages on a loop is the argument of tl.range: the loads of the loop are pipelined though
# none feeds a tl.dot, num_stages - 1 deep.
#
# REQUIRES: triton
# RUN: %python %s ttir | FileCheck %s --check-prefix=TTIR
# RUN: %python %s ttgir | FileCheck %s --check-prefix=WITH
# RUN: env FLAGTREE_HINTS=off %python %s ttgir | FileCheck %s --check-prefix=WITHOUT

import os
import sys

import triton
import triton.language as tl

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "Inputs"))
from show import show

# TTIR: scf.for
# TTIR: tt.num_stages = 4 : i32

# WITH:         ttg.local_alloc : () -> !ttg.memdesc<3x1024xf32
# WITH-COUNT-3: ttg.async_copy_global_to_local
# WITH:         scf.for


# WITHOUT-NOT: async_copy
# WITHOUT:     scf.for
# WITHOUT:       tt.load
@triton.jit
def mean_and_variance(x_ptr, mean_ptr, variance_ptr, n_columns, BLOCK: tl.constexpr):
    row = tl.program_id(0) * n_columns
    total = tl.zeros((BLOCK,), tl.float32)
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n_columns, BLOCK):  # @hint: num_stages=4
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + columns, mask=columns < n_columns, other=0.0)
        total += x
        squares += x * x
    mean = tl.sum(total, axis=0) / n_columns
    tl.store(mean_ptr + tl.program_id(0), mean)
    variance = tl.sum(squares, axis=0) / n_columns - mean * mean
    tl.store(variance_ptr + tl.program_id(0), variance)


show(mean_and_variance, "*fp32 *fp32 *fp32 i32", {"BLOCK": 1024})
