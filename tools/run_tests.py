"""Runs the three test suites - C++ unit tests (ctest), lit, pytest - one after the other, also when
one fails, and closes with a table and the sum. Fails when any suite fails or ran no test."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SUITES = ("cpp", "lit", "python")


@dataclass
class Outcome:
    """What came of one suite: numbers of tests, its exit status, and how long it took."""

    name: str
    status: int
    passed: int
    failed: int
    skipped: int
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether the suite ran something and nothing failed."""
        return self.status == 0 and self.failed == 0 and self.passed > 0


def read_report(path: Path) -> tuple[int, int, int]:
    """Return (passed, failed, skipped) of a JUnit report; all zero when there is none."""
    try:
        cases = list(ElementTree.parse(path).getroot().iter("testcase"))
    except (OSError, ElementTree.ParseError):
        return 0, 0, 0
    failed = skipped = 0
    for case in cases:
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
            skipped += 1
    return len(cases) - failed - skipped, failed, skipped


def commands(build: Path, jobs: int, reports: Path, extra: list[str]) -> dict[str, list[str]]:
    """Return the command of each suite; each writes a report named after it to ``reports``."""
    scripts = Path(sys.executable).parent
    return {
        "cpp": [
            str(scripts / "ctest"),
            "--test-dir",
            str(build),
            "--output-on-failure",
            "--no-tests=error",
            "--timeout",
            "300",
            "--parallel",
            str(jobs),
            "--output-junit",
            str(reports / "cpp.xml"),
        ],
        "lit": [
            str(scripts / "lit"),
            "-v",
            "--order=lexical",
            f"--workers={jobs}",
            f"--xunit-xml-output={reports / 'lit.xml'}",
            str(ROOT / "test"),
        ],
        "python": [
            sys.executable,
            "-m",
            "pytest",
            str(ROOT / "python/test/unit"),
            "-q",
            f"-n{jobs}",
            "--dist=loadfile",
            "-m",
            "not slow and not gpu",
            f"--junitxml={reports / 'python.xml'}",
            *extra,
        ],
    }


def run(name: str, command: list[str], environment: dict[str, str], reports: Path) -> Outcome:
    """Run one suite and read its report."""
    report = reports / f"{name}.xml"
    report.unlink(missing_ok=True)
    print(f"==== {name}: {' '.join(command)}", flush=True)
    start = time.monotonic()
    try:
        status = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    except OSError as error:
        print(f"error: {error}", flush=True)
        status = 127
    return Outcome(name, status, *read_report(report), time.monotonic() - start)


def main() -> int:
    """Run the suites that were asked for; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--only", choices=SUITES, action="append")
    options, extra = parser.parse_known_args()

    build = options.build.absolute()
    reports = build / "reports"
    reports.mkdir(parents=True, exist_ok=True)
    # More processes than this gain nothing and make tests that measure time unsteady.
    jobs = max(1, min(options.jobs, 8))
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "FLAGTREE_BUILD_DIR": str(build),
        "FLAGTREE_SIM_LIBRARY_DIR": str(build / "lib"),
    }
    suites = commands(build, jobs, reports, extra)
    outcomes = [run(name, suites[name], environment, reports) for name in options.only or SUITES]

    print("\nsuite     passed  failed  skipped  seconds")
    for outcome in outcomes:
        remark = ""
        if not outcome.ok:
            remark = "  <- no test ran" if outcome.passed + outcome.failed == 0 else "  <- FAILED"
            remark += f" (exit status {outcome.status})"
        print(
            f"{outcome.name:8}{outcome.passed:8}{outcome.failed:8}{outcome.skipped:9}"
            f"{outcome.seconds:9.0f}{remark}"
        )
    ok = all(outcome.ok for outcome in outcomes)
    # A suite that broke without a failed test counts as one, so that the sum never looks clean.
    failed = sum(max(outcome.failed, 0 if outcome.ok else 1) for outcome in outcomes)
    print(
        f"\ntests: {sum(outcome.passed for outcome in outcomes)} passed, {failed} failed, "
        f"{sum(outcome.skipped for outcome in outcomes)} skipped"
    )
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
