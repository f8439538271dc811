; Assembly that could hide an opcode from the writer is not guessed at.
; RUN: %not --code 1 %flagtree-tix --threads 32 %s 2>&1 >/dev/null | FileCheck %s

define ptx_kernel void @k() {
; CHECK: malformed: IR line 6: inline assembly 'mov.b32 $0, $1\0Aadd.u32 $0, $0, 1;': a ';' is missing
  call void asm "mov.b32 $0, $1\0Aadd.u32 $0, $0, 1;", "r,r"(i32 0, i32 0)
; CHECK: malformed: IR line 8: inline assembly '@;': '@' is not followed by a predicate
  call void asm "@;", ""()
; CHECK: malformed: IR line 10: ppu.mov.b32: the opcode already has the prefix 'ppu.'
  call void asm "ppu.mov.b32 $0, 1;", "r"(i32 0)
; CHECK: refused: IR line 12: $0.b32: an opcode that is itself an operand
  call void asm "$0.b32 $1;", "r,r"(i32 0, i32 0)
; CHECK: malformed: IR line 14: inline assembly '/* open': a comment has no end
  call void asm "/* open", ""()
; CHECK: malformed: IR line 16: inline assembly '.visible .func f;': the directive is not one of a function's body
  call void asm ".visible .func f;", ""()
  ret void
}
