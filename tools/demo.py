"""The tree's main job, shown: compile kernels in workers forked after initialization.

Initializes the driver in this process, forks a pool of workers, compiles the demo
kernels in them through the calls that PyTorch Inductor's workers make, and prints
what each worker saw; then compiles the same kernels serially and compares times
and bytes. With a real device it also runs `torch.compile`, forward and backward,
in three dtypes with Inductor's default pool, against eager. Without one it starts
itself again under the simulated driver, and says so.

    python tools/demo.py [--jobs N]

Exit status: 0 if everything shown is as it must be, 1 otherwise.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import ctypes
import hashlib
import importlib.util
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
SIMULATED = "FLAGTREE_DEMO_SIMULATED"

# Warps per program to compile each kernel for. Two variants of six kernels are
# twelve distinct compilations, enough to keep a pool busy.
NUM_WARPS = (4, 8)


@dataclass(frozen=True)
class Compiled:
    """What one compilation reported: who did it, what it saw, what came out.

    state: the worker's driver state by the tree's resolver.
    initializer: the process that the worker says initialized the driver.
    seconds: wall-clock time of `triton.compile`.
    digests: SHA-256 of each stage's result.
    """

    kernel: str
    num_warps: int
    pid: int
    state: str
    initializer: int
    size: int
    seconds: float
    digests: dict[str, str]


def compile_kernel(name: str, num_warps: int, target: tuple[str, int, int], cache: str) -> Compiled:
    """Compiles one kernel as a worker of Inductor does, and reports on it.

    The worker makes the active backend's driver the current one, then compiles for
    the target that the parent named. `cache` is the cache folder to use.
    """
    os.environ["TRITON_CACHE_DIR"] = cache
    import triton
    from demo_kernels import KERNELS
    from triton.backends import backends
    from triton.backends.compiler import GPUTarget
    from triton.backends.ppu._native import device

    for backend in backends.values():
        if backend.driver.is_active():
            triton.runtime.driver.set_active(backend.driver())
            break
    else:
        raise RuntimeError(f"process {os.getpid()}: no backend is active")
    kernel = KERNELS[name]
    started = time.perf_counter()
    result = triton.compile(
        kernel.source(),
        target=GPUTarget(*target),
        options=kernel.options | {"num_warps": num_warps},
    )
    seconds = time.perf_counter() - started
    digests = {
        stage: hashlib.sha256(text if isinstance(text, bytes) else text.encode()).hexdigest()
        for stage, text in result.asm.items()
    }
    return Compiled(
        name,
        num_warps,
        os.getpid(),
        device.state(),
        device.initializer(),
        len(result.kernel),
        seconds,
        digests,
    )


def has_real_device() -> bool:
    """Whether a device is visible, asked of the resolver, which initializes nothing."""
    from triton.backends.ppu._native import device

    return bool(device.state() != "Absent")


def restart_with_simulator() -> None:
    """Replaces this process by one that meets the simulated driver.

    A new program image, because the loader reads its search path only at the start.
    """
    sys.path.insert(0, str(CHECKOUT / "third_party" / "ppu" / "simulator"))
    from flagtree_simulator import Simulator

    root = Path(tempfile.mkdtemp(prefix="flagtree-demo-"))
    simulator = Simulator(devices=1, capability=(8, 0), root=root)
    environment = simulator.environment()
    environment[SIMULATED] = str(root)
    os.execve(sys.executable, [sys.executable, *sys.argv], environment)


def initialize_driver() -> str:
    """Initializes the driver in this process and says how."""
    if SIMULATED not in os.environ and importlib.util.find_spec("torch") is not None:
        import torch

        if torch.cuda.is_available():
            torch.zeros(1, device="cuda")
            return f"torch {torch.__version__} on {torch.cuda.get_device_name()}"
    driver = ctypes.CDLL("libcuda.so.1")
    status = driver.cuInit(0)
    if status != 0:
        raise RuntimeError(f"cuInit answered {status}")
    return "cuInit of the simulated driver" if SIMULATED in os.environ else "cuInit"


def compile_all(
    executor: concurrent.futures.Executor | None, target: tuple[str, int, int], cache: str
) -> tuple[list[Compiled], float]:
    """Compiles every kernel, in the executor's workers or here; returns wall-clock seconds."""
    from demo_kernels import KERNELS

    work = [(name, num_warps, target, cache) for name in KERNELS for num_warps in NUM_WARPS]
    started = time.perf_counter()
    if executor is None:
        results = [compile_kernel(*item) for item in work]
    else:
        results = list(executor.map(compile_kernel, *zip(*work, strict=True)))
    return results, time.perf_counter() - started


