"""On a real device: results with hints equal those without, and both equal torch's answer."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools"))

# Names only: collecting must not import triton's kernels and torch on a host without a device.
NAMES = (
    "vector add",
    "vector add, staged",
    "softmax, few long rows",
    "softmax, many rows",
    "layer norm, few long rows",
    "layer norm, unrolled",
    "matmul",
    "attention",
)


def test_the_names_are_all() -> None:
    from hinted_kernels import KERNELS

    assert tuple(kernel.name for kernel in KERNELS) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_results_with_hints_equal_those_without(name: str) -> None:
    import torch
    from hinted_kernels import KERNELS

    (kernel,) = (kernel for kernel in KERNELS if kernel.name == name)
    torch.manual_seed(0)
    problem = kernel.problem("cuda")
    hinted, plain = kernel.launchers(problem)
    problem.output.zero_()
    without = plain()
    reference = problem.output.clone()
    problem.output.zero_()
    with_hints = hinted()
    assert with_hints.hash != without.hash
    assert with_hints.asm["ptx"] != without.asm["ptx"]

    def error(left: torch.Tensor, right: torch.Tensor) -> float:
        return float((left.double() - right.double()).norm() / right.double().norm())

    # A hint moves data; it does not change the order of any sum, but the unroller and the
    # pipeliner may let the tool chain contract operations differently.
    assert error(problem.output, reference) <= max(problem.tolerance / 10, 1e-6)
    assert error(problem.output, problem.expected) <= max(problem.tolerance, 1e-6)


@pytest.mark.parametrize("length", [1, 37, 1000, 1024, 5000])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_ragged_ends(length: int, dtype: str) -> None:
    """Masked elements, with and without a value of their own, in and outside of loops."""
    import torch
    import triton
    import triton.language as tl

    def kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
        offsets = tl.arange(0, BLOCK)
        first = tl.load(x_ptr + offsets, mask=offsets < n, other=3)  # @hint: shared_memory
        total = first.to(tl.float32)
        for start in range(0, n, BLOCK):
            here = start + offsets
            x = tl.load(x_ptr + here, mask=here < n, other=2)  # @hint: shared_memory=3
            total += x.to(tl.float32)
        tl.store(y_ptr + offsets, total)

    # The file's own text, so that inspect finds the source of a nested function.
    import warnings

    from triton import knobs

    x = torch.randint(-20, 20, (length,), device="cuda").to(getattr(torch, dtype))
    answers = []
    for mode in ("warn", "off"):
        y = torch.empty(1024, device="cuda")
        with knobs.ppu.scope(), warnings.catch_warnings():
            # Bytes cannot be copied asynchronously, which is said and is not at issue here.
            warnings.simplefilter("ignore")
            knobs.ppu.hints = mode
            triton.jit(kernel)[(1,)](x, y, length, BLOCK=1024)
        answers.append(y)
    assert torch.equal(*answers)
    padded = torch.full((-(-length // 1024) * 1024,), 2.0, device="cuda")
    padded[:length] = x.float()
    expected = padded.view(-1, 1024).sum(0)
    first = torch.full((1024,), 3.0, device="cuda")
    first[:length] = x[:1024].float()
    assert torch.equal(answers[0], expected + first)
