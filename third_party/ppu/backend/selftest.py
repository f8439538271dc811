"""The actions of `python -m triton.backends.ppu` that do something: initialize, compile, launch,
and the self-test that runs them all and the tests beside them.

Each action returns a part of the report; a failure is an `error` in it, never an exception.
Launching goes through the same launcher as any kernel, with memory from the driver itself, so that
it needs no PyTorch.
"""

# The kernel is Triton's language, which has no types that mypy knows.
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import ctypes
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.backends.ppu import report
from triton.compiler import ASTSource

# Elements of the vectors that are added, not a multiple of the block, so that the mask counts.
ELEMENTS = 1000
BLOCK = 256


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Adds two vectors."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    total = tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, total, mask=mask)


def attempt(action: Callable[[], report.Part]) -> report.Part:
    """Runs an action; what it raises becomes the part's `error`."""
    start = time.perf_counter()
    try:
        result = action()
    except Exception as error:  # any fault of a tool, driver or library is the answer
        result = {"error": f"{type(error).__name__}: {error}"}
    return {**result, "seconds": round(time.perf_counter() - start, 3)}


def initialize() -> report.Part:
    """Initializes the driver and reads the current device's properties."""
    from triton.backends.ppu.driver import process_state, require_usable
    from triton.runtime.driver import driver

    require_usable()
    active: Any = driver.active
    ordinal = active.get_current_device()
    properties = active.utils.get_device_properties(ordinal)
    return {"state": process_state(), "device": ordinal, "properties": dict(properties)}


@contextmanager
def fresh_cache() -> Iterator[None]:
    """A kernel cache of its own, so that compiling compiles."""
    with tempfile.TemporaryDirectory(prefix="flagtree-ppu-cache-") as directory:
        before = triton.knobs.cache.dir
        triton.knobs.cache.dir = directory
        try:
            yield
        finally:
            triton.knobs.cache.dir = before


def compiled() -> Any:
    """The kernel, compiled for the current device or else for the assumed capability."""
    capability, _ = report.target_capability()
    signature = {
        "x_ptr": "*fp32",
        "y_ptr": "*fp32",
        "out_ptr": "*fp32",
        "n_elements": "i32",
        "BLOCK": "constexpr",
    }
    source = ASTSource(add_kernel, signature, {"BLOCK": BLOCK})
    with fresh_cache():
        return triton.compile(source, target=GPUTarget("cuda", capability, 32))


def compile_kernel() -> report.Part:
    """Compiles a kernel with the tool chain in use, past the cache."""
    capability, source = report.target_capability()
    kernel = compiled()
    return {
        "capability": f"{capability / 10:.1f}",
        "capability_source": source,
        "stages": [name for name in kernel.asm if name != "source"],
        "bytes": len(kernel.kernel),
    }


class _Memory:
    """Buffers in the device's memory, through the driver library that the launcher uses."""

    def __init__(self) -> None:
        from triton.backends.ppu._native import device

        library = device.library()
        if library is None:
            raise RuntimeError("the driver library is not mapped")
        self._prefix = library["abi"]
        self._library = ctypes.CDLL(library["path"])
        self._buffers: list[int] = []

    def _call(self, name: str, *arguments: Any) -> None:
        from triton.backends.ppu import errors

        status = getattr(self._library, self._prefix + name)(*arguments)
        if status != 0:
            errors.raise_driver_error(name, status)

    def allocate(self, values: Any) -> int:
        """Copies a ctypes array to the device; returns the address there."""
        address = ctypes.c_uint64()
        size = ctypes.c_size_t(ctypes.sizeof(values))
        self._call("MemAlloc_v2", ctypes.byref(address), size)
        self._buffers.append(address.value)
        self._call("MemcpyHtoD_v2", address, values, size)
        return address.value

    def read(self, address: int, values: Any) -> None:
        """Waits for the device and copies from it into a ctypes array."""
        self._call("CtxSynchronize")
        size = ctypes.c_size_t(ctypes.sizeof(values))
        self._call("MemcpyDtoH_v2", values, ctypes.c_uint64(address), size)

    def free(self) -> None:
        """Gives all buffers back."""
        for address in self._buffers:
            self._call("MemFree_v2", ctypes.c_uint64(address))
        self._buffers.clear()


