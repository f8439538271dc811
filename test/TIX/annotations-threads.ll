; Threads that the IR does not state come from the option; two statements must agree.
; RUN: %flagtree-tix --threads 96 %s | grep -v '^ *;' | FileCheck %s
; RUN: %not --code 1 %flagtree-tix %s 2>&1 | FileCheck %s --check-prefix=NONE
; RUN: sed 's/#0 {/"nvvm.reqntid"="64" {/' %s > %t.ll
; RUN: %not --code 1 %flagtree-tix --threads 96 %t.ll 2>&1 | FileCheck %s --check-prefix=TWO

; CHECK: !{ptr @k, !"reqntidx", i32 96}
; NONE: malformed: IR line 11: kernel @k: threads per block are not known
; TWO: malformed: IR line 11: kernel @k: 'nvvm.reqntid' differs

define ptx_kernel void @k() #0 {
  ret void
}
