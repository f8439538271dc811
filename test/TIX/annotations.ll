; Each kernel gets its threads per block, from the IR, and its shared memory, from the option.
; RUN: %flagtree-tix --shared 4096 %s | grep -v '^ *;' | FileCheck %s

define ptx_kernel void @first() #0 {
  ret void
}

define internal void @helper() #1 {
  ret void
}

define ptx_kernel void @"second kernel"(ptr addrspace(1) %p) local_unnamed_addr #1 {
  ret void
}

attributes #0 = { nounwind "nvvm.reqntid"="128" }
attributes #1 = { nounwind "nvvm.reqntid"="1024,1,1" }

!llvm.module.flags = !{!3}
!nvvm.annotations = !{!7}

!3 = !{i32 4, !"nvvm-reflect-ftz", i32 1}
!7 = !{ptr @first, !"user", i32 1}

; No annotation is made for a function that is no kernel.
; CHECK-NOT: ptr @helper,
; CHECK: !7 = !{ptr @first, !"user", i32 1}
; CHECK: !llvm.module.flags = !{!3}
; CHECK: !nvvm.annotations = !{!7, !8, !9, !10, !11}
; CHECK-NEXT: !8 = !{ptr @first, !"reqntidx", i32 128}
; CHECK-NEXT: !9 = !{ptr @first, !"smemsize", i32 4096}
; CHECK-NEXT: !10 = !{ptr @"second kernel", !"reqntidx", i32 1024}
; CHECK-NEXT: !11 = !{ptr @"second kernel", !"smemsize", i32 4096}
