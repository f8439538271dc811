"""Brings the hint comments of a kernel to the operations made from their lines.

`HintCodeGenerator` replaces the base's `CodeGenerator` for functions whose source holds a hint, and
only for those (the seam is ``triton._flagtree_spec.install_code_generator``).  It knows which
statement a hint belongs to and whether that statement was generated; what a hint means is asked
of the backend's handler through `hint_trigger`, with these hooks:

``hint_mode()``
    ``"off"``, ``"warn"`` or ``"error"``.
``hint_parse(source)``
    the hints and the problems that the parser finds in UTF-8 encoded source.
``hint_check(hint)``
    why the hint can never be obeyed (its name or its value), or None.
``hint_subject(hint)``
    what the hint is for, in words.
``hint_loop(generator, node, hints)``
    called before a ``for`` is generated; returns the node to generate instead.
``hint_call(generator, hints, function, arguments, keywords)``
    called before a builtin such as ``tl.load`` is; may change `keywords`.
``hint_result(generator, hints, function, arguments, keywords, result)``
    called with what the builtin returned; may set attributes on it.

A hook that obeys a hint calls its `apply`; one that finds that it cannot be obeyed there says why
with its `refuse`, or with `misfit` where another operation of the same statement may well obey it.
"""

# mypy: disable-error-code="no-untyped-call"
# The base's code generator has no types.
from __future__ import annotations

import ast
import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any

from triton.compiler import code_generator
from triton.compiler.hint_diagnostics import HintDiagnostic, HintPlace, report
from triton.compiler.hint_manager import hint_trigger

__all__ = ["HintCodeGenerator", "SourceHint", "reporting", "wanted"]

# What every hint comment contains (HintParser.h says the same, and a test that they agree).
MARKER = "@hint"


def wanted(function: Any) -> bool:
    """Whether the jit function's source may hold hints that are to be read."""
    return MARKER in function.src and hint_trigger("hint_mode") in ("warn", "error")


class SourceHint:
    """One ``name[=value]`` of a hint comment, and what became of it."""

    def __init__(self, name: str, value: str | None, place: HintPlace) -> None:
        self.name = name
        self.value = value
        self.place = place
        # Why it can never be obeyed; None for a hint that is well formed and known.
        self.problem: str | None = hint_trigger("hint_check", self)
        # Whether its statement was generated, whether an operation took the hint, and why the
        # operations that came closest did not.
        self.reached = False
        self.applied = False
        self.refusals: list[str] = []
        self.misfits: list[str] = []

    def apply(self) -> None:
        """An operation obeys the hint."""
        self.applied = True

    def refuse(self, why: str) -> None:
        """An operation that the hint is for cannot obey it, because `why`."""
        if why not in self.refusals:
            self.refusals.append(why)

    def misfit(self, why: str) -> None:
        """An operation of the statement does not take the hint; another one of it may."""
        if why not in self.misfits:
            self.misfits.append(why)

    def message(self) -> str | None:
        """What there is to say when the kernel has been generated; None where nothing."""
        if self.problem is not None:
            return self.problem
        if self.refusals:
            return f"hint '{self.name}' does not apply here: {'; '.join(self.refusals)}"
        if self.reached and not self.applied:
            return f"hint '{self.name}' does not apply here: {self._why_not()}"
        return None

    def _why_not(self) -> str:
        if self.misfits:
            return "; ".join(self.misfits)
        subject = hint_trigger("hint_subject", self)
        return f"this statement makes no {subject}" if subject else "nothing here obeys it"


class HintSession:
    """What is known of all hints of one kernel, its callees included."""

    def __init__(self) -> None:
        self.hints: list[SourceHint] = []
        self.problems: list[HintDiagnostic] = []

    def diagnostics(self) -> Iterator[HintDiagnostic]:
        """In the order of the source, function by function."""
        yield from self.problems
        # A function is generated once per signature, so one place may have several records: it
        # is satisfied where any of them is.
        satisfied = {hint.place for hint in self.hints if hint.applied}
        for hint in self.hints:
            message = hint.message()
            if message is not None and (hint.refusals or hint.place not in satisfied):
                yield HintDiagnostic(hint.place, message)


_session: contextvars.ContextVar[HintSession | None] = contextvars.ContextVar(
    "flagtree_hint_session", default=None
)


@contextlib.contextmanager
def reporting() -> Iterator[None]:
    """While a kernel is generated: collects what there is to say of its hints, then says it."""
    token = _session.set(None)
    try:
        yield
        session = _session.get()
    finally:
        _session.reset(token)
    if session is not None:
        report(session.diagnostics(), as_error=hint_trigger("hint_mode") == "error")


