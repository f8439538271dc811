"""The documented table of language constructs is what the tool chain does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[4]


@pytest.mark.slow
def test_the_table_is_up_to_date() -> None:
    from module_rules import find_llvm_as

    if find_llvm_as() is None:
        pytest.skip("no llvm-as of version 20 or later: apt-get install llvm-22")
    done = subprocess.run(
        [sys.executable, str(CHECKOUT / "tools" / "toolchain_table.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_kind_of_construct_is_in_the_table() -> None:
    import language_constructs

    text = (CHECKOUT / "docs" / "toolchain-table.md").read_text()
    titles = {(c.group, c.name) for c in language_constructs.constructs()}
    for group, name in titles:
        assert f"\n## {group}\n" in text
        assert f"\n| {name} | " in text
    assert "| refused by name |" in text
