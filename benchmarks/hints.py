"""What hints do to run time, and what they cost to compile.

On a GPU: times the kernels of ``tools/hinted_kernels.py`` with their hints and without,
alternately, and checks both results.  With ``--stock DIR`` (upstream Triton 3.6.0 installed there;
needs no GPU): times compilations of a kernel without hints by this tree and by that one,
alternately, in seconds of processor time, since others may use the machine.

    python benchmarks/hints.py [--json FILE] [--rounds N]
    python benchmarks/hints.py --stock DIR [--compilations N] [--json FILE]

Exit status: 0; 1 if a result with hints differs from the one without; 2 for wrong arguments.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

TOOLS = Path(__file__).resolve().parent.parent / "tools"
sys.path.insert(0, str(TOOLS))

# Compiles one kernel again and again, in a process of its own; prints the processor time of each,
# in seconds, ptxas included.
COMPILE = f"""
import json, os, resource, sys
sys.path.insert(0, {str(TOOLS)!r})
import triton
from triton.backends.compiler import GPUTarget
from demo_kernels import KERNELS

os.environ["TRITON_ALWAYS_COMPILE"] = "1"
def seconds():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)

times = []
# The first two compilations also import the compiler and read libdevice.
for _ in range(int(sys.argv[1]) + 2):
    begin = seconds()
    triton.compile(KERNELS["softmax"].source(), target=GPUTarget("cuda", 80, 32))
    times.append(seconds() - begin)
print(json.dumps(times[2:]))
"""


def same(left: Any, right: Any, tolerance: float) -> tuple[bool, float]:
    """Whether two tensors agree to `tolerance`, and by how much they differ, relative to `right`'s
    norm."""
    difference = (left.double() - right.double()).norm() / right.double().norm()
    return bool(difference <= tolerance), float(difference)


def run_time(rounds: int) -> dict[str, Any]:
    """Times every kernel on the current device, in milliseconds.

    Each round times both variants, the order changing from round to round; the figure is the
    median of the rounds, each of which is the median of triton's `do_bench`.
    """
    import torch
    from hinted_kernels import KERNELS
    from triton.testing import do_bench

    rows = []
    for kernel in KERNELS:
        torch.manual_seed(0)
        problem = kernel.problem("cuda")
        hinted, plain = kernel.launchers(problem)
        plain()
        reference = problem.output.clone()
        problem.output.zero_()
        compiled = hinted()
        equal, difference = same(problem.output, reference, problem.tolerance)
        right, _ = same(problem.output, problem.expected, max(problem.tolerance, 1e-6))
        times: dict[str, list[float]] = {"hinted": [], "plain": []}
        for number in range(rounds):
            pair = [("hinted", hinted), ("plain", plain)]
            for name, launch in pair if number % 2 else reversed(pair):
                times[name].append(do_bench(launch, warmup=10, rep=60, return_mode="median"))
        with_hints, without = (statistics.median(times[name]) for name in ("hinted", "plain"))
        rows.append(
            {
                "kernel": kernel.name,
                "hints": kernel.hints,
                "milliseconds_with": with_hints,
                "milliseconds_without": without,
                "gain": without / with_hints,
                "shared_bytes_with": compiled.metadata.shared,
                "equal": equal and right,
                "difference": difference,
            }
        )
        del problem, hinted, plain, compiled, reference
        torch.cuda.empty_cache()
    return {"device": torch.cuda.get_device_name(), "rounds": rounds, "kernels": rows}


def compile_time(stock: Path, compilations: int) -> dict[str, Any]:
    """Times `compilations` compilations by this tree and by the one in `stock`, in milliseconds.

    Ten processes of each take turns, so that a change of the machine's load meets both; each
    figure is the median over all of one's compilations.
    """
    processes = 10
    times: dict[str, list[float]] = {"ours": [], "stock": []}
    for number in range(processes):
        for name in ("ours", "stock") if number % 2 else ("stock", "ours"):
            with tempfile.TemporaryDirectory() as cache:
                environment = os.environ | {"TRITON_CACHE_DIR": cache}
                if name == "stock":
                    environment["PYTHONPATH"] = str(stock)
                done = subprocess.run(
                    [sys.executable, "-c", COMPILE, str(-(-compilations // processes))],
                    env=environment,
                    check=True,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            times[name] += json.loads(done.stdout)
    ours, theirs = (statistics.median(times[name]) * 1e3 for name in ("ours", "stock"))
    return {
        "compilations": len(times["ours"]),
        "milliseconds_ours": ours,
        "milliseconds_stock": theirs,
        "ratio": ours / theirs,
        "ratio_of_fastest": min(times["ours"]) / min(times["stock"]),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of timing (default 5)")
    parser.add_argument("--stock", type=Path, metavar="DIR", help="where upstream Triton is")
    parser.add_argument("--compilations", type=int, default=200, help="how many (default 200)")
    arguments = parser.parse_args()
    if arguments.rounds < 1 or arguments.compilations < 1:
        parser.error("--rounds and --compilations must be at least 1")
    figures: dict[str, Any]
    if arguments.stock is not None:
        if not (arguments.stock / "triton" / "__init__.py").is_file():
            parser.error(f"no triton in {arguments.stock}")
        figures = compile_time(arguments.stock, arguments.compilations)
        print(
            f"{figures['compilations']} compilations of a kernel without hints: "
            f"{figures['milliseconds_ours']:.1f} ms here, {figures['milliseconds_stock']:.1f} ms "
            f"by stock Triton, ratio {figures['ratio']:.3f} (fastest: "
            f"{figures['ratio_of_fastest']:.3f})"
        )
    else:
        figures = run_time(arguments.rounds)
        print(f"{figures['device']}, median of {figures['rounds']} rounds")
        print(f"{'kernel':<27}{'hints':<40}{'without':>10}{'with':>10}{'gain':>7}  equal")
        for row in figures["kernels"]:
            print(
                f"{row['kernel']:<27}{row['hints']:<40}{row['milliseconds_without']:>7.3f} ms"
                f"{row['milliseconds_with']:>7.3f} ms{row['gain']:>6.2f}x  "
                f"{'yes' if row['equal'] else 'NO'}"
            )
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0 if all(row["equal"] for row in figures.get("kernels", [])) else 1


if __name__ == "__main__":
    sys.exit(main())
