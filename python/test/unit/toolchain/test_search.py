"""Finding the SDK, choosing the tool chain, and saying why."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from triton.backends.ppu import toolchain
from triton.backends.ppu.tools import ToolchainError

VERSION = 'print("ppu version: 2.1.0 build 7")'


@pytest.fixture
def make_sdk(program: Callable[..., Path]) -> Callable[..., Path]:
    """Makes an SDK root with both programs; returns it."""

    def make(name: str, body: str = VERSION) -> Path:
        llc = program("ppu-llc", body, f"{name}/bin")
        program("llvm-irformatter", "", f"{name}/bin")
        return llc.parent.parent

    return make


def test_nothing_set_and_nothing_installed_means_cuda() -> None:
    choice = toolchain.choose(80)
    assert choice.kind == "cuda"
    assert choice.reason == "no PPU SDK found, and none is asked for"
    assert any("PPU_SDK is not set" in line for line in choice.looked)
    assert any("no-sdk-installed/bin/ppu-llc" in line for line in choice.looked)


@pytest.mark.parametrize("variable", ["PPU_SDK", "PPU_HOME"])
def test_a_root_is_found(
    variable: str, make_sdk: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_sdk("sdk")
    monkeypatch.setenv(variable, str(root))
    choice = toolchain.choose(80)
    assert (choice.kind, choice.reason) == ("sdk", f"found by {variable}")
    assert choice.sdk is not None
    assert choice.sdk.llc.path == str(root / "bin" / "ppu-llc")
    assert choice.sdk.formatter.path == str(root / "bin" / "llvm-irformatter")
    assert str(choice.sdk.version) == "2.1.0"


def test_the_default_place_is_looked_at_last(
    make_sdk: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, last = (make_sdk(name) for name in ("a", "b", "c"))
    monkeypatch.setattr(toolchain, "DEFAULT_SDK_ROOT", str(last))
    assert toolchain.choose(80).reason == "found by the default place"
    monkeypatch.setenv("PPU_HOME", str(second))
    assert toolchain.choose(80).reason == "found by PPU_HOME"
    monkeypatch.setenv("PPU_SDK", str(first))
    assert toolchain.choose(80).reason == "found by PPU_SDK"


def test_a_named_tool_comes_before_a_root(
    make_sdk: Callable[..., Path], program: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_sdk("sdk")
    other = program("my-llc", 'print("ppu version: 3.0")')
    monkeypatch.setenv("PPU_SDK", str(root))
    monkeypatch.setenv("TRITON_PPU_LLC_PATH", str(other))
    found = toolchain.find_sdk().sdk
    assert found is not None
    assert found.llc == toolchain.Tool("ppu-llc", str(other), "TRITON_PPU_LLC_PATH")
    assert found.formatter.found_by == "PPU_SDK"
    assert found.version.numbers == (3, 0)


def test_a_relative_root_is_made_absolute(
    make_sdk: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_sdk("sdk")
    monkeypatch.chdir(root.parent)
    monkeypatch.setenv("PPU_SDK", "./sdk")
    found = toolchain.find_sdk().sdk
    assert found is not None
    assert found.llc.path == str(root / "bin" / "ppu-llc")
    assert str(found.version) == "2.1.0"


def test_asking_for_an_sdk_that_is_not_there_says_where_it_looked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Case 11: `PPU_SDK` unset must not be a TypeError from a path join."""
    monkeypatch.setenv("TRITON_PPU_TOOLCHAIN", "sdk")
    monkeypatch.setenv("PPU_HOME", str(tmp_path / "empty"))
    with pytest.raises(toolchain.SDKNotFoundError) as caught:
        toolchain.choose(80)
    message = str(caught.value)
    assert "ppu-llc: PPU_SDK is not set" in message
    assert f"{tmp_path}/empty/bin/ppu-llc (from PPU_HOME) does not exist" in message
    assert "no-sdk-installed/bin/llvm-irformatter (from the default place)" in message
    assert "Set PPU_SDK to the SDK's root directory" in message


