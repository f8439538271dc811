"""Which tool chain makes the binary, and why.

Two exist: T-Head's PPU SDK (`ppu-llc` and `llvm-irformatter`), and the CUDA-compatible one (the
base's `ptxas`). This module finds the SDK, reads its version once per file, chooses, and can
explain the choice. It starts `ppu-llc --version` and nothing else, and never asks the driver.
The stages that use the SDK are in sdk_compiler.py; how a tool is run is in tools.py.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from triton.backends.ppu import knobs
from triton.backends.ppu.tools import ToolchainError, ToolError, private_directory, run_tool

# Where the SDK's installer puts it.
DEFAULT_SDK_ROOT = "/usr/local/PPU_SDK"
# The first SDK whose assembly grammar wants the opcode prefix `ppu.`; 2.0 aborts on it.
FIRST_PREFIXED_VERSION = (2, 1)
# First line of VERSION.txt in an SDK's root.
SDK_MAGIC = "ppu_sdk_detection_magic"

Kind = Literal["sdk", "cuda"]


class SDKNotFoundError(ToolchainError):
    """The PPU SDK was asked for and is not where it was looked for."""


@dataclass(frozen=True)
class Tool:
    """A program of the SDK: its name, where it is, and what pointed there."""

    name: str
    path: str
    found_by: str


@dataclass(frozen=True)
class SDKVersion:
    """What `ppu-llc --version` says: its whole text and the numbers in it."""

    text: str
    numbers: tuple[int, ...]

    @property
    def dialect(self) -> Literal["2.0", "2.1"]:
        """The assembly grammar this SDK reads: `2.1` wants opcodes prefixed, `2.0` refuses that."""
        return "2.1" if self.numbers >= FIRST_PREFIXED_VERSION else "2.0"

    def __str__(self) -> str:
        return ".".join(map(str, self.numbers))


@dataclass(frozen=True)
class SDK:
    """A PPU SDK of which both tools were found."""

    llc: Tool
    formatter: Tool

    @property
    def version(self) -> SDKVersion:
        """The version, read from the tool the first time and kept.

        Raises:
            ToolchainError: the tool failed, or its answer holds no version.
        """
        return _read_version(self.llc.path, _identity(self.llc.path))

    def fingerprint(self) -> str:
        """What tells this SDK's results from another's: version text and both files' contents."""
        parts = [self.version.text]
        for tool in (self.llc, self.formatter):
            parts.append(_content_hash(tool.path, _identity(tool.path)))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@dataclass(frozen=True)
class Search:
    """The outcome of looking for the SDK.

    Attributes:
        sdk: what was found, or None.
        looked: one line per place, saying what named it and what is there.
        mistakes: the lines among them that are a user's explicit path with nothing there.
    """

    sdk: SDK | None
    looked: tuple[str, ...]
    mistakes: tuple[str, ...]


@dataclass(frozen=True)
class Toolchain:
    """The tool chain in use: its kind, a sentence that says why, and the SDK if it is that."""

    kind: Kind
    reason: str
    sdk: SDK | None
    looked: tuple[str, ...]


def find_sdk() -> Search:
    """Looks for the SDK's two tools and says where it looked.

    For each tool: the variable that names the tool itself (`TRITON_PPU_LLC_PATH`,
    `TRITON_IR_FORMATTER_PATH`); then `bin/` below `PPU_SDK`, `PPU_HOME` and the installer's
    default place. A variable that names a tool is final: what it names is used or is a mistake.
    """
    settings = knobs.active()
    looked: list[str] = []
    mistakes: list[str] = []
    llc = _find_tool("ppu-llc", "TRITON_PPU_LLC_PATH", settings.llc_path, looked, mistakes)
    formatter = _find_tool(
        "llvm-irformatter",
        "TRITON_IR_FORMATTER_PATH",
        settings.ir_formatter_path,
        looked,
        mistakes,
    )
    sdk = SDK(llc, formatter) if llc is not None and formatter is not None else None
    return Search(sdk, tuple(looked), tuple(mistakes))


