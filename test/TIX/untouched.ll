; Only inline assembly is rewritten: names, strings, comments and metadata that look like it stay.
; RUN: %flagtree-tix %s | grep -v '^ *;' > %t
; RUN: FileCheck %s < %t
; RUN: %not grep -q "ppu\." %t

source_filename = "asm \22mov.u32 $0, 1;\22, \22r\22"
; CHECK: source_filename = "asm \22mov.u32 $0, 1;\22, \22r\22"

; CHECK: @format = internal constant [26 x i8] c"asm \22mov.u32 $0;\22, ld.global"
@format = internal constant [26 x i8] c"asm \22mov.u32 $0;\22, ld.global"

; CHECK: declare i32 @"asm \22st.global\22"(i32)
declare i32 @"asm \22st.global\22"(i32)

define ptx_kernel void @mov.u32(i32 %ld.global) #0 !dbg !2 {
; CHECK-LABEL: define ptx_kernel void @mov.u32(i32 %ld.global)
  %asm = call i32 @"asm \22st.global\22"(i32 %ld.global) ; asm "mov.u32 $0;", "r"
; CHECK: %asm = call i32 @"asm \22st.global\22"(i32 %ld.global) ; asm
  br label %"asm \22bar.sync\22"

"asm \22bar.sync\22":
; CHECK: "asm \22bar.sync\22":
  ret void
}

attributes #0 = { "nvvm.reqntid"="32" "note"="asm \22mov.u32\22" }
; CHECK: "note"="asm \22mov.u32\22"

!named.asm = !{!0}
!llvm.module.flags = !{!3}
!0 = !{!"asm \22mov.u32 $0;\22"}
; CHECK: !0 = !{!"asm \22mov.u32 $0;\22"}
!1 = !DIFile(filename: "asm.py", directory: "/mov.u32")
!2 = distinct !DISubprogram(name: "asm", file: !1, line: 1)
!3 = !{i32 4, !"nvvm-reflect-ftz", i32 1}
