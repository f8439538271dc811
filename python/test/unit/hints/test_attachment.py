"""A hint reaches the operations of its statement, and no others, however the kernel is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hint_testing import compile_kernel, define

Warned = Callable[..., list[str]]


def notes(compiled: Any) -> int:
    """How many loads of the kernel's first stage carry the note of `shared_memory`."""
    return str(compiled.asm["ttir"]).count("tt.hint_shared_memory =")


HEADER = """
import triton
import triton.language as tl

@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
"""


def body(text: str, **names: Any) -> Any:
    """A kernel with `text` as its body."""
    lines = "".join(f"    {line}\n" for line in text.strip("\n").split("\n"))
    return define(HEADER + lines, **names)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("tl.store(y + offsets, tl.load(x + offsets))  # @hint: shared_memory", 1),
        ("a = tl.load(x + offsets)  # @hint: shared_memory\ntl.store(y + offsets, a)", 1),
        ("a = tl.load(x + offsets)  # no hint: shared_memory\ntl.store(y + offsets, a)", 0),
        ("a = tl.load(x + offsets)\ntl.store(y + offsets, a + 1)  # hint", 0),
        (
            # On any line of the statement, and on no line of its neighbours.
            """
a = tl.load(
    x + offsets,
    mask=offsets < n,  # @hint: shared_memory
    other=0.0,
)
b = tl.load(y + offsets)
tl.store(y + offsets, a + b)""",
            1,
        ),
        (
            "a = tl.load(x + offsets) + \\\n    tl.load(y + offsets)  # @hint: shared_memory\n"
            "tl.store(y + offsets, a)",
            2,
        ),
        (
            "a = tl.load(x + offsets); b = tl.load(y + offsets)  # @hint: shared_memory\n"
            "tl.store(y + offsets, a + b)",
            2,
        ),
        (
            # A string that looks like one is none.
            'tl.static_assert(BLOCK > 0, "# @hint: shared_memory"); a = tl.load(x + offsets)\n'
            "tl.store(y + offsets, a)",
            0,
        ),
        (
            "a = tl.zeros((BLOCK,), tl.float32)\n"
            "for i in tl.static_range(3):\n"
            "    a += tl.load(x + i * BLOCK + offsets)  # @hint: shared_memory\n"
            "tl.store(y + offsets, a)",
            3,
        ),
        (
            "a = tl.zeros((BLOCK,), tl.float32)\n"
            "for i in range(n):\n"
            "    if i % 2 == 0:\n"
            "        a += tl.load(x + i * BLOCK + offsets)  # @hint: shared_memory\n"
            "    else:\n"
            "        a -= tl.load(x + i * BLOCK + offsets)\n"
            "tl.store(y + offsets, a)",
            1,
        ),
        (
            "i = 0\n"
            "a = tl.zeros((BLOCK,), tl.float32)\n"
            "while i < n:\n"
            "    a += tl.load(x + i * BLOCK + offsets)  # @hint: shared_memory\n"
            "    i += 1\n"
            "tl.store(y + offsets, a)",
            1,
        ),
        (
            "if BLOCK > 4096:\n"
            "    a = tl.load(x + offsets)  # @hint: shared_memory\n"
            "else:\n"
            "    a = tl.load(y + offsets)\n"
            "tl.store(y + offsets, a)",
            0,
        ),
        (
            "a = tl.load(x + offsets) if BLOCK > 1 else 0.0  # @hint: shared_memory\n"
            "tl.store(y + offsets, a)",
            1,
        ),
    ],
)
def test_statements(warned: Warned, text: str, count: int) -> None:
    kernel = body(text)
    assert warned(kernel) == []
    assert notes(compile_kernel(kernel)) == count


CALLEE = """
import triton
import triton.language as tl

@triton.jit{arguments}
def read(p):
    offsets = tl.arange(0, 1024)
    return tl.sum(tl.load(p + offsets), axis=0)  # @hint: shared_memory

@triton.jit
def twice(p):
    return read(p) + read(p + 1024)

@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    tl.store(y, twice(x))
"""


