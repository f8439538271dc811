; Opcodes inside inline assembly get the prefix from SDK 2.1 on, and none for SDK 2.0.
; RUN: %flagtree-tix %s | grep -v '^ *;' | FileCheck %s --check-prefix=NEW
; RUN: %flagtree-tix --sdk 2.1 %s | grep -v '^ *;' | FileCheck %s --check-prefix=NEW
; RUN: %flagtree-tix --sdk 2.0 %s | grep -v '^ *;' | FileCheck %s --check-prefix=OLD

define ptx_kernel void @k(ptr addrspace(1) %p, i1 %m) #0 {
; NEW-LABEL: define ptx_kernel void @k
; OLD-LABEL: define ptx_kernel void @k

; One instruction, and several with a line break between them.
; NEW: asm sideeffect "ppu.st.global.b32 [ $1 + 0 ], { $0 };", "r,l"
; OLD: asm sideeffect "st.global.b32 [ $1 + 0 ], { $0 };", "r,l"
  call void asm sideeffect "st.global.b32 [ $1 + 0 ], { $0 };", "r,l"(i32 1, ptr addrspace(1) %p)
; NEW: "ppu.mov.u32 $0, 0x0;\0A\09@$2 ppu.ld.global.b32 { $0 }, [ $1 + 0 ];"
; OLD: "mov.u32 $0, 0x0;\0A\09@$2 ld.global.b32 { $0 }, [ $1 + 0 ];"
  %a = call i32 asm sideeffect "mov.u32 $0, 0x0;\0A\09@$2 ld.global.b32 { $0 }, [ $1 + 0 ];", "=r,l,b"(ptr addrspace(1) %p, i1 %m)

; Modifiers belong to the opcode.
; NEW: "ppu.createpolicy.fractional.L2::evict_first.b64 $0, 1.0;"
  %c = call i64 asm "createpolicy.fractional.L2::evict_first.b64 $0, 1.0;", "=l"()
; NEW: "ppu.ld.global.L1::evict_last.L2::cache_hint.b32 { $0 }, [ $1 + 0 ], $2;"
  %b = call i32 asm sideeffect "ld.global.L1::evict_last.L2::cache_hint.b32 { $0 }, [ $1 + 0 ], $2;", "=r,l,l"(ptr addrspace(1) %p, i64 %c)

; Predicates, negated or not, stay in front.
; NEW: "@!$1 ppu.bra.uni OUT_${:uid};\0AOUT_${:uid}:"
; OLD: "@!$1 bra.uni OUT_${:uid};\0AOUT_${:uid}:"
  call void asm "@!$1 bra.uni OUT_${:uid};\0AOUT_${:uid}:", "r,b"(i32 0, i1 %m)

; Blocks, vectors of operands and declared registers.
; NEW: "{ .reg .b16 lo, hi; ppu.mov.b32 {lo, hi}, $1; ppu.mov.b32 $0, {hi, lo}; }"
  %d = call i32 asm "{ .reg .b16 lo, hi; mov.b32 {lo, hi}, $1; mov.b32 $0, {hi, lo}; }", "=r,r"(i32 %a)

; Comments inside the assembly, and a last instruction without a semicolon.
; NEW: "// add.u32 a, b\0A/* mov.u32; */ ppu.mov.u64 $0, %globaltimer"
  %e = call i64 asm sideeffect "// add.u32 a, b\0A/* mov.u32; */ mov.u64 $0, %globaltimer", "=l"()

; A label named like an opcode, a quotation mark and a doubled dollar sign.
; NEW: "mov: ppu.exit;\0A.pragma \22mov.u32 a;\22;\0A$$ret: ppu.ret;"
  call void asm sideeffect "mov: exit;\0A.pragma \22mov.u32 a;\22;\0A$$ret: ret;", ""()
  ret void
}

attributes #0 = { "nvvm.reqntid"="128" }
