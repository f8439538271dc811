"""The grammar of the PPU's inline assembly, as the fake ppu-llc checks it.

Written from the public facts alone and apart from lib/TIX, so that each checks the other: PTX's
grammar and operand syntax, each opcode with the prefix `ppu.` from SDK 2.1 on and without it
before. It judges form, not which instructions exist.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"""
      (?P<space>\s+|//[^\n]*|/\*.*?\*/)
    | (?P<string>"[^"]*")
    | (?P<number>0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|0[xX][0-9a-fA-F]+|\d+(?:\.\d+)?[uU]?)
    | (?P<reference>\$\{\d*:?[a-z]*\}|\$\d+)
    | (?P<word>[.]?(?:[A-Za-z_%]|\$\$|\$\{:[a-z]+\})(?:[\w.]|::|\$\$|\$\{:[a-z]+\})*(?:<\d+>)?)
    | (?P<mark>[;,{}\[\]()|+\-*@!:<>=])
    """,
    re.VERBOSE | re.DOTALL,
)
_OPCODE = re.compile(r"[a-z][a-z0-9_]*(?:(?:\.|::)[A-Za-z0-9_]+)*")
_DIRECTIVES = {".reg", ".local", ".shared", ".param", ".const", ".global", ".align", ".pragma"}
PREFIX = "ppu."


class GrammarError(Exception):
    """The text is not in the language; the message is what a parser would say."""


def unescape(text: str) -> str:
    """The characters of an LLVM IR string: `\\0A` is one."""
    return re.sub(
        r"\\(\\|[0-9A-Fa-f]{2})",
        lambda m: "\\" if m[1] == "\\" else chr(int(m[1], 16)),
        text,
    )


def _tokens(text: str) -> list[tuple[str, str]]:
    found = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise GrammarError(f"token recognition error at: {text[position : position + 20]!r}")
        position = match.end()
        if match.lastgroup != "space":
            found.append((str(match.lastgroup), match.group()))
    return found


class _Parser:
    def __init__(self, text: str, prefixed: bool) -> None:
        self.tokens = _tokens(text)
        self.position = 0
        self.prefixed = prefixed
        self.opcodes: list[str] = []

    def peek(self, ahead: int = 0) -> tuple[str, str]:
        at = self.position + ahead
        return self.tokens[at] if at < len(self.tokens) else ("end", "<EOF>")

    def take(self) -> tuple[str, str]:
        token = self.peek()
        self.position += 1
        return token

    def fail(self, expected: str = "an instruction") -> GrammarError:
        kind, text = self.peek()
        if kind == "word":
            text = text.split(".")[0]
        return GrammarError(f"mismatched input '{text}' expecting {expected}")

    def parse(self) -> list[str]:
        while self.peek()[0] != "end":
            self.statement()
        return self.opcodes

    def statement(self) -> None:
        kind, text = self.peek()
        if text == ";":
            self.take()
        elif text == "{":
            self.take()
            while self.peek()[1] != "}":
                if self.peek()[0] == "end":
                    raise self.fail("'}'")
                self.statement()
            self.take()
        elif kind == "word" and text.startswith("."):
            if text.split("<")[0] not in _DIRECTIVES:
                raise self.fail("a directive")
            while self.peek()[1] != ";":
                if self.take()[0] == "end":
                    raise self.fail("';'")
            self.take()
        elif kind == "word" and self.peek(1)[1] == ":":
            self.take()
            self.take()
        else:
            self.instruction()

    def instruction(self) -> None:
        if self.peek()[1] == "@":
            self.take()
            if self.peek()[1] == "!":
                self.take()
            if self.peek()[0] not in ("word", "reference"):
                raise self.fail("a predicate")
            self.take()
        kind, text = self.peek()
        if kind != "word":
            raise self.fail()
        if self.prefixed:
            if not text.startswith(PREFIX):
                raise self.fail(f"'{PREFIX}'")
            text = text[len(PREFIX) :]
        elif text.startswith(PREFIX):
            raise self.fail()
        if _OPCODE.fullmatch(text) is None:
            raise self.fail("an opcode")
        self.opcodes.append(text)
        self.take()
        if self.peek()[1] != ";" and self.peek()[0] != "end":
            self.operand()
            while self.peek()[1] in (",", "|"):
                self.take()
                self.operand()
        if self.peek()[1] == ";":
            self.take()
        elif self.peek()[0] != "end":
            raise self.fail("';'")

    def operand(self) -> None:
        closing = {"{": "}", "[": "]", "(": ")"}.get(self.peek()[1])
        if closing is not None:
            self.take()
            if self.peek()[1] != closing:
                self.expression()
                while self.peek()[1] == ",":
                    self.take()
                    self.expression()
            if self.take()[1] != closing:
                self.position -= 1
                raise self.fail(f"'{closing}'")
        else:
            self.expression()

    def expression(self) -> None:
        if self.peek()[1] in ("-", "!"):
            self.take()
        if self.peek()[1] in ("{", "["):
            self.operand()
            return
        if self.peek()[0] not in ("word", "reference", "number", "string"):
            raise self.fail("an operand")
        self.take()
        while self.peek()[1] in ("+", "-", "*"):
            self.take()
            if self.peek()[1] == "-":
                self.take()
            if self.peek()[0] not in ("word", "reference", "number"):
                raise self.fail("an operand")
            self.take()


def parse(template: str, prefixed: bool) -> list[str]:
    """Parses one inline-assembly template as it stands in LLVM IR.

    Returns the opcodes, without prefix, in order. Raises `GrammarError`.
    """
    return _Parser(unescape(template), prefixed).parse()
