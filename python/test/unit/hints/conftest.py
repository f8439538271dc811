"""Makes `hint_testing` importable, and tells what the compiler said about a kernel's hints."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from triton.compiler.hint_diagnostics import HintWarning

sys.path.insert(0, str(Path(__file__).resolve().parent))

from hint_testing import compile_kernel


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The CUDA-compatible tool chain, also on a host that has the PPU SDK; hints as by default."""
    monkeypatch.setenv("TRITON_PPU_TOOLCHAIN", "cuda")
    monkeypatch.delenv("FLAGTREE_HINTS", raising=False)


@pytest.fixture
def warned() -> Callable[..., list[str]]:
    """Compiles a kernel and returns what was warned about its hints."""

    def run(kernel: Any, *args: Any, **kwargs: Any) -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            compile_kernel(kernel, *args, **kwargs)
        return [str(w.message) for w in caught if issubclass(w.category, HintWarning)]

    return run
