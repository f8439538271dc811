"""What the device tests share: a way to run a script on a simulated machine."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

import pytest

# Put before every script: the tree's own names, the driver called behind its back, and ways to run
# a function in a child and hear of it.
PRELUDE = """
import json, os, sys
from flagtree_simulator.driver import Driver

import triton
from triton.backends.ppu import driver as ppu, errors
from triton.backends.ppu._native import device

def live(ordinal=None):
    # Initializes as somebody else would, and takes a context if an ordinal is given.
    other = Driver()
    assert other.init() == 0
    if ordinal is not None:
        other.use(ordinal)
    return other

def in_child(function, fork=os.fork):
    # Runs function() in a child; answers what it returned, by way of JSON.
    read, write = os.pipe()
    pid = fork()
    if pid == 0:
        try:
            answer = function()
        except BaseException as error:
            answer = [type(error).__name__, str(error)]
        os.write(write, json.dumps(answer).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    status = os.waitpid(pid, 0)[1]
    assert status == 0, f"the child ended with {status}"
    return json.loads(text)

def facts():
    # Everything the resolver can be asked.
    return {
        "pid": os.getpid(),
        "state": ppu.process_state(),
        "active": ppu.PPUDriver.is_active(),
        "ordinal": list(device.ordinal()),
        "initializer": device.initializer(),
        "target": str(triton.runtime.driver.active.get_current_target()),
        "torch": "torch" in sys.modules,
    }

def report(value):
    print(json.dumps(value))
"""

Scripted = Callable[..., Any]


@pytest.fixture
def scripted(run_python: Callable[..., Any]) -> Scripted:
    """Runs PRELUDE and a script on a machine; answers what the script reported.

    Arguments: the machine, the script, ``env`` for variables beside the machine's own, and whatever
    ``run_python`` takes.  The last line of the output is the report.
    """

    def run(
        machine: Any, code: str, env: Mapping[str, str | None] | None = None, **options: Any
    ) -> Any:
        environment = machine.environment()
        for name, value in (env or {}).items():
            if value is None:
                environment.pop(name, None)
            else:
                environment[name] = value
        done = run_python(PRELUDE + textwrap.dedent(code), environment, **options)
        lines = done.stdout.splitlines()
        assert lines, f"the script reported nothing; it wrote\n{done.stderr}"
        return json.loads(lines[-1])

    return run
