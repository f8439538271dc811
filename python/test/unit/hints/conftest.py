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


@pytest.fixture
def warned() -> Callable[..., list[str]]:
    """Compiles a kernel and returns what was warned about its hints."""

    def run(kernel: Any, *args: Any, **kwargs: Any) -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            compile_kernel(kernel, *args, **kwargs)
        return [str(w.message) for w in caught if issubclass(w.category, HintWarning)]

    return run