class SourceText:
    """The source that a jit function's syntax tree was parsed from, and where its lines are in
    the file.

    Triton parses the text from ``def`` on with its indentation removed, so a column in it is not
    yet a column in the file.
    """

    def __init__(self, function: Any, file: str, line_before: int) -> None:
        # The line endings that Python's own parser knows, which are not those of splitlines().
        normal = function.src.replace("\r\n", "\n").replace("\r", "\n")
        self.encoded = normal.encode("utf-8", "surrogatepass")
        self.lines = normal.split("\n")
        self.file = file
        self.line_before = line_before
        first = line_before - function.starting_line_number + 1
        raw = [line.rstrip("\r\n") for line in function.raw_src]
        self.raw_lines = raw[first:] if 0 <= first <= len(raw) else []

    def place(self, line: int, column: int, length: int) -> HintPlace:
        """The place in the file of `length` bytes at byte `column` of `line` of the source."""
        text = self.lines[line - 1]
        encoded = text.encode("utf-8", "surrogatepass")

        def characters(piece: bytes) -> int:
            return len(piece.decode("utf-8", "replace"))

        before = characters(encoded[:column])
        width = characters(encoded[column : column + length])
        if line <= len(self.raw_lines) and self.raw_lines[line - 1].endswith(text):
            raw = self.raw_lines[line - 1]
            before += len(raw) - len(text)
            text = raw
        return HintPlace(self.file, self.line_before + line, before + 1, max(width, 1), text)


class HintCodeGenerator(code_generator.CodeGenerator):
    """The base's code generator, which in addition reads the function's hint comments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # The hints of the statement being generated, and per line of the source.
        self.statement_hints: list[SourceHint] = []
        self.line_hints: dict[int, list[SourceHint]] = {}
        # The ``num_stages`` of the loops around the statement being generated, None where a
        # loop does not say.
        self.loop_stages: list[int | None] = []
        session = _session.get()
        if session is None:
            session = HintSession()
            _session.set(session)
        self._read_hints(session)

    def _read_hints(self, session: HintSession) -> None:
        source = SourceText(self.jit_fn, self.file_name or "", self.begin_line)
        hints, problems = hint_trigger("hint_parse", source.encoded)
        for problem in problems:
            where = source.place(problem.range.line, problem.range.column, problem.range.length)
            session.problems.append(HintDiagnostic(where, f"malformed hint: {problem.message}"))
        for parsed in hints:
            where = source.place(parsed.range.line, parsed.range.column, parsed.range.length)
            hint = SourceHint(parsed.name, parsed.value, where)
            session.hints.append(hint)
            if hint.problem is not None:
                continue
            if parsed.statement is None:
                hint.problem = (
                    f"hint '{hint.name}' belongs to no statement: it must stand on a line of the "
                    "statement it is for, not between statements"
                )
                continue
            first, last = parsed.statement
            known = self.line_hints.setdefault(first, [])
            if any(other.name == hint.name for other in known):
                hint.problem = f"hint '{hint.name}' is given twice for this statement"
                continue
            known.append(hint)
            for line in range(first + 1, last + 1):
                self.line_hints[line] = known

    def visit(self, node: Any) -> Any:
        if not isinstance(node, ast.stmt):
            return super().visit(node)
        outer = self.statement_hints
        self.statement_hints = self.line_hints.get(getattr(node, "lineno", 0), [])
        try:
            for hint in self.statement_hints:
                hint.reached = True
            return super().visit(node)
        finally:
            self.statement_hints = outer

    def visit_For(self, node: ast.For) -> Any:
        if self.statement_hints:
            node = hint_trigger("hint_loop", self, node, self.statement_hints) or node
        self.loop_stages.append(self._stages_of(node))
        try:
            return super().visit_For(node)
        finally:
            self.loop_stages.pop()

    def _stages_of(self, node: ast.For) -> int | None:
        for keyword in getattr(node.iter, "keywords", ()):
            if keyword.arg == "num_stages":
                value = self.visit(keyword.value)
                value = getattr(value, "value", value)
                return value if isinstance(value, int) else None
        return None

    def call_Function(self, node: Any, fn: Any, args: Any, kws: Any) -> Any:
        hints = self.statement_hints
        if not hints:
            return super().call_Function(node, fn, args, kws)
        hint_trigger("hint_call", self, hints, fn, args, kws)
        result = super().call_Function(node, fn, args, kws)
        hint_trigger("hint_result", self, hints, fn, args, kws, result)
        return result
