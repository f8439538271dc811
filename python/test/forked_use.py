"""What processes are told that come to be after somebody initialized the driver.

Shared by the tests on the simulator and those on a real device: scripts for fresh interpreters in
which the driver is initialized by whom the test says, and checks of what came of them.  Every
process says what it sees in a line of JSON; warnings are counted on standard error, by process.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from flagtree_simulator.initialization import has_cuda_core

RunPython = Callable[..., Any]

# For parametrize: cuda.core among the ways of flagtree_simulator.initialization.
CUDA_CORE = pytest.param(
    "cuda.core", marks=pytest.mark.skipif(not has_cuda_core(), reason="cuda.core is not installed")
)

# FLAGTREE_FORK_WARNING (None: not set), and how often a child forked from an initialized process
# warns: one that never uses the device, and one that does so again and again.
WARNINGS = {None: (0, 1), "use": (0, 1), "fork": (1, 1), "off": (0, 0)}

# How a worker starts; where the program's module that initializes is imported: at its top level, by
# main() or nowhere; and the worker's state.
START_METHODS = [
    # The child of fork is poisoned by whatever its parent did.
    ("fork", "main", "ForkedAfterInit"),
    ("fork", "top", "ForkedAfterInit"),
    ("fork", "nowhere", "Uninitialized"),
    # A fork server is, if a module it preloads initializes at its top level.
    ("forkserver", "top", "ForkedAfterInit"),
    ("forkserver", "main", "Uninitialized"),
    ("forkserver", "nowhere", "Uninitialized"),
    # A spawned process never is.
    ("spawn", "top", "Initialized"),
    ("spawn", "main", "Uninitialized"),
]

TELL = """
import json, multiprocessing, os, sys
import triton
from flagtree_simulator.driver import run_forked
from flagtree_simulator.initialization import initialize
from triton.backends.ppu import driver as ppu, errors

def tell(who, use=False):
    seen = {
        "who": who, "pid": os.getpid(), "parent": os.getppid(), "state": ppu.process_state(),
        "device": triton.runtime.driver.active.get_current_device(), "errors": [],
    }
    for _ in range(3 if use else 0):
        try:
            ppu.require_usable()
        except errors.ForkedDriverError as error:
            seen["errors"].append([str(error), error.pid, error.initializer])
    # In one write, as two workers may tell at once.
    os.write(1, (json.dumps(seen) + "\\n").encode())
"""

FORKING = (
    TELL
    + """
def descend():
    tell("child")
    run_forked(lambda: tell("grandchild", use=True))

initialize(sys.argv[1], int(sys.argv[2]))
tell("parent", use=True)
run_forked(lambda: tell("idle"))
run_forked(lambda: tell("using", use=True))
run_forked(descend)
"""
)

STARTING = (
    TELL
    + """
method, where = sys.argv[1:]
if where == "top":
    import initializing

if __name__ == "__main__":
    if where == "main":
        import initializing
    context = multiprocessing.get_context(method)
    if method == "forkserver":
        # Named, because the fork server of Python 3.11 does not preload the main module.
        context.set_forkserver_preload(["initializing"] if where == "top" else [])
    for arguments in ("idle", False), ("using", True):
        worker = context.Process(target=tell, args=arguments)
        worker.start()
        worker.join()
        assert worker.exitcode == 0
"""
)

INITIALIZING = """
import triton
from flagtree_simulator.initialization import initialize
initialize({by!r}, {ordinal})
"""


def check_forked_children(
    run_python: RunPython, environment: Mapping[str, str], by: str, ordinal: int, mode: str | None
) -> None:
    """Forks from an initialized process: children that use the device and not, and a grandchild.

    Args:
        run_python: the fixture.
        environment: of the process, but for ``FLAGTREE_FORK_WARNING``.
        by: who initializes, as `flagtree_simulator.initialization.initialize` takes it.
        ordinal: the device.
        mode: ``FLAGTREE_FORK_WARNING``; None: not set.
    """
    seen, warned = _run(run_python, FORKING, environment, mode, (by, str(ordinal)))
    parent = seen.pop("parent")
    assert (parent["state"], parent["errors"]) == ("Initialized", [])
    assert warned.keys() <= {process["pid"] for process in seen.values()}
    idle, using = WARNINGS[mode]
    expected = {"idle": idle, "using": using, "child": idle, "grandchild": using}
    assert {who: warned[process["pid"]] for who, process in seen.items()} == expected
    for process in seen.values():
        assert process["state"] == "ForkedAfterInit"
        assert process["device"] == parent["device"] == _device(by, ordinal)
    assert not seen["idle"]["errors"]
    for who in ("using", "grandchild"):
        _check_errors(seen[who], initializer=parent["pid"])


def check_start_method(
    run_python: RunPython,
    environment: Mapping[str, str],
    by: str,
    ordinal: int,
    mode: str | None,
    case: tuple[str, str, str],
    folder: Path,
) -> None:
    """Starts two workers in the way of a case of START_METHODS; one of them uses the device.

    Args:
        folder: where ``run_python`` runs, for a module.
        mode, others: as for `check_forked_children`.
    """
    method, where, state = case
    (folder / "initializing.py").write_text(INITIALIZING.format(by=by, ordinal=ordinal))
    seen, warned = _run(run_python, STARTING, environment, mode, (method, where))
    workers = {who: seen[who]["pid"] for who in ("idle", "using")}
    assert {process["state"] for process in seen.values()} == {state}
    if state == "ForkedAfterInit":
        assert {process["device"] for process in seen.values()} == {_device(by, ordinal)}
        assert tuple(warned[pid] for pid in workers.values()) == WARNINGS[mode]
        # What forked the worker - this program, or its fork server - is what had initialized.
        _check_errors(seen["using"], initializer=seen["using"]["parent"])
    else:
        assert not warned
        assert not seen["using"]["errors"]


def _run(
    run_python: RunPython,
    script: str,
    environment: Mapping[str, str],
    mode: str | None,
    arguments: tuple[str, ...],
) -> tuple[dict[str, dict[str, Any]], Counter[int]]:
    """Runs a script; what its processes saw, by who they are, and how often each pid warned."""
    variables = {k: v for k, v in environment.items() if k != "FLAGTREE_FORK_WARNING"}
    if mode is not None:
        variables["FLAGTREE_FORK_WARNING"] = mode
    done = run_python(script, variables, arguments=arguments)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    warned = re.findall(r"ForkedDriverWarning: process (\d+)", done.stderr)
    assert len(warned) == done.stderr.count("ForkedDriverWarning:")
    return {process["who"]: process for process in told}, Counter(map(int, warned))


def _device(by: str, ordinal: int) -> int:
    """The current device after initialization: a bare cuInit makes none current."""
    return 0 if by == "cuInit" else ordinal


def _check_errors(process: Mapping[str, Any], initializer: int) -> None:
    """Every use has raised the error that names both processes and the ways out."""
    assert len(process["errors"]) == 3
    for text, pid, named in process["errors"]:
        assert (pid, named) == (process["pid"], initializer)
        assert f"process {pid} cannot use the device" in text
        assert f"process {initializer} initialized the driver" in text
        for way_out in ("spawn", "forkserver", "__main__", "after forking"):
            assert way_out in text
