# loop_unroll_factor on a loop is the argument of tl.range: the body is there as many times, and
# what is left over runs in a second loop.
#
# REQUIRES: triton
# RUN: %python %s ttir | FileCheck %s --check-prefix=WITH
# RUN: env FLAGTREE_HINTS=off %python %s ttir | FileCheck %s --check-prefix=WITHOUT

import os
import sys

import triton
import triton.language as tl

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "Inputs"))
from show import show

# WITH:         scf.for
# WITH-COUNT-4:   tt.load
# WITH-NOT:       tt.load
# WITH:           scf.yield
# WITH:         scf.for
# WITH:           tt.load
# WITH-NOT:       tt.load
# WITH:           scf.yield


# WITHOUT:     scf.for
# WITHOUT:       tt.load
# WITHOUT-NOT:   tt.load
# WITHOUT:       scf.yield
# WITHOUT-NOT: scf.for
@triton.jit
def softmax_denominator(x_ptr, y_ptr, n_columns, highest, BLOCK: tl.constexpr):
    row = tl.program_id(0) * n_columns
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n_columns, BLOCK):  # @hint: loop_unroll_factor=4
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + columns, mask=columns < n_columns, other=-float("inf"))
        total += tl.exp(x - highest)
    tl.store(y_ptr + tl.program_id(0), tl.sum(total, axis=0))


show(softmax_denominator, "*fp32 *fp32 i32 fp32", {"BLOCK": 1024})
