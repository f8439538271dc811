"""`python -m triton.backends.ppu`: what it says, that it initializes nothing, its exit status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

FAKE_SDK = Path(__file__).resolve().parents[3] / "test" / "fake_sdk"
PARTS = "tree process forks driver devices toolchain cache knobs torch problems".split()  # noqa: SIM905


def report(
    *arguments: str, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "triton.backends.ppu", *arguments],
        env=None if env is None else dict(env),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def parsed(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.stdout.startswith("{"), done.stderr
    loaded: dict[str, Any] = json.loads(done.stdout)
    return loaded


def test_text_and_json_have_all_parts(simulator: Callable[..., Any]) -> None:
    environment = simulator().environment()
    text = report(env=environment)
    assert text.returncode == 0, text.stdout + text.stderr
    for part in PARTS:
        assert f"\n{part}:" in f"\n{text.stdout}"
    data = parsed(report("--json", env=environment))
    assert list(data) == PARTS
    assert data["problems"] == []
    assert data["tree"]["base"] == "3.6.0"
    assert data["tree"]["backend"] == "ppu"
    assert data["tree"]["backends"] == ["ppu"]


def test_it_initializes_nothing(simulator: Callable[..., Any]) -> None:
    machine = simulator(devices=2)
    data = parsed(report("--json", env=machine.environment()))
    assert machine.calls("cuInit") == []
    names = {call.name for call in machine.calls()}
    assert not {name for name in names if "Ctx" in name or "Primary" in name}
    assert data["process"]["state"] == "Uninitialized"
    assert data["driver"]["present"] is True
    assert data["devices"]["count"] == 2
    assert [entry["capability"] for entry in data["devices"]["devices"]] == ["8.0", "8.0"]
    assert "PPU-ZW810E" in data["devices"]["devices"][0]["chip"]
    assert data["torch"].get("imported") in (None, False)


def test_without_a_device_it_says_so_and_fails(tmp_path: Path) -> None:
    environment = {**os.environ, "FLAGTREE_DEVICE_ROOT": str(tmp_path)}
    done = report("--json", env=environment)
    data = parsed(done)
    if data["driver"]["present"]:
        pytest.skip("this host has a device")
    assert done.returncode == 1
    assert data["process"]["state"] == "Absent"
    assert any(text.startswith("driver: No driver library was found") for text in data["problems"])
    # Compiling for the PPU works all the same.
    assert data["toolchain"]["capability_source"] == "assumed, as no device tells one"
    assert data["toolchain"]["kind"] == "cuda"


def test_hidden_devices(simulator: Callable[..., Any]) -> None:
    environment = {**simulator().environment(), "CUDA_VISIBLE_DEVICES": ""}
    done = report("--json", env=environment)
    assert done.returncode == 1
    data = parsed(done)
    assert data["devices"]["CUDA_VISIBLE_DEVICES"] == ""
    assert any("CUDA_VISIBLE_DEVICES" in text for text in data["problems"])


def test_the_sdk_and_the_knobs_are_shown(simulator: Callable[..., Any]) -> None:
    environment = {
        **simulator().environment(),
        "PPU_SDK": str(FAKE_SDK),
        "TRITON_PPU_LLC_OPTIONS": "-v",
        "TRITON_PRINT_AUTOTUNING": "1",
    }
    done = report("--json", env=environment)
    assert done.returncode == 0, done.stdout
    data = parsed(done)
    chain = data["toolchain"]
    assert (chain["kind"], chain["reason"]) == ("sdk", "found by PPU_SDK")
    assert (chain["version"], chain["dialect"]) == ("2.1.0", "2.1")
    assert chain["ppu-llc"] == str(FAKE_SDK / "bin" / "ppu-llc")
    assert data["knobs"]["PPU_SDK"] == str(FAKE_SDK)
    assert data["knobs"]["TRITON_PPU_LLC_OPTIONS"] == "-v"
    assert data["knobs"]["TRITON_PRINT_AUTOTUNING"] == "1"


@pytest.mark.parametrize(
    ("variable", "value", "part", "words"),
    [
        ("TRITON_PPU_TOOLCHAIN", "sdk", "toolchain", "PPU SDK's compiler was not found"),
        ("TRITON_PPU_TOOLCHAIN", "gcc", "toolchain", "expected one of auto, sdk, cuda"),
        ("FLAGTREE_FORK_WARNING", "loud", "forks", "expected one of use, fork, off"),
    ],
)
def test_a_part_that_fails_is_a_problem_and_the_others_are_there(
    variable: str, value: str, part: str, words: str, simulator: Callable[..., Any]
) -> None:
    done = report("--json", env={**simulator().environment(), variable: value})
    assert done.returncode == 1
    data = parsed(done)
    assert words in data[part]["error"]
    assert any(text.startswith(f"{part}: ") and words in text for text in data["problems"])
    assert data["tree"]["base"] == "3.6.0"


def test_compile_compiles_and_still_initializes_nothing(simulator: Callable[..., Any]) -> None:
    machine = simulator(capability=(8, 9))
    data = parsed(report("--json", "--compile", env=machine.environment()))
    assert data["compile"]["capability"] == "8.9"
    assert data["compile"]["stages"][-1] == "cubin"
    assert data["compile"]["bytes"] > 1000
    assert machine.calls("cuInit") == []


def test_initialize_initializes(simulator: Callable[..., Any]) -> None:
    machine = simulator()
    done = report("--json", "--initialize", env=machine.environment())
    assert done.returncode == 0, done.stdout
    data = parsed(done)
    assert data["initialize"]["state"] == "Initialized"
    assert data["initialize"]["properties"]["warpSize"] == 32
    assert len(machine.calls("cuInit")) == 1


@pytest.mark.parametrize("abi", ["cu", "hg"])
def test_launch_checks_the_numbers(abi: str, simulator: Callable[..., Any]) -> None:
    """The simulated device runs nothing, so every number is wrong, and that is found."""
    machine = simulator(abi=abi)
    done = report("--json", "--launch", env=machine.environment())
    assert done.returncode == 1
    data = parsed(done)
    assert "the kernel ran, but 1000 of 1000 numbers are wrong" in data["launch"]["error"]
    (call,) = machine.calls(f"{abi}LaunchKernelEx")
    assert call.detail["kernel"] == "add_kernel"
    assert call.triple("grid") == (4, 1, 1)
    assert len(machine.calls(f"{abi}MemFree_v2")) == 3


def test_selftest_writes_one_file(simulator: Callable[..., Any], tmp_path: Path) -> None:
    tests = tmp_path / "a" / "b" / "gpu"
    tests.mkdir(parents=True)
    (tests / "test_device.py").write_text(
        "import pytest\n\n@pytest.mark.gpu\ndef test_device():\n    assert 1 + 1 == 2\n"
    )
    (tests / "conftest.py").write_text(
        "def pytest_addoption(parser):\n    parser.addoption('--gpu', action='store_true')\n"
        "def pytest_configure(config):\n    config.addinivalue_line('markers', 'gpu: device')\n"
    )
    output = tmp_path / "file.txt"
    done = report(
        "--selftest",
        "--json",
        "--tests",
        str(tests),
        "--output",
        str(output),
        env=simulator().environment(),
    )
    data = parsed(done)
    assert json.loads(output.read_text()) == data
    assert f"written to {output}" in done.stderr
    assert data["forked child"]["state"] == "ForkedAfterInit"
    assert data["forked child"]["use"] == "ForkedDriverError"
    assert "1 passed" in data["tests"]["result"]
    assert done.returncode == 1  # the simulated device computes nothing
    assert [text.split(":")[0] for text in data["problems"]] == ["launch"]


def test_selftest_with_a_failing_test(simulator: Callable[..., Any], tmp_path: Path) -> None:
    done = report(
        "--selftest",
        "--tests",
        str(tmp_path / "absent"),
        "--output",
        str(tmp_path / "file"),
        env=simulator().environment(),
    )
    assert done.returncode == 1
    assert "tests: RuntimeError: no tests in" in (tmp_path / "file").read_text()


def test_usage() -> None:
    done = report("--frobnicate")
    assert done.returncode == 2
    assert "usage: python -m triton.backends.ppu" in done.stderr
    assert report("--tests", "x").returncode == 2
    assert report("--help").returncode == 0


@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_a_reader_that_goes_away_is_no_fault(
    simulator: Callable[..., Any], arguments: tuple[str, ...]
) -> None:
    """`python -m triton.backends.ppu | head -1` ends quietly, as if all had been read."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "triton.backends.ppu", *arguments],
        env=simulator().environment(),
        stdout=writer,
        stderr=subprocess.PIPE,
        timeout=300,
        check=False,
    )
    os.close(writer)
    assert done.stderr == b""
    assert done.returncode == 0


