"""Finding and verifying the base: each route, and every way in which a base can be wrong."""

from __future__ import annotations

import importlib.metadata
import re
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from setup_tools import base
from setup_tools.errors import SetupError

LOCK = base.read_lock()


def chosen(fake_base: Any, path: Path | str) -> Any:
    return base.chosen_base({"TRITON_BASE_WHEEL": str(path)}, fake_base.lock, fake_base.locked)


# The lock file


def test_lock_has_every_supported_interpreter_once() -> None:
    assert (LOCK.name, LOCK.version) == ("triton", "3.6.0")
    expected = {
        (f"cp3{minor}", machine) for minor in range(10, 15) for machine in ("x86_64", "aarch64")
    }
    assert {(wheel.python, wheel.machine) for wheel in LOCK.wheels} == expected
    assert len(LOCK.wheels) == len(expected)
    assert len({wheel.sha256 for wheel in LOCK.wheels}) == len(expected)


@pytest.mark.parametrize("wheel", LOCK.wheels, ids=lambda wheel: f"{wheel.python}-{wheel.machine}")
def test_lock_entry_agrees_with_its_file_name(wheel: Any) -> None:
    tags = re.escape(f"{wheel.python}-{wheel.python}-")
    assert re.fullmatch(rf"triton-3\.6\.0-{tags}manylinux\S*_{wheel.machine}\.whl", wheel.file)
    assert re.fullmatch("[0-9a-f]{64}", wheel.sha256)
    assert wheel.size > 100 << 20
    assert wheel.platform_tags.startswith("manylinux_2_")


def test_running_interpreter_has_a_wheel() -> None:
    assert base.locked_wheel(LOCK, base.Interpreter.running()).python.startswith("cp3")


@pytest.mark.parametrize(
    ("python", "machine"), [("cp39", "x86_64"), ("cp313t", "x86_64"), ("cp311", "riscv64")]
)
def test_unsupported_interpreter_is_named(python: str, machine: str) -> None:
    interpreter = base.Interpreter(python, machine, f"{python} on {machine}, for example")
    with pytest.raises(SetupError) as error:
        base.locked_wheel(LOCK, interpreter)
    assert f"{python} on {machine}, for example" in str(error.value)
    assert "cp310 on x86_64" in str(error.value)


# TRITON_BASE_WHEEL


def test_named_wheel(fake_base: Any, tmp_path: Path) -> None:
    found = chosen(fake_base, fake_base.wheel)
    assert isinstance(found, base.WheelBase)
    assert "triton/__init__.py" in found.names()
    assert found.license_names() == ["LICENSE"]
    assert found.read_license("LICENSE") == b"Do as you please.\n"
    tool = found.extract("triton/backends/nvidia/bin/ptxas", tmp_path / "out")
    assert tool.stat().st_mode & 0o777 == 0o755
    module = found.extract("triton/__init__.py", tmp_path / "out")
    assert module.stat().st_mode & 0o777 == 0o644


def test_renamed_wheel_is_still_the_wheel(fake_base: Any, tmp_path: Path) -> None:
    copy = tmp_path / "anything"
    copy.write_bytes(fake_base.wheel.read_bytes())
    assert chosen(fake_base, copy).digest == fake_base.locked.sha256


def altered(path: Path) -> Path:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    return path


def truncated(path: Path) -> Path:
    path.write_bytes(path.read_bytes()[:-100])
    return path


def emptied(path: Path) -> Path:
    path.write_bytes(b"")
    return path


def missing(path: Path) -> Path:
    path.unlink()
    return path


def directory(path: Path) -> Path:
    return path.parent


