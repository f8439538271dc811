"""Real kernels with hints: what the hint tests and `benchmarks/hints.py` compile with and without.

Vector addition, softmax, layer normalization, matrix product and attention, written as people write
them.  A `HintedKernel` makes two JIT functions from one source, of which one is compiled with the
hints obeyed and the other with ``FLAGTREE_HINTS=off``.  torch is imported only by the functions
that need tensors.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# The kernels are Triton's language, which has no types that mypy knows.
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import triton
import triton.language as tl
from triton.backends.ppu import knobs


def add_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    # Each element is used once: it need not stay in any cache.
    x = tl.load(x_ptr + offsets, mask=mask)  # @hint: eviction_policy=evict_first
    y = tl.load(y_ptr + offsets, mask=mask)  # @hint: eviction_policy=evict_first
    tl.store(out_ptr + offsets, x + y, mask=mask)  # @hint: cache_modifier=cs


def add_staged_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)  # @hint: shared_memory
    y = tl.load(y_ptr + offsets, mask=mask)  # @hint: shared_memory
    tl.store(out_ptr + offsets, x + y, mask=mask)


def softmax_kernel(x_ptr, y_ptr, n_columns, BLOCK: tl.constexpr):
    # A row too long for registers: one pass finds its maximum and sum, one writes the result.
    row = tl.program_id(0).to(tl.int64) * n_columns
    highest = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n_columns, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(  # @hint: shared_memory=4
            x_ptr + row + columns, mask=columns < n_columns, other=-float("inf")
        )
        new_highest = tl.maximum(highest, x)
        # A lane that has seen nothing yet holds -inf, and -inf minus itself is no number.
        scale = tl.where(new_highest == -float("inf"), 0.0, tl.exp(highest - new_highest))
        term = tl.where(new_highest == -float("inf"), 0.0, tl.exp(x - new_highest))
        total = total * scale + term
        highest = new_highest
    row_highest = tl.max(highest, axis=0)
    row_total = tl.sum(total * tl.exp(highest - row_highest), axis=0)
    for start in range(0, n_columns, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        mask = columns < n_columns
        x = tl.load(x_ptr + row + columns, mask=mask, other=0.0)  # @hint: shared_memory=4
        tl.store(y_ptr + row + columns, tl.exp(x - row_highest) / row_total, mask=mask)


def layer_norm_kernel(x_ptr, weight_ptr, bias_ptr, y_ptr, n_columns, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n_columns
    total = tl.zeros((BLOCK,), tl.float32)
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n_columns, BLOCK):  # @hint: num_stages=4
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + columns, mask=columns < n_columns, other=0.0)
        total += x
        squares += x * x
    mean = tl.sum(total, axis=0) / n_columns
    variance = tl.sum(squares, axis=0) / n_columns - mean * mean
    rstd = tl.rsqrt(variance + epsilon)
    for start in range(0, n_columns, BLOCK):  # @hint: num_stages=4
        columns = start + tl.arange(0, BLOCK)
        mask = columns < n_columns
        x = tl.load(x_ptr + row + columns, mask=mask, other=0.0)
        weight = tl.load(weight_ptr + columns, mask=mask, other=0.0)
        bias = tl.load(bias_ptr + columns, mask=mask, other=0.0)
        tl.store(y_ptr + row + columns, (x - mean) * rstd * weight + bias, mask=mask)


def layer_norm_unrolled_kernel(
    x_ptr, weight_ptr, bias_ptr, y_ptr, n_columns, epsilon, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * n_columns
    total = tl.zeros((BLOCK,), tl.float32)
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n_columns, BLOCK):  # @hint: loop_unroll_factor=4
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + columns, mask=columns < n_columns, other=0.0)
        total += x
        squares += x * x
    mean = tl.sum(total, axis=0) / n_columns
    variance = tl.sum(squares, axis=0) / n_columns - mean * mean
    rstd = tl.rsqrt(variance + epsilon)
    for start in range(0, n_columns, BLOCK):  # @hint: loop_unroll_factor=4
        columns = start + tl.arange(0, BLOCK)
        mask = columns < n_columns
        x = tl.load(x_ptr + row + columns, mask=mask, other=0.0)
        # All rows share these two, so they are worth keeping in the cache.
        weight = tl.load(weight_ptr + columns, mask=mask)  # @hint: eviction_policy=evict_last
        bias = tl.load(bias_ptr + columns, mask=mask)  # @hint: eviction_policy=evict_last
        tl.store(y_ptr + row + columns, (x - mean) * rstd * weight + bias, mask=mask)


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
        a = tl.load(  # @hint: shared_memory=4
            a_ptrs, mask=(rows[:, None] < M) & (inner[None, :] < remaining), other=0.0
        )
        b = tl.load(  # @hint: shared_memory=4
            b_ptrs, mask=(inner[:, None] < remaining) & (columns[None, :] < N), other=0.0
        )
        accumulator = tl.dot(a, b, accumulator)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * N
    c_ptrs = c_ptr + rows[:, None] * N + columns[None, :]
    mask = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c_ptrs, accumulator.to(c_ptr.dtype.element_ty), mask=mask)


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
        k = tl.load(  # @hint: shared_memory=3
            k_ptr + base + keys[None, :] * HEAD + features[:, None],
            mask=key_mask[None, :],
            other=0.0,
        )
        scores = tl.where(key_mask[None, :], tl.dot(q, k) * scale, -float("inf"))
        new_highest = tl.maximum(highest, tl.max(scores, axis=1))
        correction = tl.exp(highest - new_highest)
        weights = tl.exp(scores - new_highest[:, None])
        total = total * correction + tl.sum(weights, axis=1)
        v = tl.load(  # @hint: shared_memory=3
            v_ptr + base + keys[:, None] * HEAD + features[None, :],
            mask=key_mask[:, None],
            other=0.0,
        )
        accumulator = tl.dot(weights.to(v.dtype), v, accumulator * correction[:, None])
        highest = new_highest
    tl.store(
        out_ptr + base + rows[:, None] * HEAD + features[None, :],
        (accumulator / total[:, None]).to(out_ptr.dtype.element_ty),
        mask=row_mask,
    )


@dataclass
class Problem:
    """A launch: the `grid`, the `arguments` in the kernel's order, the tensor `output` that it
    writes, torch's answer `expected`, and the largest relative error (norm of the difference over
    norm of the answer) to accept."""

    grid: tuple[int, ...]
    arguments: list[Any]
    output: Any
    expected: Any
    tolerance: float


@dataclass(frozen=True)
class HintedKernel:
    """One kernel: its `function` with hints, the `hints` for tables, `constants` and launch
    `options`, and what makes a `Problem` on a device of torch's."""

    name: str
    hints: str
    function: Callable[..., None]
    constants: dict[str, int]
    options: dict[str, int]
    problem: Callable[[str], Problem]

    def launchers(self, problem: Problem) -> tuple[Callable[[], Any], Callable[[], Any]]:
        """Two functions that launch the kernel: compiled with the hints, and without.

        Both are compiled when this returns.  Each launch returns the compiled kernel.
        """
        found = []
        for mode in ("warn", "off"):
            jitted = triton.jit(self.function)

            def launch(jitted: Any = jitted) -> Any:
                return jitted[problem.grid](*problem.arguments, **self.constants, **self.options)

            with knobs.active().scope():
                knobs.active().hints = mode
                launch()
            found.append(launch)
        return found[0], found[1]


