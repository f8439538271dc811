"""Kernels for measuring launches: 3, 10 and 30 arguments, and next to no work.

The arguments are what real kernels have: half of them pointers, then integers and floats. Every one
is used, so that none is compiled away. Plain Triton, so that any Triton can be measured with them.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl


@triton.jit
def three(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(y + offsets, tl.load(x + offsets, mask=offsets < n), mask=offsets < n)


@triton.jit
def ten(p0, p1, p2, p3, p4, n0, n1, n2, n3, s0, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    value = tl.load(p0 + offsets) + tl.load(p1 + offsets) + tl.load(p2 + offsets)
    value += tl.load(p3 + offsets) * s0 + (n1 + n2 + n3)
    tl.store(p4 + offsets, value, mask=offsets < n0)


@triton.jit
def thirty(
    p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, p12, p13, p14,
    n0, n1, n2, n3, n4, n5, n6, n7, n8, n9,
    s0, s1, s2, s3, s4,
    BLOCK: tl.constexpr,
):  # fmt: skip
    offsets = tl.arange(0, BLOCK)
    value = tl.load(p0 + offsets) + tl.load(p1 + offsets) + tl.load(p2 + offsets)
    value += tl.load(p3 + offsets) + tl.load(p4 + offsets) + tl.load(p5 + offsets)
    value += tl.load(p6 + offsets) + tl.load(p7 + offsets) + tl.load(p8 + offsets)
    value += tl.load(p9 + offsets) + tl.load(p10 + offsets) + tl.load(p11 + offsets)
    value += tl.load(p12 + offsets) + tl.load(p13 + offsets)
    value += (n1 + n2 + n3 + n4 + n5 + n6 + n7 + n8 + n9) + (s0 * s1 + s2 * s3 + s4)
    tl.store(p14 + offsets, value, mask=offsets < n0)


BLOCK = 128


def arguments(pointers: int, integers: int, floats: int) -> list[Any]:
    """Tensors of BLOCK elements on the device, integers that fit i32 (no multiple of 16, and the
    first the number of elements), and floats, in that order."""
    import torch

    tensors = [torch.zeros(BLOCK, device="cuda") for _ in range(pointers)]
    numbers = [BLOCK - 1] + [101 + 2 * number for number in range(integers - 1)]
    return [*tensors, *numbers[:integers], *(0.5 + number for number in range(floats))]


# Number of arguments: the kernel, and how many are pointers, integers, floats.
SIGNATURES: dict[int, tuple[Any, tuple[int, int, int]]] = {
    3: (three, (2, 1, 0)),
    10: (ten, (5, 4, 1)),
    30: (thirty, (15, 10, 5)),
}
