"""Writes docs/toolchain-table.md: what becomes of each language construct on the PPU SDK's way.

Every construct of language_constructs.py is compiled through the SDK's stages up to the fake SDK of
python/test/fake_sdk, which checks the result by the public facts. The table says accepted, refused
by name, or not a kernel of the language at all.

    python tools/toolchain_table.py [--check] [--only PREFIX]

Run it with the tree installed. `--check` compares with the file instead of writing it. Exit status:
0 if every construct is accepted or refused by name and, with --check, the file is up to date.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
FAKE_SDK = CHECKOUT / "python" / "test" / "fake_sdk"
TABLE = CHECKOUT / "docs" / "toolchain-table.md"

HEAD = """\
# What the PPU SDK's tool chain takes

Written by `tools/toolchain_table.py`; do not edit. Each construct of the language was compiled for
compute capability 8.0 (8.9 where it needs `fp8e4nv`) through `ttir, ttgir, llir, tix, hgbin`, with
the fake SDK of `python/test/fake_sdk` in the place of T-Head's: it parses the module with LLVM and
checks it by what is publicly known about the PPU ([facts and reasons](tix.md)). *Accepted* means
accepted by those checks, not run on a PPU.

*Refused by name* means that the compilation ends with an error that names the instruction and the
line of the kernel. *Not in the language* are conversions that Triton itself refuses, for every
target.
"""


class Unexpected(Exception):
    """A construct that was neither accepted nor refused by name."""


def outcome(construct: Any) -> tuple[str, str]:
    """Compiles one construct; returns its class and, where it is not accepted, the reason."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.backends.ppu.sdk_compiler import UnsupportedError
    from triton.compiler.errors import CompilationError

    needs_newer = "e4nv" in construct.name
    target = GPUTarget("cuda", 89 if needs_newer else 80, 32)
    try:
        kernel = triton.compile(construct.source(), target=target, options=construct.options)
    except UnsupportedError as error:
        reasons = sorted({f"`{d.name}`: {d.reason}" for d in error.diagnostics})
        return "refused by name", "; ".join(reasons)
    except CompilationError as error:
        # The last line of Triton's message is the reason, the lines before it the kernel.
        return "not in the language", first_words(error.error_message or str(error.__cause__))
    except RuntimeError as error:
        if "PassManager::run failed" in str(error):
            return "not in the language", "the base has no such conversion"
        raise Unexpected(f"{construct.title}: {error}") from error
    if not kernel.asm["hgbin"].startswith(b"\x7fHGBIN"):
        raise Unexpected(f"{construct.title}: the fake SDK's container is missing")
    return "accepted", ""


def first_words(text: str) -> str:
    """A reason as one short line without what differs between machines."""
    line = next((line for line in reversed(text.splitlines()) if line.strip(" ^")), "")
    line = re.sub(r"\[constexpr\[\d+\]\]|<\['\d+'\], (\w+)>", r"\1", line)
    return line.strip()[:120]


def render(rows: list[tuple[str, str, str, str]]) -> str:
    """The page: a summary by group, then one table for each group."""
    groups: dict[str, list[tuple[str, str, str]]] = {}
    for group, name, result, reason in rows:
        groups.setdefault(group, []).append((name, result, reason))
    classes = ("accepted", "refused by name", "not in the language")
    lines = [HEAD, "| group | " + " | ".join(classes) + " |", "| --- | ---: | ---: | ---: |"]
    for group, entries in groups.items():
        counts = [str(sum(result == wanted for _, result, _ in entries)) for wanted in classes]
        lines.append(f"| {group} | " + " | ".join(counts) + " |")
    totals = [str(sum(row[2] == wanted for row in rows)) for wanted in classes]
    lines.append("| **all** | " + " | ".join(totals) + " |")
    for group, entries in groups.items():
        lines += ["", f"## {group}", "", "| construct | result | reason |", "| --- | --- | --- |"]
        for name, result, reason in entries:
            safe = reason.replace("|", "\\|")
            lines.append(f"| {name} | {result} | {safe} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Makes the table; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    parser.add_argument("--only", metavar="PREFIX", help="only titles that begin like this; prints")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="flagtree-table-") as directory:
        os.environ["PPU_SDK"] = str(FAKE_SDK)
        os.environ["TRITON_PPU_TOOLCHAIN"] = "sdk"
        os.environ["TRITON_CACHE_DIR"] = directory
        os.environ["MLIR_DISABLE_MULTITHREADING"] = "1"
        sys.path[:0] = [str(CHECKOUT / "tools"), str(FAKE_SDK)]
        import language_constructs
        from module_rules import find_llvm_as

        if find_llvm_as() is None:
            print("no llvm-as of version 20 or later, so the IR itself would not be checked")
            return 1
        rows = []
        for construct in language_constructs.constructs():
            if options.only and not construct.title.startswith(options.only):
                continue
            result, reason = outcome(construct)
            rows.append((construct.group, construct.name, result, reason))
    text = render(rows)
    if options.only:
        print(text[len(HEAD) :])
        return 0
    if options.check:
        current = TABLE.read_text(encoding="utf-8") if TABLE.exists() else ""
        if current != text:
            print(f"{TABLE} is not up to date; run {Path(__file__).name}")
            return 1
        return 0
    TABLE.write_text(text, encoding="utf-8")
    print(f"{len(rows)} constructs written to {TABLE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