@pytest.mark.parametrize("wanted", ["auto", "sdk"])
def test_a_named_tool_that_is_not_there_is_an_error(
    wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_PPU_TOOLCHAIN", wanted)
    monkeypatch.setenv("TRITON_PPU_LLC_PATH", "/nowhere/ppu-llc")
    with pytest.raises(toolchain.SDKNotFoundError, match=r"/nowhere/ppu-llc .*does not exist"):
        toolchain.choose(80)
    monkeypatch.setenv("TRITON_PPU_TOOLCHAIN", "cuda")
    assert toolchain.choose(80).kind == "cuda"


def test_problems_of_a_file_are_told_apart(
    make_sdk: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_sdk("sdk")
    monkeypatch.setenv("PPU_SDK", str(root))
    monkeypatch.setenv("TRITON_PPU_TOOLCHAIN", "sdk")
    formatter = root / "bin" / "llvm-irformatter"
    formatter.chmod(0o644)
    with pytest.raises(toolchain.SDKNotFoundError, match="is not executable"):
        toolchain.choose(80)
    formatter.unlink()
    formatter.mkdir()
    with pytest.raises(toolchain.SDKNotFoundError, match="is not a file"):
        toolchain.choose(80)
    shutil.rmtree(formatter)
    with pytest.raises(toolchain.SDKNotFoundError, match="does not exist"):
        toolchain.choose(80)
    monkeypatch.setenv("TRITON_PPU_TOOLCHAIN", "auto")
    choice = toolchain.choose(80)
    assert choice.kind == "cuda"
    assert any("llvm-irformatter" in line and "does not exist" in line for line in choice.looked)


def test_a_target_the_sdk_does_not_serve(
    make_sdk: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PPU_SDK", str(make_sdk("sdk")))
    choice = toolchain.choose(90, supported=False)
    assert choice.kind == "cuda"
    assert "does not compile for compute capability 9.0" in choice.reason
    monkeypatch.setenv("TRITON_PPU_TOOLCHAIN", "sdk")
    with pytest.raises(ToolchainError, match=r"compute capability 9\.0; set TRITON_PPU_TOOLCHAIN"):
        toolchain.choose(90, supported=False)


def test_an_unknown_choice_names_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_PPU_TOOLCHAIN", "gcc")
    with pytest.raises(ValueError, match="TRITON_PPU_TOOLCHAIN='gcc': expected one of auto, sdk"):
        toolchain.choose(80)


def test_the_version_is_read_once_per_file(
    program: Callable[..., Path], make_sdk: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_sdk(
        "sdk", f'open({str(program("x", "").parent / "log")!r}, "a").write("x")\n{VERSION}'
    )
    log = root.parent / "programs" / "log"
    monkeypatch.setenv("PPU_SDK", str(root))
    for _ in range(3):
        found = toolchain.find_sdk().sdk
        assert found is not None
        assert found.version.numbers == (2, 1, 0)
    assert log.read_text() == "x"
    make_sdk("sdk", 'print("ppu version: 2.0.0")  # another file')
    found = toolchain.find_sdk().sdk
    assert found is not None
    assert found.version.numbers == (2, 0, 0)


@pytest.mark.parametrize(
    ("text", "dialect"),
    [
        ("ppu version: 2.0.0", "2.0"),
        ("ppu version: 2.0.9-rc1", "2.0"),
        ("LLVM 17\nppu version: 2.1.0 (x)", "2.1"),
        ("ppu version: 10.0", "2.1"),
        ("PPU compiler\nppu version v2.2", "2.1"),
    ],
)
def test_the_dialect_follows_the_version(
    text: str, dialect: str, make_sdk: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PPU_SDK", str(make_sdk("sdk", f"print({text!r})")))
    found = toolchain.find_sdk().sdk
    assert found is not None
    assert found.version.dialect == dialect


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('print("hello")', r"does not say `ppu version: N\.N`; it says:\nhello"),
        ("", r"it says:\n\(nothing\)"),
        ('print("no driver", file=sys.stderr); sys.exit(127)', r"^no driver\nppu-llc: failed"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "ended by SIGSEGV"),
        ("time.sleep(60)", "stopped after 1 s"),
    ],
)
def test_a_version_that_cannot_be_read(
    body: str, message: str, make_sdk: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PPU_SDK", str(make_sdk("sdk", body)))
    monkeypatch.setenv("TRITON_PPU_TOOL_TIMEOUT", "1")
    found = toolchain.find_sdk().sdk
    assert found is not None
    with pytest.raises(ToolchainError, match=message):
        _ = found.version


def test_a_file_that_is_no_program(
    make_sdk: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_sdk("sdk")
    (root / "bin" / "ppu-llc").write_bytes(b"\x7fELF not really")
    monkeypatch.setenv("PPU_SDK", str(root))
    found = toolchain.find_sdk().sdk
    assert found is not None
    with pytest.raises(ToolchainError, match="could not be started: Exec format error"):
        _ = found.version


def test_the_fingerprint_follows_version_and_contents(
    make_sdk: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_sdk("sdk")
    monkeypatch.setenv("PPU_SDK", str(root))

    def fingerprint() -> str:
        found = toolchain.find_sdk().sdk
        assert found is not None
        return found.fingerprint()

    first = fingerprint()
    assert fingerprint() == first
    formatter = root / "bin" / "llvm-irformatter"
    formatter.write_text(formatter.read_text() + "# changed\n")
    second = fingerprint()
    assert second != first
    llc = root / "bin" / "ppu-llc"
    llc.write_text(llc.read_text() + "# changed\n")
    assert fingerprint() not in (first, second)


def test_a_time_limit_that_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    from triton.backends.ppu import knobs

    monkeypatch.setenv("TRITON_PPU_TOOL_TIMEOUT", "soon")
    with pytest.raises(ValueError, match="TRITON_PPU_TOOL_TIMEOUT='soon': expected seconds"):
        _ = knobs.active().tool_timeout
