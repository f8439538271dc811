"""Which platform tag a wheel may carry. The base's wheel has a manylinux tag; ours may have it
only if every compiled file that we add asks for no newer symbol version than that tag allows."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from .errors import note

# Newest symbol versions that PEP 600's manylinux tags let a wheel need, besides glibc's own: those
# of the GCC 8 runtime of the distributions that have glibc 2.27 and 2.28.
_COMPILER_RUNTIME = {"GLIBCXX": (3, 4, 25), "CXXABI": (1, 3, 11), "GCC": (8, 0, 0)}

# Libraries that PEP 600 lets a wheel expect on the host, as far as this tree uses them.
_HOST_LIBRARIES = re.compile(
    r"(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|ld-linux[-a-z0-9_]*)\.so\.\d+"
)

Version = tuple[int, ...]


def _version(text: str) -> Version:
    return tuple(int(part) for part in text.split("."))


def parse_requirements(listing: str) -> tuple[set[tuple[str, Version]], set[str]]:
    """Return the versioned names and the libraries that a file needs, from `readelf -V -d`.

    Symbols of kind GLIBC_PRIVATE and the like, which no tag allows, come with version 0 and the
    whole name.
    """
    needs: set[tuple[str, Version]] = set()
    in_needs = False
    for line in listing.splitlines():
        if line.startswith("Version "):
            in_needs = line.startswith("Version needs section")
        match = re.search(r"Name: (\S+)\s+Flags:", line)
        if in_needs and match:
            family, _, version = match.group(1).rpartition("_")
            if re.fullmatch(r"[0-9.]+", version):
                needs.add((family, _version(version)))
            else:
                needs.add((match.group(1), (0,)))
    libraries = set(re.findall(r"\(NEEDED\).*\[(.+)\]", listing))
    return needs, libraries


def allowed_by(tag: str, needs: Iterable[tuple[str, Version]], libraries: Iterable[str]) -> bool:
    """Say whether a platform tag such as ``manylinux_2_28_x86_64`` allows what a file needs."""
    match = re.fullmatch(r"manylinux_(\d+)_(\d+)_\w+", tag)
    if not match:
        return False
    limits: dict[str, Version] = {"GLIBC": (int(match[1]), int(match[2])), **_COMPILER_RUNTIME}
    return all(family in limits and version <= limits[family] for family, version in needs) and all(
        _HOST_LIBRARIES.fullmatch(library) for library in libraries
    )


def platform_tag(base_tags: str, machine: str, compiled: Iterable[Path]) -> str:
    """Return the platform tag for a wheel that adds the files ``compiled`` to the base.

    Args:
        base_tags: The base's own tags, joined by dots.
        machine: The processor architecture, such as ``x86_64``.
        compiled: The shared libraries and programs that we built.

    Returns:
        Those of the base's tags that our files satisfy, joined by dots, else ``linux_<machine>``.
    """
    plain = f"linux_{machine}"
    tool = shutil.which("readelf")
    if tool is None:
        note(f"readelf (binutils) is missing, so the wheel gets the tag {plain}")
        return plain
    tags = base_tags.split(".")
    for path in compiled:
        listing = subprocess.run(
            [tool, "--version-info", "--dynamic", "--wide", str(path)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        needs, libraries = parse_requirements(listing)
        remaining = [tag for tag in tags if allowed_by(tag, needs, libraries)]
        if not remaining:
            newest = max((need for need in needs if need[0] == "GLIBC"), default=("GLIBC", (0,)))
            note(
                f"{path.name} needs more than {'.'.join(tags)} allows (glibc "
                f"{'.'.join(map(str, newest[1]))}), so the wheel gets the tag {plain}"
            )
            return plain
        tags = remaining
    return ".".join(tags)
