; `--undo` takes back exactly what was written, for both grammars.
; RUN: %flagtree-tix --shared 64 %s > %t.ppu
; RUN: %flagtree-tix --undo %t.ppu > %t.back
; RUN: diff %s %t.back
; RUN: %flagtree-tix --sdk 2.0 %s > %t.ppu20
; RUN: %flagtree-tix --sdk 2.0 --undo %t.ppu20 > %t.back20
; RUN: diff %s %t.back20
; RUN: %not --code 1 %flagtree-tix --undo %s 2>&1 | FileCheck %s
; CHECK: malformed: IR line {{.*}}: target datalayout: is not the PPU's, so there is nothing to undo

target datalayout = "e-p3:32:32-p4:32:32-p5:32:32-p6:32:32-p7:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"

define ptx_kernel void @k(ptr addrspace(1) %p, i1 %m) #0 {
  call void asm sideeffect "@$2 st.global.b32 [ $1 + 0 ], { $0 };\0A{ .reg .pred q; @!q exit; }", "r,l,b"(i32 1, ptr addrspace(1) %p, i1 %m)
  ret void
}

attributes #0 = { "nvvm.reqntid"="128" }

!0 = !{i32 4, !"nvvm-reflect-ftz", i32 1}
!llvm.module.flags = !{!0}
