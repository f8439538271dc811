"""The one error of the build scripts: a message that says what was expected, what was found and
what to do about it."""

from __future__ import annotations


class SetupError(Exception):
    """The build cannot go on.

    Args:
        what: One sentence that says what went wrong.
        expected: What would have been right.
        found: What is there instead.
        to_do: How to get on.
    """

    def __init__(self, what: str, *, expected: str = "", found: str = "", to_do: str = "") -> None:
        lines = [what]
        for label, text in (("expected", expected), ("found", found), ("to do", to_do)):
            if text:
                continuation = "\n" + " " * 13
                lines.append(f"  {label + ':':<10} {continuation.join(text.splitlines())}")
        super().__init__("\n".join(lines))


def note(message: str) -> None:
    """Print one line about the progress of the build."""
    print(f"flagtree: {message}", flush=True)
