"""The commands of ``setup.py``: ``build_py`` composes the tree, ``bdist_wheel`` packs it, and
``editable_wheel`` makes an installation that shows edits of the Python sources at once."""

from __future__ import annotations

import re
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.command.editable_wheel import editable_wheel
from setuptools.command.sdist import sdist

from . import compose, native
from .archive import WheelWriter
from .base import Interpreter, exclusive, read_lock
from .errors import SetupError, note
from .platform_tag import platform_tag

ROOT = Path(__file__).resolve().parents[2]


class Tree:
    """The tree for the running interpreter, from sources to a mapping of files.

    Args:
        backend: The backend it is for.
        root: The top of the sources; everything is built below ``root/build``.
    """

    def __init__(self, backend: str, root: Path = ROOT) -> None:
        self.backend = backend
        self.root = root
        self.interpreter = Interpreter.running()
        build = root / "build"
        self.native_directory = native.build_directory(root, build / f"cmake.{self.platform_name}")
        self.editable_directory = build / f"editable.{self.platform_name}"
        self._base_directory = build / "base"
        self.prepared: compose.PreparedBase | None = None
        self.overlay: dict[str, Path] = {}
        self.native: dict[str, Path] = {}

    @property
    def platform_name(self) -> str:
        """What tells builds for different interpreters and machines apart."""
        return f"{sysconfig.get_platform()}-{sys.implementation.cache_tag}"

    def build(self) -> dict[str, Path]:
        """Find the base, build the C++ half, and return the tree."""
        self.prepared = compose.prepare_base(self._base_directory)
        native.build(self.root, self.native_directory)
        self.overlay = compose.overlay_files(self.root, self.backend)
        self.native = compose.native_files(self.native_directory, self.backend)
        return compose.compose(self.prepared, self.overlay, self.native)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other builds of the same checkout for the same interpreter out."""
        directory = self.root / "build"
        directory.mkdir(exist_ok=True)
        with exclusive(directory / f"lock.{self.platform_name}"):
            yield

    def platform_tag(self) -> str:
        """Return the platform tag for a wheel of the tree."""
        assert self.prepared is not None, "build() comes first"
        return platform_tag(
            self.prepared.platform_tags, self.interpreter.machine, self.native.values()
        )


def _tree(command: Any) -> Tree:
    """Return the tree that ``setup.py`` attached to the distribution."""
    tree = command.distribution.flagtree_tree
    assert isinstance(tree, Tree)
    return tree


def _metadata_directory(command: Any, directory: Path) -> Path:
    """Write the ``.dist-info`` directory without RECORD and WHEEL below ``directory``."""
    dist_info: Any = command.reinitialize_command("dist_info")
    dist_info.output_dir = str(directory)
    dist_info.keep_egg_info = False
    dist_info.ensure_finalized()
    dist_info.run()
    return Path(dist_info.dist_info_dir)


def add_metadata(writer: WheelWriter, dist_info: Path, tag: str, licenses: dict[str, Path]) -> None:
    """Add the ``.dist-info`` files to a wheel, completed by what setuptools does not know: the
    base's licences, that the wheel provides Triton, and the tags.

    Args:
        writer: The wheel.
        dist_info: The directory that setuptools wrote.
        tag: The wheel's tags as in its name, such as ``cp311-cp311-linux_x86_64``.
        licenses: The base's licence files by name.
    """
    lock = read_lock()
    text = (dist_info / "METADATA").read_text(encoding="utf-8")
    extra = [f"License-File: {lock.name}/{name}" for name in licenses]
    extra.append(f"Provides-Dist: {lock.name} ({lock.version})")
    head, separator, body = text.partition("\n\n")
    metadata = "\n".join([head.rstrip("\n"), *extra]) + "\n" + separator[1:] + body
    writer.add_bytes(f"{dist_info.name}/METADATA", metadata.encode("utf-8"))
    python, abi, platforms = tag.split("-")
    wheel = ["Wheel-Version: 1.0", "Generator: flagtree", "Root-Is-Purelib: false"]
    wheel += [f"Tag: {python}-{abi}-{platform}" for platform in platforms.split(".")]
    writer.add_bytes(f"{dist_info.name}/WHEEL", ("\n".join(wheel) + "\n").encode())
    files = {
        f"{dist_info.name}/{path.relative_to(dist_info).as_posix()}": path
        for path in sorted(dist_info.rglob("*"))
        if path.is_file() and path.name not in ("METADATA", "WHEEL", "RECORD")
    }
    prefix = f"{dist_info.name}/licenses/{lock.name}"
    files |= {f"{prefix}/{name}": path for name, path in licenses.items()}
    writer.add_files(files)


def _wheel_path(directory: str | None, dist_info: Path, tag: str) -> Path:
    name = dist_info.name.removesuffix(".dist-info")
    return Path(directory or "dist").absolute() / f"{name}-{tag}.whl"


def path_line(directory: str) -> str:
    """Return the line of a .pth file that puts ``directory`` where imports find it behind the
    standard library - so that PYTHONPATH still comes first, as with any installed package - but in
    front of all installed packages, a stock Triton among them."""
    # `site` reads the file twice in a virtual environment.
    return (
        f"import os, sys; {directory!r} in sys.path or sys.path.insert("
        f"sys.path.index(os.path.dirname(os.__file__)) + 1, {directory!r})\n"
    )


class BuildTree(build_py):
    """``build_py``: base, overlay and compiled files, staged in the build directory."""

    def run(self) -> None:
        tree = _tree(self)
        with tree.locked():
            files = tree.build()
            compose.stage(files, Path(self.build_lib).absolute(), tree.backend)
        note(f"staged {len(files)} files in {self.build_lib}")

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        """Return the files below the build directory."""
        return [str(path) for path in sorted(Path(self.build_lib).rglob("*")) if path.is_file()]

    def get_source_files(self) -> list[str]:
        """Return nothing: which sources an sdist holds is stated in MANIFEST.in."""
        return []


class PackWheel(bdist_wheel):
    """``bdist_wheel``: the staged tree as a wheel with an honest platform tag."""

    def run(self) -> None:
        tree = _tree(self)
        build: Any = self.reinitialize_command("build_py", reinit_subcommands=True)
        build.ensure_finalized()
        build.run()
        tag = f"{tree.interpreter.python}-{tree.interpreter.python}-{tree.platform_tag()}"
        assert tree.prepared is not None
        with tempfile.TemporaryDirectory() as temporary:
            dist_info = _metadata_directory(self, Path(temporary))
            path = _wheel_path(self.dist_dir, dist_info, tag)
            staged = Path(build.build_lib)
            with WheelWriter(path, dist_info.name) as writer:
                writer.add_files(
                    {
                        file.relative_to(staged).as_posix(): file
                        for file in staged.rglob("*")
                        if file.is_file()
                    }
                )
                add_metadata(writer, dist_info, tag, tree.prepared.licenses())
        note(f"wrote {path} ({path.stat().st_size / 1e6:.1f} MB)")
        files: list[tuple[str, str, str]] = getattr(self.distribution, "dist_files", [])
        files.append(("bdist_wheel", sysconfig.get_python_version(), str(path)))


class EditableTree(editable_wheel):
    """``editable_wheel``: the tree is staged in the build directory with links to the Python
    sources, and the wheel puts that directory in front of the installed packages."""

    def run(self) -> None:
        tree = _tree(self)
        with tree.locked():
            files = tree.build()
            linked = frozenset(tree.overlay) | frozenset(tree.native)
            compose.stage(files, tree.editable_directory, tree.backend, linked)
        tag = f"{tree.interpreter.python}-{tree.interpreter.python}-{tree.platform_tag()}"
        assert tree.prepared is not None
        directory = str(tree.editable_directory)
        if re.search(r"[\r\n]", directory):
            raise SetupError(
                "The path of the checkout cannot be put into a .pth file.",
                expected="a path without line breaks",
                found=repr(directory),
                to_do="move the checkout",
            )
        with tempfile.TemporaryDirectory() as temporary:
            dist_info = _metadata_directory(self, Path(temporary))
            path = _wheel_path(self.dist_dir, dist_info, tag)
            with WheelWriter(path, dist_info.name) as writer:
                writer.add_bytes("__editable__flagtree.pth", path_line(directory).encode("utf-8"))
                add_metadata(writer, dist_info, tag, tree.prepared.licenses())
        note(f"installed in place from {directory}")


class SourceArchive(sdist):
    """``sdist``: what MANIFEST.in lists and nothing that setuptools adds for packages."""

    def _add_defaults_python(self) -> None:
        """Add nothing: the links in python/triton/backends would put files in twice."""

    def _add_defaults_data_files(self) -> None:
        """Add nothing, for the same reason."""


COMMANDS: dict[str, Any] = {
    "build_py": BuildTree,
    "bdist_wheel": PackWheel,
    "editable_wheel": EditableTree,
    "sdist": SourceArchive,
}
