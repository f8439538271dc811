"""The kernels that the fork matrix decorates, parses, tunes and compiles. A file of
their own, since Triton reads a kernel's source from the file it is in."""

# Triton is not typed throughout.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl


@triton.jit
def add(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2.0, mask=i < n)


def source(kernel: Any) -> Any:
    """The kernel with its argument types, as ``triton.compile`` takes it."""
    signature = {"x": "*fp32", "y": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    return triton.compiler.ASTSource(fn=kernel, signature=signature, constexprs={(3,): 128})


def tuned() -> Any:
    """An autotuner over a kernel."""
    configs = [triton.Config({"BLOCK": size}, num_warps=4) for size in (128, 256)]
    return triton.autotune(configs=configs, key=["n"])(scale)
