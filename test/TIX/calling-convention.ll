; Kernels keep the calling convention that tells them from other functions.
; RUN: %flagtree-tix %s | grep -v '^ *;' | FileCheck %s

; CHECK: define ptx_kernel void @k()
define ptx_kernel void @k() #0 {
; CHECK: call fastcc void @f()
  call fastcc void @f()
  ret void
}

; CHECK: define internal fastcc void @f()
define internal fastcc void @f() {
  ret void
}

attributes #0 = { "nvvm.reqntid"="32" }
