"""Kernels that are not launched as `kernel[grid]` of Triton's language: Gluon's, and those that
torch.compile finds in the code it is given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from needs import needs_sm90

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")

import triton.language as tl  # noqa: E402
from triton.experimental import gluon  # noqa: E402
from triton.experimental.gluon import language as gl  # noqa: E402
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma  # noqa: E402
from triton.experimental.gluon.nvidia.hopper import (  # noqa: E402
    TensorDescriptor as GluonDescriptor,
)
from triton.tools.tensor_descriptor import TensorDescriptor  # noqa: E402

pytestmark = pytest.mark.gpu


@gluon.jit
def gluon_double(x, out, n, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    at = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=layout)
    gl.store(out + at, gl.load(x + at, mask=at < n) * 2, mask=at < n)


@gluon.jit
def gluon_copy(source, target):
    """One block through shared memory by the bulk copy engine."""
    block = gl.allocate_shared_memory(source.dtype, source.block_type.shape, source.layout)
    arrived = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(arrived, count=1)
    mbarrier.expect(arrived, source.block_type.nbytes)
    tma.async_copy_global_to_shared(source, [0, 0], arrived, block)
    mbarrier.wait(arrived, phase=0)
    mbarrier.invalidate(arrived)
    tma.async_copy_shared_to_global(target, [0, 0], block)
    tma.store_wait(pendings=0)


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


tuned_add = triton.autotune([triton.Config({"BLOCK": block}) for block in (64, 128)], key=["n"])(
    add
)


@triton.jit
def double_described(source, target):
    target.store([0, 0], source.load([0, 0]) * 2)


@triton.jit
def double_matrix(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """With descriptors made on the device, which want scratch memory."""
    source = tl.make_tensor_descriptor(x, [ROWS, COLUMNS], [COLUMNS, 1], [ROWS, COLUMNS])
    target = tl.make_tensor_descriptor(out, [ROWS, COLUMNS], [COLUMNS, 1], [ROWS, COLUMNS])
    target.store([0, 0], source.load([0, 0]) * 2)


def test_gluon() -> None:
    x = torch.randn(1000, device="cuda")
    out = torch.empty_like(x)
    for _ in range(2):
        gluon_double[(8,)](x, out, 1000, 128)
        assert torch.equal(out, x * 2)
        out.zero_()


@needs_sm90
def test_gluon_with_host_descriptors() -> None:
    x = torch.randn(64, 64, device="cuda", dtype=torch.float16)
    out = torch.zeros_like(x)
    layout = gl.NVMMASharedLayout.get_default_for([64, 64], gl.float16)
    descriptors = [GluonDescriptor.from_tensor(t, [64, 64], layout) for t in (x, out)]
    gluon_copy[(1,)](*descriptors, num_warps=1)
    assert torch.equal(out, x)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[Callable[..., Any]]:
    """torch.compile with caches of the test's own."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    torch._dynamo.reset()
    yield lambda function: torch.compile(function, fullgraph=True)
    torch._dynamo.reset()


@pytest.mark.parametrize("tuned", [False, True])
def test_a_users_kernel_in_compiled_code(compiled: Callable[..., Any], tuned: bool) -> None:
    def function(x: Any, y: Any) -> Any:
        out = torch.empty_like(x)
        if tuned:
            tuned_add[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](x, y, out, 1000)
        else:
            add[(8,)](x, y, out, 1000, 128)
        return out.relu() + 1

    x, y = torch.randn(2, 1000, device="cuda")
    assert torch.equal(compiled(function)(x, y), (x + y).relu() + 1)


def test_a_users_operator_in_compiled_code(compiled: Callable[..., Any]) -> None:
    @torch.library.triton_op("flagtree_test::add", mutates_args={})
    def operator(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        torch.library.wrap_triton(add)[(8,)](x, y, out, 1000, 128)
        return out

    x, y = torch.randn(2, 1000, device="cuda")
    assert torch.equal(compiled(lambda x, y: operator(x, y) * 2)(x, y), (x + y) * 2)


def test_descriptors_in_compiled_code(compiled: Callable[..., Any]) -> None:
    def on_host(x: Any) -> Any:
        out = torch.empty_like(x)
        source, target = (TensorDescriptor.from_tensor(t, [64, 64]) for t in (x, out))
        double_described[(1,)](source, target)
        return out + 1

    def on_device(x: Any) -> Any:
        out = torch.empty_like(x)
        double_matrix[(1,)](x, out, 64, 64)
        return out + 1

    x = torch.randn(64, 64, device="cuda")
    triton.set_allocator(lambda size, *_: torch.empty(size, dtype=torch.int8, device="cuda"))
    assert torch.equal(compiled(on_host)(x), x * 2 + 1)
    assert torch.equal(compiled(on_device)(x), x * 2 + 1)
