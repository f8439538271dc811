"""The hint parser finds the same comments on the same logical lines as Python's own tokenizer.

Two sources of source: real files, whose comments are turned into hints, and statements that
hypothesis puts together from what makes tokenizing hard.  Python's tokenizer of the running
version is the judge, so the tests differ a little between versions, as the language does.
"""

from __future__ import annotations

import ast
import io
import sysconfig
import tokenize
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import triton
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from triton.backends.ppu._native import hint

NOTHING = (tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT)


def expected_comments(source: str) -> Iterator[tuple[int, int, str, tuple[int, int] | None]]:
    """Line, byte column, text and logical line of each comment, by Python's tokenizer."""
    # newline=None: the universal line ends that the compiler translates as well.
    lines = io.StringIO(source, newline=None).read().split("\n")
    readline = io.StringIO("\n".join(lines)).readline
    waiting: list[tuple[int, int, str]] = []
    first = None
    for token in tokenize.generate_tokens(readline):
        line, column = token.start
        if token.type == tokenize.COMMENT:
            byte_column = len(lines[line - 1][:column].encode())
            comment = (line, byte_column, token.string)
            if first is None:
                # Until the next token tells, it may stand before a statement only if a
                # continuation joins them, which Python does not allow for comments.
                yield (*comment, None)
            else:
                waiting.append(comment)
        elif token.type == tokenize.NEWLINE:
            assert first is not None
            for comment in waiting:
                yield (*comment, (first, line))
            waiting.clear()
            first = None
        elif token.type not in (*NOTHING, tokenize.ENDMARKER) and first is None:
            first = line


def with_hints(source: str) -> str:
    """`source` with every comment replaced by a hint of an own name."""
    lines = source.split("\n")
    comments = [
        token
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    ]
    for number, token in reversed(list(enumerate(comments))):
        line, column = token.start
        lines[line - 1] = lines[line - 1][:column] + f"# @hint: c{number}=1"
    return "\n".join(lines)


def check(source: str) -> int:
    """Compares the two on `source`; returns how many hints it holds."""
    hints, problems = hint.parse(source.encode())
    found = [(h.range.line, h.range.column, h.name, h.statement) for h in hints]
    expected = [
        # The name follows "# @hint: ".
        (line, column + len("# @hint: "), text[len("# @hint: ") :].partition("=")[0], statement)
        for line, column, text, statement in expected_comments(source)
        if text.startswith("# @hint: ")
    ]
    assert found == sorted(expected)
    assert problems == []
    return len(found)


def real_files() -> list[Path]:
    package = Path(triton.__file__).parent
    library = Path(sysconfig.get_paths()["stdlib"])
    files = [*sorted(package.glob("language/*.py")), *sorted(library.glob("[a-i]*.py"))]
    # Python's own torture tests of its tokenizer, where they are installed.
    names = ("test_fstring", "test_tokenize", "test_grammar", "test_string_literals", "test_syntax")
    return files + [path for name in names for path in library.glob(f"test/{name}.py")]


def test_real_files() -> None:
    hints = files = 0
    for path in real_files():
        try:
            with tokenize.open(path) as file:
                source = with_hints(file.read())
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ast.parse(source)
        except (SyntaxError, UnicodeDecodeError, tokenize.TokenError):
            continue
        hints += check(source)
        files += 1
    assert files > 50
    assert hints > 2000


# --- statements made up by hypothesis -------------------------------------------------------

NAMES = st.sampled_from(["x", "tl", "f", "rb", "über", "変数", "_1", "tr", "u"])
NUMBERS = st.sampled_from(["0", "1", "1.5", "0x1f", "1e3", "1_000", "2j"])
TEXT = st.text(st.sampled_from("ab #@hint:'\"{}\\\t é漢,="), max_size=8)


def escaped(text: str, quote: str) -> str:
    """`text` so that it can stand between `quote`s."""
    return text.replace("\\", "\\\\").replace(quote[0], "\\" + quote[0])


@st.composite
def plain_strings(draw: st.DrawFn) -> str:
    prefix = draw(st.sampled_from(["", "r", "R", "u"]))
    quote = draw(st.sampled_from(["'", '"', "'''", '"""']))
    text = draw(TEXT)
    if prefix in ("r", "R"):
        text = text.replace("\\", "").replace(quote[0], "")
    else:
        text = escaped(text, quote)
        if draw(st.booleans()):
            text += "\\\n# no comment"
    if len(quote) == 3 and draw(st.booleans()):
        text += "\n# no comment either\n"
    return f"{prefix}{quote}{text}{quote}"


