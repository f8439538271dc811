"""What is said about a hint that has no effect: where, what, the nearest name; once per place."""

from __future__ import annotations

import linecache
import pickle
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hint_testing import compile_kernel, define
from triton import knobs
from triton.backends.ppu.hint_handler import HINTS
from triton.compiler.hint_diagnostics import HintError

Warned = Callable[..., list[str]]

KERNEL = """
import triton
import triton.language as tl

@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    for i in range(n):{loop}
        a = tl.load(x + i * BLOCK + offsets{load})
        tl.store(y + i * BLOCK + offsets, a){store}
"""


def kernel(loop: str = "", load: str = "", store: str = "") -> object:
    return define(KERNEL.format(loop=loop, load=load, store=store))


@pytest.fixture(autouse=True)
def default_mode() -> Iterator[None]:
    with knobs.ppu.scope():
        yield


@pytest.mark.parametrize(
    ("places", "underlined", "message"),
    [
        (
            {"store": "  # @hint: shared_memry"},
            "shared_memry",
            "unknown hint 'shared_memry'; did you mean 'shared_memory'?",
        ),
        ({"loop": "  # @hint: unroll=4"}, "unroll=4", "did you mean 'loop_unroll_factor'?"),
        (
            {"loop": "  # @hint: frobnicate"},
            "frobnicate",
            "unknown hint 'frobnicate'; the hints are shared_memory, cache_modifier, "
            "eviction_policy, num_stages, loop_unroll_factor",
        ),
        (
            {"store": "  # @hint: dot_pad_only_k"},
            "dot_pad_only_k",
            "one of FlagTree's Ascend backend and means nothing on the PPU",
        ),
        (
            {"store": "  # @hint: shared_memory"},
            "shared_memory",
            "does not apply here: this statement makes no tl.load of a tensor",
        ),
        (
            {"store": "  # @hint: num_stages=3"},
            "num_stages=3",
            "does not apply here: this statement makes no for loop over a range",
        ),
        (
            {"loop": "  # @hint: num_stages"},
            "num_stages",
            "hint 'num_stages' needs a value ('num_stages=...'), an integer from 1 to 16",
        ),
        (
            {"loop": "  # @hint: num_stages=0"},
            "num_stages=0",
            "hint 'num_stages=0': the value must be an integer from 1 to 16",
        ),
        (
            {"store": "  # @hint: cache_modifier=ca"},
            "cache_modifier=ca",
            "hint 'cache_modifier=ca': the value must be one of cg, cs, wt",
        ),
        (
            {"load": ", cache_modifier='.cg'  # @hint: cache_modifier=cg\n"},
            "cache_modifier=cg",
            "does not apply here: the call already says cache_modifier=",
        ),
        (
            {"load": ", cache_modifier='.cg'  # @hint: eviction_policy=evict_last\n"},
            "eviction_policy=evict_last",
            "does not apply here: cache_modifier and eviction_policy exclude each other",
        ),
        (
            {"store": "  # @hint: cache_modifier=cs, eviction_policy=evict_last"},
            "eviction_policy=evict_last",
            "does not apply here: cache_modifier and eviction_policy exclude each other",
        ),
        (
            {"load": "  # @hint: cache_modifier=wt\n"},
            "cache_modifier=wt",
            "does not apply here: tl.load of a tensor takes cg",
        ),
        (
            {"load": "  # @hint: shared_memory, cache_modifier=cg\n"},
            "cache_modifier=cg",
            "does not apply here: a copy to shared memory takes no such advice",
        ),
        (
            {"load": ", volatile=True  # @hint: shared_memory\n"},
            "shared_memory",
            "does not apply here: the load is volatile",
        ),
        (
            {"store": "\n        # @hint: shared_memory\n"},
            "shared_memory",
            "belongs to no statement",
        ),
        (
            {"load": "  # @hint: shared_memory=2\n", "store": ""},
            None,
            None,
        ),
        (
            {"load": "  # @hint: shared_memory # @hint: shared_memory\n"},
            "shared_memory",
            "hint 'shared_memory' is given twice for this statement",
        ),
        ({"store": "  # @hint:"}, "@hint:", "malformed hint: no hint follows '@hint:'"),
        (
            {"store": "  # @hint shared_memory"},
            "@hint",
            "malformed hint: expected ':' after '@hint'",
        ),
    ],
)
def test_messages(
    warned: Warned, places: dict[str, str], underlined: str | None, message: str | None
) -> None:
    found = warned(kernel(**places))
    if message is None:
        assert found == []
        return
    (text,) = found
    head, excerpt, caret = text.split("\n")
    assert message in head
    file, line, at = re.match(r"(<notebook cell \d+>):(\d+):(\d+): ", head).groups()  # type: ignore[union-attr]
    assert "@hint" in excerpt
    assert re.fullmatch(r"\s*\^~*", caret)
    assert int(at) == caret.index("^") + 1
    assert excerpt[caret.index("^") : len(caret)].rstrip() == underlined
    # The line is the one in the file.
    assert linecache.getline(file, int(line)).rstrip("\n") == excerpt


