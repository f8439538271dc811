"""What the launch tests share: running a script on the simulated driver."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flagtree_simulator import Call, Simulator

sys.path.insert(0, str(Path(__file__).resolve().parent))


class Session:
    """What a script reported, and the launches that the driver saw from it."""

    def __init__(self, report: Any, simulator: Simulator) -> None:
        self.report = report
        self.simulator = simulator

    def launches(self) -> list[Call]:
        return [
            call
            for call in self.simulator.calls()
            if call.name in ("cuLaunchKernelEx", "cuLaunchKernel")
        ]

    def parameters(self) -> list[list[str]]:
        """The parameters of every successful launch, in hexadecimal."""
        return [
            [value.hex() for value in call.parameters]
            for call in self.launches()
            if call.result == 0
        ]


@pytest.fixture
def launching(
    simulator: Callable[..., Simulator], run_python: Callable[..., Any]
) -> Callable[..., Session]:
    """Runs a script that reports with `simulated.report`; see simulated.py.

    Arguments: the code; `prepare`, called with the simulator before; `arguments` for the script;
    and what a Simulator takes.
    """

    def run(
        code: str,
        *,
        prepare: Callable[[Simulator], None] = lambda simulator: None,
        arguments: tuple[str, ...] = (),
        **machine: Any,
    ) -> Session:
        made = simulator(**machine)
        prepare(made)
        here = str(Path(__file__).parent)
        env = made.environment()
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [here, env.get("PYTHONPATH")]))
        done = run_python(code, env, arguments=arguments)
        return Session(json.loads(done.stdout), made)

    return run
