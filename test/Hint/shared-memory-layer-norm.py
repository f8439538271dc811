# Elements of two bytes may or may not come in pieces that can be copied; only the base's analysis
# knows. In no loop such a load goes through registers into shared memory. The copy is made where
# the row is loaded and read back where it is first needed. A value for what the mask leaves out
# is kept.
#
# REQUIRES: triton
# RUN: %python %s ttgir | FileCheck %s --check-prefix=WITH
# RUN: %python %s ptx | FileCheck %s --check-prefix=PTX
# RUN: env FLAGTREE_HINTS=off %python %s ttgir | FileCheck %s --check-prefix=WITHOUT

import os
import sys

import triton
import triton.language as tl

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "Inputs"))
from show import show

# WITH-LABEL: tt.func public @layer_norm
# WITH:         %[[X:.*]] = tt.load
# WITH-NEXT:    %[[BUFFER:.*]] = ttg.local_alloc %[[X]] : (tensor<1024xf16
# WITH:         ttg.local_load %[[BUFFER]]
# WITH:         %[[WEIGHTS:.*]] = ttg.local_alloc : () -> !ttg.memdesc<1024xf32
# WITH:         ttg.async_copy_global_to_local %{{.*}}, %[[WEIGHTS]] mask
# WITH:         ttg.async_wait
# WITH:         %[[LOADED:.*]] = ttg.local_load %[[WEIGHTS]]
# WITH:         arith.select %{{.*}}, %[[LOADED]], %{{.*}} : tensor<1024xi1
# WITH:         tt.store


# PTX: ld.global.v4.b32
# PTX: st.shared.v4.b32
# PTX: ld.shared.v4.b32
# PTX: cp.async.cg.shared.global


# WITHOUT-LABEL: tt.func public @layer_norm
# WITHOUT-NOT:     ttg.local_alloc
# WITHOUT:         tt.store
@triton.jit
def layer_norm(x_ptr, weight_ptr, y_ptr, n_columns, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0) * n_columns
    columns = tl.arange(0, BLOCK)
    mask = columns < n_columns
    x = tl.load(x_ptr + row + columns, mask=mask, other=0.0).to(tl.float32)  # @hint: shared_memory
    mean = tl.sum(x, axis=0) / n_columns
    centred = tl.where(mask, x - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0) / n_columns
    weight = tl.load(weight_ptr + columns, mask=mask, other=1.0)  # @hint: shared_memory
    y = centred * tl.rsqrt(variance + epsilon) * weight
    tl.store(y_ptr + row + columns, y.to(tl.float16), mask=mask)


show(layer_norm, "*fp16 *fp32 *fp16 i32 fp32", {"BLOCK": 1024})
