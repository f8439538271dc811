"""The log of driver calls: one line per call, read into ``Call`` objects."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Call:
    """One driver call.

    Attributes:
        pid: process that called.
        tid: thread that called.
        time: monotonic clock at the call's start, in nanoseconds.
        name: symbol, for example ``cuDeviceGet`` or ``nvmlInit_v2``.
        result: the number the call answered, or ``"hang"``, ``"abort"``,
            ``"segv"`` where a fault on order ended it.
        detail: what the call adds, by word (``kernel``, ``grid``, ``params``, ...).
    """

    pid: int
    tid: int
    time: int
    name: str
    result: int | str
    detail: dict[str, str] = field(default_factory=dict)

    def triple(self, word: str) -> tuple[int, int, int]:
        """A detail of three numbers: ``grid`` or ``block`` of a launch."""
        x, y, z = (int(number) for number in self.detail[word].split(","))
        return x, y, z

    @property
    def parameters(self) -> list[bytes]:
        """The kernel parameters of a launch, each as the kernel would read it."""
        text = self.detail.get("params", "")
        return [bytes.fromhex(part) for part in text.split(",")] if text else []

    @property
    def attributes(self) -> dict[int, bytes]:
        """The launch attributes: identifier to the bytes of its value."""
        text = self.detail.get("attributes", "")
        pairs = (part.split(":") for part in text.split(";") if part)
        return {int(number): bytes.fromhex(value) for number, value in pairs}


def parse_line(line: str) -> Call:
    """Reads one line; a malformed line is a ``ValueError`` that shows it."""
    words = line.split()
    if len(words) < 5:
        raise ValueError(f"not a line of a simulator log: {line!r}")
    result: int | str = words[4] if words[4].isalpha() else int(words[4])
    detail = dict(word.partition("=")[::2] for word in words[5:])
    return Call(int(words[0]), int(words[1]), int(words[2]), words[3], result, detail)


def read_log(path: Path) -> list[Call]:
    """All calls in a log file, in the order they were written; none if it is absent."""
    if not path.exists():
        return []
    return [parse_line(line) for line in path.read_text().splitlines()]
