"""One measured process of launch.py: measures the Triton it imports and prints JSON.

    python launch_worker.py first
    python launch_worker.py overhead EXTENSION
    python launch_worker.py kernels

Runs the same code whichever Triton it is. EXTENSION is the file triton/_C/ppu*.so of a FlagTree
tree: in either process its C++ loop times the bare driver call, for which it needs nothing of
Triton.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import statistics
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

BATCHES = 40
LAUNCHES_PER_BATCH = 100

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
    """Nanoseconds per call over one batch; the wait for the device is not counted."""
    repeat = range(LAUNCHES_PER_BATCH)
    synchronize()
    began = time.perf_counter_ns()
    for _ in repeat:
        call()
    elapsed = time.perf_counter_ns() - began
    synchronize()
    return elapsed / LAUNCHES_PER_BATCH


def measure_overhead(extension: str) -> dict[str, Any]:
    """Nanoseconds per launch by each way, and of the bare driver call, for each signature. The
    ways take turns, batch by batch, so that all meet the same state of the machine."""
    import torch

    torch.zeros(1, device="cuda")
    sys.path.insert(0, str(HERE))
    import launch_kernels
    from triton import knobs
    from triton.runtime.driver import driver

    timer = load_timer(extension)
    result: dict[str, Any] = {}
    for count, (kernel, kinds) in launch_kernels.SIGNATURES.items():
        args = [*launch_kernels.arguments(*kinds), launch_kernels.BLOCK]
        compiled = kernel[(1,)](*args)
        torch.cuda.synchronize()
        active: Any = driver.active
        stream = active.get_current_stream(active.get_current_device())
        function, packed = compiled.function, compiled.packed_metadata
        enter, leave = knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook
        parameters = parameter_bytes(args[:-1])
        num_warps, shared = compiled.metadata.num_warps, compiled.metadata.shared
        by_grid = compiled[(1, 1, 1)]

        # Each way's arguments are bound as defaults: a local is the fastest variable there is, so
        # the loop adds as little as possible.
        def launcher(
            compiled: Any = compiled, stream: int = stream, function: int = function,
            packed: Any = packed, enter: Any = enter, leave: Any = leave,
            args: tuple[Any, ...] = tuple(args),
        ) -> None:  # fmt: skip
            compiled.run(1, 1, 1, stream, function, packed, None, enter, leave, *args)

        def compiled_grid(by_grid: Any = by_grid, args: tuple[Any, ...] = tuple(args)) -> None:
            by_grid(*args)

        def kernel_grid(kernel: Any = kernel, args: tuple[Any, ...] = tuple(args)) -> None:
            kernel[(1,)](*args)

        def nothing(args: tuple[Any, ...] = tuple(args)) -> None:
            pass

        ways: dict[str, Callable[[], None]] = {
            "launcher": launcher,
            "compiled[grid]": compiled_grid,
            "kernel[grid]": kernel_grid,
        }
        times: dict[str, list[float]] = {name: [] for name in ("bare", "loop", *ways)}
        for _ in range(BATCHES):
            times["bare"] += timer(
                function, stream, (1, 1, 1), num_warps, shared, parameters, 1, LAUNCHES_PER_BATCH
            )
            times["loop"].append(time_batch(nothing, torch.cuda.synchronize))
            for name, way in ways.items():
                times[name].append(time_batch(way, torch.cuda.synchronize))
        medians = {name: statistics.median(values) for name, values in times.items()}
        loop = medians.pop("loop")
        bare = medians["bare"]
        result[str(count)] = {
            name: {
                "median": value if name == "bare" else value - loop,
                "overhead": 0.0 if name == "bare" else value - loop - bare,
                "minimum": min(times[name]),
            }
            for name, value in medians.items()
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
        result = measure_overhead(*rest)
    else:
        result = measure_kernels()
    json.dump(result, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
