"""The head of every script of the dispatch tests: the kernels, and the first launch."""

from __future__ import annotations

KERNELS = """
import gc, sys
import torch
import triton
import triton.language as tl
from triton import knobs
from triton.backends.ppu._native import launch
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction
from simulated import outcome, report

GLOBAL = tl.constexpr(3)
NUMBER = 5

@triton.jit
def plain(x, n, f, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(x + offsets, tl.full((BLOCK,), 0.0, tl.float32) + f, mask=offsets < n)

@triton.jit
def defaults(x, n=17, flag: tl.constexpr = True, BLOCK: tl.constexpr = 16):
    tl.store(x + tl.arange(0, BLOCK), n + BLOCK)

@triton.jit(do_not_specialize=["n"], do_not_specialize_on_alignment=["m"])
def unspecialized(x: "const *fp32", y, n, m, f: tl.float16, b: tl.int1, c: tl.int8):
    tl.store(y, n + m + c)

@triton.jit
def uses_globals(x, n):
    tl.store(x, n + GLOBAL)

@triton.jit
def uses_number(x, n):
    tl.store(x, n + NUMBER)

null = torch.empty(0)
whole = torch.empty(0, dtype=torch.int32)
compiled = []
knobs.runtime.jit_post_compile_hook = lambda **kwargs: compiled.append(kwargs["fn"].name)

def first():
    \"\"\"Has one kernel launched, after which kernel[grid] is the dispatch.\"\"\"
    plain[(1,)](null, 1000, 2.5, 16)
    compiled.clear()
    assert type(plain[(1,)]).__name__ == "GridLauncher"
"""
