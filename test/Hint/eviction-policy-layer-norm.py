# Every row shares the weights, and nobody reads the result again: eviction_policy is the argument
# of the same name of tl.load and tl.store.
#
# REQUIRES: triton
# RUN: %python %s ptx | FileCheck %s --check-prefix=WITH
# RUN: env FLAGTREE_HINTS=off %python %s ptx | FileCheck %s --check-prefix=WITHOUT

import os
import sys

import triton
import triton.language as tl

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "Inputs"))
from show import show

# WITH:     ld.global.v4.b32
# WITH:     createpolicy.fractional.L2::evict_last
# WITH:     ld.global.L1::evict_last.L2::cache_hint.v4.b32
# WITH:     createpolicy.fractional.L2::evict_first
# WITH:     st.global.L1::evict_first.L2::cache_hint.v4.b32


# WITHOUT:     ld.global.v4.b32
# WITHOUT-NOT: ::evict
# WITHOUT:     st.global.v4.b32
@triton.jit
def layer_norm(x_ptr, weight_ptr, y_ptr, n_columns, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0) * n_columns
    columns = tl.arange(0, BLOCK)
    mask = columns < n_columns
    x = tl.load(x_ptr + row + columns, mask=mask, other=0.0)
    mean = tl.sum(x, axis=0) / n_columns
    centred = tl.where(mask, x - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0) / n_columns
    weight = tl.load(weight_ptr + columns, mask=mask)  # @hint: eviction_policy=evict_last
    y = centred * tl.rsqrt(variance + epsilon) * weight
    tl.store(y_ptr + row + columns, y, mask=mask)  # @hint: eviction_policy=evict_first


show(layer_norm, "*fp32 *fp32 *fp32 i32 fp32", {"BLOCK": 512})
