"""Hints with the PPU SDK's tool chain, which makes no asynchronous copy without T-Head's passes: a
load is staged through registers, and what needs the pipeliner says that it does not apply."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hint_testing import compile_kernel, define

FAKE_SDK = Path(__file__).resolve().parents[2] / "fake_sdk"

KERNEL = """
import triton
import triton.language as tl

@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(n):{loop}
        total += tl.load(x + i * BLOCK + offsets){load}
    tl.store(y + offsets, total){store}
"""


@pytest.fixture(autouse=True)
def sdk(plain_environment: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from triton.backends.ppu import toolchain

    monkeypatch.setenv("TRITON_PPU_TOOLCHAIN", "sdk")
    monkeypatch.setenv("PPU_SDK", str(FAKE_SDK))
    monkeypatch.syspath_prepend(str(FAKE_SDK))
    toolchain._read_version.cache_clear()


def test_staging_is_synchronous(warned: Callable[..., list[str]]) -> None:
    kernel = define(KERNEL.format(loop="", load="  # @hint: shared_memory=3", store=""))
    assert warned(kernel) == []
    compiled = compile_kernel(kernel)
    assert "hgbin" in compiled.asm
    assert "ttg.local_alloc" in compiled.asm["ttgir"]
    assert "ttg.local_load" in compiled.asm["ttgir"]
    assert "async_copy" not in compiled.asm["ttgir"]
    plain = compile_kernel(define(KERNEL.format(loop="", load="", store="")))
    assert "ttg.local_alloc" not in plain.asm["ttgir"]


def test_loops_are_not_pipelined(warned: Callable[..., list[str]]) -> None:
    (message,) = warned(define(KERNEL.format(loop="  # @hint: num_stages=3", load="", store="")))
    assert "does not apply here: this tool chain pipelines no loops" in message


def test_the_other_hints_work(warned: Callable[..., list[str]]) -> None:
    kernel = define(
        KERNEL.format(
            loop="  # @hint: loop_unroll_factor=2",
            load="  # @hint: eviction_policy=evict_last",
            store="  # @hint: cache_modifier=cs",
        )
    )
    assert warned(kernel) == []
    tix = compile_kernel(kernel).asm["tix"]
    assert "evict_last" in tix
    assert "st.global.cs" in tix


def test_the_mode_is_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = define(KERNEL.format(loop="", load="  # @hint: shared_memory", store=""))
    found = set()
    for mode in ("warn", "off", "error"):
        monkeypatch.setenv("FLAGTREE_HINTS", mode)
        found.add(compile_kernel(kernel).hash)
    assert len(found) == 3
