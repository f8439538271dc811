"""`python -m triton.backends.ppu`: the report on this tree, this host and this process.

By default it only asks and initializes nothing. The exit status is 0 where the tree can do its job
here, 1 where something keeps it from that (the report says what) or the report cannot be
written, 2 for wrong usage.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from triton.backends.ppu import report


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m triton.backends.ppu",
        description="Reports on the PPU backend of this Triton. Initializes nothing unless asked.",
        epilog="Exit status: 0 the tree can do its job here, 1 it cannot ('problems' says why).",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument("--initialize", action="store_true", help="initialize the driver")
    parser.add_argument("--compile", action="store_true", help="compile a kernel, past the cache")
    parser.add_argument("--launch", action="store_true", help="run a kernel and check its numbers")
    parser.add_argument(
        "--selftest",
        action="store_true",
        help="all of the above, a forked child and the tests for a device; writes one file",
    )
    parser.add_argument("--output", metavar="FILE", help="where --selftest writes (default: here)")
    parser.add_argument("--tests", metavar="DIR", help="the tests that --selftest runs")
    options = parser.parse_args(arguments)
    if not options.selftest and (options.output or options.tests):
        parser.error("--output and --tests belong to --selftest")
    return options


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Gathers the report and does what was asked for; `problems` comes last."""
    result: dict[str, Any] = report.gather()
    asked = {
        "compile": options.compile or options.selftest,
        "initialize": options.initialize or options.selftest,
        "launch": options.launch or options.selftest,
    }
    if any(asked.values()):
        from triton.backends.ppu import selftest

        # Compiling comes first: it must work before anybody has initialized the driver.
        actions = {
            "compile": selftest.compile_kernel,
            "initialize": selftest.initialize,
            "launch": selftest.launch_kernel,
        }
        for name, wanted in asked.items():
            if wanted:
                result[name] = selftest.attempt(actions[name])
        if options.selftest:
            result["forked child"] = selftest.attempt(selftest.forked_child)
            result["tests"] = selftest.attempt(lambda: selftest.run_tests(options.tests))
    return {**result, "problems": report.problems(result)}


def as_text(value: Any, indent: int = 0) -> list[str]:
    """A nested value as indented lines."""
    space = "  " * indent
    lines: list[str] = []
    if isinstance(value, dict):
        width = max((len(str(key)) for key in value), default=0)
        for key, entry in value.items():
            if isinstance(entry, dict | list) and entry:
                lines.append(f"{space}{key}:")
                lines += as_text(entry, indent + 1)
            else:
                first, *rest = scalar(entry).splitlines() or [""]
                lines.append(f"{space}{str(key) + ':':<{width + 1}} {first}")
                lines += [f"{space}  {line}" for line in rest]
    else:
        for entry in value:
            if isinstance(entry, dict):
                head, *rest = as_text(entry, indent + 1)
                lines += [f"{space}- {head.strip()}", *rest]
            else:
                lines.append(f"{space}- {scalar(entry)}")
    return lines


def scalar(value: Any) -> str:
    """A single value in words."""
    if value is None or value in ({}, []):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def write(text: str, path: str | None, shown: str = "") -> bool:
    """Writes a report, with what the encoding lacks, or what is no text at all, as escapes.

    Args:
        text: the report.
        path: the file; None for standard output, whose reader may have gone: that is no fault.
        shown: what a message calls the file.

    Returns:
        Whether it was written, or was not wanted; else standard error says why.
    """
    try:
        if path is not None:
            with open(path, "w", encoding="utf-8", errors="backslashreplace") as stream:
                stream.write(text + "\n")
        elif sys.stdout is not None:
            encoding = sys.stdout.encoding or "utf-8"
            print(text.encode(encoding, "backslashreplace").decode(encoding), flush=True)
    except OSError as error:
        if path is None:
            # What is buffered cannot be written when the interpreter ends, either.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return True
        reason = error.strerror or str(error)
        print(f"cannot write {shown or path}: {reason}", file=sys.stderr)
        return False
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit status."""
    options = parse(arguments)
    path = ""
    if options.selftest:
        now = datetime.datetime.now(datetime.timezone.utc)
        path = options.output or f"flagtree-ppu-selftest-{now:%Y%m%d-%H%M%S}.txt"
        # The tests take long, so that this is found out before.
        if not write("the selftest has not ended", path):
            return 2
    result = run(options)
    text = json.dumps(result, indent=2, default=str) if options.json else ""
    if not options.json:
        text = "\n".join(as_text(result))
    written = write(text, None, "the report")
    if path:
        kept = write(text, path)
        if kept:
            print(f"written to {path}", file=sys.stderr)
        written = written and kept
    return 1 if result["problems"] or not written else 0


if __name__ == "__main__":
    sys.exit(main())
