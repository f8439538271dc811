"""Launching on a real device: arguments, shapes of launches, threads, and a million of them."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import math
import os
import struct
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from needs import needs_sm90, needs_two_devices

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")

import triton.language as tl  # noqa: E402
from triton import knobs  # noqa: E402
from triton.runtime.driver import driver  # noqa: E402

pytestmark = pytest.mark.gpu


def capability() -> tuple[int, int]:
    major, minor = torch.cuda.get_device_capability()
    return major, minor


@triton.jit
def store_integers(
    out, a: tl.int8, b: tl.int16, c: tl.int32, d: tl.int64,
    e: tl.uint8, f: tl.uint16, g: tl.uint32, h: tl.uint64, i: tl.int1,
):  # fmt: skip
    tl.store(out, a.to(tl.int64))
    tl.store(out + 1, b.to(tl.int64))
    tl.store(out + 2, c.to(tl.int64))
    tl.store(out + 3, d)
    tl.store(out + 4, e.to(tl.int64))
    tl.store(out + 5, f.to(tl.int64))
    tl.store(out + 6, g.to(tl.int64))
    tl.store(out + 7, h.to(tl.int64, bitcast=True))
    tl.store(out + 8, i.to(tl.int64))


@triton.jit
def store_floats(out, a: tl.float16, b: tl.bfloat16, c: tl.float32, d: tl.float64):
    tl.store(out, a.to(tl.float64))
    tl.store(out + 1, b.to(tl.float64))
    tl.store(out + 2, c.to(tl.float64))
    tl.store(out + 3, d)


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask) + tl.load(y + offsets, mask), mask)


@triton.jit
def add_scaled(out, operands, scale, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    total = tl.load(operands[0] + offsets) + tl.load(operands[1][0] + offsets) * operands[1][1]
    tl.store(out + offsets, total * scale)


@triton.jit
def maybe_add(x, bias, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    value = tl.load(x + offsets)
    if bias is not None:
        value += tl.load(bias + offsets)
    tl.store(out + offsets, value)


@triton.jit
def copy_tile(source, target, M: tl.constexpr, N: tl.constexpr):
    row, column = tl.program_id(0) * M, tl.program_id(1) * N
    target.store([row, column], source.load([row, column]))


@triton.jit
def copy_by_device_descriptor(source, target, rows, columns, M: tl.constexpr, N: tl.constexpr):
    tile = tl.make_tensor_descriptor(source, [rows, columns], [columns, 1], [M, N])
    value = tile.load([tl.program_id(0) * M, tl.program_id(1) * N])
    row = tl.program_id(0) * M + tl.arange(0, M)
    column = tl.program_id(1) * N + tl.arange(0, N)
    tl.store(target + row[:, None] * columns + column[None, :], value)


@triton.jit
def fill(out, value, BLOCK: tl.constexpr):
    tl.store(out + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), value)


def wrap(value: int, bits: int) -> int:
    return (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


@pytest.mark.parametrize("edge", ["smallest", "largest"])
def test_integers_at_their_limits(edge: str) -> None:
    out = torch.zeros(9, dtype=torch.int64, device="cuda")
    values = []
    for sign in "iu":
        for bits in (8, 16, 32, 64):
            low, high = (
                (-(1 << bits - 1), (1 << bits - 1) - 1) if sign == "i" else (0, (1 << bits) - 1)
            )
            values.append(low if edge == "smallest" else high)
    flag = edge == "largest"
    store_integers[(1,)](out, *values, flag)
    assert out.tolist() == [wrap(value, 64) for value in values] + [int(flag)]


def test_integers_out_of_range() -> None:
    out = torch.zeros(9, dtype=torch.int64, device="cuda")
    names = "abcdefgh"
    for position, bits in enumerate((8, 16, 32, 64) * 2):
        values = [0] * 8
        values[position] = 1 << (bits if position >= 4 else bits - 1)
        with pytest.raises(OverflowError, match=f"argument '{names[position]}' of kernel"):
            store_integers[(1,)](out, *values, False)


@pytest.mark.parametrize("value", [0.1, -1 / 3, 65504.0, 6e-8, math.inf, -0.0, 3.0e-5])
def test_floats_round_as_triton_rounds(value: float) -> None:
    out = torch.zeros(4, dtype=torch.float64, device="cuda")
    store_floats[(1,)](out, value, value, value, value)
    single = struct.pack("<f", value)
    expected = [
        struct.unpack("<e", struct.pack("<e", value))[0],
        struct.unpack("<f", b"\0\0" + single[2:])[0],
        struct.unpack("<f", single)[0],
        value,
    ]
    assert out.tolist() == expected


def test_pointers() -> None:
    x = torch.arange(64.0, device="cuda")
    out = torch.empty(64, device="cuda")

    class Wrapped:
        dtype = torch.float32

        def data_ptr(self) -> int:
            return x.data_ptr()

    def check(argument: Any, expected: Any) -> None:
        out.zero_()
        add[(1,)](argument, x, out, 64, 64)
        assert torch.equal(out, expected + x)

    check(x, x)
    check(torch.nn.Parameter(x), x)
    check(x.requires_grad_(False).view(8, 8), x)
    check(Wrapped(), x)
    shifted = torch.arange(80.0, device="cuda")[16:]
    check(shifted, shifted)
    unaligned = torch.arange(65.0, device="cuda")[1:]
    check(unaligned, unaligned)
    pinned = torch.arange(64.0).pin_memory()
    check(pinned, pinned.cuda())
    kernel = add[(1,)](x, x, out, 64, 64)
    out.zero_()
    kernel[(1, 1, 1)](x.data_ptr(), Wrapped(), out.data_ptr(), 64, 64)
    assert torch.equal(out, x + x)
    maybe_add[(1,)](x, None, out, 64)
    assert torch.equal(out, x)


def test_a_host_tensor_is_refused_by_name() -> None:
    device, host = torch.zeros(64, device="cuda"), torch.zeros(64)
    for arguments, position, name in (
        ((host, device, device), 0, "x"),
        ((device, device, host), 2, "out"),
    ):
        with pytest.raises(
            ValueError,
            match=rf"Pointer argument \(at {position}\) cannot be accessed from Triton "
            rf"\(cpu tensor\?\): argument '{name}' of kernel 'add'",
        ):
            add[(1,)](*arguments, 64, 64)


def test_a_reinterpreted_tensor() -> None:
    x = torch.arange(64, dtype=torch.uint8, device="cuda")
    wrapped = triton.reinterpret(x, tl.float8e5)
    kernel = fill.warmup(torch.uint8, 5, 64, grid=(1,))
    kernel[(1, 1, 1)](wrapped, 16, 64)
    assert x.eq(16).all()


def test_tuples() -> None:
    x, y = torch.randn(2, 64, device="cuda")
    out = torch.empty(64, device="cuda")
    add_scaled[(1,)](out, (x, (y, 3)), 2, 64)
    assert torch.allclose(out, (x + y * 3) * 2)
    with pytest.raises(ValueError, match=r"argument 'operands\[1\]\[0\]' of kernel"):
        add_scaled[(1,)](out, (x, (y.cpu(), 3)), 2, 64)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int32", "uint8"])
def test_host_descriptors(dtype: str) -> None:
    from triton.tools.tensor_descriptor import TensorDescriptor

    source = torch.randint(0, 100, (96, 160), device="cuda").to(getattr(torch, dtype))
    target = torch.zeros_like(source)
    descriptors = [TensorDescriptor.from_tensor(t, [32, 32]) for t in (source, target)]
    for _ in range(2):
        target.zero_()
        copy_tile[(3, 5)](*descriptors, 32, 32)
        assert torch.equal(source, target)


def test_scratch_from_the_allocator() -> None:
    source = torch.randn(64, 128, device="cuda")
    target = torch.zeros_like(source)
    asked = []

    def allocate(size: int, alignment: int, stream: int | None) -> Any:
        asked.append((size, alignment, stream))
        return torch.empty(size, dtype=torch.int8, device="cuda")

    triton.set_allocator(allocate)
    kernel = copy_by_device_descriptor[(2, 4)](source, target, 64, 128, 32, 32)
    assert torch.equal(source, target)
    size = kernel.metadata.global_scratch_size
    assert bool(asked) == bool(size)
    for got, alignment, stream in asked:
        assert got == size * 8
        assert alignment == kernel.metadata.global_scratch_align
        assert stream == torch.cuda.current_stream().cuda_stream


@pytest.mark.parametrize("grid", [(0,), (3, 0), (3, 1, 0)])
def test_an_empty_grid(grid: tuple[int, ...]) -> None:
    out = torch.zeros(64, device="cuda")
    fill[grid](out, 1.0, 64)
    torch.cuda.synchronize()
    assert out.eq(0).all()


def test_a_cooperative_launch() -> None:
    out = torch.zeros(64 * 8, device="cuda")
    fill[(8,)](out, 2.5, 64, launch_cooperative_grid=True)
    assert out.eq(2.5).all()
    many = 1 << 20
    with pytest.raises(RuntimeError, match="cooperatively"):
        fill[(many,)](torch.zeros(64 * many, device="cuda"), 2.5, 64, launch_cooperative_grid=True)


@needs_sm90
def test_programmatic_dependent_launch() -> None:
    out = torch.zeros(64 * 8, device="cuda")
    for value in range(1, 20):
        fill[(8,)](out, float(value), 64, launch_pdl=True)
    assert out.eq(19.0).all()


@needs_sm90
@pytest.mark.parametrize("num_ctas", [2, 4, 16])
def test_clusters(num_ctas: int) -> None:
    block = 128 * num_ctas
    out = torch.zeros(block * 3, device="cuda")
    kernel = fill[(3,)](out, 1.5, block, num_ctas=num_ctas)
    torch.cuda.synchronize()
    assert kernel.metadata.num_ctas == num_ctas
    assert out.eq(1.5).all()
    clusters = driver.active.utils.cuOccupancyMaxActiveClusters(
        kernel.function, kernel.metadata.shared, num_ctas
    )
    assert clusters > 0


def test_properties_are_the_devices() -> None:
    utils = driver.active.utils
    properties = utils.get_device_properties(0)
    real = torch.cuda.get_device_properties(0)
    assert properties["multiprocessor_count"] == real.multi_processor_count
    assert properties["warpSize"] == real.warp_size
    assert properties["max_shared_mem"] == real.shared_memory_per_block_optin
    kernel = fill.warmup(torch.float32, 1.0, 64, grid=(1,))
    kernel._init_handles()
    assert kernel.n_regs > 0
    assert kernel.n_spills == 0
    assert kernel.n_max_threads >= 128


def test_hooks() -> None:
    out = torch.zeros(64, device="cuda")
    seen: list[str] = []

    def enter(metadata: Any) -> None:
        seen.append(metadata.get()["name"])

    def fail(metadata: Any) -> None:
        raise KeyError("hook")

    knobs.runtime.launch_enter_hook.add(enter)
    try:
        fill[(1,)](out, 1.0, 64)
        knobs.runtime.launch_exit_hook.add(fail)
        with pytest.raises(KeyError):
            fill[(1,)](out, 2.0, 64)
    finally:
        knobs.runtime.launch_enter_hook.remove(enter)
        knobs.runtime.launch_exit_hook.remove(fail)
    fill[(1,)](out, 3.0, 64)
    assert seen == ["fill", "fill"]
    assert out.eq(3.0).all()


def test_an_impossible_launch_says_what_it_was() -> None:
    out = torch.zeros(64, device="cuda")
    with pytest.raises(RuntimeError) as caught:
        fill[(1, 70000)](out, 1.0, 64)
    text = str(caught.value)
    assert text.startswith("Triton Error [CUDA]: ")
    for part in ("'fill'", "(1, 70000, 1)", "(128, 1, 1)", "CUDA_ERROR_INVALID_VALUE", "65535"):
        assert part in text
    fill[(1,)](out, 1.0, 64)
    assert out.eq(1.0).all()


def test_streams_and_graphs() -> None:
    out = torch.zeros(64, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        fill[(1,)](out, 4.0, 64)
    stream.synchronize()
    assert out.eq(4.0).all()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        fill[(1,)](out, 5.0, 64)
    assert out.eq(4.0).all()
    graph.replay()
    torch.cuda.synchronize()
    assert out.eq(5.0).all()


def run_in_threads(count: int, work: Callable[[int], None]) -> None:
    failures: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def test_a_thread_without_a_context() -> None:
    out = torch.zeros(2, 64, device="cuda")
    kernel = fill[(1,)](out, 0.0, 64)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    library = ctypes.CDLL("libcuda.so.1")
    rows = [out[0], out[1]]
    handles = [stream.cuda_stream, 0]
    pointers = [row.data_ptr() for row in rows]

    def work(number: int) -> None:
        context = ctypes.c_void_p()
        assert library.cuCtxGetCurrent(ctypes.byref(context)) == 0
        assert not context.value
        kernel.run(
            1, 1, 1, handles[number], kernel.function, kernel.packed_metadata, None, None, None,
            pointers[number], 6.0 + number, 64,
        )  # fmt: skip

    run_in_threads(2, work)
    torch.cuda.synchronize()
    assert rows[0].eq(6.0).all()
    assert rows[1].eq(7.0).all()


def test_threads_launch_at_once() -> None:
    threads, launches = 8, 500
    out = torch.zeros(threads, 64, device="cuda")
    one = torch.ones(64, device="cuda")

    def work(number: int) -> None:
        row = out[number]
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(launches):
                add[(1,)](row, one, row, 64, 64)
            torch.cuda.current_stream().synchronize()

    torch.cuda.synchronize()
    run_in_threads(threads, work)
    assert out.eq(float(launches)).all()


@needs_two_devices
def test_each_device_is_launched_on() -> None:
    for number in range(torch.cuda.device_count()):
        with torch.cuda.device(number):
            out = torch.zeros(64, device=f"cuda:{number}")
            for _ in range(2):
                fill[(1,)](out, float(number), 64)
            assert out.eq(float(number)).all()


@needs_two_devices
def test_a_thread_without_a_context_takes_its_streams_device() -> None:
    last = torch.cuda.device_count() - 1
    with torch.cuda.device(last):
        out = torch.zeros(64, device=f"cuda:{last}")
        kernel = fill[(1,)](out, 0.0, 64)
        stream = torch.cuda.Stream()
    torch.cuda.synchronize(last)
    library = ctypes.CDLL("libcuda.so.1")
    pointer = out.data_ptr()

    def work(_: int) -> None:
        ordinal = ctypes.c_int(-1)
        assert library.cuCtxGetDevice(ctypes.byref(ordinal)) == 201  # invalid context
        kernel.run(
            1, 1, 1, stream.cuda_stream, kernel.function, kernel.packed_metadata, None, None, None,
            pointer, 3.0, 64,
        )  # fmt: skip
        assert library.cuCtxGetDevice(ctypes.byref(ordinal)) == 0
        assert ordinal.value == last

    run_in_threads(1, work)
    torch.cuda.synchronize(last)
    assert out.eq(3.0).all()


@needs_two_devices
def test_threads_launch_on_their_own_devices_at_once() -> None:
    threads, launches, devices = 8, 500, torch.cuda.device_count()
    outs = [torch.zeros(64, device=f"cuda:{number % devices}") for number in range(threads)]
    ones = [torch.ones_like(out) for out in outs]
    for number in range(devices):
        torch.cuda.synchronize(number)

    def work(number: int) -> None:
        with torch.cuda.device(number % devices), torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(launches):
                add[(1,)](outs[number], ones[number], outs[number], 64, 64)
            torch.cuda.current_stream().synchronize()

    run_in_threads(threads, work)
    for out in outs:
        assert out.eq(float(launches)).all()


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_million_launches_leave_nothing_behind() -> None:
    """References and memory stay flat; a million at a few microseconds take some ten seconds.

    Where a launch takes far longer, as under a sanitizer, FLAGTREE_TEST_LAUNCHES says how many."""
    launches = int(os.environ.get("FLAGTREE_TEST_LAUNCHES", "1000000"))
    x = torch.zeros(64, device="cuda")
    number, real = 10**9, 2.25
    kernel = add[(1,)](x, x, x, 64, 64)
    watched = [x, number, real, kernel, kernel.run, kernel.packed_metadata, add]
    stream = torch.cuda.current_stream().cuda_stream
    run, function, packed = kernel.run, kernel.function, kernel.packed_metadata
    enter, leave = knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook

    def through_launcher(count: int) -> None:
        for _ in range(count):
            run(1, 1, 1, stream, function, packed, None, enter, leave, x, x, x, 64, 64)

    def through_function(count: int) -> None:
        for _ in range(count):
            add[(1,)](x, x, x, 64, BLOCK=64)

    def refused(count: int) -> None:
        for _ in range(count):
            with contextlib.suppress(TypeError):
                run(1, 1, 1, stream, function, packed, None, enter, leave, x, x, number, "n", 64)

    for work in (through_launcher, through_function, refused):
        work(launches // 50)
    torch.cuda.synchronize()
    gc.collect()
    references = [sys.getrefcount(value) for value in watched]
    device_memory = torch.cuda.memory_allocated()
    resident = resident_bytes()
    through_launcher(launches * 7 // 10)
    through_function(launches * 3 // 10)
    refused(launches // 20)
    torch.cuda.synchronize()
    gc.collect()
    assert [sys.getrefcount(value) for value in watched] == references
    assert torch.cuda.memory_allocated() == device_memory
    # One leaked object of 32 bytes per launch would be 32 MB in a million. A sanitizer itself keeps
    # 16 KB per launch.
    if launches == 1_000_000:
        assert resident_bytes() - resident < 8_000_000


def run_script(code: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs a script, as a file: Triton reads the source of its kernels."""
    path = Path(environment["HOME"]) / "script.py"
    path.write_text(textwrap.dedent(code))
    return subprocess.run(
        [sys.executable, str(path)], env=environment, capture_output=True, text=True, timeout=180
    )