def test_loads_that_cannot_be_staged(warned: Warned) -> None:
    text = """
import triton
import triton.language as tl

@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    scalar = tl.load(x)  # @hint: shared_memory
    block = tl.make_block_ptr(x, (n,), (1,), (0,), (BLOCK,), (0,))
    a = tl.load(block)  # @hint: shared_memory
    tl.store(y + offsets, a + scalar)
"""
    first, second = warned(define(text))
    assert ":8:" in first and "the load is of a scalar" in first
    assert ":10:" in second and "through a block pointer" in second


def test_a_load_that_the_pipeliner_cannot_copy(warned: Warned) -> None:
    """Bytes at unknown alignment: each thread has less than the 4 bytes of a copy."""
    text = """
import triton
import triton.language as tl

@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(n):
        a = tl.load(x.to(tl.pointer_type(tl.int8)) + i + offsets)  # @hint: shared_memory
        total += a.to(tl.float32)
    tl.store(y + offsets, total)
"""
    (message,) = warned(define(text))
    assert ":10:" in message
    assert "does not apply here: no asynchronous copy can be made of this load" in message
    assert message.split("\n")[2].index("^") == message.split("\n")[1].index("shared_memory")


def test_advice_that_the_pipeliner_drops(warned: Warned) -> None:
    found = warned(
        kernel(loop="  # @hint: num_stages=3", load="  # @hint: eviction_policy=evict_last\n")
    )
    assert len(found) == 1
    assert "the compiler makes an asynchronous copy of this load, which takes no" in found[0]
    assert warned(kernel(load="  # @hint: eviction_policy=evict_last\n")) == []


def test_static_range_and_given_options(warned: Warned) -> None:
    text = KERNEL.replace("range(n)", "tl.static_range(3)")
    (message,) = warned(
        define(text.format(loop="  # @hint: loop_unroll_factor=2", load="", store=""))
    )
    assert "a tl.static_range loop is unrolled completely" in message
    text = KERNEL.replace("range(n)", "tl.range(n, num_stages=2)")
    (message,) = warned(define(text.format(loop="  # @hint: num_stages=4", load="", store="")))
    assert "the loop already says num_stages=" in message


def test_once_per_place(warned: Warned) -> None:
    twice = kernel(loop="  # @hint: nonsense, nonsense2=1", store="  # @hint: nonsense")
    assert len(warned(twice)) == 3
    assert warned(twice) == []
    # The same function compiled for other constants is the same place.
    twice.hash = None  # type: ignore[attr-defined]
    assert warned(twice, {"BLOCK": 512}) == []


def test_error_mode(warned: Warned) -> None:
    bad = kernel(loop="  # @hint: nonsense", store="  # @hint: shared_memory")
    knobs.ppu.hints = "error"
    with pytest.raises(HintError) as caught:
        compile_kernel(bad)
    assert "unknown hint 'nonsense'" in str(caught.value)
    assert "makes no tl.load" in str(caught.value)
    # It travels from a worker process to its parent.
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert warned(kernel(load="  # @hint: shared_memory\n")) == []


def test_error_mode_also_after_warnings(warned: Warned) -> None:
    """A kernel in the cache that was only warned about is an error all the same."""
    bad = kernel(store="  # @hint: nonsense")
    assert len(warned(bad)) == 1
    knobs.ppu.hints = "error"
    with pytest.raises(HintError):
        compile_kernel(bad)


def test_errors_of_later_stages() -> None:
    knobs.ppu.hints = "error"
    with pytest.raises(HintError, match="takes no such advice"):
        compile_kernel(
            kernel(loop="  # @hint: num_stages=3", load="  # @hint: eviction_policy=evict_last\n")
        )


def test_off_mode(warned: Warned) -> None:
    knobs.ppu.hints = "off"
    ignored = kernel(loop="  # @hint: nonsense, num_stages=3", load="  # @hint: shared_memory\n")
    assert warned(ignored) == []
    assert "async_copy" not in compile_kernel(ignored).asm["ttgir"]


def test_a_wrong_mode_names_the_right_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLAGTREE_HINTS", "maybe")
    with pytest.raises(ValueError, match=r"FLAGTREE_HINTS='maybe': expected one of off, warn, err"):
        compile_kernel(kernel())


def test_every_name_is_documented() -> None:
    page = Path(__file__).resolve().parents[4] / "docs" / "hints.md"
    text = page.read_text()
    for name in HINTS:
        assert f"### `{name}" in text
