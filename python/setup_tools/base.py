"""Finding and verifying the base: the released wheel of upstream Triton that this tree is built
on. It is taken, in this order, from ``TRITON_BASE_WHEEL``, from an installed Triton every file of
which matches its RECORD, or from a download through ``pip`` that is kept in
``FLAGTREE_CACHE_DIR``. Which wheels there are, with their hashes, is in ``base.lock.json``.

A base that was asked for and is wrong stops the build; an installed Triton that does not qualify
is passed over, with the reason, since nobody asked for it."""

from __future__ import annotations

import csv
import errno
import fcntl
import hashlib
import importlib.metadata
import io
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from .archive import check_member_name, extract_member, file_digest, record_hash
from .errors import SetupError, note

LOCK_FILE = Path(__file__).with_name("base.lock.json")

# What reading a damaged archive may raise.
_DAMAGED_ARCHIVE = (
    OSError,
    EOFError,
    LookupError,
    ValueError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)


@dataclass(frozen=True)
class LockedWheel:
    """One wheel of the lock file: for which interpreter it is and how to recognize it."""

    python: str
    machine: str
    file: str
    size: int
    sha256: str

    def __str__(self) -> str:
        return f"{self.file} ({self.size} bytes, SHA-256 {self.sha256})"

    @property
    def platform_tags(self) -> str:
        """The platform part of the wheel's name, such as ``manylinux_2_28_x86_64``."""
        return self.file.removesuffix(".whl").split("-")[4]


@dataclass(frozen=True)
class Lock:
    """The lock file: the base's name, version and wheels."""

    name: str
    version: str
    wheels: tuple[LockedWheel, ...]


def read_lock(path: Path = LOCK_FILE) -> Lock:
    """Return the contents of the lock file."""
    data = json.loads(path.read_text(encoding="utf-8"))
    wheels = tuple(LockedWheel(**entry) for entry in data["wheels"])
    return Lock(data["name"], data["version"], wheels)


@dataclass(frozen=True)
class Interpreter:
    """The interpreter and machine a tree is built for."""

    python: str
    machine: str
    description: str

    @staticmethod
    def running() -> Interpreter:
        """Return what the build runs on."""
        machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(
            platform.machine().lower(), platform.machine().lower()
        )
        threading = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
        python = f"cp{sys.version_info.major}{sys.version_info.minor}{threading}"
        libc, libc_version = platform.libc_ver()
        description = (
            f"{platform.python_implementation()} {platform.python_version()}{threading} "
            f"on {platform.system()} {machine} with {libc or 'an unknown C library'} {libc_version}"
        ).rstrip()
        supported = (
            sys.implementation.name == "cpython"
            and platform.system() == "Linux"
            and libc == "glibc"
        )
        return Interpreter(python if supported else "none", machine, description)


def locked_wheel(lock: Lock, interpreter: Interpreter) -> LockedWheel:
    """Return the lock's wheel for an interpreter.

    Raises:
        SetupError: There is none: the base was not released for it.
    """
    for wheel in lock.wheels:
        if (wheel.python, wheel.machine) == (interpreter.python, interpreter.machine):
            return wheel
    known = ", ".join(f"{wheel.python} on {wheel.machine}" for wheel in lock.wheels)
    raise SetupError(
        f"Triton {lock.version}, the base of this tree, was not released for this interpreter.",
        expected=f"CPython on Linux with glibc, one of: {known}",
        found=interpreter.description,
        to_do="build with one of these interpreters",
    )


class Base(Protocol):
    """A verified base. Its files are named as in the wheel: ``triton/...``."""

    @property
    def origin(self) -> str:
        """Where it was found, in words."""
        ...

    @property
    def digest(self) -> str:
        """What identifies its contents: two bases with equal digests hold equal files."""
        ...

    @property
    def platform_tags(self) -> str:
        """The platform tags of its wheel, joined by dots."""
        ...

    def names(self) -> list[str]:
        """The names of the files of the package."""
        ...

    def license_names(self) -> list[str]:
        """The names of its licence files, relative to the directory of licences."""
        ...

    def extract(self, name: str, root: Path) -> Path:
        """Write one of ``names()`` below ``root`` and return its path."""
        ...

    def read_license(self, name: str) -> bytes:
        """Return the contents of one of ``license_names()``."""
        ...


