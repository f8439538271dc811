"""What the packaging tests share: the build scripts as the package ``setup_tools`` (they are not
installed), and a small stand-in for the base - a wheel, its lock file, its installed form."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).resolve().parents[4]


def _load_setup_tools() -> None:
    """Make ``setup_tools`` importable without putting its directory, which also holds the overlay,
    on the path."""
    directory = CHECKOUT / "python/setup_tools"
    spec = importlib.util.spec_from_file_location(
        "setup_tools", directory / "__init__.py", submodule_search_locations=[str(directory)]
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["setup_tools"] = module
    spec.loader.exec_module(module)


if "setup_tools" not in sys.modules:
    _load_setup_tools()

VERSION = "3.6.0"
INTERPRETER_TAG = f"cp{sys.version_info.major}{sys.version_info.minor}"

# Files that a base must have, and some that are left out of the tree.
CONTENTS: dict[str, bytes] = {
    "triton/__init__.py": b"__version__ = '3.6.0'\n",
    "triton/backends/__init__.py": b"backends = {}\n",
    "triton/backends/nvidia/__init__.py": b"",
    "triton/backends/nvidia/compiler.py": b"class CUDABackend: pass\n",
    "triton/backends/nvidia/driver.py": b"import nothing\n",
    "triton/backends/nvidia/bin/ptxas": b"#!/bin/sh\n",
    "triton/backends/amd/compiler.py": b"class HIPBackend: pass\n",
    "triton/compiler/code_generator.py": b"x = 1\n" * 1000,
}


@dataclass
class FakeBase:
    """A wheel with the contents of ``CONTENTS``, and the lock file entry it belongs to."""

    wheel: Path
    lock: Any
    locked: Any
    interpreter: Any


@pytest.fixture(scope="session")
def shared_library(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A shared library with debug sections."""
    if shutil.which("g++") is None:
        pytest.skip("no g++ to make a shared library with")
    directory = tmp_path_factory.mktemp("library")
    library = directory / "lib.so"
    source = "int answer() { return 42; }\n"
    command = ["g++", "-g", "-shared", "-fPIC", "-x", "c++", "-", "-o", str(library)]
    subprocess.run(command, input=source, text=True, check=True)
    return library.read_bytes()


@pytest.fixture
def make_wheel(tmp_path: Path, shared_library: bytes) -> Callable[..., Path]:
    """A function that writes a wheel of the given version and tag and returns its path."""

    def make(
        version: str = VERSION, python: str = INTERPRETER_TAG, directory: str = "wheels"
    ) -> Path:
        tag = f"{python}-{python}-manylinux_2_27_x86_64"
        path = tmp_path / directory / f"triton-{version}-{tag}.whl"
        path.parent.mkdir(exist_ok=True)
        info = f"triton-{version}.dist-info"
        files = {
            **CONTENTS,
            "triton/_C/libtriton.so": shared_library,
            f"{info}/METADATA": (
                f"Metadata-Version: 2.1\nName: triton\nVersion: {version}\n"
            ).encode(),
            f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(),
            f"{info}/licenses/LICENSE": b"Do as you please.\n",
        }
        from setup_tools.archive import WheelWriter

        with WheelWriter(path, info) as writer:
            for name, data in files.items():
                writer.add_bytes(name, data, 0o755 if "/bin/" in name else 0o644)
        return path

    return make


@pytest.fixture
def fake_base(make_wheel: Callable[..., Path]) -> FakeBase:
    """A stand-in for the base for the running interpreter."""
    from setup_tools.base import Interpreter, Lock, LockedWheel

    def locked(path: Path, python: str) -> LockedWheel:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        return LockedWheel(python, "x86_64", path.name, path.stat().st_size, digest)

    wheel = make_wheel()
    mine = locked(wheel, INTERPRETER_TAG)
    other = locked(make_wheel(python="cp37"), "cp37")
    return FakeBase(
        wheel,
        Lock("triton", VERSION, (other, mine)),
        mine,
        Interpreter(INTERPRETER_TAG, "x86_64", "a test"),
    )


@pytest.fixture
def install(tmp_path: Path) -> Callable[[Path], Path]:
    """A function that unpacks a wheel into a directory as an installer does; returns it."""

    def unpack(wheel: Path) -> Path:
        site = tmp_path / "site"
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
        info = next(site.glob("*.dist-info"))
        with (info / "RECORD").open("a") as record:
            record.write(f"../../../bin/proton,sha256=abc,1\n{info.name}/INSTALLER,,\n")
            record.write("triton/__pycache__/__init__.cpython-311.pyc,,\n")
        return site

    return unpack
