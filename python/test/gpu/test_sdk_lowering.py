"""The PPU SDK's stages give right numbers - shown on a CUDA GPU, by undoing their last step.

A PPU's compiler is not needed for this: the module that the TIX writer made is turned back into
CUDA's form and assembled with the base's ptxas. So what runs went through the SDK's own lowering,
without matrix units and asynchronous copies, and through the writer and back.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.gpu

CHECKOUT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(CHECKOUT / "tools"))
FAKE_SDK = CHECKOUT / "python" / "test" / "fake_sdk"
NAMES = ("softmax", "layer_norm", "matmul", "attention", "column_sum", "bias_gelu")


@pytest.fixture
def through_the_sdk(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Makes launches take the SDK's stages, whatever the GPU; returns a count of compilations."""
    from triton._C.libtriton import llvm
    from triton.backends.ppu import chips, ptxas, sdk_compiler
    from triton.backends.ppu._native import tix

    made: list[str] = []

    def make(src: str, metadata: Any, options: Any, capability: int, sdk: Any) -> bytes:
        undone = tix.convert(src, prefixed=sdk.version.dialect == "2.1", undo=True)
        assert [str(diagnostic) for diagnostic in undone.diagnostics] == []
        assert "ppu." in src
        assert "mma.sync" not in src
        made.append(metadata["name"])
        llvm.init_targets()
        ptx = llvm.translate_to_asm(
            undone.text,
            "nvptx64-nvidia-cuda",
            "sm_80",
            "+ptx80",
            [],
            options.enable_fp_fusion,
            False,
        )
        return ptxas.assemble(ptx, options, capability)

    monkeypatch.setenv("PPU_SDK", str(FAKE_SDK))
    monkeypatch.setattr(chips, "served_by_sdk", lambda _: True)
    monkeypatch.setattr(sdk_compiler, "make_hgbin", make)
    return lambda: len(made)


def error(left: Any, right: Any) -> float:
    return float((left.double() - right.double()).norm() / right.double().norm())


@pytest.mark.parametrize("name", NAMES)
def test_demo_kernels(name: str, through_the_sdk: Callable[[], int]) -> None:
    import torch
    import triton
    from demo_kernels import KERNELS
    from triton.runtime.driver import driver

    kernel = KERNELS[name]
    torch.manual_seed(0)
    grid, arguments, output, expected, tolerance = kernel.problem("cuda")
    output.zero_()
    compiled = triton.compile(
        kernel.source(), target=driver.active.get_current_target(), options=kernel.options
    )
    assert through_the_sdk() == 1
    assert "tix" in compiled.asm
    three = (*grid, 1, 1)[:3]
    compiled[three](*arguments, *kernel.constants.values())
    torch.cuda.synchronize()
    assert error(output, expected) <= tolerance


@pytest.mark.parametrize(
    ("kind", "out", "precision", "tolerance"),
    [
        ("float16", "float32", None, 1e-5),
        ("float16", "float16", None, 5e-3),
        ("bfloat16", "float32", None, 1e-5),
        ("float32", "float32", "ieee", 1e-6),
        ("float32", "float32", "tf32", 1e-6),
        ("int8", "int32", None, 0.0),
    ],
)
def test_dots(
    kind: str,
    out: str,
    precision: str | None,
    tolerance: float,
    through_the_sdk: Callable[[], int],
) -> None:
    import torch
    import triton.language as tl
    from language_constructs import dot_kernel

    torch.manual_seed(0)
    size, depth = 64, 1024
    if kind == "int8":
        a = torch.randint(-128, 128, (size, depth), dtype=torch.int8, device="cuda")
        b = torch.randint(-128, 128, (depth, size), dtype=torch.int8, device="cuda")
    else:
        a = torch.randn(size, depth, device="cuda").to(getattr(torch, kind))
        b = torch.randn(depth, size, device="cuda").to(getattr(torch, kind))
    c = torch.zeros(size, size, dtype=getattr(torch, out), device="cuda")
    dot_kernel[(1,)](a, b, c, depth, PRECISION=precision, OUT=getattr(tl, out), SIZE=size)
    torch.cuda.synchronize()
    assert through_the_sdk() == 1
    expected = a.double() @ b.double()
    if tolerance == 0:
        assert torch.equal(c.double(), expected)
    else:
        assert error(c, expected) <= tolerance


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("operation", ["sum", "max", "argmax"])
def test_reductions(operation: str, axis: int, through_the_sdk: Callable[[], int]) -> None:
    import torch
    from language_constructs import reduce_kernel

    torch.manual_seed(0)
    x = torch.randn(32, 64, device="cuda")
    y = torch.zeros(64 if axis == 0 else 32, device="cuda")
    index = torch.zeros_like(y, dtype=torch.int32)
    reduce_kernel[(1,)](x, y, index, OP=operation, AXIS=axis)
    torch.cuda.synchronize()
    assert through_the_sdk() == 1
    if operation == "argmax":
        assert torch.equal(index.long(), x.argmax(dim=axis))
    elif operation == "max":
        assert torch.equal(y, x.amax(dim=axis))
    else:
        assert error(y, x.sum(dim=axis)) <= 1e-6


def test_sorting(through_the_sdk: Callable[[], int]) -> None:
    import torch
    from language_constructs import sort_kernel

    torch.manual_seed(0)
    x = torch.randn(256, device="cuda")
    y = torch.zeros_like(x)
    sort_kernel[(1,)](x, y, DESCENDING=False)
    torch.cuda.synchronize()
    assert through_the_sdk() == 1
    assert torch.equal(y, x.sort().values)