def choose(capability: int, supported: bool = True) -> Toolchain:
    """Chooses the tool chain for a target, from `TRITON_PPU_TOOLCHAIN` and what is installed.

    Args:
        capability: the target's compute capability, ten times major plus minor.
        supported: whether the target is a PPU's, which is all that the SDK compiles for.

    Raises:
        ValueError: the variable's value is unknown.
        ToolchainError: the SDK is asked for and is not there or does not serve this target, or a
            variable names a tool that is not there.
    """
    wanted = knobs.active().toolchain
    if wanted == "cuda":
        return Toolchain("cuda", "TRITON_PPU_TOOLCHAIN=cuda asks for it", None, ())
    search = find_sdk()
    if search.mistakes:
        raise SDKNotFoundError(_not_found(search.mistakes, wanted))
    if wanted == "sdk":
        if search.sdk is None:
            raise SDKNotFoundError(_not_found(search.looked, wanted))
        if not supported:
            raise ToolchainError(
                f"TRITON_PPU_TOOLCHAIN=sdk: the PPU SDK does not compile for compute capability "
                f"{capability / 10:.1f}; set TRITON_PPU_TOOLCHAIN=cuda for this target"
            )
        return Toolchain("sdk", "TRITON_PPU_TOOLCHAIN=sdk asks for it", search.sdk, search.looked)
    if search.sdk is None:
        return Toolchain("cuda", "no PPU SDK found, and none is asked for", None, search.looked)
    if not supported:
        return Toolchain(
            "cuda",
            f"a PPU SDK is there, but does not compile for compute capability "
            f"{capability / 10:.1f}",
            None,
            search.looked,
        )
    return Toolchain("sdk", f"found by {search.sdk.llc.found_by}", search.sdk, search.looked)


def _find_tool(
    name: str, variable: str, value: str | None, looked: list[str], mistakes: list[str]
) -> Tool | None:
    """Finds one tool; appends a line to `looked` for each place that does not have it."""
    if value:
        # Tools run in a directory of their own, where a relative path would mean something else.
        value = os.path.abspath(value)
        problem = _problem(Path(value))
        if problem is None:
            looked.append(f"{name}: {value} (from {variable})")
            return Tool(name, value, variable)
        line = f"{name}: {value} (from {variable}) {problem}"
        looked.append(line)
        mistakes.append(line)
        return None
    roots = [
        ("PPU_SDK", knobs.active().sdk),
        ("PPU_HOME", knobs.active().sdk_home),
        ("the default place", DEFAULT_SDK_ROOT),
    ]
    for source, root in roots:
        if not root:
            looked.append(f"{name}: {source} is not set")
            continue
        path = Path(os.path.abspath(root)) / "bin" / name
        problem = _problem(path)
        if problem is None:
            looked.append(f"{name}: {path} (from {source})")
            return Tool(name, str(path), source)
        looked.append(f"{name}: {path} (from {source}) {problem}")
    return None


def _problem(path: Path) -> str | None:
    """Why `path` is no program that can be run, or None."""
    try:
        if not path.exists():
            return "does not exist"
        if not path.is_file():
            return "is not a file"
    except OSError as reason:
        return f"cannot be looked at: {reason.strerror}"
    return None if os.access(path, os.X_OK) else "is not executable"


def _not_found(lines: tuple[str, ...], wanted: str) -> str:
    places = "\n".join(f"  {line}" for line in lines)
    return (
        f"the PPU SDK's compiler was not found (TRITON_PPU_TOOLCHAIN={wanted}). Looked for:\n"
        f"{places}\n"
        "Set PPU_SDK to the SDK's root directory, or TRITON_PPU_LLC_PATH and "
        "TRITON_IR_FORMATTER_PATH to the two programs, or TRITON_PPU_TOOLCHAIN=cuda to use the "
        "CUDA-compatible tool chain"
    )


def _identity(path: str) -> tuple[int, int, int, int]:
    """What changes when the file at `path` is replaced: device, inode, size, time of change."""
    status = os.stat(path)
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


@functools.lru_cache(maxsize=16)
def _read_version(path: str, _identity: tuple[int, int, int, int]) -> SDKVersion:
    with private_directory() as directory:
        completed = run_tool(
            [path, "--version"],
            directory=directory,
            timeout=knobs.active().tool_timeout or None,
            error=ToolError,
            keep=False,
        )
    text = (completed.stdout.strip() or completed.stderr.strip())[:2000]
    match = re.search(r"\bppu version:?\s*v?(\d+(?:\.\d+)+)", text)
    if match is None:
        raise ToolchainError(
            f"{path} --version does not say `ppu version: N.N`; it says:\n{text or '(nothing)'}\n"
            "Is this the PPU SDK's ppu-llc?"
        )
    return SDKVersion(text, tuple(int(part) for part in match.group(1).split(".")))


@functools.lru_cache(maxsize=16)
def _content_hash(path: str, _identity: tuple[int, int, int, int]) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
