"""What the fake ppu-llc demands of a module, from the public facts about the PPU's LLVM IR.

Checks are textual and independent of lib/TIX; that the text is LLVM IR at all is checked with an
LLVM of the distribution where one new enough for this Triton's IR is installed.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess

import tix_grammar

DATA_LAYOUT = (
    "e-p:64:64-p1:64:64-p2:32:32-p3:32:32-p4:64:64-p5:32:32-p6:32:32-i64:64-f16:16-f32:32-"
    "v16:16-v32:32-n16:32:64"
)
# Triton 3.6 prints the IR of LLVM 22; older readers know its grammar from this version on.
OLDEST_LLVM = 20

# What an SDK's LLVM, older than the one Triton is built with, does not know; llvm-irformatter
# takes it out.
_NEWER_WORDS = re.compile(r"\b(?:captures\(none\)|samesign|nneg|disjoint)(?:\s+|(?=[,)]))")
_STRING = re.compile(r'"[^"]*"')
_ASSEMBLY = re.compile(
    r'\basm(?: sideeffect| alignstack| inteldialect| unwind)* "(?P<text>[^"]*)", "(?P<cons>[^"]*)"'
)
_UNSELECTABLE = re.compile(
    r"@llvm\.nvvm\.(?:w?mma|wgmma|tcgen05|ldmatrix|stmatrix|cp\.async|mbarrier|barrier\.cluster|"
    r"mapa|fence\.proxy|griddepcontrol|setmaxnreg|elect)\b[\w.]*"
)


class ModuleError(Exception):
    """The module is not what the PPU's compiler reads."""


class AbortError(Exception):
    """The module makes the PPU's compiler abort, as SDK 2.0 does on a prefix."""


def find_llvm_as() -> str | None:
    """The newest `llvm-as` of at least `OLDEST_LLVM`, or None."""
    found = []
    for path in glob.glob("/usr/lib/llvm-*/bin/llvm-as"):
        match = re.search(r"llvm-(\d+)/", path)
        if match and int(match[1]) >= OLDEST_LLVM:
            found.append((int(match[1]), path))
    if found:
        return max(found)[1]
    for version in range(40, OLDEST_LLVM - 1, -1):
        path = shutil.which(f"llvm-as-{version}")
        if path:
            return path
    return None


def parse_with_llvm(path: str) -> None:
    """Parses and verifies the module with LLVM. Raises `ModuleError` with LLVM's message."""
    tool = find_llvm_as()
    if tool is None:
        return
    done = subprocess.run(
        [tool, path, "-o", os.devnull], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise ModuleError(done.stderr.strip())


def outside_strings(text: str, change: re.Pattern[str]) -> str:
    """Removes what `change` matches from everything but the strings of `text`."""
    pieces = []
    position = 0
    for string in _STRING.finditer(text):
        pieces.append(change.sub("", text[position : string.start()]))
        pieces.append(string.group())
        position = string.end()
    pieces.append(change.sub("", text[position:]))
    return "".join(pieces)


def formatted(text: str) -> str:
    """The module in the dialect of the SDK's LLVM."""
    return outside_strings(text, _NEWER_WORDS)


def check(text: str, prefixed: bool) -> dict[str, dict[str, int]]:
    """Checks a module that is said to be for the PPU.

    Args:
        text: the module.
        prefixed: whether opcodes carry the prefix, as from SDK 2.1 on.

    Returns:
        For each kernel its threads per block and its bytes of shared memory.

    Raises:
        ModuleError: with the message that ppu-llc would print.
        AbortError: as above, where it would abort.
    """
    bare = _STRING.sub('""', text)
    match = _NEWER_WORDS.search(bare)
    if match:
        raise ModuleError(f"expected type, found '{match.group().strip()}'")
    if re.search(r"^target triple", text, re.MULTILINE):
        raise ModuleError("target triple is set; it must not be")
    layout = re.search(r'^target datalayout = "([^"]*)"', text, re.MULTILINE)
    if layout is None or layout[1] != DATA_LAYOUT:
        raise ModuleError(f"data layout is {layout[1] if layout else 'missing'}")
    flag = re.search(r'^!(\d+) = !\{i32 4, !"nvvm-reflect-ftz", i32 [01]\}', text, re.MULTILINE)
    flags = re.search(r"^!llvm\.module\.flags = !\{(.*)\}", text, re.MULTILINE)
    if not flag or not flags or f"!{flag[1]}" not in flags[1].split(", "):
        raise ModuleError("module flag nvvm-reflect-ftz is missing")
    _check_assembly(text, prefixed)
    for line in text.splitlines():
        if not line.startswith("declare"):
            unselectable = _UNSELECTABLE.search(_STRING.sub('""', line))
            if unselectable:
                raise ModuleError(f"cannot select intrinsic {unselectable.group()}")
    return _annotations(text)


def _check_assembly(text: str, prefixed: bool) -> None:
    for line in text.splitlines():
        if line.startswith(("!", ";")):
            continue
        for match in _ASSEMBLY.finditer(line):
            for constraint in match["cons"].split(","):
                if not re.fullmatch(r"[=+&]*(?:[rlchfdbni]|\d+)|~\{\w+\}|", constraint):
                    raise ModuleError(f"unknown constraint '{constraint}'")
            try:
                tix_grammar.parse(match["text"], prefixed)
            except tix_grammar.GrammarError as error:
                kind = ModuleError if prefixed else AbortError
                raise kind(f"TIX: {error}") from None


def _annotations(text: str) -> dict[str, dict[str, int]]:
    kernels: dict[str, dict[str, int]] = {}
    for match in re.finditer(r'^define [^@]*\bptx_kernel\b[^@]*@("[^"]*"|[\w.$-]+)\(', text, re.M):
        kernels[match[1]] = {}
    if not kernels:
        raise ModuleError("no kernel in the module")
    named = re.search(r"^!nvvm\.annotations = !\{(.*)\}", text, re.MULTILINE)
    listed = named[1].split(", ") if named else []
    pattern = r'^(!\d+) = !\{ptr @("[^"]*"|[\w.$-]+), !"(reqntidx|smemsize)", i32 (\d+)\}'
    for match in re.finditer(pattern, text, re.MULTILINE):
        if match[1] in listed and match[2] in kernels:
            if match[3] in kernels[match[2]]:
                raise ModuleError(f"kernel {match[2]} has two annotations {match[3]}")
            kernels[match[2]][match[3]] = int(match[4])
    for name, values in kernels.items():
        for key in ("reqntidx", "smemsize"):
            if key not in values:
                raise ModuleError(f"kernel {name} has no annotation {key}")
        if not 1 <= values["reqntidx"] <= 1024 or values["reqntidx"] % 32:
            raise ModuleError(f"kernel {name}: reqntidx is {values['reqntidx']}")
    return kernels