def _add_problem(device: str) -> Problem:
    import torch

    x, y = torch.randn(2, 1 << 26, device=device)
    out = torch.empty_like(x)
    grid = (triton.cdiv(x.numel(), 2048),)
    return Problem(grid, [x, y, out, x.numel()], out, x + y, 0.0)


def _row_problem(rows: int, columns: int) -> Callable[[str], Problem]:
    def problem(device: str) -> Problem:
        import torch

        x = torch.randn(rows, columns, device=device)
        y = torch.empty_like(x)
        return Problem((rows,), [x, y, columns], y, torch.softmax(x, dim=1), 1e-5)

    return problem


def _layer_norm_problem(rows: int, columns: int) -> Callable[[str], Problem]:
    def problem(device: str) -> Problem:
        import torch

        x = torch.randn(rows, columns, device=device)
        weight, bias = torch.randn(2, columns, device=device)
        y = torch.empty_like(x)
        expected = torch.nn.functional.layer_norm(x, (columns,), weight, bias, 1e-5)
        return Problem((rows,), [x, weight, bias, y, columns, 1e-5], y, expected, 1e-5)

    return problem


def _matmul_problem(device: str) -> Problem:
    import torch

    m, n, k = 4096, 4096, 4096
    a = torch.randn(m, k, device=device, dtype=torch.float16)
    b = torch.randn(k, n, device=device, dtype=torch.float16)
    c = torch.empty(m, n, device=device, dtype=torch.float16)
    grid = (triton.cdiv(m, 128), triton.cdiv(n, 128))
    return Problem(grid, [a, b, c, m, n, k], c, a.float() @ b.float(), 2e-3)


