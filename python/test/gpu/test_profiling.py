"""Proton on a real device: its launch hooks, kernel times, and passes inside of kernels."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton.profiler")

pytestmark = pytest.mark.gpu

KERNELS = """
import sys
import torch, triton, triton.language as tl
import triton.profiler as proton
import triton.profiler.language as pl

def described(grid, metadata, arguments):
    return {"name": f"scale_{grid[0]}_{metadata.num_warps}", "flops32": arguments["n"],
            "bytes": 8 * arguments["n"]}

@triton.jit(launch_metadata=described)
def scale(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)

@triton.jit
def scoped(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    with pl.scope("inside"):
        tl.store(out + at, tl.load(x + at, mask=at < n) * 3, mask=at < n)

x = torch.randn(1000, device="cuda")
out = torch.empty_like(x)
"""


def flat(node: dict[str, Any], parent: str = "") -> dict[str, dict[str, Any]]:
    """The nodes of a profile by their paths, with what was measured of each."""
    path = f"{parent}/{node['frame']['name']}"
    found = {path: node["metrics"]}
    for child in node["children"]:
        found |= flat(child, path)
    return found


@pytest.fixture
def profile(
    run_python: Callable[..., Any], tmp_path: Path
) -> Callable[..., dict[str, dict[str, Any]]]:
    """Runs code after the kernels of this file; what it wrote into the profile it was named."""

    def run(code: str) -> dict[str, dict[str, Any]]:
        run_python(KERNELS + code, arguments=(str(tmp_path / "profile"),))
        return flat(json.loads((tmp_path / "profile.hatchet").read_text())[0])

    return run


def test_launch_hooks(profile: Callable[..., Any]) -> None:
    """Metadata reach Proton by each way to launch, and none is left once it has ended."""
    found = profile("""
scale[(8,)](x, out, 1000, 128)
proton.start(sys.argv[1], hook="triton")
for _ in range(3):
    kernel = scale[(8,)](x, out, 1000, 128)
with proton.scope("outer"):
    kernel[(9, 1, 1)](x, out, 1000, 128)
    scoped[(8,)](x, out, 1000, 128)
proton.finalize()
out.zero_()
scale[(8,)](x, out, 1000, 128)
assert torch.equal(out, x * 2)
""")
    assert set(found) == {
        "/ROOT",
        "/ROOT/scale_8_4",
        "/ROOT/outer",
        "/ROOT/outer/scale_9_4",
        "/ROOT/outer/scoped",
    }
    for path, launches in {"/ROOT/scale_8_4": 3, "/ROOT/outer/scale_9_4": 1}.items():
        assert found[path]["count"] == launches
        assert found[path]["flops32"] == 1000 * launches
        assert found[path]["bytes"] == 8000 * launches
        assert found[path]["time (ns)"] > 0
    assert found["/ROOT/outer/scoped"]["count"] == 1


def test_kernel_times_without_hooks(profile: Callable[..., Any]) -> None:
    found = profile("""
session = proton.start(sys.argv[1])
for _ in range(3):
    scale[(8,)](x, out, 1000, 128)
proton.deactivate(session)
scale[(8,)](x, out, 1000, 128)
proton.finalize()
""")
    assert found["/ROOT/scale"]["count"] == 3
    assert found["/ROOT/scale"]["time (ns)"] > 0


def test_instrumentation_inside_of_a_kernel(profile: Callable[..., Any]) -> None:
    """The kernel is compiled anew with Proton's passes, and as ever afterwards."""
    found = profile("""
pl.enable_semantic("triton")
kernel = scoped[(8,)](x, out, 1000, 128)
assert "%clock" not in kernel.asm["ptx"]
for _ in range(2):
    proton.start(sys.argv[1], backend="instrumentation")
    instrumented = scoped[(8,)](x, out, 1000, 128)
    proton.finalize()
    assert "%clock" in instrumented.asm["ptx"]
    assert torch.equal(out, x * 3)
    out.zero_()
    assert scoped[(8,)](x, out, 1000, 128) is kernel
    assert torch.equal(out, x * 3)
""")
    assert found["/ROOT/scoped/inside"]["cycles"] > 0
