"""Runs the launch tests of a real device under compute-sanitizer.

memcheck sees accesses outside of allocations, racecheck races in shared memory. All of
`python/test/gpu/test_launch.py` runs, with two allowances: the million launches are a few thousand,
as each takes a hundred times as long, and the test whose kernel writes out of bounds on purpose is
left out, which is just what memcheck reports.

    python tools/sanitize_launch.py [--sanitizer FILE] [--tool memcheck --tool racecheck]
                                    [--timeout SECONDS]

Prints one line per tool, and the end of its output only if something is wrong. The environment's
`triton` is what is tested. Exit status: 0 all clean; 1 something was found, a test failed, a tool
took too long, or nothing ran; 2 there is no compute-sanitizer.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent / "python" / "test" / "gpu" / "test_launch.py"
LEFT_OUT = "test_an_error_of_an_earlier_launch_says_so"
LAUNCHES = 5000
# What compute-sanitizer exits with if it found something; pytest never does.
FOUND = 86
# Seconds for one tool. torch alone takes some 30 to start under one.
TIMEOUT = 240
SHOWN_LINES = 60


def find_sanitizer() -> str | None:
    candidates = [shutil.which("compute-sanitizer"), "/usr/local/cuda/bin/compute-sanitizer"]
    return next((path for path in candidates if path and Path(path).exists()), None)


def run_limited(command: list[str], seconds: float) -> tuple[int | None, str]:
    """The command's exit status, None if it took longer, and all its output. A command that takes
    too long is ended with the processes it started, and with nothing else."""
    # Without torch's cache each tensor is an allocation of its own, whose ends can be checked.
    environment = dict(os.environ) | {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    environment["FLAGTREE_TEST_LAUNCHES"] = str(LAUNCHES)
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen(
            command,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        status: int | None
        try:
            status = process.wait(seconds)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            status = None
        output.seek(0)
        return status, output.read()


def check(sanitizer: str, tool: str, seconds: float) -> bool:
    """Runs the tests under one tool and prints its line; whether it is clean."""
    command = [sanitizer, "--tool", tool, "--error-exitcode", str(FOUND)]
    # Some tests ask the driver for what it must refuse, which is no finding.
    if tool == "memcheck":
        command += ["--report-api-errors", "no"]
    command += [sys.executable, "-m", "pytest", "-q", "--gpu", "-p", "no:cacheprovider"]
    command += [str(TESTS), "-k", f"not {LEFT_OUT}"]
    began = time.monotonic()
    status, output = run_limited(command, seconds)
    counts = re.findall(r"^(?=.*\d+ passed).* in [\d.]+s.*$", output, re.MULTILINE)
    if status is None:
        verdict = f"took longer than {seconds:.0f} s"
    elif status == FOUND:
        verdict = "FOUND SOMETHING"
    elif status != 0:
        verdict = f"a test FAILED, or none could run (status {status})"
    else:
        verdict = "clean"
    clean = verdict == "clean" and bool(counts)
    if not clean and output:
        print("\n".join(output.splitlines()[-SHOWN_LINES:]))
    summary = counts[-1].strip(" =") if counts else "no test passed"
    print(f"{tool}: {verdict}; {summary}; {time.monotonic() - began:.0f} s in all", flush=True)
    return clean


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sanitizer", help="the compute-sanitizer to use")
    parser.add_argument("--tool", action="append", help="memcheck, racecheck (default: both)")
    parser.add_argument(
        "--timeout", type=float, default=TIMEOUT, help=f"seconds for one tool (default {TIMEOUT})"
    )
    options = parser.parse_args()
    sanitizer = options.sanitizer or find_sanitizer()
    if sanitizer is None:
        print("no compute-sanitizer on PATH or under /usr/local/cuda; give --sanitizer FILE")
        return 2
    tools = options.tool or ["memcheck", "racecheck"]
    unclean = [tool for tool in tools if not check(sanitizer, tool, options.timeout)]
    return 1 if unclean else 0


if __name__ == "__main__":
    sys.exit(main())