def launch_kernel() -> report.Part:
    """Runs the kernel and checks every number it wrote.

    Raises:
        RuntimeError: numbers are wrong, or the device cannot be used.
    """
    from triton.backends.ppu.driver import require_usable

    require_usable()
    kernel = compiled()
    # Loading the binary makes the device's context current, which memory needs.
    launch = kernel[(triton.cdiv(ELEMENTS, BLOCK), 1, 1)]
    vector = ctypes.c_float * ELEMENTS
    x = vector(*(float(i) for i in range(ELEMENTS)))
    y = vector(*(0.5 * i for i in range(ELEMENTS)))
    out = vector(*(-1.0 for _ in range(ELEMENTS)))
    memory = _Memory()
    try:
        addresses = [memory.allocate(values) for values in (x, y, out)]
        launch(*addresses, ELEMENTS, BLOCK)
        memory.read(addresses[2], out)
    finally:
        memory.free()
    wrong = [i for i in range(ELEMENTS) if out[i] != 1.5 * i]
    if wrong:
        raise RuntimeError(
            f"the kernel ran, but {len(wrong)} of {ELEMENTS} numbers are wrong; the first is "
            f"element {wrong[0]}: {out[wrong[0]]} instead of {1.5 * wrong[0]}"
        )
    return {
        "elements": ELEMENTS,
        "registers": kernel.n_regs,
        "spills": kernel.n_spills,
        "stages": [name for name in kernel.asm if name != "source"],
    }


def _child(queue: Any) -> None:
    from triton.backends.ppu.driver import process_state, require_usable

    answer: report.Part = {"state": process_state()}
    part = attempt(compile_kernel)
    answer["compiles"] = part.get("error", "yes")
    try:
        require_usable()
        answer["use"] = "works"
    except Exception as error:
        answer["use"] = type(error).__name__
    queue.put(answer)


def forked_child() -> report.Part:
    """Forks after initialization: the child compiles, knows its state, and is told at use.

    Raises:
        RuntimeError: one of the three is not so.
    """
    from triton.backends.ppu.driver import require_usable

    require_usable()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_child, args=(queue,))
    child.start()
    try:
        answer: report.Part = queue.get(timeout=120)
    finally:
        child.join(timeout=10)
        if child.is_alive():
            child.kill()
    expected = {"state": "ForkedAfterInit", "compiles": "yes", "use": "ForkedDriverError"}
    if answer != expected:
        raise RuntimeError(f"a forked child answered {answer} instead of {expected}")
    return answer


def find_tests(directory: str | None) -> Path | None:
    """The directory of the tests that need a device.

    Args:
        directory: where the user says it is, or None to look in the checkout that this package is
            linked into and below the current directory.
    """
    places = [Path(directory)] if directory else []
    if not directory:
        places = [
            Path(os.path.realpath(__file__)).parents[3] / "python" / "test" / "gpu",
            Path.cwd() / "python" / "test" / "gpu",
        ]
    return next((place.absolute() for place in places if place.is_dir()), None)


def run_tests(directory: str | None) -> report.Part:
    """Runs the tests marked `gpu`, in a process of their own.

    Raises:
        RuntimeError: a test failed, or a directory that was named is not there.
    """
    place = find_tests(directory)
    if place is None:
        if directory:
            raise RuntimeError(f"no tests in {directory}: it is not a directory")
        return {"skipped": "no checkout beside this installation; name its tests with --tests"}
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "--gpu", "-ra", str(place)]
    # The tests run in their own directory, where relative entries would mean something else.
    environment = dict(os.environ)
    if "PYTHONPATH" in environment:
        entries = environment["PYTHONPATH"].split(os.pathsep)
        environment["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, entries))
    done = subprocess.run(
        command,
        cwd=place.parents[2],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    lines = done.stdout.splitlines()
    if done.returncode != 0:
        raise RuntimeError(
            f"{' '.join(command)} ended with {done.returncode}:\n" + "\n".join(lines[-200:])
        )
    return {"command": command, "result": lines[-1] if lines else "", "output": lines}
