; A module without a data layout gets one before its first definition.
; RUN: %flagtree-tix --threads 64 %s | grep -v '^ *;' | FileCheck %s
; CHECK: source_filename = "m"
; CHECK-NEXT: target datalayout = "e-p:64:64-{{.*}}-n16:32:64"
; CHECK-NEXT: @g = global i32 0
source_filename = "m"
@g = global i32 0
define ptx_kernel void @k() {
  ret void
}