def test_a_report_that_cannot_be_written(tmp_path: Path, simulator: Callable[..., Any]) -> None:
    """A full disk or a bad path is one line on standard error; the path is tried at the start."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "triton.backends.ppu"],
            env=simulator().environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=300,
            check=False,
        )
    assert done.stderr == "cannot write the report: No space left on device\n"
    assert done.returncode == 1
    for path, reason in (
        (tmp_path / "missing" / "file", "No such file or directory"),
        (tmp_path, "Is a directory"),
    ):
        done = report("--selftest", "--json", "--output", str(path), env=simulator().environment())
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"cannot write {path}: {reason}\n"


@pytest.mark.parametrize("encoding", ["ascii", "utf-8", "latin-1"])
@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_values_that_are_no_text_are_escaped(
    simulator: Callable[..., Any], encoding: str, arguments: tuple[str, ...]
) -> None:
    environment = simulator().environment()
    environment["CUDA_DEVICE_ORDER"] = os.fsdecode(b"\xff\xc3\xa9")
    environment["PYTHONIOENCODING"] = encoding
    done = subprocess.run(
        [sys.executable, "-m", "triton.backends.ppu", *arguments],
        env=environment,
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert b"CUDA_DEVICE_ORDER" in done.stdout


def test_a_cache_directory_that_is_a_file(tmp_path: Path, simulator: Callable[..., Any]) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        environment = {**simulator().environment(), "TRITON_CACHE_DIR": str(path)}
        done = report("--json", env=environment)
        assert parsed(done)["cache"]["writable"] is False
        assert f"cache: {path} cannot be written" in parsed(done)["problems"]
        assert done.returncode == 1
