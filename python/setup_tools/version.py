"""The version of the distribution: ``0.6.0+ppu.git<sha8>``, or for a nightly build
``0.6.0.dev<date>+ppu.git<sha8>``. The commit comes from git, from an archive that git exported,
or from the sdist's own metadata, in this order."""

from __future__ import annotations

import datetime
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from .errors import SetupError, note

BASE_VERSION = "0.6.0"
# Stands where the commit would, when it cannot be known.
UNKNOWN_COMMIT = "unknown"

_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


def commit_from_git(root: Path) -> str | None:
    """Return the commit that is checked out at ``root``, or None when ``root`` is not the top of
    a git checkout or git is not installed."""
    if not (root / ".git").exists():
        # A tree that was unpacked somewhere inside another checkout is not that checkout.
        return None
    command = ["git", "-c", f"safe.directory={root}", "-C", str(root), "rev-parse", "HEAD"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        note(f"git could not be run ({error}), so the commit is looked for elsewhere")
        return None
    commit = answer.stdout.strip()
    if answer.returncode != 0 or not _COMMIT.fullmatch(commit):
        note(f"git does not tell the commit of {root}: {answer.stderr.strip()}")
        return None
    return commit


def commit_from_archive(root: Path) -> str | None:
    """Return the commit that ``git archive`` wrote into ``.git_archival.txt``, or None."""
    try:
        text = (root / ".git_archival.txt").read_text(encoding="utf-8")
    except OSError:
        return None
    match = re.search(r"^node: ([0-9a-f]+)$", text, re.MULTILINE)
    return match.group(1) if match and _COMMIT.fullmatch(match.group(1)) else None


def version_from_sdist(root: Path, backend: str) -> str | None:
    """Return the version an sdist recorded in its ``PKG-INFO``, or None where ``root`` is no
    unpacked sdist.

    Raises:
        SetupError: The sdist was made for another backend.
    """
    try:
        text = (root / "PKG-INFO").read_text(encoding="utf-8")
    except OSError:
        return None
    match = re.search(r"^Version: (\S+)$", text.split("\n\n", 1)[0], re.MULTILINE)
    if not match:
        return None
    version = match.group(1)
    if f"+{backend}." not in version:
        raise SetupError(
            "This source distribution was made for another backend.",
            expected=f"a version that contains '+{backend}.'",
            found=f"version {version} in {root / 'PKG-INFO'}",
            to_do="set FLAGTREE_BACKEND to the backend the version names",
        )
    return version


def nightly_date(environment: Mapping[str, str]) -> str | None:
    """Return the date of a nightly build as YYYYMMDD, or None for any other build.

    ``FLAGTREE_NIGHTLY`` holds the date itself, or ``1`` for today's (UTC; the day of
    ``SOURCE_DATE_EPOCH`` where that is set).

    Raises:
        SetupError: The variable holds neither.
    """
    value = environment.get("FLAGTREE_NIGHTLY", "")
    if value in ("", "0"):
        return None
    if value == "1":
        epoch = environment.get("SOURCE_DATE_EPOCH")
        utc = datetime.timezone.utc
        now = datetime.datetime.now(utc)
        if epoch is not None:
            now = datetime.datetime.fromtimestamp(int(epoch), utc)
        return now.strftime("%Y%m%d")
    try:
        if re.fullmatch(r"[0-9]{8}", value):
            datetime.datetime.strptime(value, "%Y%m%d")
            return value
    except ValueError:
        pass
    raise SetupError(
        "FLAGTREE_NIGHTLY is malformed.",
        expected="a date as YYYYMMDD, or 1 for today, or nothing where it is no nightly",
        found=repr(value),
    )


def version(root: Path, backend: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the version of the distribution built from the sources at ``root``.

    Args:
        root: The top of the source tree.
        backend: The backend the tree is built for, such as ``ppu``.
        environment: Where ``FLAGTREE_NIGHTLY`` is looked up.

    Raises:
        SetupError: ``FLAGTREE_NIGHTLY`` is malformed, or an sdist is of another backend.
    """
    date = nightly_date(environment)
    commit = commit_from_git(root) or commit_from_archive(root)
    if commit is None:
        recorded = version_from_sdist(root, backend)
        if recorded is not None:
            # The sdist was a nightly or not when it was made; building it changes nothing.
            return recorded
        note(
            f"the commit of these sources is not known (no git checkout, git archive or sdist): "
            f"the version ends in '{UNKNOWN_COMMIT}'"
        )
    release = f"{BASE_VERSION}.dev{date}" if date else BASE_VERSION
    local = f"git{commit[:8]}" if commit else UNKNOWN_COMMIT
    return f"{release}+{backend}.{local}"
