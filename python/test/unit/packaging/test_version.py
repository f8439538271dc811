"""The version of the distribution, wherever the sources come from."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from setup_tools import version as module
from setup_tools.errors import SetupError

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A git checkout with one commit."""
    root = tmp_path / "checkout"
    root.mkdir()
    (root / "file").write_text("x")
    identity = ["-c", "user.name=T", "-c", "user.email=t@example.invalid"]
    for command in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "first"]):
        subprocess.run(["git", *command], cwd=root, check=True)
    return root


def head(root: Path) -> str:
    answer = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=root, check=True, capture_output=True, text=True
    )
    return answer.stdout.strip()


def test_git(repository: Path) -> None:
    assert module.version(repository, "ppu", {}) == f"0.6.0+ppu.git{head(repository)[:8]}"


def test_nightly(repository: Path) -> None:
    sha = head(repository)[:8]
    for value, date in (("20261130", "20261130"), ("1", "20200102")):
        environment = {"FLAGTREE_NIGHTLY": value, "SOURCE_DATE_EPOCH": "1577923200"}
        expected = f"0.6.0.dev{date}+ppu.git{sha}"
        assert module.version(repository, "ppu", environment) == expected
    assert ".dev" not in module.version(repository, "ppu", {"FLAGTREE_NIGHTLY": "0"})


@pytest.mark.parametrize("value", ["yes", "2026113", "20261332", "2026-11-30"])
def test_malformed_nightly(repository: Path, value: str) -> None:
    with pytest.raises(SetupError, match="FLAGTREE_NIGHTLY is malformed") as error:
        module.version(repository, "ppu", {"FLAGTREE_NIGHTLY": value})
    assert repr(value) in str(error.value)


def test_directory_inside_of_another_checkout(repository: Path) -> None:
    inner = repository / "vendored"
    inner.mkdir()
    assert module.version(inner, "ppu", {}) == "0.6.0+ppu.unknown"


def test_git_archive(tmp_path: Path) -> None:
    (tmp_path / ".git_archival.txt").write_text(f"node: {COMMIT}\n")
    assert module.version(tmp_path, "ppu", {}) == "0.6.0+ppu.git01234567"
    (tmp_path / ".git_archival.txt").write_text("node: $Format:%H$\n")
    assert module.version(tmp_path, "ppu", {}) == "0.6.0+ppu.unknown"


def test_sdist(tmp_path: Path) -> None:
    (tmp_path / "PKG-INFO").write_text(
        "Metadata-Version: 2.4\nName: flagtree\nVersion: 0.6.0.dev20260101+ppu.gitabcdef01\n\n"
        "Version: not this one\n"
    )
    assert module.version(tmp_path, "ppu", {}) == "0.6.0.dev20260101+ppu.gitabcdef01"
    with pytest.raises(SetupError, match="another backend"):
        module.version(tmp_path, "other", {})


def test_nothing_is_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert module.version(tmp_path, "ppu", {}) == "0.6.0+ppu.unknown"
    assert "commit of these sources is not known" in capsys.readouterr().out


def test_without_git(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert module.version(repository, "ppu", {}) == "0.6.0+ppu.unknown"
    assert "git could not be run" in capsys.readouterr().out


def test_checkout_without_a_commit(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    assert module.version(tmp_path, "ppu", {}) == "0.6.0+ppu.unknown"
