; What has no known encoding is refused by name, with the line of the source that asked for it.
; RUN: %not --code 1 %flagtree-tix %s 2>&1 >%t | FileCheck %s
; RUN: grep -v '^ *;' %t | FileCheck %s --check-prefix=OUT

; Nothing that could be taken for a module comes out.
; OUT-NOT: mma.sync
; OUT: <refused by the TIX writer>

define ptx_kernel void @k(ptr addrspace(3) %s, ptr addrspace(7) %c) #0 !dbg !2 {
; CHECK: refused: /src/kernels.py:4: addrspace(7): thread block clusters
; CHECK: refused: /src/kernels.py:11:7: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32: matrix instructions have no publicly known PPU encoding
  %m = call i32 asm sideeffect "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {$0}, {$1}, {$1}, {$0};", "=r,r"(i32 1), !dbg !10
; A call inlined from a library is reported at the kernel's own line.
; CHECK: refused: /src/kernels.py:12:5: cp.async.cg.shared.global: asynchronous copies have no publicly known PPU encoding (by way of /src/library.py:90:3)
  call void asm sideeffect "cp.async.cg.shared.global [ $0 + 0 ], [ $1 + 0 ], 0x10, 0x10;", "r,l"(ptr addrspace(3) %s, i64 0), !dbg !11
; CHECK: refused: /src/kernels.py:12:5: @llvm.nvvm.cp.async.commit.group: asynchronous copies
  call void @llvm.nvvm.cp.async.commit.group(), !dbg !12
; CHECK: refused: /src/kernels.py:11:7: cp.async.bulk.tensor.2d.shared::cluster.global: bulk and tensor copies (TMA)
  call void asm sideeffect "@$0 cp.async.bulk.tensor.2d.shared::cluster.global [$1], [$1];", "b,r"(i1 1, i32 0), !dbg !10
; CHECK: refused: /src/kernels.py:11:7: mbarrier.init.shared.b64: asynchronous barriers
  call void asm sideeffect "{ .reg .pred p; mbarrier.init.shared.b64 [$0], 1; }", "r"(i32 0), !dbg !10
; CHECK: refused: /src/kernels.py:11:7: barrier.cluster.arrive: thread block clusters
  call void asm sideeffect "barrier.cluster.arrive;", ""(), !dbg !10
; CHECK: refused: /src/kernels.py:11:7: griddepcontrol.wait: programmatic dependent launch
  call void asm sideeffect "griddepcontrol.wait; // dummy $0", "=r"(), !dbg !10
; CHECK: refused: /src/kernels.py:11:7: %cluster_ctarank: thread block clusters
  %r = call i32 asm "mov.u32 $0, %cluster_ctarank;", "=r"(), !dbg !10
; CHECK: refused: /src/kernels.py:11:7: constraint '=q': 128-bit registers
  %q = call i128 asm "mov.b128 $0, 0;", "=q"(), !dbg !10
; CHECK: refused: /src/kernels.py:11:7: frobnicate.b32: not an instruction that is known
  call void asm sideeffect "frobnicate.b32 $0;", "r"(i32 0), !dbg !10
; CHECK: refused: IR line 33: wgmma.fence.sync.aligned: matrix instructions
  call void asm sideeffect "wgmma.fence.sync.aligned;", ""()
; CHECK: refused: /src/kernels.py:4: attribute 'nvvm.maxnreg' of @k: a limit of registers
  ret void
}

declare void @llvm.nvvm.cp.async.commit.group()

attributes #0 = { "nvvm.maxnreg"="64" "nvvm.reqntid"="128" }

!0 = !DIFile(filename: "kernels.py", directory: "/src")
!1 = !DIFile(filename: "library.py", directory: "/src")
!2 = distinct !DISubprogram(name: "k", file: !0, line: 4)
!3 = distinct !DILexicalBlockFile(scope: !2, file: !1, discriminator: 0)
!10 = !DILocation(line: 11, column: 7, scope: !2)
!11 = !DILocation(line: 90, column: 3, scope: !3, inlinedAt: !12)
!12 = !DILocation(line: 12, column: 5, scope: !2)
