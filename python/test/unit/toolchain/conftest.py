"""What the tool-chain tests share: the fake SDK, small programs, and ahead-of-time compilation."""

from __future__ import annotations

import importlib
import os
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).resolve().parents[4]
FAKE_SDK = CHECKOUT / "python" / "test" / "fake_sdk"
sys.path[:0] = [str(CHECKOUT / "tools"), str(FAKE_SDK)]

VARIABLES = (
    "PPU_SDK",
    "PPU_HOME",
    "TRITON_PPU_LLC_PATH",
    "TRITON_IR_FORMATTER_PATH",
    "TRITON_PPU_TOOLCHAIN",
    "TRITON_PPU_LLC_OPTIONS",
    "TRITON_PPU_DISABLE_LLC_OPT",
    "TRITON_PPU_DUMP_LLC_LOG",
    "TRITON_PPU_TOOL_TIMEOUT",
    "TRITON_STORE_BINARY_ONLY",
    "TRITON_OVERRIDE_ARCH",
)


@pytest.fixture(autouse=True)
def plain_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own_directories: None
) -> Iterator[None]:
    """No tool-chain variable set, kept inputs below the test's own directory, fresh versions."""
    import tempfile

    from triton.backends.ppu import toolchain

    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setattr(toolchain, "DEFAULT_SDK_ROOT", str(tmp_path / "no-sdk-installed"))
    toolchain._read_version.cache_clear()
    yield
    toolchain._read_version.cache_clear()


@pytest.fixture
def sdk(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The fake SDK, found by `PPU_SDK`; returns its root."""
    monkeypatch.setenv("PPU_SDK", str(FAKE_SDK))
    return FAKE_SDK


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., Path]:
    """Makes an executable Python program of the given body; returns its path."""

    def make(name: str, body: str, directory: str = "programs") -> Path:
        path = tmp_path / directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!{sys.executable}\nimport os, signal, sys, time\n{body}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return make


@pytest.fixture
def compile_kernel() -> Callable[..., Any]:
    """Compiles a construct of tools/language_constructs.py by its title."""
    constructs = importlib.import_module("language_constructs")
    table = {construct.title: construct for construct in constructs.constructs()}

    def compile_one(title: str = "demo: softmax", capability: int = 80, **options: Any) -> Any:
        import triton
        from triton.backends.compiler import GPUTarget

        construct = table[title]
        target = GPUTarget("cuda", capability, 32)
        return triton.compile(
            construct.source(), target=target, options={**construct.options, **options}
        )

    return compile_one


def leftovers() -> list[str]:
    """The directories of failed tools that were kept."""
    return sorted(
        name for name in os.listdir(os.environ["TMPDIR"]) if name.startswith("flagtree-ppu-")
    )
