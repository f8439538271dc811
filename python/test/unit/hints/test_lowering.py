"""`shared_memory` compiles to a binary for every element type, rank, place and chip, and leaves the
loads next to it as they were."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import triton
from hint_testing import define
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

Warned = Callable[..., list[str]]

HEADER = "import triton\nimport triton.language as tl\n\n@triton.jit\n"


def build(
    text: str, signature: str, constants: dict[str, int], capability: int = 80, **options: int
) -> Any:
    """Compiles `text`, a kernel without its decorator, with all but floats aligned."""
    kernel = define(HEADER + text)
    types = dict(zip(kernel.arg_names, signature.split(), strict=False))
    attributes = {
        (i,): [["tt.divisibility", 16]] for i, kind in enumerate(types.values()) if kind != "fp32"
    }
    types |= dict.fromkeys(constants, "constexpr")
    target = GPUTarget("cuda", capability, 32)
    source = ASTSource(kernel, types, constants, attributes)
    return triton.compile(source, target=target, options=options)


def buffers(compiled: Any) -> list[str]:
    """Shape and element of each allocation of shared memory, e.g. ``3x1024xf32``."""
    found: list[str] = re.findall(
        r"local_alloc[^:\n]*: \([^)]*\) -> !ttg.memdesc<(\w+)", compiled.asm["ttgir"]
    )
    return found


STRAIGHT = """
def kernel(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    a = tl.load(x + offsets, mask=offsets < n, other=0)  # @hint: shared_memory
    tl.store(y + offsets, a, mask=offsets < n)
"""

LOOP = """
def kernel(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    for start in range(0, n, BLOCK):
        a = tl.load(x + start + offsets)  # @hint: shared_memory=2
        tl.store(y + start + offsets, a)
"""


# Not 100: the tree leaves out `ptxas-blackwell`, which assembles for it.
@pytest.mark.parametrize("capability", [80, 89, 90])
@pytest.mark.parametrize("element", ["i8", "i16", "i32", "i64", "fp16", "bf16", "fp32", "fp64"])
def test_element_types(element: str, capability: int) -> None:
    memory = {"fp": "f"}.get(element[:2], element[:2]) + element[2:]
    one = build(STRAIGHT, f"*{element} *{element} i32", {"BLOCK": 1024}, capability)
    assert buffers(one) == [f"1024x{memory}"]
    is_asynchronous = "async_copy_global_to_local" in one.asm["ttgir"]
    assert is_asynchronous == (int(re.sub(r"\D", "", element)) >= 32)
    loop = build(LOOP, f"*{element} *{element} i32", {"BLOCK": 1024}, capability)
    assert buffers(loop) == [f"2x1024x{memory}"]


def test_bytes_of_a_float8() -> None:
    assert buffers(build(STRAIGHT.replace(", other=0", ""), "*fp8e5 *fp8e5 i32", {"BLOCK": 512}))


TWO_DIMENSIONS = """
def kernel(x, y, M: tl.constexpr, N: tl.constexpr):
    rows = tl.arange(0, M)
    columns = tl.arange(0, N)
    a = tl.load(x + rows[:, None] * N + columns[None, :])  # @hint: shared_memory
    tl.store(y + columns[:, None] * M + rows[None, :], tl.trans(a))
"""


@pytest.mark.parametrize(("m", "n"), [(64, 64), (16, 256), (256, 8), (1, 128)])
@pytest.mark.parametrize("element", ["fp32", "fp16"])
def test_a_transposition_reads_the_buffer_in_the_new_layout(m: int, n: int, element: str) -> None:
    compiled = build(TWO_DIMENSIONS, f"*{element} *{element}", {"M": m, "N": n})
    assert f"{m}x{n}xf{element[2:]}" in buffers(compiled)


def test_a_second_use_in_a_loop_waits_before_it() -> None:
    text = """
def kernel(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    a = tl.load(x + offsets)  # @hint: shared_memory
    for start in range(0, n, BLOCK):
        tl.store(y + start + offsets, a + start)
"""
    ir = build(text, "*fp32 *fp32 i32", {"BLOCK": 1024}).asm["ttgir"]
    assert ir.index("async_copy") < ir.index("async_wait") < ir.index("scf.for")


def test_a_store_in_between_waits_first() -> None:
    """The load must not see what the kernel itself writes after it."""
    text = """
def kernel(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    a = tl.load(x + offsets)  # @hint: shared_memory
    b = tl.load(y + offsets)
    tl.store(x + offsets, b)
    tl.store(y + offsets, a)
"""
    ir = build(text, "*fp32 *fp32 i32", {"BLOCK": 1024}).asm["ttgir"]
    assert ir.index("async_wait") < ir.index("tt.store")


LOADS_OF_A_LOOP = """
def kernel(a_ptr, b_ptr, i_ptr, c_ptr, N, K, M: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.arange(0, M)
    columns = tl.arange(0, BLOCK)
    total = tl.zeros((M, BLOCK), tl.float32)
    for k in {range}:
        inner = k + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + rows[:, None] * K + inner[None, :]){hint}
        b = tl.load(b_ptr + inner[:, None] * N + columns[None, :])
        {use}
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], total)
"""


@pytest.mark.parametrize(
    ("use", "loop", "options"),
    [
        ("total = tl.dot(a, b, total)", "range(0, K, BLOCK)", {}),
        ("total = tl.dot(a, b, total)", "range(0, K, BLOCK)", {"num_stages": 5}),
        ("total = tl.dot(a, b, total)", "tl.range(0, K, BLOCK, num_stages=4)", {}),
        ("total += tl.sum(a) + tl.sum(b)", "tl.range(0, K, BLOCK, num_stages=4)", {}),
        ("total += tl.sum(a) + tl.sum(b)", "range(0, K, BLOCK)", {}),
        ("total = tl.dot(a.to(tl.float16), (b * 2).to(tl.float16), total)", "range(K)", {}),
    ],
)
def test_the_other_load_keeps_its_buffers(use: str, loop: str, options: dict[str, int]) -> None:
    def of(hint: str) -> list[str]:
        text = LOADS_OF_A_LOOP.format(range=loop, use=use, hint=hint)
        compiled = build(text, "*fp16 *fp16 *i32 *fp32 i32 i32", {"M": 64, "BLOCK": 32}, **options)
        return [name for name in buffers(compiled) if name.endswith("x32x32xf16")]

    without = of("")
    assert of("  # @hint: shared_memory=6") == without
    # The base pipelines what feeds a dot, and everything in a loop that asks for it.
    assert len(without) == ("dot" in use or "num_stages" in loop)


@pytest.mark.parametrize("options", [{"num_stages": 1}, {"num_stages": 2}, {"num_stages": 4}])
def test_the_depth_without_a_value_follows_num_stages(options: dict[str, int]) -> None:
    text = LOOP.replace("=2", "")
    compiled = build(text, "*fp32 *fp32 i32", {"BLOCK": 1024}, **options)
    assert buffers(compiled) == [f"{max(1, options['num_stages'] - 1)}x1024xf32"]


def test_clusters_are_refused(recwarn: pytest.WarningsRecorder) -> None:
    build(STRAIGHT, "*fp32 *fp32 i32", {"BLOCK": 1024}, 90, num_ctas=2)
    assert any("runs in clusters" in str(warning.message) for warning in recwarn)


def test_an_unused_load_is_no_trouble(recwarn: pytest.WarningsRecorder) -> None:
    text = """
def kernel(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.load(x + offsets)  # @hint: shared_memory
    tl.store(y + offsets, offsets)
"""
    assert buffers(build(text, "*fp32 *i32 i32", {"BLOCK": 1024})) == []
    assert not recwarn.list
