"""What the extension module is made of."""

from __future__ import annotations

import shutil
import subprocess

import pytest


def test_it_has_no_use_for_streams() -> None:
    """Where libstdc++ is linked statically, as some distributions' compilers do, the streams of a
    module look the facets of their locale up in another copy of it, and crash the process."""
    from triton._C import ppu

    nm = shutil.which("nm")
    if nm is None:
        pytest.skip("no nm to list the symbols with")
    command = [nm, "--dynamic", "--demangle", "--undefined-only", ppu.__file__]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    if not any("GLIBCXX" in line for line in lines):
        pytest.skip("libstdc++ is linked statically into this module")
    used = [line.strip() for line in lines if "stream" in line or "std::locale" in line]
    assert used == []
