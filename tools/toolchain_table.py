"""Writes docs/toolchain-table.md: what becomes of each language construct on the PPU SDK's way.

Every construct of language_constructs.py is compiled through the SDK's stages up to the fake SDK of
python/test/fake_sdk, which checks the result by the public facts. The table says accepted, refused
by name, or not in Triton at all.

    python tools/toolchain_table.py [--check] [--only PREFIX]

Run it with the tree installed. `--check` compares with the file instead of writing it. Exit status:
0 if every construct is accepted or refused by name and, with --check, the file is up to date.
"""

from __future__ import annotations

import argparse
import json
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
line of the kernel. *Not in Triton* are conversions that Triton 3.6.0 itself does not have, with
either tool chain.
"""
NOT_IN_TRITON = "not in Triton"


class Unexpected(Exception):
    """A construct that was neither accepted nor refused by name."""


def compile_construct(construct: Any) -> tuple[str, str]:
    """Compiles one construct; returns its class and, where it is not accepted, the reason."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.backends.ppu.sdk_compiler import UnsupportedError
    from triton.compiler.errors import CompilationError

    target = GPUTarget("cuda", 89 if "e4nv" in construct.name else 80, 32)
    try:
        kernel = triton.compile(construct.source(), target=target, options=construct.options)
    except UnsupportedError as error:
        reasons = sorted({f"`{d.name}`: {d.reason}" for d in error.diagnostics})
        return "refused by name", "; ".join(reasons)
    except CompilationError as error:
        # The last line of Triton's message is the reason, the lines before it the kernel.
        return NOT_IN_TRITON, first_words(error.error_message or str(error.__cause__))
    except RuntimeError as error:
        if "PassManager::run failed" in str(error):
            return NOT_IN_TRITON, "the base's lowering has no such conversion"
        return "failed", str(error)
    if "hgbin" in kernel.asm and not kernel.asm["hgbin"].startswith(b"\x7fHGBIN"):
        return "failed", "the fake SDK's container is missing"
    return "accepted", ""


def in_child(construct: Any, toolchain: str) -> tuple[str, str]:
    """`compile_construct` in a forked process, since the base ends the process for some inputs."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.environ["TRITON_PPU_TOOLCHAIN"] = toolchain
        with open(os.devnull, "w") as null:  # the base prints whole modules on failures
            os.dup2(null.fileno(), 1)
            os.dup2(null.fileno(), 2)
        try:
            answer = compile_construct(construct)
        except Exception as error:
            answer = ("failed", f"{type(error).__name__}: {error}")
        with os.fdopen(writer, "w", encoding="utf-8") as stream:
            json.dump(answer, stream)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as stream:
        text = stream.read()
    os.waitpid(child, 0)
    if not text:
        return NOT_IN_TRITON, "the base's lowering ends the process"
    result, reason = json.loads(text)
    return result, reason


def outcome(construct: Any) -> tuple[str, str]:
    """What becomes of one construct.

    Raises:
        Unexpected: it is not accepted and not refused by name, although the base takes it.
    """
    result, reason = in_child(construct, "sdk")
    if result == "failed":
        raise Unexpected(f"{construct.title}: {reason}")
    if result == NOT_IN_TRITON:
        # What the base's own tool chain takes must not get lost on this one - except what only
        # ptxas refuses, which never is a kernel either.
        base, base_reason = in_child(construct, "cuda")
        if base == "accepted":
            raise Unexpected(f"{construct.title}: {reason}, but it is taken for CUDA")
        if base == "failed" and "ptxas" not in base_reason:
            raise Unexpected(f"{construct.title}: {base_reason}")
    return result, reason


def first_words(text: str) -> str:
    """A reason as one short line without what differs between machines."""
    line = next((line for line in reversed(text.splitlines()) if line.strip(" ^")), "")
    line = re.sub(r"\[constexpr\[\d+\]\]|<\['\d+'\], (\w+)>", r"\1", line)
    return line.strip()[:120] or "an assertion in Triton's own code"


def render(rows: list[tuple[str, str, str, str]]) -> str:
    """The page: a summary by group, then one table for each group."""
    groups: dict[str, list[tuple[str, str, str]]] = {}
    for group, name, result, reason in rows:
        groups.setdefault(group, []).append((name, result, reason))
    classes = ("accepted", "refused by name", NOT_IN_TRITON)
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
        # What every compilation reads once is read here, so that the children have it.
        import triton
        from triton.backends.compiler import GPUTarget
        from triton.runtime.cache import triton_key

        triton_key()
        for capability in (80, 89):
            triton.compiler.make_backend(GPUTarget("cuda", capability, 32)).hash()
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