def without_metadata(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("hello", "world")
    return path


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (altered, "triton 3.6.0, but altered|not a complete wheel"),
        (truncated, "not a complete wheel"),
        (emptied, "0 bytes: not a complete wheel"),
        (missing, "no such file"),
        (directory, "a directory"),
        (without_metadata, "not a complete wheel"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_wrong_named_wheel(fake_base: Any, change: Callable[[Path], Path], found: str) -> None:
    path = change(fake_base.wheel)
    with pytest.raises(SetupError) as error:
        chosen(fake_base, path)
    message = str(error.value)
    assert re.search(found, message)
    assert str(path) in message
    assert f"SHA-256 {fake_base.locked.sha256}" in message
    assert "to do:" in message and "TRITON_BASE_WHEEL" in message


def test_wheel_of_another_version(fake_base: Any, make_wheel: Callable[..., Path]) -> None:
    with pytest.raises(SetupError, match=r"triton 3\.5\.1 \("):
        chosen(fake_base, make_wheel(version="3.5.1"))


def test_wheel_for_another_interpreter(fake_base: Any, make_wheel: Callable[..., Path]) -> None:
    with pytest.raises(SetupError, match="the base's wheel for cp37 on x86_64"):
        chosen(fake_base, make_wheel(python="cp37"))


# An installed Triton


def installed(fake_base: Any, site: Path) -> Any:
    (info,) = site.glob("*.dist-info")
    distribution = importlib.metadata.PathDistribution(info)
    return base.InstalledBase(distribution, fake_base.lock, fake_base.locked)


def test_installed(fake_base: Any, install: Callable[[Path], Path], tmp_path: Path) -> None:
    site = install(fake_base.wheel)
    # What an installation does not know of is not part of the base.
    (site / "triton/_flagtree_spec.py").write_text("left over\n")
    found = installed(fake_base, site)
    assert "triton/__init__.py" in found.names()
    assert "triton/_flagtree_spec.py" not in found.names()
    assert not any("__pycache__" in name or ".." in name for name in found.names())
    assert found.license_names() == ["LICENSE"]
    assert found.platform_tags == "manylinux_2_27_x86_64"
    copy = found.extract("triton/compiler/code_generator.py", tmp_path / "out")
    assert copy.read_bytes() == (site / "triton/compiler/code_generator.py").read_bytes()


def edit_record(site: Path, change: Callable[[str], str]) -> None:
    (record,) = site.glob("*.dist-info/RECORD")
    record.write_text(change(record.read_text()))


def one_byte_changed(site: Path) -> None:
    altered(site / "triton/compiler/code_generator.py")


def one_byte_more(site: Path) -> None:
    with (site / "triton/__init__.py").open("a") as file:
        file.write("#")


def one_file_gone(site: Path) -> None:
    (site / "triton/backends/amd/compiler.py").unlink()


def no_record(site: Path) -> None:
    next(site.glob("*.dist-info/RECORD")).unlink()


def record_without_hash(site: Path) -> None:
    edit_record(site, lambda text: re.sub(r"(?m)^(triton/__init__\.py),.*$", r"\1,,", text))


def record_without_library(site: Path) -> None:
    edit_record(site, lambda text: re.sub(r"(?m)^triton/_C/libtriton.*\n", "", text))


def record_that_climbs(site: Path) -> None:
    edit_record(site, lambda text: text + "triton/../../secret,sha256=abc,1\n")


def another_version(site: Path) -> None:
    (metadata,) = site.glob("*.dist-info/METADATA")
    metadata.write_text(metadata.read_text().replace("3.6.0", "3.6.1"))


def another_interpreter(site: Path) -> None:
    (wheel,) = site.glob("*.dist-info/WHEEL")
    wheel.write_text("Wheel-Version: 1.0\nTag: cp37-cp37-manylinux_2_27_x86_64\n")


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (one_byte_changed, "code_generator.py has another SHA-256"),
        (one_byte_more, "__init__.py has 23 bytes instead of 22"),
        (one_file_gone, "amd/compiler.py: No such file"),
        (no_record, "found: +none"),
        (record_without_hash, "none for triton/__init__.py"),
        (record_without_library, "without compiled files"),
        (record_that_climbs, "triton/../../secret"),
        (another_version, "Triton 3.6.1"),
        (another_interpreter, "cp37-cp37-manylinux_2_27_x86_64"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_wrong_installed(
    fake_base: Any,
    install: Callable[[Path], Path],
    change: Callable[[Path], None],
    found: str,
) -> None:
    site = install(fake_base.wheel)
    change(site)
    with pytest.raises(SetupError, match=found):
        installed(fake_base, site)


def test_unfit_installation_is_passed_over_with_the_reason(
    fake_base: Any,
    install: Callable[[Path], Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    site = install(fake_base.wheel)
    monkeypatch.setattr("sys.path", [str(site)])
    assert isinstance(base.chosen_base({}, fake_base.lock, fake_base.locked), base.InstalledBase)
    one_byte_changed(site)
    assert base.chosen_base({}, fake_base.lock, fake_base.locked) is None
    assert "another SHA-256" in capsys.readouterr().out


# The cache


class Index:
    """Stands in for the download: counts and may be slow or deliver the wrong thing."""

    def __init__(self, wheel: Path, seconds: float = 0, data: bytes | None = None) -> None:
        self.data = wheel.read_bytes() if data is None else data
        self.seconds = seconds
        self.downloads = 0

    def __call__(self, locked: Any, lock: Any, target: Path) -> Path:
        self.downloads += 1
        path = target / locked.file
        path.write_bytes(self.data[:100])
        time.sleep(self.seconds)
        path.write_bytes(self.data)
        return path


def test_default_cache_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert base.cache_directory({}) == tmp_path / ".flagtree"
    assert base.cache_directory({"FLAGTREE_CACHE_DIR": "~/x"}) == tmp_path / "x"
    assert base.cache_directory({"FLAGTREE_CACHE_DIR": ""}) == tmp_path / ".flagtree"


def test_download_is_kept(fake_base: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = Index(fake_base.wheel)
    monkeypatch.setattr(base, "_download", index)
    cache = tmp_path / "cache"
    for _ in range(2):
        path = base.cached_wheel(fake_base.locked, fake_base.lock, cache)
        assert path == cache / "base" / fake_base.locked.file
        assert path.read_bytes() == fake_base.wheel.read_bytes()
    assert index.downloads == 1


def test_damaged_cache_is_replaced(
    fake_base: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    index = Index(fake_base.wheel)
    monkeypatch.setattr(base, "_download", index)
    path = tmp_path / "base" / fake_base.locked.file
    path.parent.mkdir()
    path.write_bytes(fake_base.wheel.read_bytes()[:-1])
    leftover = path.parent / "partial-of-a-killed-build"
    leftover.mkdir()
    assert base.cached_wheel(fake_base.locked, fake_base.lock, tmp_path) == path
    assert path.read_bytes() == fake_base.wheel.read_bytes()
    assert index.downloads == 1
    assert not leftover.exists()
    assert "not a complete wheel" in capsys.readouterr().out


def test_wrong_download_leaves_nothing(
    fake_base: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "_download", Index(fake_base.wheel, data=b"<html>sign in</html>"))
    with pytest.raises(SetupError, match="20 bytes: not a complete wheel"):
        base.cached_wheel(fake_base.locked, fake_base.lock, tmp_path / "cache")
    assert [path.name for path in (tmp_path / "cache/base").iterdir()] == ["lock"]


def test_builds_share_a_cache(
    fake_base: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = Index(fake_base.wheel, seconds=0.3)
    monkeypatch.setattr(base, "_download", index)
    results: list[bytes] = []

    def build() -> None:
        path = base.cached_wheel(fake_base.locked, fake_base.lock, tmp_path / "cache")
        results.append(path.read_bytes())

    threads = [threading.Thread(target=build) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [fake_base.wheel.read_bytes()] * 4
    assert index.downloads == 1


def test_unusable_cache(fake_base: Any, tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    with pytest.raises(SetupError) as error:
        base.cached_wheel(fake_base.locked, fake_base.lock, blocker / "cache")
    assert str(blocker) in str(error.value)
    assert "set FLAGTREE_CACHE_DIR" in str(error.value)


def test_cache_that_has_it_need_not_be_writable(
    fake_base: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "_download", Index(fake_base.wheel))
    base.cached_wheel(fake_base.locked, fake_base.lock, tmp_path)

    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr(Path, "mkdir", refuse)
    monkeypatch.setattr(base, "exclusive", refuse)
    assert base.cached_wheel(fake_base.locked, fake_base.lock, tmp_path).is_file()


@pytest.fixture
def only_local_index(
    fake_base: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Path], None]:
    """Lets pip see nothing but a directory of wheels."""

    def use(directory: Path) -> None:
        monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        monkeypatch.setenv("PIP_FIND_LINKS", str(directory))

    return use


def test_pip_downloads_the_locked_wheel(
    fake_base: Any, only_local_index: Callable[[Path], None], tmp_path: Path
) -> None:
    only_local_index(fake_base.wheel.parent)
    path = base.cached_wheel(fake_base.locked, fake_base.lock, tmp_path / "cache")
    assert path.read_bytes() == fake_base.wheel.read_bytes()


def test_pip_refuses_another_build_of_the_same_version(
    fake_base: Any, only_local_index: Callable[[Path], None], tmp_path: Path
) -> None:
    only_local_index(altered(fake_base.wheel).parent)
    with pytest.raises(SetupError) as error:
        base.cached_wheel(fake_base.locked, fake_base.lock, tmp_path / "cache")
    assert "DO NOT MATCH THE HASHES" in str(error.value)


def test_no_index_at_all(
    fake_base: Any, only_local_index: Callable[[Path], None], tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    only_local_index(tmp_path / "empty")
    with pytest.raises(SetupError) as error:
        base.cached_wheel(fake_base.locked, fake_base.lock, tmp_path / "cache")
    message = str(error.value)
    assert "pip download failed" in message
    assert "TRITON_BASE_WHEEL" in message
    assert [path.name for path in (tmp_path / "cache/base").iterdir()] == ["lock"]
