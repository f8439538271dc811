"""Undoing the rewriting gives the input's code back, byte for byte after assembly."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import language_constructs
import pytest

Compile = Callable[..., Any]
CONSTRUCTS = [construct.title for construct in language_constructs.constructs()]
# A few of each kind for every run; all of them with the marker `slow`.
SAMPLE = [
    title
    for title in CONSTRUCTS
    if re.match(
        "demo|debug|inline assembly|load: cache default|store: cache .cs, no|atomic: cas i32 acq|"
        "reduce: argmax fp16|scan: assoc|sort: i16 asc|shape|random: randn|math: .*fp64|"
        "libdevice: (sin|pow|lgamma) |dot: (fp16 to fp32|i8|scaled)|convert: float32 to float8e5",
        title,
    )
]
REFUSED = ("mma.sync", "cp.async", "grid dependency")


def capability_for(title: str) -> int:
    """What a construct is compiled for: 8.9 where it needs the type fp8e4nv, else 8.0."""
    return 89 if "e4nv" in title else 80


def ptx_of(llir: str, capability: int) -> str:
    """PTX of an LLVM module, as the base's CUDA stage makes it."""
    from triton._C.libtriton import llvm

    llvm.init_targets()
    chip, flags = f"sm_{capability}", ["nvptx-mad-wide-opt"]
    return str(
        llvm.translate_to_asm(llir, "nvptx64-nvidia-cuda", chip, "+ptx86", flags, True, False)
    )


def cubin_of(ptx: str, directory: Path, capability: int) -> bytes:
    """The base's ptxas over PTX, always under the same name."""
    from triton import knobs

    source, output = directory / "kernel.ptx", directory / "kernel.cubin"
    source.write_text(ptx)
    chip = f"--gpu-name=sm_{capability}"
    command = [knobs.nvidia.ptxas.path, "-lineinfo", chip, source, "-o", output]
    subprocess.run(command, check=True, capture_output=True)
    return output.read_bytes()


def check(title: str, prefixed: bool, compile_kernel: Compile, directory: Path) -> None:
    from triton.backends.ppu._native import tix

    capability = capability_for(title)
    kernel = compile_kernel(title, capability=capability)
    llir = kernel.asm["llir"]
    written = tix.convert(llir, prefixed=prefixed, shared_bytes=kernel.metadata.shared)
    assert [str(diagnostic) for diagnostic in written.diagnostics] == []
    undone = tix.convert(written.text, prefixed=prefixed, undo=True)
    assert [str(diagnostic) for diagnostic in undone.diagnostics] == []
    before, after = ptx_of(llir, capability), ptx_of(undone.text, capability)
    assert after == before
    assert cubin_of(after, directory, capability) == cubin_of(before, directory, capability)
    if prefixed and " asm " in llir:
        assert "ppu." in written.text
    assert "ppu." not in undone.text.replace("triton/backends/ppu", "")


@pytest.mark.parametrize("title", SAMPLE)
def test_undoing_gives_the_same_binary(
    title: str, sdk: Path, compile_kernel: Compile, tmp_path: Path
) -> None:
    if title.endswith(REFUSED):
        pytest.skip("refused by name, see test_stages.py")
    check(title, True, compile_kernel, tmp_path)


def test_undoing_the_older_grammar(sdk: Path, compile_kernel: Compile, tmp_path: Path) -> None:
    check("demo: attention", False, compile_kernel, tmp_path)


def accepted() -> list[str]:
    """The titles that the documented table says are accepted."""
    table = Path(language_constructs.__file__).parents[1] / "docs" / "toolchain-table.md"
    titles = []
    group = ""
    for line in table.read_text().splitlines():
        if line.startswith("## "):
            group = line.removeprefix("## ")
        match = re.match(r"\| (.*) \| accepted \|", line)
        if match and group:
            titles.append(f"{group}: {match[1]}")
    return titles


@pytest.mark.slow
@pytest.mark.parametrize("title", [title for title in accepted() if title not in SAMPLE])
def test_undoing_gives_the_same_binary_for_all(
    title: str, sdk: Path, compile_kernel: Compile, tmp_path: Path
) -> None:
    check(title, True, compile_kernel, tmp_path)
