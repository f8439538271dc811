"""How the fake tools misbehave when a test asks for it.

`FAKE_PPU_LLC` and `FAKE_IRFORMATTER` hold one of: ok (default), error, error-on-stdout, silent,
long, escape, garbage, hang, segv, abort, partial, empty, nothing, slow.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time


def misbehave(mode: str, tool: str, output: str | None) -> None:
    """Does what `mode` asks for and does not come back, unless that is to go on as usual."""
    if mode == "error":
        print(f"{tool}: error: kernel.ll:7: no such register class", file=sys.stderr)
        sys.exit(1)
    if mode == "error-on-stdout":
        print(f"{tool}: error: told on standard output")
        sys.exit(1)
    if mode == "silent":
        sys.exit(3)
    if mode == "long":
        print("first words\n" + "x" * 1_000_000 + "\nlast words", file=sys.stderr)
        sys.exit(1)
    if mode == "escape":
        print("\x1b[31mred\x1b[0m \x07 words", file=sys.stderr)
        sys.exit(1)
    if mode == "garbage":
        sys.stderr.buffer.write(bytes(range(256)) * 4)
        sys.exit(1)
    if mode == "hang":
        # A helper that holds the output open, as a compiler driver's own child would.
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        print(f"{tool}: started {child.pid}", file=sys.stderr, flush=True)
        pids = os.environ.get("FAKE_SDK_PIDS")
        if pids:
            with open(pids, "w") as stream:
                stream.write(f"{os.getpid()} {child.pid}")
        time.sleep(600)
    if mode in ("segv", "abort"):
        print(f"{tool}: internal error before the end", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGSEGV if mode == "segv" else signal.SIGABRT)
    if mode == "partial" and output:
        with open(output, "wb") as stream:
            stream.write(b"\x7fHGBIN\x00half of")
        os.kill(os.getpid(), signal.SIGKILL)
    if mode == "empty" and output:
        with open(output, "wb"):
            pass
        sys.exit(0)
    if mode == "nothing":
        print(f"{tool}: nothing to do", file=sys.stderr)
        sys.exit(0)
    if mode == "slow":
        time.sleep(float(os.environ.get("FAKE_SDK_SLOW", "0.5")))
