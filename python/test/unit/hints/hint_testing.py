"""Shared by the hint tests: kernels made from text, and their compilation for the PPU's target."""

from __future__ import annotations

import itertools
import linecache
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

__all__ = ["TARGET", "compile_kernel", "define"]

TARGET = GPUTarget("cuda", 80, 32)
_numbers = itertools.count()


def define(source: str, name: str = "kernel", **names: Any) -> Any:
    """Makes JIT functions of `source` as a notebook does: compiled text that linecache knows.

    Returns the function `name`; `names` are added to its globals.
    """
    file = f"<notebook cell {next(_numbers)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space = {"triton": triton, "tl": tl, "__name__": "notebook", **names}
    exec(compile(source, file, "exec"), space)
    return space[name]


def compile_kernel(
    kernel: Any, constants: dict[str, Any] | None = None, target: GPUTarget = TARGET, **options: Any
) -> Any:
    """Compiles a kernel whose arguments are pointers to fp32, `n` and constexprs, all aligned."""
    constants = constants or {"BLOCK": 1024}
    signature = {
        name: "constexpr" if name in constants else "i32" if name == "n" else "*fp32"
        for name in kernel.arg_names
    }
    aligned = {(i,): [["tt.divisibility", 16]] for i in range(len(signature) - len(constants))}
    source = ASTSource(kernel, signature, constants, aligned)
    return triton.compile(source, target=target, options=options)
