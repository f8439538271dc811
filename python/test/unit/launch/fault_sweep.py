"""For scripts that sweep driver errors: every code, at the first, the second and a later call.

The simulated driver replaces its faults and counts its calls within a process, so one process goes
through all the cases of a scenario, and each case also shows that the one before left nothing
behind. A scenario that is only ever played once in a process, like opening the driver, is played in
a forked child for each case. What was ordered is reported, for the test to find it in the call log.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import random
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from flagtree_simulator.driver import run_forked

CODES = (1, 3, 4, 34, 46, 100, 101, 201, 802, 803, 804, 999, 77777)

# What the act that meets the fault must do: give the right answer all the same, raise, or one of
# the two.
RIGHT, ERROR, EITHER = "right", "error", "either"

# No act makes so few of the calls that a later one needs more acts than this.
MOST_ACTS = 20


@dataclass(frozen=True)
class Scenario:
    """A use of the driver that makes the call in question.

    Attributes:
        prepare: makes things ready, and answers the act, which is done over and over.
        expect: RIGHT, ERROR or EITHER, by the code and by which call it is, counted from 1.
        errors: the exception's type and a part of its text, for codes that are told in another way
            than by a DriverError with the call and the code.
        excused: an answer that is right, too, while the call fails.
        lasting: all calls up to the one in question fail, as an act that succeeded makes no more.
        fresh: each case has a process of its own.
        occurrences: how many calls there can be.
    """

    prepare: Callable[[], Callable[[], Any]]
    expect: Callable[[int, int], str] = lambda code, occurrence: ERROR
    errors: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    excused: Callable[[Any], Any] = lambda right: right
    lasting: bool = False
    fresh: bool = False
    occurrences: int = 9


@dataclass(frozen=True)
class Raised:
    """An exception, as far as it is compared."""

    kind: str
    text: str
    call: str | None
    code: int | None


def tolerated(code: int, occurrence: int) -> str:
    """For calls that no answer depends on."""
    return RIGHT


def tolerated_for(*codes: int) -> Callable[[int, int], str]:
    """For calls whose answer is a right one at these codes."""
    return lambda code, occurrence: RIGHT if code in codes else ERROR


class FaultControl:
    """The faults and the counts of the simulated driver in this process."""

    def __init__(self, abi: str) -> None:
        self._file = {"cu": "libcuda.so.1", "hg": "libhggc.so"}[abi]

    def _library(self) -> ctypes.CDLL | None:
        try:
            return ctypes.CDLL(self._file, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        except OSError:
            return None

    def order(self, orders: str) -> None:
        """Replaces the faults, also for a driver that is not mapped yet."""
        os.environ["FLAGTREE_SIM_FAULTS"] = orders
        library = self._library()
        if library is not None:
            library.flagtree_sim_set_faults(orders.encode())

    def count(self, symbol: str) -> int:
        """How often this process has made a call."""
        library = self._library()
        if library is None:
            return 0
        library.flagtree_sim_call_count.restype = ctypes.c_longlong
        return int(library.flagtree_sim_call_count(symbol.encode()))


def outcome(act: Callable[[], Any]) -> Any:
    """What `act` answers, or what it raised."""
    try:
        return act()
    except Exception as error:
        return Raised(
            type(error).__name__,
            str(error),
            getattr(error, "call", None),
            getattr(error, "code", None),
        )


class Sweep:
    """One scenario, met by every error of one call."""

    def __init__(self, abi: str, call: str, scenario: Scenario) -> None:
        self.symbol = abi + call
        self.call = call
        self.scenario = scenario
        self.control = FaultControl(abi)

    def run(self) -> list[list[Any]]:
        """Plays all cases; answers [process, symbol, number of the call, code] for each."""
        cases = self._cases()
        if self.scenario.fresh:
            right = in_child(lambda: self._right(self.scenario.prepare()))
            return [self._play_in_child(right, *case) for case in cases]
        act = self.scenario.prepare()
        right = self._right(act)
        return [self._play(act, right, *case) for case in cases]

    def _cases(self) -> list[tuple[int, int]]:
        generator = random.Random(f"{self.call} 20261130")
        return [
            (code, occurrence)
            for code in CODES
            for occurrence in (1, 2, generator.randint(3, 9))
            if occurrence <= self.scenario.occurrences
        ]

    def _right(self, act: Callable[[], Any]) -> Any:
        right = outcome(act)
        assert not isinstance(right, Raised), right
        return right

    def _play_in_child(self, right: Any, code: int, occurrence: int) -> Any:
        return in_child(lambda: self._play(self.scenario.prepare(), right, code, occurrence))

    def _play(self, act: Callable[[], Any], right: Any, code: int, occurrence: int) -> list[Any]:
        done = self.control.count(self.symbol)
        target = done + occurrence
        first = done + 1 if self.scenario.lasting else target
        self.control.order(f"{self.symbol}@{first}-{target}={code}")
        outcomes: list[Any] = []
        while self.control.count(self.symbol) < target:
            assert len(outcomes) < MOST_ACTS, f"{self.symbol} is not called"
            outcomes.append(outcome(act))
        self.control.order("")
        *before, met = outcomes
        where = f"{self.symbol} answers {code} at occurrence {occurrence}:"
        for earlier in before:
            found = self._judge(earlier, right, code)
            assert found in ((RIGHT, ERROR) if self.scenario.lasting else (RIGHT,)), (
                f"{where} before it {earlier}, right is {right}"
            )
        expected = self.scenario.expect(code, occurrence)
        assert self._judge(met, right, code) in (
            (RIGHT, ERROR) if expected == EITHER else (expected,)
        ), f"{where} {met}, right is {right}"
        after = outcome(act)
        assert after == right, f"{where} afterwards {after}, right is {right}"
        return [os.getpid(), self.symbol, target, code]

    def _judge(self, found: Any, right: Any, code: int) -> str | None:
        if found in (right, self.scenario.excused(right)):
            return RIGHT
        return ERROR if self._names_the_fault(found, code) else None

    def _names_the_fault(self, found: Any, code: int) -> bool:
        if not isinstance(found, Raised):
            return False
        if code in self.scenario.errors:
            kind, part = self.scenario.errors[code]
            return found.kind == kind and part in found.text
        return (
            (found.kind, found.call, found.code) == ("DriverError", self.call, code)
            and self.call in found.text
            and str(code) in found.text
        )


def in_child(act: Callable[[], Any]) -> Any:
    """What `act` answers in a forked child of this process."""
    read, write = os.pipe()

    def body() -> None:
        os.close(read)
        with os.fdopen(write, "wb") as stream:
            pickle.dump(act(), stream)

    status = run_forked(body)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        answer = stream.read()
    if status != 0:
        sys.exit(f"a child ended with status {status}")
    return pickle.loads(answer)