class WheelBase:
    """A base in the form of the released wheel, verified by the hash of the whole file."""

    def __init__(self, path: Path, locked: LockedWheel, version: str, origin: str) -> None:
        self.origin = origin
        self.digest = locked.sha256
        self.platform_tags = locked.platform_tags
        self._archive = zipfile.ZipFile(path)
        self._licenses = f"triton-{version}.dist-info/licenses/"

    def names(self) -> list[str]:
        return [
            name
            for name in self._archive.namelist()
            if name.startswith("triton/") and not name.endswith("/")
        ]

    def license_names(self) -> list[str]:
        return [
            name.removeprefix(self._licenses)
            for name in self._archive.namelist()
            if name.startswith(self._licenses) and not name.endswith("/")
        ]

    def extract(self, name: str, root: Path) -> Path:
        return extract_member(self._archive, name, root)

    def read_license(self, name: str) -> bytes:
        return self._archive.read(self._licenses + check_member_name(name))


class InstalledBase:
    """A base in the form of an installed distribution, verified file by file by its RECORD.

    Only files that RECORD lists are part of it: what else lies in its directory, such as caches
    or files of another distribution, is not looked at.

    Raises:
        SetupError: It does not qualify; the message says why.
    """

    def __init__(
        self, distribution: importlib.metadata.Distribution, lock: Lock, locked: LockedWheel
    ) -> None:
        self._root = Path(str(distribution.locate_file(""))).resolve()
        self.origin = f"installed Triton {lock.version} in {self._root}"
        version = distribution.metadata["Version"]
        if version != lock.version:
            raise self._unfit(f"Triton {lock.version}", f"Triton {version}")
        tags = [
            line.partition(":")[2].strip()
            for line in (distribution.read_text("WHEEL") or "").splitlines()
            if line.startswith("Tag:")
        ]
        if not any(
            tag.split("-")[0] == locked.python and tag.endswith(f"_{locked.machine}")
            for tag in tags
        ):
            raise self._unfit(
                f"a wheel for {locked.python} on {locked.machine}", f"tags {', '.join(tags)}"
            )
        self.platform_tags = ".".join(tag.split("-", 2)[2] for tag in tags)
        rows = self._package_rows(distribution.read_text("RECORD"))
        self._verify(rows)
        self._names = [name for name in rows if name.startswith("triton/")]
        marker = ".dist-info/licenses/"
        self._licenses = {
            name.partition(marker)[2]: self._root / name for name in rows if marker in name
        }
        # pip adds rows of its own to RECORD, so its text says less than the rows kept here.
        listing = "\n".join(f"{name},{digest},{size}" for name, (digest, size) in rows.items())
        self.digest = hashlib.sha256(listing.encode()).hexdigest()

    def _unfit(self, expected: str, found: str) -> SetupError:
        return SetupError(
            f"The Triton installed in {self._root} cannot be the base.",
            expected=expected,
            found=found,
            to_do="reinstall it (pip install --force-reinstall --no-deps triton==3.6.0), "
            "or name a wheel in TRITON_BASE_WHEEL",
        )

    def _package_rows(self, record: str | None) -> dict[str, tuple[str, int]]:
        """Return hash and size by name of RECORD's rows that are the package or its licences."""
        if not record:
            raise self._unfit("a RECORD file, as pip installs it", "none")
        rows: dict[str, tuple[str, int]] = {}
        for name, digest, size in csv.reader(io.StringIO(record)):
            # Console scripts are recorded as ../../../bin/proton; they are made anew from the
            # entry points, as are compiled files.
            package = name.startswith("triton/") and "/__pycache__/" not in name
            if not package and ".dist-info/licenses/" not in name:
                continue
            check_member_name(name)
            if not digest.startswith("sha256=") or not size.isdigit():
                raise self._unfit(
                    "a SHA-256 and a size for every file in RECORD", f"none for {name}"
                )
            rows[name] = (digest, int(size))
        extension = "triton/_C/libtriton.so"
        if extension not in rows:
            raise self._unfit(f"{extension} in RECORD", "an installation without compiled files")
        return dict(sorted(rows.items()))

    def _verify(self, rows: Mapping[str, tuple[str, int]]) -> None:
        def problem(row: tuple[str, tuple[str, int]]) -> str | None:
            name, (digest, size) = row
            path = self._root / name
            try:
                if path.stat().st_size != size:
                    return f"{name} has {path.stat().st_size} bytes instead of {size}"
                if record_hash(file_digest(path)) != digest:
                    return f"{name} has another SHA-256"
            except OSError as error:
                return f"{name}: {error.strerror}"
            return None

        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            problems = [text for text in pool.map(problem, rows.items()) if text]
        if problems:
            more = f"\nand {len(problems) - 5} more" if len(problems) > 5 else ""
            raise self._unfit("every file as RECORD lists it", "\n".join(problems[:5]) + more)

    def names(self) -> list[str]:
        return self._names

    def license_names(self) -> list[str]:
        return list(self._licenses)

    def extract(self, name: str, root: Path) -> Path:
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        source = self._root / name
        shutil.copyfile(source, target)
        target.chmod(0o755 if source.stat().st_mode & 0o111 else 0o644)
        return target

    def read_license(self, name: str) -> bytes:
        return self._licenses[name].read_bytes()


