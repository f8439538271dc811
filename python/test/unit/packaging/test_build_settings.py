"""What the environment says about the C++ build, the platform tag of the wheel, and that the lists
of build requirements agree."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from setup_tools import native, platform_tag
from setup_tools.errors import SetupError

CHECKOUT = Path(__file__).resolve().parents[4]


def test_build_type() -> None:
    assert native.build_type({}) == "Release"
    assert native.build_type({"DEBUG": "1"}) == "Debug"
    assert native.build_type({"DEBUG": "0"}) == "Release"
    assert native.build_type({"REL_WITH_DEB_INFO": "ON"}) == "RelWithDebInfo"


def test_job_count() -> None:
    assert native.job_count({"MAX_JOBS": "3"}) == 3
    assert native.job_count({}) >= 2


@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5"])
def test_malformed_job_count(value: str) -> None:
    with pytest.raises(SetupError, match=f"MAX_JOBS.*\n.*\n.*{re.escape(repr(value))}"):
        native.job_count({"MAX_JOBS": value})


def test_tool_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "sometool"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert native.find_tool("sometool", "no_such_module", "BIN_DIR") == str(tool)
    with pytest.raises(SetupError, match=r"pip install -r python/requirements\.txt"):
        native.find_tool("othertool", "no_such_module", "BIN_DIR")


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that a build would run."""
    seen: list[list[str]] = []

    def run(command: list[str], check: bool) -> Any:
        seen.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(native, "find_tool", lambda name, module, attribute: name)
    return seen


def test_build_commands(commands: list[list[str]], tmp_path: Path) -> None:
    environment = {
        "DEBUG": "1",
        "MAX_JOBS": "5",
        "TRITON_BUILD_WITH_CCACHE": "true",
        "TRITON_APPEND_CMAKE_ARGS": "-DA=1 '-DB=two words'",
    }
    native.build(CHECKOUT, tmp_path, environment)
    configure, build = commands
    assert "-DCMAKE_BUILD_TYPE=Debug" in configure
    assert "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache" in configure
    assert configure[-2:] == ["-DA=1", "-DB=two words"]
    assert build[-2:] == ["--parallel", "5"]
    assert "-DFLAGTREE_BUILD_TESTS=OFF" in configure


def test_shared_build_directory_keeps_its_settings(
    commands: list[list[str]], tmp_path: Path
) -> None:
    native.build(CHECKOUT, tmp_path, {"FLAGTREE_BUILD_DIR": "build/release"})
    assert not any("TESTS" in argument or "BUILD_TYPE" in argument for argument in commands[0])
    assert native.build_directory(tmp_path, Path("own"), {}) == Path("own")
    shared = native.build_directory(tmp_path, Path("own"), {"FLAGTREE_BUILD_DIR": "build/x"})
    assert shared == tmp_path / "build/x"


def test_failed_build_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "find_tool", lambda name, module, attribute: "/bin/false")
    with pytest.raises(SetupError, match="exit status 1"):
        native.build(CHECKOUT, tmp_path, {})


# What `readelf --version-info --dynamic` prints, shortened.
LISTING = """
 0x0000000000000001 (NEEDED)             Shared library: [libstdc++.so.6]
 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]

Version symbols section '.gnu.version' contains 2 entries:
  000:   0 (*local*)       0 (*local*)       2 (GLIBC_2.99)

Version needs section '.gnu.version_r' contains 2 entries:
  000000: Version: 1  File: libstdc++.so.6  Cnt: 2
  0x0010:   Name: GLIBCXX_3.4.21  Flags: none  Version: 5
  0x0020:   Name: CXXABI_1.3  Flags: none  Version: 4
  0x0030: Version: 1  File: libc.so.6  Cnt: 1
  0x0040:   Name: GLIBC_2.17  Flags: none  Version: 3
"""


def test_symbol_versions() -> None:
    needs, libraries = platform_tag.parse_requirements(LISTING)
    assert needs == {("GLIBCXX", (3, 4, 21)), ("CXXABI", (1, 3)), ("GLIBC", (2, 17))}
    assert libraries == {"libstdc++.so.6", "libc.so.6"}
    assert platform_tag.allowed_by("manylinux_2_27_x86_64", needs, libraries)
    assert platform_tag.allowed_by("manylinux_2_17_x86_64", needs, libraries)
    assert not platform_tag.allowed_by("manylinux_2_16_x86_64", needs, libraries)
    assert not platform_tag.allowed_by("linux_x86_64", needs, libraries)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("GLIBC_2.17 ", "GLIBC_2.34 "),
        ("GLIBCXX_3.4.21", "GLIBCXX_3.4.30"),
        ("GLIBC_2.17 ", "GLIBC_PRIVATE "),
        ("CXXABI_1.3 ", "CXXABI_TM_1 "),
        ("[libc.so.6]", "[libcuda.so.1]"),
    ],
)
def test_what_the_tag_does_not_allow(old: str, new: str) -> None:
    assert old in LISTING
    needs, libraries = platform_tag.parse_requirements(LISTING.replace(old, new))
    assert not platform_tag.allowed_by("manylinux_2_28_x86_64", needs, libraries)


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
def test_tag_of_a_compiled_file(tmp_path: Path) -> None:
    tags = "manylinux_2_27_x86_64.manylinux_2_28_x86_64"
    plain = tmp_path / "plain.so"
    command = ["g++", "-shared", "-fPIC", "-x", "c++", "-"]
    subprocess.run([*command, "-o", str(plain)], input="int f();", text=True, check=True)
    assert platform_tag.platform_tag(tags, "x86_64", [plain]) == tags
    loads = tmp_path / "loads.so"
    source = "struct T { ~T(); }; T t;"
    subprocess.run(
        ["g++", "-shared", "-fPIC", "-x", "c++", "-", "-Wl,-soname,libother.so.1", "-o",
         str(tmp_path / "libother.so")],
        input=source, text=True, check=True,
    )  # fmt: skip
    subprocess.run(
        ["g++", "-shared", "-fPIC", "-x", "c++", "-", "-Wl,--no-as-needed", f"-L{tmp_path}",
         "-lother", "-o", str(loads)],
        input="int g();", text=True, check=True,
    )  # fmt: skip
    assert platform_tag.platform_tag(tags, "x86_64", [plain, loads]) == "linux_x86_64"


def test_tag_without_readelf(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    tag = platform_tag.platform_tag("manylinux_2_28_x86_64", "x86_64", [Path("x.so")])
    assert tag == "linux_x86_64"


def test_requirements_agree() -> None:
    text = (CHECKOUT / "pyproject.toml").read_text()
    match = re.search(r"^requires = \[(.*?)\]", text, re.MULTILINE | re.DOTALL)
    assert match is not None
    declared = set(re.findall(r'"([^"]+)"', match.group(1)))
    listed = {
        line
        for line in (CHECKOUT / "python/requirements.txt").read_text().splitlines()
        if line and not line.startswith("#")
    }
    assert declared and declared <= listed
    for line in listed:
        assert re.fullmatch(r"[a-z0-9-]+>=[0-9.]+(,<[0-9.]+)?", line)
