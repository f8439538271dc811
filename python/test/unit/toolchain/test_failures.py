"""Every way a tool of the SDK can fail, with its message; and that the cache stays sound."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Compile = Callable[..., Any]
CHECKOUT = Path(__file__).resolve().parents[4]


def cache_files() -> list[str]:
    """Names of all files in the kernel cache."""
    return sorted(path.name for path in Path(os.environ["TRITON_CACHE_DIR"]).rglob("*.*"))


def binaries() -> list[str]:
    return [name for name in cache_files() if name.endswith((".hgbin", ".cubin"))]


LLC_FAILURES = {
    "error": r"^ppu-llc: error: kernel\.ll:7: no such register class\nppu-llc: failed with exit s",
    "error-on-stdout": r"^ppu-llc: error: told on standard output\nppu-llc: failed with exit s",
    "silent": r"^ppu-llc: failed with exit status 3\n",
    "long": r"^first words\nx+\n\[\.\.\. \d+ characters left out \.\.\.\]\nx+\nlast words\nppu",
    "escape": r"^red . words\nppu-llc: failed with exit status 1\n",
    "garbage": r"ppu-llc: failed with exit status 1\n",
    "hang": r"^ppu-llc: started \d+\nppu-llc: stopped after 2 s without an end\n",
    "segv": r"^ppu-llc: internal error before the end\nppu-llc: ended by SIGSEGV\n",
    "abort": r"^ppu-llc: internal error before the end\nppu-llc: ended by SIGABRT\n",
    "partial": r"^ppu-llc: ended by SIGKILL \(out of memory\?\)\n",
    "empty": r"^ppu-llc: exited with 0 but wrote nothing to kernel\.hgbin\n",
    "nothing": r"^ppu-llc: nothing to do\nppu-llc: exited with 0 but wrote nothing to kernel\.",
}


@pytest.mark.parametrize("mode", LLC_FAILURES)
def test_ppu_llc_fails(mode: str, sdk: Path, compile_kernel: Compile, monkeypatch: Any) -> None:
    from triton.backends.ppu.tools import AssemblerError
    from triton.runtime.errors import PTXASError

    monkeypatch.setenv("FAKE_PPU_LLC", mode)
    monkeypatch.setenv("TRITON_PPU_TOOL_TIMEOUT", "2" if mode == "hang" else "60")
    with pytest.raises(AssemblerError, match=LLC_FAILURES[mode]) as caught:
        compile_kernel()
    error = caught.value
    assert isinstance(error, PTXASError)
    assert error.kept is not None
    kept = Path(error.kept)
    assert "ppu.ld.global" in (kept / "kernel.ll").read_text()
    assert f"input and both output streams kept in: {kept}" in str(error)
    assert "target datalayout" not in str(error)  # case 13: not the whole IR
    assert binaries() == []

    # The command that is shown reproduces the failure, with the tool as it now is.
    shown = next(
        line.removeprefix("to reproduce: ")
        for line in str(error).splitlines()
        if line.startswith("to reproduce: ")
    )
    assert f"{sdk}/bin/ppu-llc -lineinfo -v --gpu-name=sm_80 {kept}/kernel.ll -o {kept}" in shown
    if mode == "error":
        again = subprocess.run(shown, shell=True, capture_output=True, text=True, check=False)
        assert again.stderr == error.stderr

    # And the same kernel compiles once the tool works again.
    monkeypatch.setenv("FAKE_PPU_LLC", "ok")
    assert compile_kernel().kernel.startswith(b"\x7fHGBIN")


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("error", r"^llvm-irformatter: error: .*\nllvm-irformatter: failed with exit status 1\n"),
        ("segv", r"llvm-irformatter: ended by SIGSEGV\n"),
        ("hang", r"llvm-irformatter: stopped after 2 s"),
        ("nothing", r"llvm-irformatter: exited with 0 but wrote nothing to kernel\.ll\n"),
    ],
)
def test_the_formatter_fails(
    mode: str, message: str, sdk: Path, compile_kernel: Compile, monkeypatch: Any
) -> None:
    from triton.backends.ppu.tools import ToolError

    monkeypatch.setenv("FAKE_IRFORMATTER", mode)
    monkeypatch.setenv("TRITON_PPU_TOOL_TIMEOUT", "2" if mode == "hang" else "60")
    with pytest.raises(ToolError, match=message) as caught:
        compile_kernel()
    assert caught.value.kept is not None
    assert (Path(caught.value.kept) / "kernel.tix.ll").exists()
    assert binaries() == []


def test_the_error_says_which_sdk(sdk: Path, compile_kernel: Compile, monkeypatch: Any) -> None:
    monkeypatch.setenv("FAKE_PPU_LLC", "error")
    with pytest.raises(Exception, match=r"SDK 2\.1\.0, found by PPU_SDK$"):
        compile_kernel()


def test_an_option_the_tool_does_not_know(
    sdk: Path, compile_kernel: Compile, monkeypatch: Any
) -> None:
    monkeypatch.setenv("TRITON_PPU_LLC_OPTIONS", "--frobnicate")
    with pytest.raises(Exception, match=r"Unknown command line argument '--frobnicate'"):
        compile_kernel()


def test_ptxas_fails(compile_kernel: Compile) -> None:
    """The CUDA-compatible tool chain's errors are of the same kind."""
    from triton.backends.ppu.tools import AssemblerError

    with pytest.raises(AssemblerError) as caught:
        compile_kernel("inline assembly: grid dependency")
    message = str(caught.value)
    assert message.startswith("ptxas ")
    assert "'griddepcontrol' requires .target sm_90" in message.splitlines()[1]
    assert "ptxas: failed with exit status 255" in message
    assert caught.value.kept is not None
    kept = Path(caught.value.kept) / "kernel.ptx"
    assert "griddepcontrol.wait" in kept.read_text()
    assert f"--gpu-name=sm_80 {kept}" in message
    assert ".visible .entry" not in message


