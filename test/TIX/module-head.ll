; The data layout becomes the PPU's and the triple goes.
; RUN: %flagtree-tix %s | grep -v '^ *;' | FileCheck %s

target datalayout = "e-p3:32:32-p4:32:32-p5:32:32-p6:32:32-p7:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
; CHECK: target datalayout = "e-p:64:64-p1:64:64-p2:32:32-p3:32:32-p4:64:64-p5:32:32-p6:32:32-i64:64-f16:16-f32:32-v16:16-v32:32-n16:32:64"
; CHECK-NOT: target triple
; CHECK: define ptx_kernel void @k

define ptx_kernel void @k() #0 {
  ret void
}

attributes #0 = { "nvvm.reqntid"="32" }