def show(results: Sequence[Compiled]) -> None:
    """Prints the table of one round of compilations."""
    print(
        f"{'kernel':12} {'warps':>5} {'worker':>8} {'driver state there':20} {'bytes':>8} {'ms':>7}"
    )
    for result in results:
        print(
            f"{result.kernel:12} {result.num_warps:5} {result.pid:8} {result.state:20} "
            f"{result.size:8} {result.seconds * 1e3:7.0f}"
        )


def show_torch_compile() -> list[str]:
    """Compiles and checks a model with torch.compile; returns what was wrong."""
    sys.path.insert(0, str(CHECKOUT / "python" / "test" / "gpu"))
    import inductor_models
    from torch._inductor import config

    inductor_models.wait_for_pool()
    print(
        f"\ntorch.compile, {config.compile_threads} compile threads, "
        f"worker_start_method={config.worker_start_method!r}:"
    )
    wrong = []
    for name in ("gated_mlp", "attention"):
        for dtype in inductor_models.DTYPES:
            started = time.perf_counter()
            try:
                result = inductor_models.check(name, dtype, backward=True)
            except Exception as failure:
                wrong.append(f"{name} in {dtype}: {failure}")
                print(f"  {name:12} {dtype!s:16} forward and backward: FAILED")
                continue
            seconds = time.perf_counter() - started
            print(
                f"  {name:12} {dtype!s:16} forward and backward are right to "
                f"{result['error']:.1e}, eager to {result['eager']:.1e} ({seconds:.1f} s)"
            )
    return wrong


def problems(pooled: Sequence[Compiled], serial: Sequence[Compiled]) -> list[str]:
    """What is not as it must be, one sentence each."""
    found = []
    here = os.getpid()
    for forked, alone in zip(pooled, serial, strict=True):
        label = f"{forked.kernel} with {forked.num_warps} warps"
        if forked.pid == here:
            found.append(f"{label} was compiled in the parent, not in a worker")
        if forked.state != "ForkedAfterInit":
            found.append(f"{label}: the worker saw {forked.state}, not ForkedAfterInit")
        if forked.initializer != here:
            found.append(f"{label}: the worker names {forked.initializer} as the initializer")
        if forked.digests != alone.digests:
            found.append(f"{label} differs between worker and parent")
    if SIMULATED in os.environ:
        sys.path.insert(0, str(CHECKOUT / "third_party" / "ppu" / "simulator"))
        from flagtree_simulator import read_log

        log = Path(os.environ["FLAGTREE_SIM_LOG"])
        initialized = [call for call in read_log(log) if call.name == "cuInit" and call.pid != here]
        if initialized:
            found.append(f"{len(initialized)} cuInit calls outside this process")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the demonstration and prints it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="workers in the pool")
    options = parser.parse_args(arguments)
    if options.jobs < 1:
        parser.error(f"--jobs must be at least 1, not {options.jobs}")
    sys.path.insert(0, str(CHECKOUT / "tools"))
    if SIMULATED not in os.environ and not has_real_device():
        restart_with_simulator()

    how = initialize_driver()
    import demo_kernels  # noqa: F401 - imported before the fork, as Inductor's parent has
    import triton
    from triton.backends.ppu._native import device
    from triton.runtime.cache import triton_key

    if SIMULATED in os.environ:
        print("No device here: this is the simulated driver (compute capability 8.0).")
    target = triton.runtime.driver.active.get_current_target()
    print(f"Triton {triton.__version__}, backends {list(triton.backends.backends)}")
    print(f"Process {os.getpid()} initialized the driver: {how}; it is {device.state()} here")
    print(f"Target {target}\n")
    # Inductor's parent computes this key for its own cache before it makes its pool.
    triton_key()
    wanted = (target.backend, target.arch, target.warp_size)
    with tempfile.TemporaryDirectory(prefix="flagtree-demo-cache-") as caches:
        context = multiprocessing.get_context("fork")
        with concurrent.futures.ProcessPoolExecutor(options.jobs, mp_context=context) as pool:
            pooled, pool_seconds = compile_all(pool, wanted, os.path.join(caches, "pool"))
        show(pooled)
        serial, serial_seconds = compile_all(None, wanted, os.path.join(caches, "serial"))
    wrong = problems(pooled, serial)
    workers = len({result.pid for result in pooled})
    print(
        f"\n{len(pooled)} kernels: {pool_seconds:.2f} s in a pool of {workers} forked workers, "
        f"{serial_seconds:.2f} s serially, ratio {serial_seconds / pool_seconds:.2f}"
    )
    if not any("differs" in problem for problem in wrong):
        stages = ", ".join(stage for stage in pooled[0].digests if stage != "source")
        print(f"Worker and parent made the same bytes: {stages}")
    if SIMULATED not in os.environ and importlib.util.find_spec("torch") is not None:
        wrong += show_torch_compile()
    for problem in wrong:
        print(f"WRONG: {problem}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