SCRIPT = """
import sys
sys.path.insert(0, {tools!r})
import language_constructs, triton
from triton.backends.compiler import GPUTarget
construct = next(c for c in language_constructs.constructs() if c.title == "demo: softmax")
kernel = triton.compile(construct.source(), target=GPUTarget("cuda", 80, 32))
sys.stdout.buffer.write(kernel.asm["hgbin"])
"""


def start(**environment: str) -> subprocess.Popen[bytes]:
    """Starts a process that compiles the softmax kernel and prints its binary."""
    code = SCRIPT.format(tools=str(CHECKOUT / "tools"))
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def test_compilations_at_once_agree(sdk: Path, compile_kernel: Compile) -> None:
    running = [start(FAKE_PPU_LLC="slow", FAKE_SDK_SLOW="1") for _ in range(3)]
    results = [process.communicate(timeout=120) for process in running]
    assert [process.returncode for process in running] == [0, 0, 0], results
    outputs = {output for output, _ in results}
    assert len(outputs) == 1
    assert compile_kernel().kernel == outputs.pop()
    assert binaries() == ["softmax_kernel.cubin", "softmax_kernel.hgbin"]


def test_a_killed_compilation_leaves_the_cache_sound(
    sdk: Path, compile_kernel: Compile, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    process = start(FAKE_PPU_LLC="hang", FAKE_SDK_PIDS=str(pids))
    deadline = time.monotonic() + 120
    while not (pids.exists() and pids.read_text()):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    for pid in pids.read_text().split():
        os.kill(int(pid), signal.SIGKILL)
    assert binaries() == []
    assert compile_kernel().kernel.startswith(b"\x7fHGBIN")


def test_an_interrupted_compilation_stops_its_tool(sdk: Path, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    process = start(FAKE_PPU_LLC="hang", FAKE_SDK_PIDS=str(pids))
    deadline = time.monotonic() + 120
    while not (pids.exists() and pids.read_text()):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert b"KeyboardInterrupt" in errors
    deadline = time.monotonic() + 10
    for pid in pids.read_text().split():
        while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                break
            time.sleep(0.05)
        else:
            assert not Path(f"/proc/{pid}").exists()