@st.composite
def formatted_strings(draw: st.DrawFn) -> str:
    quote = draw(st.sampled_from(["'", '"', "'''", '"""']))
    other = '"' if quote[0] == "'" else "'"
    prefix = draw(st.sampled_from(["f", "F", "rf", "fR"]))
    parts = []
    for _ in range(draw(st.integers(0, 3))):
        text = draw(TEXT).replace("{", "{{").replace("}", "}}").replace("\\", "")
        parts.append(text.replace(quote[0], ""))
        value = draw(
            st.sampled_from(
                ["x", "x + 1", "x != 1", f"d[{other}#{other}]", "(lambda: 1)()", "{1: 2}[1]", "x,"]
            )
        )
        conversion = draw(st.sampled_from(["", "!r", "!s"]))
        spec = draw(st.sampled_from(["", ":>3", ":#x", ":{w}", ":#{w}.{p}f"]))
        parts.append("{ " + value + conversion + spec + "}")
    return f"{prefix}{quote}{''.join(parts)}{quote}"


COMMENTS = st.sampled_from(["", "", "  # @hint: a=1", "# @hint: b=1", "\t# @hint: c=1  # x", "#"])
BREAKS = st.builds(lambda comment: comment + "\n", COMMENTS)


def expressions() -> st.SearchStrategy[str]:
    atoms = st.one_of(NAMES, NUMBERS, plain_strings(), formatted_strings())

    def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        gap = st.one_of(st.sampled_from(["", " "]), BREAKS)
        return st.one_of(
            st.builds(lambda a, b: f"{a} + {b}", inner, inner),
            st.builds(lambda a, b: f"{a} + \\\n {b}", inner, inner),
            st.builds(lambda a, g, b, h: f"f({a},{g} {b}{h})", inner, gap, inner, gap),
            st.builds(lambda a, g, h: f"[{g}{a}{h}]", inner, gap, gap),
            st.builds(lambda a, g, h: f"{{{g}1: {a}{h}}}", inner, gap, gap),
        )

    return st.recursive(atoms, larger, max_leaves=6)


@st.composite
def statements(draw: st.DrawFn, indent: str) -> str:
    kind = draw(st.integers(0, 6))
    comment = draw(COMMENTS)
    value = draw(expressions())
    if kind <= 2:
        return f"{indent}x = {value}{comment}\n"
    if kind == 3:
        return f"{indent}x = {value}; y = {draw(expressions())}{comment}\n"
    if kind == 4:
        return f"{indent}# @hint: between=1\n"
    if kind == 5:
        return draw(st.sampled_from(["\n", "  \n", "\t# @hint: blank=1\n", "\f\n"]))
    header = draw(st.sampled_from(["if", "while"]))
    body = draw(statements(indent + "  ")) + f"{indent}  pass\n"
    return f"{indent}{header} {value}:{comment}\n{body}"


@settings(max_examples=300, deadline=None)
@given(
    st.lists(statements("  "), max_size=6),
    st.sampled_from(["", "@decorated  # @hint: d=1\n"]),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.booleans(),
)
def test_made_up_source(body: list[str], decorator: str, newline: str, last: bool) -> None:
    source = decorator + "def kernel():  # @hint: k=1\n" + "".join(body) + "  pass\n"
    if not last:
        source = source.rstrip("\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(source)
        except SyntaxError:
            assume(False)
    # Python's tokenizer sees translated line ends; a string's continuation is the same either way.
    hints, _ = hint.parse(source.encode())
    check(source)
    other, _ = hint.parse(source.replace("\n", newline).encode())
    assert [(h.name, h.range.line, h.range.column, h.statement) for h in other] == [
        (h.name, h.range.line, h.range.column, h.statement) for h in hints
    ]


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from("\"'frb{}()[]#\\\n\r:!@hint =,aé\0"), max_size=60))
def test_any_text(text: str) -> None:
    """Text that is no Python: whatever is found lies within it."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    hints, problems = hint.parse(text.encode() + b"#@hint: end")
    for found in [*hints, *problems]:
        assert 1 <= found.range.line <= len(lines)
    if not text.rstrip("\r\n").endswith("\\") and not any(c in text for c in "\"'#"):
        assert [h.name for h in hints] == ["end"]


@pytest.mark.parametrize("data", [b"\xff\xfe# @hint: a", b"\x00", b"x # @hint: \xed\xa0\x80", b""])
def test_bytes_that_are_no_text(data: bytes) -> None:
    hints, problems = hint.parse(data)
    assert all(isinstance(problem.message, str) for problem in problems)
    assert len(hints) <= 1