def test_functions_called_from_kernels(warned: Warned) -> None:
    inlined = define(CALLEE.format(arguments=""))
    assert warned(inlined) == []
    assert notes(compile_kernel(inlined)) == 2
    separate = define(CALLEE.format(arguments="(noinline=True)"))
    assert warned(separate) == []
    assert notes(compile_kernel(separate)) == 1


def test_a_call_in_a_loop_is_pipelined() -> None:
    kernel = define(
        CALLEE.format(arguments="").replace(
            "tl.store(y, twice(x))",
            "total = 0.0\n    for i in range(n):\n        total += read(x + i * 1024)\n"
            "    tl.store(y, total)",
        )
    )
    compiled = compile_kernel(kernel)
    assert "async_copy_global_to_local" in compiled.asm["ttgir"]
    assert "2x1024xf32" in compiled.asm["ttgir"]


def test_a_hint_on_a_call_stays_outside(warned: Warned) -> None:
    text = CALLEE.format(arguments="").replace("  # @hint: shared_memory", "")
    kernel = define(text.replace("twice(x))", "twice(x))  # @hint: shared_memory"))
    (message,) = warned(kernel)
    assert "does not apply here: this statement makes no tl.load of a tensor" in message


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("indent", ["    ", "\t", " "])
def test_line_ends_and_indentation(warned: Warned, newline: str, indent: str) -> None:
    kernel = body("a = tl.load(x + offsets)\ntl.store(y + offsets, a)")
    lines = [
        "def kernel(x, y, n, BLOCK: tl.constexpr):",
        f"{indent}offsets = tl.arange(0, BLOCK)  # größer, 大きい",
        f"{indent}a = tl.load(x + offsets)  # ä # @hint: shared_memory",
        f"{indent}tl.store(y + offsets, a)  # @hint: nonsense",
        "",
    ]
    kernel._unsafe_update_src(newline.join(lines))
    (message,) = warned(kernel)
    assert "unknown hint 'nonsense'" in message
    excerpt = message.split("\n")
    assert excerpt[1] == lines[3]
    assert excerpt[2].index("^") == lines[3].index("nonsense")
    assert notes(compile_kernel(kernel)) == 1


def test_a_nested_definition_keeps_its_columns(warned: Warned) -> None:
    text = """
def make():
    @triton.jit
    def kernel(x, y, n, BLOCK: tl.constexpr):
        offsets = tl.arange(0, BLOCK)
        a = tl.load(x + offsets)  # @hint: nonsense
        tl.store(y + offsets, a)
    return kernel
kernel = make()
"""
    (message,) = warned(define(text))
    line = text.split("\n")[5]
    assert f":6:{line.index('nonsense') + 1}: unknown hint" in message
    assert message.split("\n")[1] == line
    assert message.split("\n")[2].index("^") == line.index("nonsense")


def test_a_source_of_thousands_of_lines(warned: Warned) -> None:
    filler = "\n".join(f"# {i}" for i in range(5000))
    kernel = body(
        f"{filler}\na = tl.load(x + offsets)  # @hint: shared_memory\ntl.store(y + offsets, a)"
    )
    assert warned(kernel) == []
    assert notes(compile_kernel(kernel)) == 1


def test_gluon_kernels_are_left_alone(warned: Warned) -> None:
    from triton.backends.compiler import GPUTarget
    from triton.experimental.gluon._runtime import GluonASTSource

    text = """
from triton.experimental import gluon
from triton.experimental.gluon import language as ttgl

@gluon.jit
def kernel(x, BLOCK: ttgl.constexpr):
    layout: ttgl.constexpr = ttgl.BlockedLayout([1], [32], [4], [0])
    offsets = ttgl.arange(0, BLOCK, layout)
    ttgl.store(x + offsets, ttgl.load(x + offsets))  # @hint: shared_memory
"""
    import warnings

    import triton

    source = GluonASTSource(define(text), {"x": "*fp32", "BLOCK": "constexpr"}, {"BLOCK": 128})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        triton.compile(source, target=GPUTarget("cuda", 80, 32))
    assert any("does not apply here" in str(w.message) for w in caught)
