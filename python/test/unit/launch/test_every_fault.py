"""Every driver call that the tree knows meets every error, at its first, second and a later call.

The answer is right all the same or an error that names the call and the code, and once the driver
answers again, so does the tree. EntryPoints.def is the list: a call that it gains fails here until
fault_scenarios.py has a use of it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fault_sweep import CODES
from flagtree_simulator import Simulator

CHECKOUT = Path(__file__).resolve().parents[4]
LIST = CHECKOUT / "include" / "flagtree" / "Driver" / "EntryPoints.def"

ENTRY_POINTS = re.findall(r"^FLAGTREE_ENTRY_POINT\((\w+),", LIST.read_text(), re.MULTILINE)

SCRIPT = """
import sys
import fault_scenarios
fault_scenarios.sweep(fault_scenarios.{}, sys.argv[2:])
"""


def without_launch_kernel_ex(simulator: Simulator) -> None:
    """Makes the machine's driver one from before 11.6, which has no LaunchKernelEx."""
    for abi, file in (("cu", "libcuda.so.1"), ("hg", "libhggc.so")):
        library = simulator.library_dir / file
        if abi in simulator.abis:
            code = library.read_bytes()
            library.unlink()
            library.write_bytes(code.replace(b"LaunchKernelEx\0", b"LaunchKernelXX\0"))


def check_the_log(session: Any, calls: list[str]) -> None:
    """Sees that the driver did answer what was ordered, and that no failed load kept its module."""
    answers: dict[tuple[int, str], list[int | str]] = defaultdict(list)
    for call in session.simulator.calls():
        answers[call.pid, call.name].append(call.result)
    for pid, symbol, number, code in session.report["played"]:
        assert answers[pid, symbol][number - 1] == code, (symbol, number, code)
    assert {symbol[2:] for _, symbol, _, _ in session.report["played"]} == set(calls)
    assert {code for _, _, _, code in session.report["played"]} == set(CODES)
    if "ModuleUnload" not in calls:
        pid, abi = session.report["pid"], session.simulator.abis[0]
        loaded = answers[pid, f"{abi}ModuleLoadData"].count(0)
        unloaded = answers[pid, f"{abi}ModuleUnload"].count(0)
        assert loaded - unloaded == session.report["modules"]


@pytest.mark.parametrize("call", ENTRY_POINTS)
def test_every_error_of(launching: Callable[..., Any], call: str) -> None:
    session = launching(
        SCRIPT.format("SCENARIOS"),
        arguments=("cu", call),
        capability=(9, 0),
        prepare=without_launch_kernel_ex if call == "LaunchKernel" else lambda simulator: None,
    )
    check_the_log(session, [call])


def test_every_error_without_a_management_library(launching: Callable[..., Any]) -> None:
    calls = ["DeviceGetAttribute"]
    session = launching(
        SCRIPT.format("WITHOUT_MANAGEMENT"), arguments=("cu", *calls), management=False
    )
    check_the_log(session, calls)
    assert session.report["calls"] == calls


def test_every_error_of_the_other_abi(launching: Callable[..., Any]) -> None:
    calls = [call for call in ENTRY_POINTS if call not in ("LaunchKernel", "ModuleUnload")]
    session = launching(
        SCRIPT.format("SCENARIOS"), arguments=("hg", *calls), capability=(9, 0), abi="hg"
    )
    check_the_log(session, calls)
    # Nor is there a use for a call that the tree no longer knows.
    assert session.report["calls"] == sorted(ENTRY_POINTS)