def _describe_wheel(path: Path, digest: str, lock: Lock) -> str:
    """Say what a file that is not the expected wheel is, as far as can be told."""
    for wheel in lock.wheels:
        if wheel.sha256 == digest:
            return f"the base's wheel for {wheel.python} on {wheel.machine}: {path}"
    size = path.stat().st_size
    try:
        with zipfile.ZipFile(path) as archive:
            metadata = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
            head = archive.read(metadata[0]).decode("utf-8", "replace").splitlines()[:40]
    except _DAMAGED_ARCHIVE:
        return f"{path}, {size} bytes: not a complete wheel (truncated, or something else)"
    fields = dict(line.split(": ", 1) for line in head if ": " in line)
    named = f"{fields.get('Name', '?')} {fields.get('Version', '?')}"
    if named == f"{lock.name} {lock.version}":
        named += ", but altered or built by somebody else"
    return f"{path}: {named} ({size} bytes, SHA-256 {digest})"


def verify_wheel(path: Path, locked: LockedWheel, lock: Lock, to_do: str) -> None:
    """Check that the file at ``path`` is the locked wheel.

    Raises:
        SetupError: It cannot be read or is something else.
    """
    if not path.is_file():
        raise SetupError(
            "The wheel of the base is not there.",
            expected=str(locked),
            found=f"{path}: {'a directory' if path.is_dir() else 'no such file'}",
            to_do=to_do,
        )
    try:
        digest = file_digest(path)
    except OSError as error:
        raise SetupError(
            "The wheel of the base cannot be read.",
            expected=str(locked),
            found=str(error),
            to_do=to_do,
        ) from error
    if digest != locked.sha256:
        raise SetupError(
            "The wheel of the base is not the one this tree was made for.",
            expected=str(locked),
            found=_describe_wheel(path, digest, lock),
            to_do=to_do,
        )


def cache_directory(environment: Mapping[str, str]) -> Path:
    """Return the directory that keeps downloads: ``FLAGTREE_CACHE_DIR``, else ``~/.flagtree``."""
    named = environment.get("FLAGTREE_CACHE_DIR")
    return Path(named).expanduser().absolute() if named else Path.home() / ".flagtree"


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the file lock ``path`` (created when missing) among all processes of this host.

    A file system that has no locks is used without: what is protected is also written to a
    temporary name first, so the cost is double work, not a damaged file.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            note(f"another build holds {path}; waiting for it")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
                raise
        yield
    finally:
        os.close(descriptor)


