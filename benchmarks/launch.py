"""Launching, measured beside stock Triton in one run on one GPU.

Three questions: how long the first launch of a kernel takes in a fresh process with empty caches,
and what it goes into; what a launch costs above the bare driver call, by each way there is; and
whether the kernels themselves compute the same bits in the same time.

    python benchmarks/launch.py --path TREE [--stock-path TREE] [--json FILE]

TREE is a directory with an installed `triton` package (pip install --target). Without --stock-path
the environment's own triton is the stock one. Every measurement is a process of its own and the two
sides take turns; all numbers are medians. Takes two to three minutes.

Exit status: 0 measured; 1 a process failed, or a kernel's result differs; 2 there is no GPU, or a
path is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

WORKER = Path(__file__).resolve().parent / "launch_worker.py"
SIDES = ("stock", "ours")
FIRST_ROUNDS = 4
OVERHEAD_ROUNDS = 5
KERNEL_ROUNDS = 2
# Slowest seen is under 40 s: a process that takes longer hangs.
TIMEOUT = 120

# From docs/launcher.md: what was set out to be reached, as parts of stock's number.
FIRST_TARGET, LAUNCHER_TARGET, JIT_TARGET, RUN_TIME_TARGET = 0.5, 1 / 3, 0.75, 0.02


class Failure(Exception):
    """A measured process did not do its work."""


class Bench:
    """The two trees, and how a process is started with either."""

    def __init__(self, path: Path, stock_path: Path | None) -> None:
        found = sorted((path / "triton" / "_C").glob("ppu*.so"))
        if not found:
            raise FileNotFoundError(f"{path} holds no FlagTree tree: no triton/_C/ppu*.so in it")
        if stock_path is not None and not (stock_path / "triton").is_dir():
            raise FileNotFoundError(f"{stock_path} holds no triton package")
        self.extension = str(found[0])
        self.paths = {"ours": str(path), "stock": str(stock_path) if stock_path else ""}

    def run(self, side: str, *arguments: str) -> Any:
        """Runs the worker in a fresh process with empty caches; what it printed."""
        with tempfile.TemporaryDirectory(prefix="launch-benchmark-") as home:
            environment = {
                name: value
                for name, value in os.environ.items()
                if not name.startswith(("TRITON_", "FLAGTREE_")) and name != "PYTHONPATH"
            }
            environment |= {
                "HOME": home,
                "TRITON_HOME": home,
                "TRITON_CACHE_DIR": str(Path(home) / "cache"),
            }
            if self.paths[side]:
                environment["PYTHONPATH"] = self.paths[side]
            done = subprocess.run(
                [sys.executable, str(WORKER), *arguments],
                env=environment,
                capture_output=True,
                text=True,
                timeout=TIMEOUT,
                check=False,
            )
        if done.returncode:
            raise Failure(f"{side}: {' '.join(arguments)} failed\n{done.stderr[-3000:]}")
        return json.loads(done.stdout)


def has_gpu() -> bool:
    """Whether torch, in a process of its own, sees a CUDA device."""
    code = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def device_name() -> str:
    code = (
        "import torch, platform; p = torch.cuda.get_device_properties(0); "
        "print(p.name, '- torch', torch.__version__, '- Python', platform.python_version())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return done.stdout.strip()


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print(f"\n{title}")
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    for row in (header, *rows):
        first, *others = zip(row, widths, strict=True)
        cells = [first[0].ljust(first[1]), *(text.rjust(width) for text, width in others)]
        print("  " + "  ".join(cells))


def median_of(results: list[Any], *keys: str) -> float:
    values = []
    for result in results:
        for key in keys:
            result = result.get(key, 0.0)
        values.append(result)
    return float(statistics.median(values))


def first_launch(bench: Bench) -> dict[str, Any]:
    results: dict[str, list[Any]] = {side: [] for side in SIDES}
    for _ in range(FIRST_ROUNDS):
        for side in SIDES:
            results[side].append(bench.run(side, "first"))
    parts = list(dict.fromkeys(p for side in SIDES for r in results[side] for p in r["parts"]))
    medians: dict[str, Any] = {
        side: {
            "total": median_of(results[side], "total"),
            "parts": {part: median_of(results[side], "parts", part) for part in parts},
        }
        for side in SIDES
    }
    rows = [
        [part, *(f"{1000 * medians[side]['parts'][part]:.1f}" for side in SIDES), ""]
        for part in parts
    ]
    totals = [medians[side]["total"] for side in SIDES]
    rows.append(
        ["total", *(f"{1000 * value:.1f}" for value in totals), f"{totals[1] / totals[0]:.2f}"]
    )
    table(
        f"First launch in a fresh process, empty caches: ms, medians of {FIRST_ROUNDS} "
        f"(to reach: {FIRST_TARGET:.2f})",
        ["", "stock", "ours", "ours/stock"],
        rows,
    )
    return medians


def overhead(bench: Bench) -> dict[str, Any]:
    # Processors differ in how far they are from the GPU, so one measures everything.
    allowed = sorted(os.sched_getaffinity(0))
    cpu = allowed[len(allowed) // 2]
    runs: dict[str, list[Any]] = {side: [] for side in SIDES}
    for number in range(OVERHEAD_ROUNDS):
        for side in SIDES if number % 2 == 0 else SIDES[::-1]:
            runs[side].append(bench.run(side, "overhead", bench.extension, str(cpu)))
    targets = {
        "empty grid": None, "launcher": LAUNCHER_TARGET, "compiled.run": LAUNCHER_TARGET,
        "compiled[grid]": LAUNCHER_TARGET, "kernel[grid]": JIT_TARGET,
    }  # fmt: skip
    rows = []
    summary: dict[str, Any] = {"cpu": cpu, "runs": runs}
    for count in runs["ours"][0]:
        bare = [median_of(runs[side], count, "bare", "median") for side in SIDES]
        rows.append(
            [f"{count} bare driver call (C++)"]
            + [f"{value / 1000:.2f}" for value in bare]
            + ["", "", "", ""]
        )
        summary[count] = {"bare": dict(zip(SIDES, bare, strict=True))}
        for way, target in targets.items():
            whole = [median_of(runs[side], count, way, "median") for side in SIDES]
            above = [median_of(runs[side], count, way, "overhead") for side in SIDES]
            ratio = above[1] / above[0]
            summary[count][way] = dict(zip(SIDES, above, strict=True)) | {"ratio": ratio}
            rows.append(
                [f"{count} {way}"]
                + [f"{value / 1000:.2f}" for value in (*whole, *above)]
                + [f"{ratio:.2f}", f"{target:.2f}" if target else ""]
            )
        if len({run[count]["binary"] for side in SIDES for run in runs[side]}) != 1:
            rows.append([f"{count} note: the binaries differ", "", "", "", "", "", ""])
    table(
        f"One launch, by number of arguments: us, medians of {OVERHEAD_ROUNDS} processes on CPU "
        f"{cpu}; overhead is above the bare calls beside it",
        ["", "stock", "ours", "stock overhead", "ours overhead", "ours/stock", "to reach"],
        rows,
    )
    print(
        "  empty grid: the launcher without its driver call. launcher: called with its arguments\n"
        "  spelled out, as Inductor does. compiled.run: compiled.run(..., *args), as Triton does."
    )
    return summary


def kernels(bench: Bench) -> tuple[dict[str, Any], bool]:
    results: dict[str, list[Any]] = {side: [] for side in SIDES}
    for _ in range(KERNEL_ROUNDS):
        for side in SIDES:
            results[side].append(bench.run(side, "kernels"))
    summary: dict[str, Any] = {}
    rows, same = [], True
    for name in results["ours"][0]:
        digests = {run[name]["digest"] for side in SIDES for run in results[side]}
        right = all(
            run[name]["relative_error"] <= run[name]["tolerance"] for run in results["ours"]
        )
        stock, ours = (median_of(results[side], name, "microseconds") for side in SIDES)
        same = same and len(digests) == 1 and right
        binaries = {results[side][0][name]["binary"] for side in SIDES}
        summary[name] = {
            "stock_microseconds": stock,
            "our_microseconds": ours,
            "same_bits": len(digests) == 1,
            "same_binary": len(binaries) == 1,
            "right": right,
        }
        rows.append(
            [
                name,
                f"{stock:.2f}",
                f"{ours:.2f}",
                f"{100 * (ours / stock - 1):+.1f} %",
                "same" if len(digests) == 1 else "DIFFERENT",
                "same" if len(binaries) == 1 else "other",
                "right" if right else "WRONG",
            ]
        )
    table(
        f"The demo kernels: us per run, medians (to reach: within {100 * RUN_TIME_TARGET:.0f} %)",
        ["", "stock", "ours", "difference", "bits", "binary", "against torch"],
        rows,
    )
    return summary, same


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--path", type=Path, required=True, help="directory with our triton")
    parser.add_argument("--stock-path", type=Path, help="directory with stock triton")
    parser.add_argument("--json", type=Path, help="write every number there")
    options = parser.parse_args()
    try:
        stock = options.stock_path.resolve() if options.stock_path else None
        bench = Bench(options.path.resolve(), stock)
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 2
    if not has_gpu():
        print("no CUDA device is visible: launching can only be measured on one", file=sys.stderr)
        return 2
    began = time.monotonic()
    print(device_name())
    report: dict[str, Any] = {"device": device_name()}
    try:
        report["first_launch"] = first_launch(bench)
        report["overhead"] = overhead(bench)
        report["kernels"], same = kernels(bench)
    except (Failure, subprocess.TimeoutExpired) as error:
        print(error, file=sys.stderr)
        return 1
    report["seconds"] = time.monotonic() - began
    print(f"\n{report['seconds']:.0f} s in all")
    if options.json:
        options.json.write_text(json.dumps(report, indent=2))
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
