"""Runs the launch tests of a real device under compute-sanitizer.

memcheck sees accesses outside of allocations, racecheck races in shared memory. Left out are the
test of a million launches, which would take hours, and those that start other processes, of which
one makes an illegal access on purpose.

    python tools/sanitize_launch.py [--sanitizer FILE] [--tool memcheck --tool racecheck]

The environment's `triton` is what is tested. Exit status: 0 both clean; 1 something was found or a
test failed; 2 there is no compute-sanitizer.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent / "python" / "test" / "gpu" / "test_launch.py"
LEFT_OUT = ("million", "no_compiler", "earlier_launch", "autotuning")
# What compute-sanitizer exits with if it found something; pytest never does.
FOUND = 86


def find_sanitizer() -> str | None:
    candidates = [shutil.which("compute-sanitizer"), "/usr/local/cuda/bin/compute-sanitizer"]
    return next((path for path in candidates if path and Path(path).exists()), None)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sanitizer", help="the compute-sanitizer to use")
    parser.add_argument("--tool", action="append", help="memcheck, racecheck (default: both)")
    options = parser.parse_args()
    sanitizer = options.sanitizer or find_sanitizer()
    if sanitizer is None:
        print("no compute-sanitizer on PATH or under /usr/local/cuda; give --sanitizer FILE")
        return 2
    # Without torch's cache each tensor is an allocation of its own, whose ends can be checked.
    environment = dict(os.environ) | {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    status = 0
    for tool in options.tool or ("memcheck", "racecheck"):
        # Some tests ask the driver for what it must refuse, which is no finding.
        command = [sanitizer, "--tool", tool, "--error-exitcode", str(FOUND)]
        if tool == "memcheck":
            command += ["--report-api-errors", "no"]
        command += [sys.executable, "-m", "pytest", "-q", "--gpu", "-p", "no:cacheprovider"]
        command += [str(TESTS), "-k", " and ".join(f"not {name}" for name in LEFT_OUT)]
        done = subprocess.run(command, env=environment, check=False)
        verdict = {0: "clean", FOUND: "FOUND SOMETHING"}.get(done.returncode, "a test FAILED")
        print(f"{tool}: {verdict} (status {done.returncode})", flush=True)
        status = status or int(done.returncode != 0)
    return status


if __name__ == "__main__":
    sys.exit(main())
