"""Composing the installable tree: what of the base goes in and what is left out, and what the
overlay adds. The result is a mapping from name in the tree to file on disk; nothing is half
written, since the base is prepared under a temporary name and renamed when it is complete."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from .archive import file_digest
from .base import (
    Base,
    Interpreter,
    cached_base,
    chosen_base,
    exclusive,
    locked_wheel,
    read_lock,
)
from .errors import SetupError, note

# Files of the base that a PPU tree cannot use, as patterns over their names, with the reason.
LEFT_OUT: dict[str, str] = {
    "triton/backends/amd/*": "another vendor's backend",
    "triton/language/extra/hip/*": "device library of another vendor's backend",
    "triton/tools/extra/hip/*": "templates for another vendor's backend",
    "triton/backends/nvidia/driver.py": "this tree's driver is triton.backends.ppu.driver",
    "triton/backends/nvidia/driver.c": "compiled at run time by the driver that is left out",
    "triton/backends/nvidia/include/*": "headers for what that driver compiled",
    "triton/backends/nvidia/bin/ptxas-blackwell": "only for capability 10.0 and above",
    "triton/backends/nvidia/lib/cupti/*.a": "static libraries; nothing links at run time",
    "triton/backends/nvidia/lib/cupti/libcupti.so.*": "copies of libcupti.so",
    "triton/backends/nvidia/lib/cupti/libnvperf_*": "counters of another vendor's chips",
    "triton/backends/nvidia/lib/cupti/libcheckpoint.so": "counters of another vendor's chips",
    "triton/backends/nvidia/lib/cupti/libpcsamplingutil.so": "counters of another vendor's chips",
    "triton/instrumentation/*": "plug-ins for the base's own tests",
}

# The only files of the base that the overlay may replace.
REPLACED = frozenset({"triton/backends/__init__.py"})

# Libraries whose debug sections and local symbols are stripped.
STRIPPED = ("triton/_C/libtriton.so", "triton/_C/libproton.so")

# What the base must hold for the result to work; a base without is not what it says it is.
_ESSENTIAL = (
    "triton/__init__.py",
    "triton/_C/libtriton.so",
    "triton/backends/nvidia/compiler.py",
    "triton/backends/nvidia/bin/ptxas",
)

_MANIFEST = "base.json"
_NOT_INSTALLED = ("__pycache__", ".pyc", ".pyo", ".orig", ".rej", "~")


def known_backends(root: Path) -> list[str]:
    """Return the names of the backends whose sources are at ``root``."""
    return sorted(path.parent.name for path in root.glob("third_party/*/backend") if path.is_dir())


def chosen_backend(root: Path, environment: Mapping[str, str]) -> str:
    """Return the backend named by ``FLAGTREE_BACKEND``.

    Raises:
        SetupError: The variable is missing or names a backend that this tree does not have.
    """
    known = known_backends(root)
    name = environment.get("FLAGTREE_BACKEND", "")
    if name in known:
        return name
    raise SetupError(
        "FLAGTREE_BACKEND must say which backend to build.",
        expected=f"one of: {', '.join(known)}",
        found=repr(name) if name else "not set",
        to_do=f"run, for example: FLAGTREE_BACKEND={known[0] if known else 'ppu'} "
        "pip install . --no-build-isolation",
    )


def is_left_out(name: str) -> bool:
    """Say whether a file of the base is left out of the tree."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in LEFT_OUT)


@dataclass(frozen=True)
class PreparedBase:
    """What the tree takes of the base, on disk: ``triton/...`` and ``licenses/...`` below a
    directory, stripped, with a manifest of every file's hash."""

    directory: Path
    origin: str
    platform_tags: str

    def files(self) -> dict[str, Path]:
        """Return the package's files by name (``triton/...``)."""
        return {name: path for name, path in _walk(self.directory) if name.startswith("triton/")}

    def licenses(self) -> dict[str, Path]:
        """Return the base's licence files by name, relative to the directory of licences."""
        return dict(_walk(self.directory / "licenses"))


