"""Composing the tree: what is left out, what may be replaced, and that nothing is half done."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from setup_tools import base, compose
from setup_tools.errors import SetupError

CHECKOUT = Path(__file__).resolve().parents[4]


@pytest.fixture
def prepare(
    fake_base: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., compose.PreparedBase]:
    """A function that prepares the stand-in base below ``tmp_path/prepared``."""
    monkeypatch.setattr(compose, "read_lock", lambda: fake_base.lock)
    monkeypatch.setattr("sys.path", [])

    def run(**environment: str) -> compose.PreparedBase:
        settings = environment or {"TRITON_BASE_WHEEL": str(fake_base.wheel)}
        return compose.prepare_base(tmp_path / "prepared", settings, fake_base.interpreter)

    return run


# The backend


def test_known_backends() -> None:
    assert compose.known_backends(CHECKOUT) == ["ppu"]
    assert compose.chosen_backend(CHECKOUT, {"FLAGTREE_BACKEND": "ppu"}) == "ppu"


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({}, "not set"),
        ({"FLAGTREE_BACKEND": ""}, "not set"),
        ({"FLAGTREE_BACKEND": "PPU"}, "'PPU'"),
        ({"FLAGTREE_BACKEND": "../ppu"}, "'../ppu'"),
    ],
)
def test_missing_or_unknown_backend(environment: dict[str, str], found: str) -> None:
    with pytest.raises(SetupError) as error:
        compose.chosen_backend(CHECKOUT, environment)
    assert f"found:     {found}" in str(error.value)
    assert "one of: ppu" in str(error.value)
    assert "FLAGTREE_BACKEND=ppu pip install" in str(error.value)


# The base


def test_what_is_left_out() -> None:
    for name in (
        "triton/backends/amd/compiler.py",
        "triton/backends/amd/include/hip/hip_runtime.h",
        "triton/backends/nvidia/driver.py",
        "triton/backends/nvidia/driver.c",
        "triton/backends/nvidia/include/cuda.h",
        "triton/backends/nvidia/bin/ptxas-blackwell",
        "triton/backends/nvidia/lib/cupti/libcupti_static.a",
    ):
        assert compose.is_left_out(name)
    for name in (
        "triton/backends/nvidia/compiler.py",
        "triton/backends/nvidia/__init__.py",
        "triton/backends/nvidia/bin/ptxas",
        "triton/backends/nvidia/lib/libdevice.10.bc",
        "triton/backends/nvidia/lib/cupti/libcupti.so",
        "triton/backends/driver.py",
        "triton/language/extra/cuda/libdevice.py",
    ):
        assert not compose.is_left_out(name)


def test_prepared_base(prepare: Callable[..., compose.PreparedBase]) -> None:
    prepared = prepare()
    files = prepared.files()
    assert "triton/backends/nvidia/compiler.py" in files
    assert not any("amd" in name or name.endswith("nvidia/driver.py") for name in files)
    assert list(prepared.licenses()) == ["LICENSE"]
    assert files["triton/backends/nvidia/bin/ptxas"].stat().st_mode & 0o111
    sections = subprocess.run(
        ["readelf", "-SW", files["triton/_C/libtriton.so"]],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert ".text" in sections and ".dynsym" in sections
    assert ".debug" not in sections


def test_prepared_base_is_used_again(prepare: Callable[..., compose.PreparedBase]) -> None:
    first = prepare()
    stamp = first.directory.stat().st_ino
    assert prepare().directory.stat().st_ino == stamp


@pytest.mark.parametrize("damage", ["change", "remove", "add", "manifest", "recipe"])
def test_altered_prepared_base_is_prepared_again(
    prepare: Callable[..., compose.PreparedBase], damage: str
) -> None:
    prepared = prepare()
    module = prepared.directory / "triton/__init__.py"
    manifest = prepared.directory / "base.json"
    good = module.read_bytes()
    if damage == "change":
        module.write_text("evil\n")
    elif damage == "remove":
        module.unlink()
    elif damage == "add":
        (module.parent / "added.py").write_text("evil\n")
    elif damage == "manifest":
        manifest.write_text(manifest.read_text()[:50])
    else:
        manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "recipe": "other"}))
        (prepared.directory / "triton/stale.py").write_text("")
    again = prepare()
    assert module.read_bytes() == good
    assert not (module.parent / "added.py").exists()
    assert not (module.parent / "stale.py").exists()
    assert set(again.files()) == set(prepared.files())


def test_prepared_base_is_preferred_to_a_download(
    prepare: Callable[..., compose.PreparedBase], monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = prepare()

    def fail(*args: object) -> None:
        raise AssertionError("a download was tried")

    monkeypatch.setattr(compose, "cached_base", fail)
    assert prepare(HOME="/nonexistent").directory == prepared.directory


def entries(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.name != "lock")


def test_failure_leaves_nothing_half_prepared(
    prepare: Callable[..., compose.PreparedBase],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "which", lambda name: None)
        with pytest.raises(SetupError, match=r"install binutils"):
            prepare()
    assert entries(tmp_path / "prepared") == []
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "which", lambda name: "/bin/false")
        with pytest.raises(SetupError, match="to succeed"):
            prepare()
    assert entries(tmp_path / "prepared") == []
    prepare()
    assert len(entries(tmp_path / "prepared")) == 1


def test_base_that_lacks_files(
    fake_base: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = base.WheelBase(fake_base.wheel, fake_base.locked, "3.6.0", "a test")
    monkeypatch.setattr(found, "names", lambda: ["triton/__init__.py"])
    with pytest.raises(SetupError, match=r"without triton/_C/libtriton\.so"):
        compose._write_prepared(found, tmp_path / "target")
    assert not list(tmp_path.glob("target*"))


def test_builds_prepare_at_the_same_time(
    prepare: Callable[..., compose.PreparedBase], tmp_path: Path
) -> None:
    results: list[set[str]] = []
    threads = [
        threading.Thread(target=lambda: results.append(set(prepare().files()))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 3
    assert results[0] == results[1] == results[2]
    assert len(entries(tmp_path / "prepared")) == 1


# The overlay


def test_overlay_of_this_checkout() -> None:
    files = compose.overlay_files(CHECKOUT, "ppu")
    for name in (
        "triton/_flagtree_backend.py",
        "triton/_flagtree_spec.py",
        "triton/backends/__init__.py",
        "triton/backends/ppu/__init__.py",
        "triton/backends/ppu/compiler.py",
        "triton/backends/ppu/driver.py",
        "triton/compiler/hint_manager.py",
    ):
        assert name in files
    assert not any("__pycache__" in name or name.endswith(".pyc") for name in files)
    # Through the link or not, a backend's file comes from third_party.
    assert files["triton/backends/ppu/compiler.py"].is_relative_to(CHECKOUT / "third_party")


def test_link_of_the_backend_is_relative() -> None:
    link = CHECKOUT / "python/triton/backends/ppu"
    if not link.is_symlink():
        pytest.skip("these sources are not a git checkout")
    assert not os.path.isabs(os.readlink(link))
    assert link.resolve() == CHECKOUT / "third_party/ppu/backend"


def test_overlay_must_not_replace_the_base(prepare: Callable[..., compose.PreparedBase]) -> None:
    prepared = prepare()
    good = {"triton/backends/__init__.py": Path("a"), "triton/new.py": Path("b")}
    tree = compose.compose(prepared, good, {})
    assert tree["triton/backends/__init__.py"] == Path("a")
    with pytest.raises(SetupError, match=r"found: +triton/compiler/code_generator\.py\n") as error:
        compose.compose(prepared, {**good, "triton/compiler/code_generator.py": Path("c")}, {})
    assert "_flagtree_spec.py" in str(error.value)


def test_compiled_module_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"one ppu\.\*\.so"):
        compose.native_files(tmp_path, "ppu")


# Staging


def test_stage(tmp_path: Path) -> None:
    sources = tmp_path / "sources"
    sources.mkdir()
    for name in ("a.py", "b.py", "tool"):
        (sources / name).write_text(name)
    (sources / "tool").chmod(0o755)
    files = {
        "triton/a.py": sources / "a.py",
        "triton/b.py": sources / "b.py",
        "triton/bin/tool": sources / "tool",
    }
    target = tmp_path / "build/tree"
    compose.stage(files, target, "ppu", frozenset({"triton/b.py"}))
    assert (target / "triton/FLAGTREE_BACKEND").read_text() == "ppu\n"
    assert (target / "triton/a.py").read_text() == "a.py"
    assert not (target / "triton/a.py").is_symlink()
    assert (target / "triton/b.py").is_symlink()
    assert os.access(target / "triton/bin/tool", os.X_OK)
    # An edit of a linked file shows at once; an old file goes when it is staged again.
    (sources / "b.py").write_text("edited")
    assert (target / "triton/b.py").read_text() == "edited"
    del files["triton/a.py"]
    compose.stage(files, target, "ppu")
    assert not (target / "triton/a.py").exists()
    assert [path.name for path in (tmp_path / "build").iterdir()] == ["tree"]


def test_failed_staging_keeps_what_was(tmp_path: Path) -> None:
    source = tmp_path / "a.py"
    source.write_text("a")
    target = tmp_path / "build/tree"
    compose.stage({"triton/a.py": source}, target, "ppu")
    with pytest.raises(FileNotFoundError):
        compose.stage({"triton/b.py": source, "triton/c.py": tmp_path / "none"}, target, "ppu")
    assert sorted(path.name for path in (target / "triton").iterdir()) == [
        "FLAGTREE_BACKEND",
        "a.py",
    ]
    assert [path.name for path in (tmp_path / "build").iterdir()] == ["tree"]


def test_staging_copies_where_links_are_impossible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object) -> None:
        raise OSError("cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    source = tmp_path / "a.py"
    source.write_text("a")
    compose.stage({"triton/a.py": source}, tmp_path / "tree", "ppu")
    assert (tmp_path / "tree/triton/a.py").stat().st_ino != source.stat().st_ino