ONE_KERNEL = """
import torch, triton, triton.language as tl

@triton.jit
def fill(out, value, BLOCK: tl.constexpr):
    tl.store(out + tl.arange(0, BLOCK), value)

out = torch.zeros(64, device="cuda")
fill[(1,)](out, 3.5, 64)
assert out.eq(3.5).all()
"""


def test_no_compiler_is_needed(tmp_path: Path) -> None:
    """Case 8: an empty PATH, empty caches, and no libcuda.so but what the loader knows."""
    empty = tmp_path / "bin"
    empty.mkdir()
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("CC", "CXX", "LIBRARY_PATH", "TRITON_LIBCUDA_PATH")
    }
    environment |= {"PATH": str(empty), "HOME": str(tmp_path)}
    environment["TRITON_CACHE_DIR"] = str(tmp_path / "cache")
    done = run_script(
        ONE_KERNEL
        + """
import pathlib, sys
made = [path.name for path in pathlib.Path(sys.argv[0]).parent.rglob("*.so")]
assert not made, made
""",
        environment,
    )
    assert done.returncode == 0, done.stderr


def test_an_error_of_an_earlier_launch_says_so(tmp_path: Path) -> None:
    """A kernel writes to address 16, the driver is asked to wait for it, and only then comes the
    launch that must not be blamed: by then its context answers everything with the error."""
    environment = dict(os.environ) | {"HOME": str(tmp_path)}
    environment.pop("CUDA_LAUNCH_BLOCKING", None)
    done = run_script(
        ONE_KERNEL
        + """
import ctypes
kernel = fill[(1,)](out, 1.0, 64)
torch.cuda.synchronize()
address = out.data_ptr()
def launch(target):
    kernel.run(1, 1, 1, 0, kernel.function, kernel.packed_metadata, None, None, None,
               target, 1.0, 64)
launch(16)
print("waited:", ctypes.CDLL("libcuda.so.1").cuCtxSynchronize())
try:
    launch(address)
except RuntimeError as error:
    print(error)
# Nothing of a broken context is worth tearing down.
import os, sys
sys.stdout.flush()
os._exit(0)
""",
        environment,
    )
    assert "waited: 700" in done.stdout, done.stdout + done.stderr
    assert "Triton Error [CUDA]: an illegal memory access" in done.stdout, done.stdout
    assert "may stem from an earlier launch" in done.stdout
    assert "'fill'" in done.stdout


def test_autotuning_and_benchmarking() -> None:
    configs = [
        triton.Config({"BLOCK": block}, num_warps=warps) for block, warps in ((64, 2), (128, 4))
    ]
    tuned = triton.autotune(configs, key=["n"])(add)
    x = torch.randn(1000, device="cuda")
    out = torch.empty_like(x)
    grid = lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)  # noqa: E731
    tuned[grid](x, x, out, 1000)
    assert torch.equal(out, x + x)
    milliseconds = triton.testing.do_bench(lambda: add[(8,)](x, x, out, 1000, 128))
    assert milliseconds > 0
