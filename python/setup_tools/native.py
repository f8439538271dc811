"""Running CMake and Ninja on the C++ half, with the environment variables that Triton's build
honours: ``MAX_JOBS``, ``DEBUG``, ``REL_WITH_DEB_INFO``, ``TRITON_BUILD_WITH_CCACHE`` and
``TRITON_APPEND_CMAKE_ARGS``. ``FLAGTREE_BUILD_DIR`` names a build directory to use instead of the
installation's own, so that a developer's build is not made twice."""

from __future__ import annotations

import importlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from .errors import SetupError, note


def flag(environment: Mapping[str, str], name: str) -> bool:
    """Say whether an environment variable is switched on, as Triton reads it."""
    return environment.get(name, "").upper() in ("ON", "1", "YES", "TRUE", "Y")


def build_type(environment: Mapping[str, str]) -> str:
    """Return CMake's build type: ``DEBUG`` and ``REL_WITH_DEB_INFO`` choose it."""
    if flag(environment, "DEBUG"):
        return "Debug"
    if flag(environment, "REL_WITH_DEB_INFO"):
        return "RelWithDebInfo"
    return "Release"


def job_count(environment: Mapping[str, str]) -> int:
    """Return how many compilations may run at once: ``MAX_JOBS``, else twice the processors.

    Raises:
        SetupError: ``MAX_JOBS`` is not a positive number.
    """
    value = environment.get("MAX_JOBS")
    if not value:
        return 2 * len(os.sched_getaffinity(0))
    if value.isdecimal() and int(value) > 0:
        return int(value)
    raise SetupError("MAX_JOBS is malformed.", expected="a positive number", found=repr(value))


def find_tool(name: str, module: str, attribute: str) -> str:
    """Return the path of a build tool that pip installs as a Python package.

    The package of the running interpreter comes first, since the environment's directory of
    scripts need not be on PATH when its interpreter is called by path.

    Raises:
        SetupError: It is neither installed as a package nor on PATH.
    """
    try:
        directory = getattr(importlib.import_module(module), attribute)
        candidate = Path(directory, name)
        if candidate.is_file():
            return str(candidate)
    except (ImportError, AttributeError):
        pass
    found = shutil.which(name)
    if found is None:
        raise SetupError(
            f"{name} is needed to build the C++ half of the tree.",
            expected=f"the Python package {module}, or {name} on PATH",
            found=f"neither (Python is {sys.executable})",
            to_do="pip install -r python/requirements.txt",
        )
    return found


def build_directory(root: Path, own: Path, environment: Mapping[str, str] = os.environ) -> Path:
    """Return ``FLAGTREE_BUILD_DIR``, relative to ``root``, or the installation's own directory."""
    named = environment.get("FLAGTREE_BUILD_DIR")
    return root / Path(named).expanduser() if named else own


def build(root: Path, directory: Path, environment: Mapping[str, str] = os.environ) -> None:
    """Configure and build the extension module and the tools in ``directory``.

    A directory named by ``FLAGTREE_BUILD_DIR`` belongs to somebody else: what is set in it, such
    as whether unit tests are built, stays as it is.

    Args:
        root: The top of the sources.
        directory: The build directory, as `build_directory` tells it.
        environment: Where the variables are looked up.

    Raises:
        SetupError: A tool is missing, or configuring or compiling failed.
    """
    cmake = find_tool("cmake", "cmake", "CMAKE_BIN_DIR")
    ninja = find_tool("ninja", "ninja", "BIN_DIR")
    configure = [cmake, "-S", str(root), "-B", str(directory), "-G", "Ninja"]
    configure += [
        f"-DCMAKE_MAKE_PROGRAM={ninja}",
        f"-DPython3_EXECUTABLE={sys.executable}",
        "-DFLAGTREE_BUILD_PYTHON=ON",
        "-DFLAGTREE_BUILD_TOOLS=ON",
    ]
    if not environment.get("FLAGTREE_BUILD_DIR"):
        configure += [
            f"-DCMAKE_BUILD_TYPE={build_type(environment)}",
            "-DFLAGTREE_BUILD_SIMULATOR=OFF",
            "-DFLAGTREE_BUILD_TESTS=OFF",
        ]
    if flag(environment, "TRITON_BUILD_WITH_CCACHE"):
        configure.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
    configure += shlex.split(environment.get("TRITON_APPEND_CMAKE_ARGS", ""))
    compile_ = [cmake, "--build", str(directory), "--parallel", str(job_count(environment))]
    cache = directory / "CMakeCache.txt"
    if cache.exists() and f"CMAKE_HOME_DIRECTORY:INTERNAL={root}\n" not in cache.read_text():
        # The sources were moved, or another checkout's build directory was copied along.
        shutil.rmtree(directory)
    for command in (configure, compile_):
        note(shlex.join(command))
        answer = subprocess.run(command, check=False)
        if answer.returncode != 0:
            raise SetupError(
                "The C++ half of the tree could not be built.",
                expected=f"`{shlex.join(command)}` to succeed",
                found=f"exit status {answer.returncode}; its own message is above",
                to_do="see the message; a C++17 compiler and the headers of Python are needed",
            )
