# Loads that pass the first-level cache by, and a store that is not kept: cache_modifier is the
# argument of the same name of tl.load and tl.store.
#
# REQUIRES: triton
# RUN: %python %s ttir | FileCheck %s --check-prefix=TTIR
# RUN: %python %s ptx | FileCheck %s --check-prefix=WITH
# RUN: env FLAGTREE_HINTS=off %python %s ptx | FileCheck %s --check-prefix=WITHOUT

import os
import sys

import triton
import triton.language as tl

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "Inputs"))
from show import show

# TTIR: tt.load {{.*}} cacheModifier = cg
# TTIR: tt.load {{[^=]*}} :
# TTIR: tt.store {{.*}} cacheModifier = cs

# WITH:     ld.global.cg.v4.b32
# WITH:     ld.global.v4.b32
# WITH:     st.global.cs.v4.b32


# WITHOUT:     ld.global.v4.b32
# WITHOUT:     ld.global.v4.b32
# WITHOUT-NOT: {{\.cg|\.cs}}
# WITHOUT:     st.global.v4.b32
@triton.jit
def add(x_ptr, y_ptr, out_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)  # @hint: cache_modifier=cg
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)  # @hint: cache_modifier=cs


show(add, "*fp32 *fp32 *fp32 i32", {"BLOCK": 512})
