# Loads in no loop are copied to shared memory asynchronously, both copies are in flight at once,
# and each is waited for where its value is used.
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

# WITH-LABEL: tt.func public @add
# WITH:         %[[X:.*]] = ttg.local_alloc : () -> !ttg.memdesc<1024xf32
# WITH:         ttg.async_copy_global_to_local %{{.*}}, %[[X]] mask
# WITH:         ttg.async_commit_group
# WITH:         %[[Y:.*]] = ttg.local_alloc : () -> !ttg.memdesc<1024xf32
# WITH:         ttg.async_copy_global_to_local %{{.*}}, %[[Y]] mask
# WITH:         ttg.async_commit_group
# WITH:         ttg.async_wait {num = 0 : i32}
# WITH-DAG:     ttg.local_load %[[X]]
# WITH-DAG:     ttg.local_load %[[Y]]
# WITH-NOT:     tt.load
# WITH:         arith.addf

# PTX: cp.async.cg.shared.global {{.*}}, 0x10


# WITHOUT-LABEL: tt.func public @add
# WITHOUT-NOT:     local_alloc
# WITHOUT-COUNT-2: tt.load
# WITHOUT:         arith.addf
@triton.jit
def add(x_ptr, y_ptr, out_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)  # @hint: shared_memory
    y = tl.load(y_ptr + offsets, mask=mask)  # @hint: shared_memory
    tl.store(out_ptr + offsets, x + y, mask=mask)


show(add, "*fp32 *fp32 *fp32 i32", {"BLOCK": 1024})
