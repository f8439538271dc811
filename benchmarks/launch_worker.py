"""One measured process of launch.py: measures the Triton it imports and prints JSON.

    python launch_worker.py first
    python launch_worker.py overhead EXTENSION CPU
    python launch_worker.py kernels

Runs the same code whichever Triton it is. EXTENSION is the file triton/_C/ppu*.so of a FlagTree
tree: in either process its C++ loop times the bare driver call, for which it needs nothing of
Triton. CPU is the number of the processor to measure on.
"""

from __future__ import annotations

import gc
import hashlib
import importlib.util
import json
import os
import statistics
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

WARM_UP_BATCHES = 20
BATCHES = 300
# Far fewer than the driver queues (about a thousand) before a launch waits for the device.
LAUNCHES_PER_BATCH = 32

HERE = Path(__file__).resolve().parent


def measure_first_launch() -> dict[str, Any]:
    """Seconds from the call of a kernel, in a process where torch has a context and nothing of
    Triton has run, to the end of its work; and what they went into."""
    import torch

    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    began = time.perf_counter()
    import triton

    parts = {"import triton (not in the total)": time.perf_counter() - began}
    sys.path.insert(0, str(HERE))
    import launch_kernels
    from triton import knobs
    from triton.runtime.driver import driver

    ten: Any = launch_kernels.ten
    args = launch_kernels.arguments(5, 4, 1)
    torch.cuda.synchronize()

    def listen(*, times: Any, **_: Any) -> None:
        parts["compile: source to Triton IR"] = times.ir_initialization / 1e6
        for stage, duration in times.lowering_stages:
            parts[f"compile: {stage}"] = duration / 1e6
        parts["compile: store"] = times.store_results / 1e6

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                parts[name] = parts.get(name, 0.0) + time.perf_counter() - start

        return call

    knobs.compilation.listener = listen
    began = time.perf_counter()
    active: Any = driver.active
    utils = active.utils
    parts["driver and its utilities"] = time.perf_counter() - began
    active.launcher_cls = timed("launcher", active.launcher_cls)
    utils.load_binary = timed("load the binary", utils.load_binary)
    ten[(1,)](*args, BLOCK=launch_kernels.BLOCK)
    torch.cuda.synchronize()
    total = time.perf_counter() - began
    counted = sum(value for name, value in parts.items() if not name.startswith("import"))
    parts["the rest (key, cache look-up, binder, run)"] = total - counted
    return {"total": total, "parts": parts, "triton": triton.__file__}


def load_timer(extension: str) -> Callable[..., list[float]]:
    """The C++ timing loop of the extension, whatever `triton` is in this process."""
    loaded = sys.modules.get("triton._C.ppu")
    if loaded is None:
        spec = importlib.util.spec_from_file_location("ppu", extension)
        assert spec is not None and spec.loader is not None
        loaded = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loaded)
    timer: Callable[..., list[float]] = loaded.launch.time_launches
    return timer


def parameter_bytes(args: list[Any]) -> list[bytes]:
    """The kernel's parameters: its arguments and the two scratch pointers."""
    values = []
    for value in args:
        if hasattr(value, "data_ptr"):
            values.append(struct.pack("<Q", value.data_ptr()))
        else:
            values.append(struct.pack("<f" if isinstance(value, float) else "<i", value))
    return [*values, bytes(8), bytes(8)]


def time_batch(call: Callable[[], Any], synchronize: Callable[[], None]) -> float:
    """Nanoseconds per call over one batch, timed as `time_launches` times the bare call: a wait
    for the device, one call that is not counted since the device is idle at it, then the batch."""
    repeat = range(LAUNCHES_PER_BATCH)
    synchronize()
    call()
    began = time.perf_counter_ns()
    for _ in repeat:
        call()
    return (time.perf_counter_ns() - began) / LAUNCHES_PER_BATCH


def explicit_call(run: Any, fixed: tuple[Any, ...], args: list[Any]) -> Callable[[], None]:
    """A function that calls `run` with every argument spelled out, as the code that Inductor
    generates does. They are defaults of it, since a local is the fastest variable there is."""
    names = [f"value_{index}" for index in range(len(fixed) + len(args))]
    source = f"def call(run=run, {', '.join(f'{name}={name}' for name in names)}):\n"
    source += f"    run({', '.join(names)})\n"
    namespace = {"run": run, **dict(zip(names, (*fixed, *args), strict=True))}
    exec(source, namespace)
    call: Callable[[], None] = namespace["call"]
    return call


def ways_to_launch(kernel: Any, compiled: Any, stream: int, args: list[Any]) -> dict[str, Any]:
    """By name, functions that launch once. `empty grid` does all but the driver call."""
    from triton import knobs

    enter, leave = knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook
    function, packed = compiled.function, compiled.packed_metadata
    by_grid, given = compiled[(1, 1, 1)], tuple(args)
    after_grid = (stream, function, packed, None, enter, leave)

    def compiled_run(
        compiled: Any = compiled, stream: int = stream, function: int = function,
        packed: Any = packed, enter: Any = enter, leave: Any = leave, args: Any = given,
    ) -> None:  # fmt: skip
        compiled.run(1, 1, 1, stream, function, packed, None, enter, leave, *args)

    def compiled_grid(by_grid: Any = by_grid, args: Any = given) -> None:
        by_grid(*args)

    def kernel_grid(kernel: Any = kernel, args: Any = given) -> None:
        kernel[(1,)](*args)

    return {
        "empty grid": explicit_call(compiled.run, (0, 1, 1, *after_grid), args),
        "launcher": explicit_call(compiled.run, (1, 1, 1, *after_grid), args),
        "compiled.run": compiled_run,
        "compiled[grid]": compiled_grid,
        "kernel[grid]": kernel_grid,
    }