def _attention_problem(device: str) -> Problem:
    import torch

    heads, length, head = 64, 4096, 64
    q, k, v = torch.randn(3, heads, length, head, device=device, dtype=torch.float16)
    out = torch.empty_like(q)
    expected = torch.nn.functional.scaled_dot_product_attention(q.float(), k.float(), v.float())
    arguments: Sequence[Any] = (q, k, v, out, length, head**-0.5)
    return Problem((triton.cdiv(length, 128), heads), list(arguments), out, expected, 2e-3)


KERNELS: tuple[HintedKernel, ...] = (
    HintedKernel(
        "vector add",
        "cache_modifier, eviction_policy",
        add_kernel,
        {"BLOCK": 2048},
        {"num_warps": 8},
        _add_problem,
    ),
    HintedKernel(
        "vector add, staged",
        "shared_memory",
        add_staged_kernel,
        {"BLOCK": 2048},
        {"num_warps": 8},
        _add_problem,
    ),
    # Few programs with long rows: nothing else hides the latency of their loads.
    HintedKernel(
        "softmax, few long rows",
        "shared_memory=4",
        softmax_kernel,
        {"BLOCK": 2048},
        {"num_warps": 4},
        _row_problem(128, 1 << 18),
    ),
    # Many programs: the device switches between them and needs no such help.
    HintedKernel(
        "softmax, many rows",
        "shared_memory=4",
        softmax_kernel,
        {"BLOCK": 1024},
        {"num_warps": 4},
        _row_problem(16384, 2048),
    ),
    HintedKernel(
        "layer norm, few long rows",
        "num_stages=4",
        layer_norm_kernel,
        {"BLOCK": 2048},
        {"num_warps": 4},
        _layer_norm_problem(128, 1 << 18),
    ),
    HintedKernel(
        "layer norm, unrolled",
        "loop_unroll_factor=4, eviction_policy",
        layer_norm_unrolled_kernel,
        {"BLOCK": 2048},
        {"num_warps": 4},
        _layer_norm_problem(128, 1 << 18),
    ),
    HintedKernel(
        "matmul",
        "shared_memory=4",
        matmul_kernel,
        {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32},
        {"num_warps": 4},
        _matmul_problem,
    ),
    HintedKernel(
        "attention",
        "shared_memory=3",
        attention_kernel,
        {"BLOCK_M": 128, "BLOCK_N": 64, "HEAD": 64},
        {"num_warps": 4},
        _attention_problem,
    ),
)
