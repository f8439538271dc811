"""What the compiler says about a hint that it cannot obey: the message with file, line and caret,
the warning and the error it is given as, and the rule that every place is warned about once.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass

from triton.errors import TritonError

__all__ = ["HintDiagnostic", "HintError", "HintPlace", "HintWarning", "report"]


class HintWarning(UserWarning):
    """A hint comment that has no effect, and why."""


class HintError(TritonError):
    """The same as an error: ``FLAGTREE_HINTS=error``."""


@dataclass(frozen=True)
class HintPlace:
    """Where a hint stands: `line` of `file` from 1, `column` in characters from 1, its `length`
    in characters, and the `text` of the line."""

    file: str
    line: int
    column: int
    length: int
    text: str

    def excerpt(self) -> str:
        """The line with a caret below the hint.  Tabs stay tabs, so that both lines align."""
        if not self.text:
            return ""
        before = "".join("\t" if c == "\t" else " " for c in self.text[: self.column - 1])
        return f"\n{self.text}\n{before}^{'~' * (self.length - 1)}"


@dataclass(frozen=True)
class HintDiagnostic:
    """One thing to say about one place."""

    place: HintPlace
    message: str

    def __str__(self) -> str:
        place = self.place
        return f"{place.file}:{place.line}:{place.column}: {self.message}{place.excerpt()}"


_said: set[HintDiagnostic] = set()


def report(diagnostics: Iterable[HintDiagnostic], *, as_error: bool) -> None:
    """Warns about each of `diagnostics` that was not warned about before in this process.

    Raises HintError naming all of them where `as_error` is true and there are any.
    """
    found = list(dict.fromkeys(diagnostics))
    if not found:
        return
    if as_error:
        raise HintError("\n".join(str(diagnostic) for diagnostic in found))
    # Without a lock, which a fork in another thread could leave locked in a worker for good: two
    # threads that meet here at worst warn twice.
    fresh = [diagnostic for diagnostic in found if diagnostic not in _said]
    _said.update(fresh)
    for diagnostic in fresh:
        # An own empty registry: once per place is this module's rule, so Python's must not
        # drop a second place on the same line.
        warnings.warn_explicit(
            str(diagnostic), HintWarning, diagnostic.place.file, diagnostic.place.line, registry={}
        )
