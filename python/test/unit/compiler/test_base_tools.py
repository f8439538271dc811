"""The base's command-line tools on this tree: compiling ahead of time, linking, disassembling."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

KERNEL = """
import triton, triton.language as tl

@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)
"""


@pytest.fixture
def tool(run_python: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """Runs `python -m triton.tools.<name>` beside a file with a kernel, in an environment."""
    (tmp_path / "kernel.py").write_text(KERNEL)

    def run(name: str, *arguments: str, env: dict[str, str] | None = None) -> Any:
        code = f"import runpy; runpy.run_module('triton.tools.{name}', run_name='__main__')"
        return run_python(code, env, arguments=arguments)

    return run


def binary_in(source: Path) -> bytes:
    """The binary that a generated C file holds."""
    found = re.search(r"unsigned char \w+\[\d+\] = \{ ([^}]*) \}", source.read_text())
    assert found is not None
    return bytes(int(byte, 16) for byte in found[1].split(", "))


@pytest.mark.parametrize("target", ["cuda:80:32", "cuda:90:32", None])
def test_ahead_of_time(
    target: str | None, tool: Callable[..., Any], tmp_path: Path, simulator: Callable[..., Any]
) -> None:
    """The tool makes a target of the texts between the colons, or takes the current device's."""
    arguments = ["-n", "add", "-s", "*fp32:16,*fp32:16,*fp32:16,i32,128", "-g", "(n+127)/128,1,1"]
    arguments += ["-o", "add", *(["--target", target] if target else []), "kernel.py"]
    tool("compile", *arguments, env=simulator(devices=1).environment())
    (source,) = tmp_path.glob("add.*.c")
    (header,) = tmp_path.glob("add.*.h")
    assert binary_in(source).startswith(b"\x7fELF")
    assert "CUdeviceptr x, CUdeviceptr y, CUdeviceptr out, int32_t n" in header.read_text()
    tool("link", str(header), "-o", "linked")
    assert "add" in (tmp_path / "linked.h").read_text()
    assert (tmp_path / "linked.c").exists()


def test_machine_code_of_a_kernel(run_python: Callable[..., Any]) -> None:
    done = run_python(
        KERNEL
        + """
from triton.backends.compiler import GPUTarget
source = triton.compiler.ASTSource(
    add, {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"},
    {"BLOCK": 128})
print(triton.compile(source, target=GPUTarget("cuda", 80, 32)).asm["sass"])
"""
    )
    assert "FADD" in done.stdout
