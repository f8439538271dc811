"""Builds the tree on a host with a real device, runs what needs one, and prints a table.

For a CUDA GPU or a PPU. Nothing is installed into the environment: the tree goes
into a folder of its own, built on the environment's Triton as its base, and the
environment's PyTorch is used as it is. Each step has a time limit, its output goes
to a file in the results folder, and the table at the end has one line per step.

    python tools/gpu_check.py --output RESULTS [--only STEP ...] [--other-triton DIR]

Exit status: 0 if every step that ran passed, 1 otherwise, 2 for wrong arguments.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Step:
    """One command of the check.

    name: what the table and the output file are called.
    command: the argument list.
    timeout: seconds after which the step counts as failed.
    environment: variables on top of this process's.
    uses_tree: whether `import triton` finds the built tree (or the environment's own).
    alone: measures, installs, or takes the whole machine, so nothing else may run
        meanwhile; the other steps run side by side.
    """

    name: str
    command: list[str]
    timeout: float
    environment: dict[str, str] = field(default_factory=dict)
    uses_tree: bool = True
    alone: bool = False


@dataclass
class Outcome:
    """How a step ended: its exit status (None: ran out of time), seconds, and last line."""

    name: str
    status: int | None
    seconds: float
    last_line: str


def fork_matrix(name: str, output: Path, path: Path | None) -> Step:
    """The fork matrix of the Triton in `path`, or of the environment's own."""
    command = [sys.executable, str(CHECKOUT / "tools" / "fork_matrix.py"), "--driver", "real"]
    # Its cells have time limits, so it plays alone; a few processors are left to it and the driver.
    jobs = max(1, (os.cpu_count() or 1) - 4)
    command += ["--jobs", str(jobs), "--limit", "10", "--time", "450", "--wrong"]
    command += ["--json", str(output / f"{name}.json")]
    if path is not None:
        command += ["--path", str(path)]
    return Step(name, command, 480, uses_tree=False, alone=True)


def steps(tree: Path, output: Path, other_triton: Path | None) -> list[Step]:
    """All steps in order; `tree` is where the build is installed."""
    python = sys.executable
    gpu = CHECKOUT / "python" / "test" / "gpu"
    pytest = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--gpu"]
    found = [
        Step(
            "install",
            [
                python,
                "-m",
                "pip",
                "install",
                "--quiet",
                "--no-deps",
                "--no-build-isolation",
                "--target",
                str(tree),
                str(CHECKOUT),
            ],
            300,
            {"FLAGTREE_BACKEND": "ppu"},
            uses_tree=False,
            alone=True,
        ),
        Step(
            "report",
            [python, "-m", "triton.backends.ppu", "--compile", "--launch"],
            60,
        ),
        Step(
            "inductor",
            [*pytest, str(gpu / "test_inductor_workers.py")],
            420,
            {"FLAGTREE_TEST_RESULTS": str(output / "inductor.json")},
        ),
        Step(
            "gpu_tests", [*pytest, "--ignore", str(gpu / "test_inductor_workers.py"), str(gpu)], 360
        ),
        fork_matrix("fork_matrix", output, tree),
        fork_matrix("fork_matrix_stock", output, None),
        Step(
            "resolver_benchmark",
            [python, str(CHECKOUT / "benchmarks" / "resolver.py")],
            120,
            alone=True,
        ),
        Step(
            "launch_benchmark",
            [
                python,
                str(CHECKOUT / "benchmarks" / "launch.py"),
                "--path",
                str(tree),
                "--json",
                str(output / "launch.json"),
            ],
            240,
            alone=True,
        ),
        Step(
            "hints_benchmark",
            [
                python,
                str(CHECKOUT / "benchmarks" / "hints.py"),
                "--json",
                str(output / "hints.json"),
            ],
            180,
            alone=True,
        ),
        Step("demo", [python, str(CHECKOUT / "tools" / "demo.py")], 180),
        Step("sanitizer", [python, str(CHECKOUT / "tools" / "sanitize_launch.py")], 400),
    ]
    if other_triton is not None:
        found.append(fork_matrix("fork_matrix_other", output, other_triton))
    return found


def last_line(path: Path) -> str:
    """The last line with text in it, for the table."""
    lines = [line.strip() for line in path.read_text(errors="replace").splitlines()]
    return next((line for line in reversed(lines) if line), "")


def run(step: Step, tree: Path, output: Path) -> Outcome:
    """Runs one step to its end or its time limit; its output goes to `<name>.txt`."""
    environment = dict(os.environ)
    if step.uses_tree:
        search = [str(tree), environment.get("PYTHONPATH")]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, search))
    environment["TRITON_CACHE_DIR"] = str(output / "caches" / step.name / "triton")
    environment["TORCHINDUCTOR_CACHE_DIR"] = str(output / "caches" / step.name / "inductor")
    environment |= step.environment
    log = output / f"{step.name}.txt"
    started = time.perf_counter()
    status: int | None
    with open(log, "w") as file:
        try:
            status = subprocess.run(
                step.command,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=environment,
                timeout=step.timeout,
                check=False,
                cwd=output,
            ).returncode
        except subprocess.TimeoutExpired:
            status = None
    return Outcome(step.name, status, time.perf_counter() - started, last_line(log))


def main(arguments: Sequence[str] | None = None) -> int:
    """Parses the command line, runs the steps, prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--output", type=Path, required=True, help="folder for logs and results")
    parser.add_argument("--only", nargs="+", default=[], help="run only these steps")
    parser.add_argument("--skip", nargs="+", default=[], help="leave these steps out")
    parser.add_argument(
        "--other-triton", type=Path, help="folder of another Triton to put through the fork matrix"
    )
    parser.add_argument("--tree", type=Path, help="where to install (default: OUTPUT/tree)")
    options = parser.parse_args(arguments)
    output: Path = options.output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    tree: Path = (options.tree or output / "tree").resolve()
    plan = steps(tree, output, options.other_triton)
    names = [step.name for step in plan]
    unknown = [name for name in [*options.only, *options.skip] if name not in names]
    if unknown:
        parser.error(f"no step {', '.join(unknown)}; the steps are {', '.join(names)}")
    chosen = [s for s in plan if (s.name in options.only or not options.only)]
    chosen = [step for step in chosen if step.name not in options.skip]
    outcomes = []

    def collect(outcome: Outcome) -> None:
        outcomes.append(outcome)
        ended = "out of time" if outcome.status is None else f"status {outcome.status}"
        print(
            f"{outcome.name:20} {ended:12} {outcome.seconds:7.1f} s  {outcome.last_line[:120]}",
            flush=True,
        )

    # Installing comes first and what needs the machine last; the rest runs side by side.
    for step in chosen:
        if step.alone and step.name == "install":
            collect(run(step, tree, output))
    together = [step for step in chosen if not step.alone]
    with concurrent.futures.ThreadPoolExecutor(len(together) or 1) as pool:
        futures = [pool.submit(run, step, tree, output) for step in together]
        for future in concurrent.futures.as_completed(futures):
            collect(future.result())
    for step in chosen:
        if step.alone and step.name != "install":
            collect(run(step, tree, output))
    shutil.rmtree(output / "caches", ignore_errors=True)
    (output / "gpu_check.json").write_text(json.dumps([vars(o) for o in outcomes], indent=1))
    failed = [o.name for o in outcomes if o.status != 0]
    print(
        f"{len(outcomes) - len(failed)} passed, {len(failed)} failed"
        + (": " + ", ".join(failed) if failed else "")
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
