"""Reading members of a wheel without trusting them, and writing wheels."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import random
import stat
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from setup_tools import archive
from setup_tools.errors import SetupError

INFO = "thing-1.dist-info"

HOSTILE_NAMES = [
    "../outside",
    "triton/../../outside",
    "/etc/passwd",
    "triton/./x",
    "triton//x",
    "",
    "triton\\x",
    "C:x",
    "triton/x\n",
    "..",
]


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_hostile_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SetupError, match="outside of the tree"):
        archive.check_member_name(name)


def test_hostile_wheel_writes_nothing_outside(tmp_path: Path) -> None:
    wheel = tmp_path / "hostile.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("triton/../../outside", "gotcha")
    root = tmp_path / "a" / "root"
    root.mkdir(parents=True)
    with zipfile.ZipFile(wheel) as file, pytest.raises(SetupError, match="outside"):
        archive.extract_member(file, "triton/../../outside", root)
    assert not list(tmp_path.rglob("outside"))


def test_link_in_a_wheel_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "hostile.whl"
    info = zipfile.ZipInfo("triton/link")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr(info, "/etc/passwd")
    with zipfile.ZipFile(wheel) as file, pytest.raises(SetupError, match="plain file"):
        archive.extract_member(file, "triton/link", tmp_path / "root")


def test_member_does_not_replace_a_file(tmp_path: Path) -> None:
    wheel = tmp_path / "a.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("a", "new")
    (tmp_path / "a").write_text("old")
    with zipfile.ZipFile(wheel) as file, pytest.raises(FileExistsError):
        archive.extract_member(file, "a", tmp_path)


def check_record(path: Path) -> None:
    """Check a wheel against its RECORD."""
    with zipfile.ZipFile(path) as file:
        assert file.testzip() is None
        rows = list(csv.reader(io.StringIO(file.read(f"{INFO}/RECORD").decode())))
        assert [row[0] for row in rows] == file.namelist()
        for name, digest, size in rows[:-1]:
            data = file.read(name)
            assert len(data) == int(size)
            hashed = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert digest == f"sha256={hashed}"
        assert rows[-1] == [f"{INFO}/RECORD", "", ""]


@settings(max_examples=25, deadline=None)
@given(data=st.binary(max_size=5000), workers=st.integers(1, 3), piece=st.integers(1, 3000))
def test_any_contents_come_back(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, workers: int, piece: int
) -> None:
    path = tmp_path_factory.mktemp("wheel") / "thing.whl"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive, "_PIECE", piece)
        with archive.WheelWriter(path, INFO, workers) as writer:
            writer.add_bytes("triton/data", data)
    check_record(path)
    with zipfile.ZipFile(path) as file:
        assert file.read("triton/data") == data


def test_large_file_is_compressed_in_pieces(tmp_path: Path) -> None:
    generator = random.Random(1)
    words = [generator.randbytes(40) for _ in range(500)]
    data = b"".join(generator.choice(words) for _ in range(100_000))
    source = tmp_path / "large"
    source.write_bytes(data)
    path = tmp_path / "thing.whl"
    with archive.WheelWriter(path, INFO) as writer:
        writer.add_files({"triton/large": source})
    check_record(path)
    with zipfile.ZipFile(path) as file:
        assert file.read("triton/large") == data
        # As small as zlib's best in one piece, but for a few bytes per piece.
        whole = io.BytesIO()
        with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as reference:
            reference.writestr("x", data)
        limit = reference.getinfo("x").compress_size * 1.01 + 1000
        assert file.getinfo("triton/large").compress_size < limit


def test_permissions(tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o700)
    module = tmp_path / "module"
    module.write_text("")
    module.chmod(0o600)
    path = tmp_path / "thing.whl"
    with archive.WheelWriter(path, INFO) as writer:
        writer.add_files({"bin/tool": tool, "module.py": module})
    with zipfile.ZipFile(path) as file:
        modes = {info.filename: info.external_attr >> 16 for info in file.infolist()}
    assert modes["bin/tool"] == stat.S_IFREG | 0o755
    assert modes["module.py"] == stat.S_IFREG | 0o644


def test_bytes_depend_on_contents_only(tmp_path: Path) -> None:
    wheels = []
    for number, workers in enumerate((1, 3)):
        source = tmp_path / f"source{number}"
        source.write_bytes(os.urandom(0) + b"x" * 3_000_000)
        os.utime(source, (number, number))
        path = tmp_path / f"{number}.whl"
        with archive.WheelWriter(path, INFO, workers) as writer:
            writer.add_files({"a": source})
        wheels.append(path.read_bytes())
    assert wheels[0] == wheels[1]


def test_failure_leaves_no_wheel(tmp_path: Path) -> None:
    path = tmp_path / "dist" / "thing.whl"
    with pytest.raises(KeyError), archive.WheelWriter(path, INFO) as writer:
        writer.add_bytes("a", b"a")
        raise KeyError("something else went wrong")
    assert not list(path.parent.iterdir())


def test_failure_keeps_the_previous_wheel(tmp_path: Path) -> None:
    path = tmp_path / "thing.whl"
    with archive.WheelWriter(path, INFO) as writer:
        writer.add_bytes("a", b"a")
    before = path.read_bytes()
    with pytest.raises(SetupError, match="twice"), archive.WheelWriter(path, INFO) as writer:
        writer.add_bytes("a", b"a")
        writer.add_bytes("a", b"b")
    assert path.read_bytes() == before
    assert list(tmp_path.glob("thing*")) == [path]