def measure_overhead(extension: str, cpu: int) -> dict[str, Any]:
    """Nanoseconds per launch by each way and how much of it is above the bare driver call, for
    each signature.

    A launch's cost depends on where the thread runs and on how busy the device is. So the thread
    stays on CPU `cpu`; every batch of a way has a batch of bare calls right before or after it, in
    turns; both begin with an idle device, and are short, so that the queue never fills; and the
    overhead is the median of the differences of those pairs, less what the loop itself costs.
    """
    os.sched_setaffinity(0, {cpu})
    import torch

    torch.zeros(1, device="cuda")
    sys.path.insert(0, str(HERE))
    import launch_kernels
    from triton.runtime.driver import driver

    timer = load_timer(extension)
    synchronize = torch.cuda.synchronize
    result: dict[str, Any] = {}
    for count, (kernel, kinds) in launch_kernels.SIGNATURES.items():
        args = [*launch_kernels.arguments(*kinds), launch_kernels.BLOCK]
        compiled = kernel[(1,)](*args)
        synchronize()
        active: Any = driver.active
        stream = active.get_current_stream(active.get_current_device())
        parameters = parameter_bytes(args[:-1])
        shape = ((1, 1, 1), compiled.metadata.num_warps, compiled.metadata.shared)
        bare_arguments = (compiled.function, stream, *shape, parameters, 1, LAUNCHES_PER_BATCH)

        def bare(arguments: Any = bare_arguments) -> float:
            synchronize()
            return timer(*arguments)[0]

        def nothing(args: Any = tuple(args)) -> None:
            pass

        ways = ways_to_launch(kernel, compiled, stream, args)
        loops: list[float] = []
        bares: list[float] = []
        times: dict[str, list[float]] = {name: [] for name in ways}
        above: dict[str, list[float]] = {name: [] for name in ways}
        gc.collect()
        gc.disable()
        for batch in range(-WARM_UP_BATCHES, BATCHES):
            loop = time_batch(nothing, synchronize)
            for name, way in ways.items():
                if batch % 2:
                    alone, whole = bare(), time_batch(way, synchronize)
                else:
                    whole, alone = time_batch(way, synchronize), bare()
                if batch >= 0:
                    loops.append(loop)
                    bares.append(alone)
                    times[name].append(whole)
                    above[name].append(whole - (0.0 if name == "empty grid" else alone))
        gc.enable()
        loop = statistics.median(loops)
        bare_median = statistics.median(bares)
        result[str(count)] = {"bare": {"median": bare_median, "overhead": 0.0}} | {
            name: {
                "median": statistics.median(times[name]) - loop,
                "overhead": statistics.median(above[name]) - loop,
            }
            for name in ways
        }
        result[str(count)]["binary"] = hashlib.sha256(compiled.kernel).hexdigest()
    return result


def measure_kernels() -> dict[str, Any]:
    """Microseconds that each demo kernel runs, and a digest of what it computes.

    The launches are captured into a graph and replayed, so that the time of launching them is not
    in it."""
    import torch

    sys.path.insert(0, str(HERE.parent / "tools"))
    import demo_kernels

    result: dict[str, Any] = {}
    for name, kernel in demo_kernels.KERNELS.items():
        torch.manual_seed(0)
        grid, args, output, expected, tolerance = kernel.problem("cuda")

        def launch(kernel: Any = kernel, grid: Any = grid, args: Any = args) -> Any:
            return kernel.fn[grid](*args, **kernel.constants, **kernel.options)

        compiled = launch()
        torch.cuda.synchronize()
        digest = hashlib.sha256(output.cpu().contiguous().view(torch.uint8).numpy()).hexdigest()
        error = ((output.double() - expected.double()).norm() / expected.double().norm()).item()
        event: Any = torch.cuda.Event
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(20):
                launch()
        times = []
        for _ in range(25):
            began, ended = (event(enable_timing=True) for _ in range(2))
            began.record()
            graph.replay()
            ended.record()
            torch.cuda.synchronize()
            times.append(began.elapsed_time(ended) * 1000 / 20)
        result[name] = {
            "microseconds": statistics.median(times[5:]),
            "digest": digest,
            "binary": hashlib.sha256(compiled.kernel).hexdigest(),
            "relative_error": error,
            "tolerance": tolerance,
        }
    return result


def main(arguments: list[str]) -> int:
    mode, *rest = arguments
    if mode == "first":
        result = measure_first_launch()
    elif mode == "overhead":
        result = measure_overhead(rest[0], int(rest[1]))
    else:
        result = measure_kernels()
    json.dump(result, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
