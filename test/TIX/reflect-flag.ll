; The flag that tells libdevice whether denormal numbers are flushed: kept, or added with 0.
; RUN: %flagtree-tix %s | grep -v '^ *;' | FileCheck %s --check-prefix=ADDED
; RUN: sed 's/^; ON //' %s | %flagtree-tix - | grep -v '^ *;' | FileCheck %s --check-prefix=KEPT

define ptx_kernel void @k() #0 {
  ret void
}

attributes #0 = { "nvvm.reqntid"="32" }

!llvm.module.flags = !{!0}
; ON !llvm.module.flags = !{!1}
!0 = !{i32 2, !"Debug Info Version", i32 3}
; ON !1 = !{i32 4, !"nvvm-reflect-ftz", i32 1}

; ADDED: !llvm.module.flags = !{!0, !1}
; ADDED: !1 = !{i32 4, !"nvvm-reflect-ftz", i32 0}
; KEPT: !1 = !{i32 4, !"nvvm-reflect-ftz", i32 1}
; KEPT: !llvm.module.flags = !{!0, !1}
; KEPT-NOT: "nvvm-reflect-ftz", i32 0
