"""The six real kernels that the demo, the tests and the benchmarks share.

Softmax, layer normalization, matrix product, attention, a column reduction and
an elementwise fusion. Each comes as a `DemoKernel`: the JIT function, the
signature and options to compile it with ahead of time, and - for hosts that
have a device and torch - a way to run it and the answer to compare with.
Nothing here asks the driver anything at import; torch is imported only by the
functions that need tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import triton
import triton.language as tl
from triton.compiler import ASTSource


@triton.jit
def softmax_kernel(x_ptr, y_ptr, row_stride, n_columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < n_columns
    x = tl.load(x_ptr + row * row_stride + columns, mask=mask, other=-float("inf"))
    x = x - tl.max(x, axis=0)
    numerator = tl.exp(x)
    y = numerator / tl.sum(numerator, axis=0)
    tl.store(y_ptr + row * row_stride + columns, y, mask=mask)


@triton.jit
def layer_norm_kernel(
    x_ptr, weight_ptr, bias_ptr, y_ptr, row_stride, n_columns, epsilon, BLOCK: tl.constexpr
):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < n_columns
    x = tl.load(x_ptr + row * row_stride + columns, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / n_columns
    centred = tl.where(mask, x - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0) / n_columns
    weight = tl.load(weight_ptr + columns, mask=mask, other=0.0)
    bias = tl.load(bias_ptr + columns, mask=mask, other=0.0)
    y = centred * tl.rsqrt(variance + epsilon) * weight + bias
    tl.store(y_ptr + row * row_stride + columns, y, mask=mask)


@triton.jit
def matmul_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows[:, None] * K + inner[None, :]
    b_ptrs = b_ptr + inner[:, None] * N + columns[None, :]
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(tl.cdiv(K, BLOCK_K)):
        remaining = K - k * BLOCK_K
        a = tl.load(a_ptrs, mask=(rows[:, None] < M) & (inner[None, :] < remaining), other=0.0)
        b = tl.load(b_ptrs, mask=(inner[:, None] < remaining) & (columns[None, :] < N), other=0.0)
        accumulator = tl.dot(a, b, accumulator)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * N
    c_ptrs = c_ptr + rows[:, None] * N + columns[None, :]
    mask = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c_ptrs, accumulator.to(c_ptr.dtype.element_ty), mask=mask)


@triton.jit
def attention_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    length,
    scale,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    HEAD: tl.constexpr,
):
    # One program computes BLOCK_M query rows of one head with an online softmax.
    base = tl.program_id(1).to(tl.int64) * length * HEAD
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    features = tl.arange(0, HEAD)
    row_mask = rows[:, None] < length
    q = tl.load(q_ptr + base + rows[:, None] * HEAD + features[None, :], mask=row_mask, other=0.0)
    highest = tl.full((BLOCK_M,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    accumulator = tl.zeros((BLOCK_M, HEAD), dtype=tl.float32)
    for start in range(0, length, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        key_mask = keys < length
        k = tl.load(
            k_ptr + base + keys[None, :] * HEAD + features[:, None],
            mask=key_mask[None, :],
            other=0.0,
        )
        scores = tl.dot(q, k) * scale
        scores = tl.where(key_mask[None, :], scores, -float("inf"))
        new_highest = tl.maximum(highest, tl.max(scores, axis=1))
        correction = tl.exp(highest - new_highest)
        weights = tl.exp(scores - new_highest[:, None])
        total = total * correction + tl.sum(weights, axis=1)
        v = tl.load(
            v_ptr + base + keys[:, None] * HEAD + features[None, :],
            mask=key_mask[:, None],
            other=0.0,
        )
        accumulator = tl.dot(weights.to(v.dtype), v, accumulator * correction[:, None])
        highest = new_highest
    out = accumulator / total[:, None]
    tl.store(
        out_ptr + base + rows[:, None] * HEAD + features[None, :],
        out.to(out_ptr.dtype.element_ty),
        mask=row_mask,
    )


@triton.jit
def column_sum_kernel(
    x_ptr, y_ptr, n_rows, n_columns, BLOCK_ROWS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr
):
    columns = tl.program_id(0) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    accumulator = tl.zeros((BLOCK_ROWS, BLOCK_COLUMNS), dtype=tl.float32)
    for start in range(0, n_rows, BLOCK_ROWS):
        rows = start + tl.arange(0, BLOCK_ROWS)
        mask = (rows[:, None] < n_rows) & (columns[None, :] < n_columns)
        x = tl.load(x_ptr + rows[:, None] * n_columns + columns[None, :], mask=mask, other=0.0)
        accumulator += x
    tl.store(y_ptr + columns, tl.sum(accumulator, axis=0), mask=columns < n_columns)


@triton.jit
def bias_gelu_residual_kernel(
    x_ptr, bias_ptr, residual_ptr, y_ptr, n_elements, n_columns, scale, BLOCK: tl.constexpr
):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask) + tl.load(bias_ptr + offsets % n_columns, mask=mask)
    # 0.7071067811865476 is 1/sqrt(2): the exact form of GELU.
    gelu = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    y = gelu * scale + tl.load(residual_ptr + offsets, mask=mask)
    tl.store(y_ptr + offsets, y, mask=mask)


def ahead_of_time_source(
    fn: Any, signature: dict[str, str], constants: dict[str, Any], aligned: tuple[str, ...] = ()
) -> ASTSource:
    """A kernel as `triton.compile` takes it, its pointers and `aligned` divisible by 16."""
    kinds = signature | dict.fromkeys(constants, "constexpr")
    names = list(fn.arg_names)
    attributes = {
        (names.index(name),): [["tt.divisibility", 16]]
        for name in names
        if kinds[name].startswith("*") or name in aligned
    }
    return ASTSource(fn, {name: kinds[name] for name in names}, dict(constants), attributes)


@dataclass(frozen=True)
class DemoKernel:
    """One kernel with all that is needed to compile it, run it and check it.

    name: what tables call it.
    fn: the JIT function.
    signature: Triton type of each argument that is not a constexpr, in order.
    constants: value of each constexpr.
    num_warps, num_stages: launch options.
    problem: makes `(grid, arguments, output, expected, tolerance)` on torch's device;
        `arguments` holds tensors and numbers in the kernel's order, `output` the
        tensor the kernel writes, `expected` torch's answer and `tolerance` the largest
        relative error (norm of the difference over norm of the answer) to accept.
    """

    name: str
    fn: Any
    signature: dict[str, str]
    constants: dict[str, Any]
    problem: Callable[[str], tuple[tuple[int, ...], list[Any], Any, Any, float]]
    num_warps: int = 4
    num_stages: int = 3
    aligned: tuple[str, ...] = field(default=())

    @property
    def options(self) -> dict[str, int]:
        """The options to pass to `triton.compile`."""
        return {"num_warps": self.num_warps, "num_stages": self.num_stages}

    def source(self) -> ASTSource:
        """The kernel as `triton.compile` takes it, specialized as a launch with
        16-byte aligned pointers would be."""
        return ahead_of_time_source(self.fn, self.signature, self.constants, self.aligned)


def _softmax_problem(device: str) -> tuple[tuple[int, ...], list[Any], Any, Any, float]:
    import torch

    x = torch.randn(4096, 1000, device=device)
    y = torch.empty_like(x)
    return (4096,), [x, y, x.stride(0), 1000], y, torch.softmax(x, dim=1), 1e-5


def _layer_norm_problem(device: str) -> tuple[tuple[int, ...], list[Any], Any, Any, float]:
    import torch

    x = torch.randn(4096, 1024, device=device)
    weight, bias = torch.randn(2, 1024, device=device)
    y = torch.empty_like(x)
    expected = torch.nn.functional.layer_norm(x, (1024,), weight, bias, 1e-5)
    return (4096,), [x, weight, bias, y, x.stride(0), 1024, 1e-5], y, expected, 1e-5


def _matmul_problem(device: str) -> tuple[tuple[int, ...], list[Any], Any, Any, float]:
    import torch

    m, n, k = 1024, 1024, 768
    a = torch.randn(m, k, device=device, dtype=torch.float16)
    b = torch.randn(k, n, device=device, dtype=torch.float16)
    c = torch.empty(m, n, device=device, dtype=torch.float16)
    grid = (triton.cdiv(m, 128), triton.cdiv(n, 64))
    return grid, [a, b, c, m, n, k], c, a.float() @ b.float(), 2e-3


def _attention_problem(device: str) -> tuple[tuple[int, ...], list[Any], Any, Any, float]:
    import torch

    heads, length, head = 16, 1024, 64
    q, k, v = torch.randn(3, heads, length, head, device=device, dtype=torch.float16)
    out = torch.empty_like(q)
    expected = torch.nn.functional.scaled_dot_product_attention(q.float(), k.float(), v.float())
    return (triton.cdiv(length, 64), heads), [q, k, v, out, length, head**-0.5], out, expected, 2e-3


def _column_sum_problem(device: str) -> tuple[tuple[int, ...], list[Any], Any, Any, float]:
    import torch

    x = torch.randn(5000, 3000, device=device)
    y = torch.empty(3000, device=device)
    return (triton.cdiv(3000, 64),), [x, y, 5000, 3000], y, x.double().sum(0), 1e-5


def _bias_gelu_problem(device: str) -> tuple[tuple[int, ...], list[Any], Any, Any, float]:
    import torch

    rows, columns = 2048, 1536
    x, residual = torch.randn(2, rows, columns, device=device)
    bias = torch.randn(columns, device=device)
    y = torch.empty_like(x)
    expected = torch.nn.functional.gelu(x + bias) * 0.5 + residual
    grid = (triton.cdiv(x.numel(), 1024),)
    return grid, [x, bias, residual, y, x.numel(), columns, 0.5], y, expected, 1e-5


KERNELS: dict[str, DemoKernel] = {
    kernel.name: kernel
    for kernel in (
        DemoKernel(
            "softmax",
            softmax_kernel,
            {"x_ptr": "*fp32", "y_ptr": "*fp32", "row_stride": "i32", "n_columns": "i32"},
            {"BLOCK": 1024},
            _softmax_problem,
        ),
        DemoKernel(
            "layer_norm",
            layer_norm_kernel,
            {
                "x_ptr": "*fp32",
                "weight_ptr": "*fp32",
                "bias_ptr": "*fp32",
                "y_ptr": "*fp32",
                "row_stride": "i32",
                "n_columns": "i32",
                "epsilon": "fp32",
            },
            {"BLOCK": 1024},
            _layer_norm_problem,
            aligned=("row_stride", "n_columns"),
        ),
        DemoKernel(
            "matmul",
            matmul_kernel,
            {
                "a_ptr": "*fp16",
                "b_ptr": "*fp16",
                "c_ptr": "*fp16",
                "M": "i32",
                "N": "i32",
                "K": "i32",
            },
            {"BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 32},
            _matmul_problem,
            aligned=("M", "N", "K"),
        ),
        DemoKernel(
            "attention",
            attention_kernel,
            {
                "q_ptr": "*fp16",
                "k_ptr": "*fp16",
                "v_ptr": "*fp16",
                "out_ptr": "*fp16",
                "length": "i32",
                "scale": "fp32",
            },
            {"BLOCK_M": 64, "BLOCK_N": 64, "HEAD": 64},
            _attention_problem,
            aligned=("length",),
        ),
        DemoKernel(
            "column_sum",
            column_sum_kernel,
            {"x_ptr": "*fp32", "y_ptr": "*fp32", "n_rows": "i32", "n_columns": "i32"},
            {"BLOCK_ROWS": 32, "BLOCK_COLUMNS": 64},
            _column_sum_problem,
        ),
        DemoKernel(
            "bias_gelu",
            bias_gelu_residual_kernel,
            {
                "x_ptr": "*fp32",
                "bias_ptr": "*fp32",
                "residual_ptr": "*fp32",
                "y_ptr": "*fp32",
                "n_elements": "i32",
                "n_columns": "i32",
                "scale": "fp32",
            },
            {"BLOCK": 1024},
            _bias_gelu_problem,
            aligned=("n_elements", "n_columns"),
        ),
    )
}