def _walk(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield every file below ``root`` with its name relative to it; links are followed."""
    for directory, subdirectories, files in os.walk(root, followlinks=True):
        subdirectories[:] = sorted(name for name in subdirectories if name != "__pycache__")
        for file in sorted(files):
            path = Path(directory, file)
            yield path.relative_to(root).as_posix(), path


def _strip(path: Path) -> None:
    tool = shutil.which("strip")
    if tool is None:
        raise SetupError(
            "The debug sections of the base cannot be stripped.",
            expected="the program `strip` on PATH",
            found="none",
            to_do="install binutils (it comes with gcc; for example: apt-get install binutils)",
        )
    answer = subprocess.run(
        [tool, "--strip-unneeded", str(path)], capture_output=True, text=True, check=False
    )
    if answer.returncode != 0:
        raise SetupError(
            "The debug sections of the base cannot be stripped.",
            expected=f"`{tool} --strip-unneeded {path.name}` to succeed",
            found=answer.stderr.strip(),
            to_do="use the binutils of this machine's own architecture",
        )


def _recipe() -> str:
    """Return what identifies how a base is prepared: this file's contents."""
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()


def _read_prepared(directory: Path) -> PreparedBase | None:
    """Return the prepared base in ``directory`` if it is complete and unaltered, else None."""
    try:
        manifest = json.loads((directory / _MANIFEST).read_text(encoding="utf-8"))
        files: dict[str, str] = manifest["files"]
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            digests = list(pool.map(lambda name: file_digest(directory / name), files))
    except (OSError, ValueError, KeyError):
        return None
    present = {name for name, _ in _walk(directory)} - {_MANIFEST}
    if digests != list(files.values()) or present != set(files):
        note(f"{directory} was altered and is prepared again")
        return None
    if manifest["recipe"] != _recipe():
        return None
    return PreparedBase(directory, manifest["origin"], manifest["platform_tags"])


def _write_prepared(base: Base, directory: Path) -> PreparedBase:
    names = base.names()
    missing = [name for name in _ESSENTIAL if name not in names]
    if missing:
        raise SetupError(
            "The base lacks files that the tree is built on.",
            expected=", ".join(_ESSENTIAL),
            found=f"{base.origin} without {', '.join(missing)}",
            to_do="use the released wheel",
        )
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="partial-", dir=directory.parent) as partial:
        staging = Path(partial, "base")
        for name in names:
            if not is_left_out(name):
                base.extract(name, staging)
        for name in STRIPPED:
            if (staging / name).exists():
                _strip(staging / name)
        for name in base.license_names():
            target = staging / "licenses" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(base.read_license(name))
        manifest = {
            "origin": base.origin,
            "digest": base.digest,
            "platform_tags": base.platform_tags,
            "recipe": _recipe(),
            "files": {name: file_digest(path) for name, path in _walk(staging)},
        }
        (staging / _MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
        if directory.exists():
            shutil.rmtree(directory)
        staging.rename(directory)
    return PreparedBase(directory, base.origin, base.platform_tags)


def prepare_base(
    directory: Path,
    environment: Mapping[str, str] = os.environ,
    interpreter: Interpreter | None = None,
) -> PreparedBase:
    """Find, verify and prepare the base below ``directory``.

    A base that was prepared there before is used again if its files still have the hashes that
    were noted then, and if it stems from the base that is asked for now; where none is asked for
    and none is installed, one prepared before is preferred to a download.

    Args:
        directory: Where prepared bases are kept, part of the build directory.
        environment: Where ``TRITON_BASE_WHEEL`` and ``FLAGTREE_CACHE_DIR`` are looked up.
        interpreter: What to build for; by default what this runs on.

    Raises:
        SetupError: There is no base, or it cannot be prepared.
    """
    interpreter = interpreter or Interpreter.running()
    lock = read_lock()
    locked = locked_wheel(lock, interpreter)
    prefix = f"{interpreter.python}-{interpreter.machine}"
    directory.mkdir(parents=True, exist_ok=True)
    with exclusive(directory / "lock"):
        base: Base | None = chosen_base(environment, lock, locked)
        if base is None:
            for earlier in sorted(directory.glob(f"{prefix}-*")):
                prepared = _read_prepared(earlier)
                if prepared is not None:
                    note(f"base: prepared before from {prepared.origin}")
                    return prepared
            base = cached_base(environment, lock, locked)
        target = directory / f"{prefix}-{base.digest[:16]}"
        prepared = _read_prepared(target) or _write_prepared(base, target)
    note(f"base: {prepared.origin}")
    return prepared


def _add_directory(files: dict[str, Path], source: Path, prefix: str) -> None:
    for name, path in _walk(source):
        if not name.endswith(_NOT_INSTALLED):
            files[f"{prefix}/{name}"] = path


def overlay_files(root: Path, backend: str) -> dict[str, Path]:
    """Return the Python files that the sources at ``root`` add, by name in the tree."""
    files: dict[str, Path] = {}
    _add_directory(files, root / "python/triton", "triton")
    # python/triton/backends/<name> are links for the reader's convenience; an archive of the
    # sources may lack them, and only one backend is in a tree.
    for name in [name for name in files if name.startswith("triton/backends/")]:
        if name.count("/") > 2:
            del files[name]
    party = root / "third_party" / backend
    _add_directory(files, party / "backend", f"triton/backends/{backend}")
    _add_directory(files, party / "language" / backend, f"triton/language/extra/{backend}")
    return files


def native_files(build: Path, backend: str) -> dict[str, Path]:
    """Return the files that CMake built below ``build``, by name in the tree.

    Raises:
        SetupError: The extension module is not there.
    """
    modules = sorted((build / "python/triton/_C").glob(f"{backend}.*.so"))
    if len(modules) != 1:
        raise SetupError(
            "The extension module was not built.",
            expected=f"one {backend}.*.so in {build / 'python/triton/_C'}",
            found=", ".join(path.name for path in modules) or "none",
            to_do="remove the build directory and build again",
        )
    files = {f"triton/_C/{path.name}": path for path in modules}
    for tool in sorted((build / "bin").glob("flagtree-*")):
        if tool.is_file() and os.access(tool, os.X_OK):
            files[f"triton/backends/{backend}/bin/{tool.name}"] = tool
    return files


def compose(
    prepared: PreparedBase, overlay: Mapping[str, Path], native: Mapping[str, Path]
) -> dict[str, Path]:
    """Return the whole tree as a mapping from name to file.

    Raises:
        SetupError: The overlay replaces a file of the base that it should not.
    """
    base = prepared.files()
    wrong = sorted((set(overlay) | set(native)) & set(base) - REPLACED)
    if wrong:
        raise SetupError(
            "The overlay would replace files of the base.",
            expected=f"new files, and of the base's only: {', '.join(sorted(REPLACED))}",
            found=", ".join(wrong),
            to_do="give the file another name and change the base's behaviour in _flagtree_spec.py",
        )
    return {**base, **overlay, **native}


def stage(
    files: Mapping[str, Path], destination: Path, backend: str, linked: frozenset[str] = frozenset()
) -> None:
    """Make the directory ``destination`` hold exactly the given tree.

    Files are hard links where the file system allows it, else copies; those named in ``linked``
    are symbolic links, so that an edit of the source shows at once. The directory is complete
    or, after an error, what it was before.
    """
    destination.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="partial-", dir=destination.parent) as partial:
        staging = Path(partial, "tree")
        staging.mkdir()
        for name, source in files.items():
            target = staging / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if name in linked:
                target.symlink_to(source.absolute())
                continue
            try:
                os.link(source.resolve(), target)
            except OSError:
                shutil.copy2(source, target)
        (staging / "triton/FLAGTREE_BACKEND").write_text(f"{backend}\n", encoding="utf-8")
        if destination.exists():
            destination.rename(Path(partial, "replaced"))
        staging.rename(destination)