def _download(locked: LockedWheel, lock: Lock, directory: Path) -> Path:
    """Let pip download the locked wheel into ``directory`` and return its path.

    pip is given the hash, so that an index with other builds of the same version is passed over.
    """
    requirement = directory / "requirement.txt"
    requirement.write_text(f"{lock.name}=={lock.version} --hash=sha256:{locked.sha256}\n")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    command += ["--disable-pip-version-check", "--no-input", "--progress-bar", "off"]
    command += ["--require-hashes", "--dest", str(directory), "--requirement", str(requirement)]
    # In pip's own isolated builds PYTHONPATH hides the interpreter's pip.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    note(f"downloading {locked.file} with pip")
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    wheel = directory / locked.file
    if answer.returncode != 0 or not wheel.is_file():
        output = (answer.stderr.strip() or answer.stdout.strip()).splitlines()[-8:]
        raise SetupError(
            "The base could not be downloaded.",
            expected=str(locked),
            found="pip download failed:\n" + "\n".join(output),
            to_do="give pip an index it can reach (pip config), put the wheel somewhere and name "
            "it in TRITON_BASE_WHEEL,\nor install it first: "
            f"pip install {lock.name}=={lock.version}",
        )
    return wheel


def cached_wheel(locked: LockedWheel, lock: Lock, cache: Path) -> Path:
    """Return the path of the verified wheel in the cache, downloaded when it is not there.

    Any number of builds may do this at once. The wheel gets its name only once it is verified; a
    cache that already holds it need not be writable.

    Raises:
        SetupError: The cache cannot be written, or the download failed or is not the wheel.
    """
    directory = cache / "base"
    wheel = directory / locked.file
    to_do = f"delete {wheel}, so that it is downloaded again"

    def good() -> bool:
        if not wheel.exists():
            return False
        try:
            verify_wheel(wheel, locked, lock, to_do)
        except SetupError as error:
            note(f"the cached wheel is not used and will be replaced: {error}")
            return False
        return True

    if good():
        return wheel
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with exclusive(directory / "lock"):
            if good():
                return wheel
            for leftover in directory.glob("partial-*"):
                # The lock is ours, so whoever made it has died.
                shutil.rmtree(leftover, ignore_errors=True)
            with tempfile.TemporaryDirectory(prefix="partial-", dir=directory) as partial:
                downloaded = _download(locked, lock, Path(partial))
                verify_wheel(
                    downloaded, locked, lock, "check which index pip uses (pip config list)"
                )
                os.replace(downloaded, wheel)
    except OSError as error:
        raise SetupError(
            "The cache for the base cannot be used.",
            expected=f"a directory that can be written, with {locked.size >> 20} MiB to spare",
            found=str(error),
            to_do="set FLAGTREE_CACHE_DIR to such a directory",
        ) from error
    return wheel


def _installed_base(lock: Lock, locked: LockedWheel) -> InstalledBase | None:
    """Return the installed base, or None when none is installed or it does not qualify."""
    for distribution in importlib.metadata.distributions(name=lock.name):
        try:
            return InstalledBase(distribution, lock, locked)
        except SetupError as error:
            note(f"not used as the base: {error}")
    return None


def chosen_base(
    environment: Mapping[str, str], lock: Lock, locked: LockedWheel
) -> WheelBase | InstalledBase | None:
    """Return the base that needs no cache: the named wheel, else the installed Triton, else None.

    Raises:
        SetupError: ``TRITON_BASE_WHEEL`` names something else than the locked wheel.
    """
    named = environment.get("TRITON_BASE_WHEEL")
    if not named:
        return _installed_base(lock, locked)
    path = Path(named).expanduser().absolute()
    to_do = (
        f"name that wheel in TRITON_BASE_WHEEL (pip download --no-deps {lock.name}=="
        f"{lock.version} fetches it), or unset the variable"
    )
    verify_wheel(path, locked, lock, to_do)
    return WheelBase(path, locked, lock.version, f"TRITON_BASE_WHEEL={path}")


def cached_base(environment: Mapping[str, str], lock: Lock, locked: LockedWheel) -> WheelBase:
    """Return the base kept in the cache, downloaded when it is not there.

    Raises:
        SetupError: The cache cannot be written, or the download failed or is not the wheel.
    """
    path = cached_wheel(locked, lock, cache_directory(environment))
    return WheelBase(path, locked, lock.version, str(path))
