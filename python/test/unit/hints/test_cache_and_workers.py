"""Hints in the cache key; the same in a worker as in its parent; no price for kernels without."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from hint_testing import compile_kernel, define
from triton import knobs
from triton.compiler import code_generator

TOOLS = Path(__file__).resolve().parents[4] / "tools"

KERNEL = """
import triton
import triton.language as tl

@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    a = tl.load(x + offsets)  {comment}
    tl.store(y + offsets, a)
"""


@pytest.fixture(autouse=True)
def default_mode() -> Iterator[None]:
    with knobs.ppu.scope():
        yield


def compiled_with(comment: str) -> Any:
    return compile_kernel(define(KERNEL.format(comment=comment)))


def test_changing_a_hint_recompiles() -> None:
    plain, hinted, other = (
        compiled_with(comment)
        for comment in ("", "# @hint: cache_modifier=cg", "# @hint: eviction_policy=evict_last")
    )
    assert len({plain.hash, hinted.hash, other.hash}) == 3
    assert "ld.global.cg" in hinted.asm["ptx"]
    assert "ld.global.cg" not in plain.asm["ptx"]
    assert "evict_last" in other.asm["ptx"]


def test_the_mode_is_in_the_key() -> None:
    found = {}
    kernel = define(KERNEL.format(comment="# @hint: cache_modifier=cg"))
    for mode in ("warn", "off", "error"):
        knobs.ppu.hints = mode
        found[mode] = compile_kernel(kernel)
    assert len({compiled.hash for compiled in found.values()}) == 3
    assert "ld.global.cg" not in found["off"].asm["ptx"]
    assert found["warn"].asm["cubin"] == found["error"].asm["cubin"]


def test_a_function_without_hints_uses_the_bases_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a subclass, not a wrapper: exactly the base's class makes the operations."""
    made = []
    inner = code_generator.CodeGenerator.visit_FunctionDef

    def record(self: Any, node: Any) -> Any:
        made.append(type(self).__name__)
        return inner(self, node)

    monkeypatch.setattr(code_generator.CodeGenerator, "visit_FunctionDef", record)
    compiled_with("# just a comment")
    compiled_with("# @hint: cache_modifier=cg  # and another")
    assert made == ["CodeGenerator", "HintCodeGenerator"]


DIGESTS = f"""
import hashlib, json, os, sys
sys.path.insert(0, {str(TOOLS)!r})
import triton
from triton.backends.compiler import GPUTarget
from demo_kernels import KERNELS

# Locations name the files of triton.language, wherever it is installed.
HOME = os.path.dirname(triton.__file__)

def digests():
    found = {{}}
    for kernel in KERNELS.values():
        compiled = triton.compile(
            kernel.source(), target=GPUTarget("cuda", 80, 32), options=kernel.options)
        for stage, text in compiled.asm.items():
            data = text if isinstance(text, bytes) else str(text).replace(HOME, "").encode()
            found[f"{{kernel.name}}.{{stage}}"] = hashlib.sha256(data).hexdigest()
    return found
"""

# The base's own backend and its untouched code generator, from the same tree.
BASE = (
    """
from triton.backends.nvidia import compiler as base
import triton.compiler.compiler
triton.compiler.compiler.make_backend = base.CUDABackend
"""
    + DIGESTS
    + """
found = digests()
from triton.compiler import code_generator
assert not hasattr(code_generator.ast_to_ttir, "_flagtree_hints")
assert "triton.compiler.hint_code_generator" not in sys.modules
print(json.dumps(found))
"""
)


def test_kernels_without_hints_are_the_bases_byte_for_byte(
    run_python: Callable[..., CompletedProcess[str]], tmp_path: Path
) -> None:
    def digests(script: str, **variables: str) -> dict[str, str]:
        cache = {"TRITON_CACHE_DIR": str(tmp_path / str(len(list(tmp_path.iterdir()))))}
        found: dict[str, str] = json.loads(
            run_python(script, os.environ | cache | variables).stdout
        )
        return found

    script = DIGESTS + "print(json.dumps(digests()))"
    ours = digests(script)
    assert len(ours) >= 30
    assert ours == digests(BASE)
    stock = os.environ.get("FLAGTREE_TEST_STOCK_TRITON")
    if stock:
        # A folder with upstream's own installation, where there is one. Its debug information
        # names its own files, so both are compiled without.
        ours = digests(script, TRITON_DISABLE_LINE_INFO="1")
        assert ours == digests(script, TRITON_DISABLE_LINE_INFO="1", PYTHONPATH=stock)


WORKER = f"""
import ctypes, json, os, sys
sys.path.insert(0, {str(TOOLS)!r})
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from hinted_kernels import softmax_kernel

def compile(cache):
    os.environ["TRITON_CACHE_DIR"] = cache
    source = ASTSource(
        triton.jit(softmax_kernel),
        {{"x_ptr": "*fp32", "y_ptr": "*fp32", "n_columns": "i32", "BLOCK": "constexpr"}},
        {{"BLOCK": 1024}})
    compiled = triton.compile(source, target=GPUTarget("cuda", 80, 32))
    assert "async_copy_global_to_local" in compiled.asm["ttgir"]
    return [compiled.hash, compiled.asm["ttgir"], compiled.asm["cubin"].hex()]

driver = ctypes.CDLL("libcuda.so.1")
assert driver.cuInit(0) == 0
home = os.environ["TRITON_CACHE_DIR"]
read_end, write_end = os.pipe()
child = os.fork()
if child == 0:
    with os.fdopen(write_end, "w") as pipe:
        json.dump(compile(home + "-worker"), pipe)
    os._exit(0)
os.close(write_end)
with os.fdopen(read_end) as pipe:
    in_worker = json.load(pipe)
assert os.waitpid(child, 0)[1] == 0
print(json.dumps({{"child": child, "same": in_worker == compile(home)}}))
"""


def test_a_forked_worker_obeys_hints_like_its_parent(
    run_python: Callable[..., CompletedProcess[str]], simulator: Callable[..., Any]
) -> None:
    device = simulator(devices=1, capability=(8, 0))
    answer = json.loads(run_python(WORKER, device.environment()).stdout)
    assert answer["same"]
    assert device.calls(pid=answer["child"]) == []


def test_the_digest_of_nothing_is_not_compared() -> None:
    """The comparison above would notice: two kernels have two digests."""
    first, second = (
        compiled_with("# one"),
        compile_kernel(define(KERNEL.format(comment="").replace("offsets, a)", "offsets, a + 1)"))),
    )
    digests = {hashlib.sha256(k.asm["cubin"]).hexdigest() for k in (first, second)}
    assert len(digests) == 2
