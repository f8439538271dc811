"""Running a tool: arguments, streams, time limit, signals, and what the error says."""

from __future__ import annotations

import os
import pickle
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from triton.backends.ppu.tools import (
    AssemblerError,
    ToolError,
    check_output_file,
    private_directory,
    run_tool,
)
from triton.runtime.errors import PTXASError

Program = Callable[..., Path]


def failure(program: Path, *arguments: str, timeout: float | None = 30) -> ToolError:
    with private_directory() as directory:
        source = directory / "kernel.ll"
        source.write_text("the input")
        with pytest.raises(ToolError) as caught:
            run_tool([program, source, *arguments], directory=directory, timeout=timeout)
    return caught.value


def test_success_returns_both_streams(program: Program) -> None:
    tool = program("tool", 'print("out"); print("err", file=sys.stderr)')
    with private_directory() as directory:
        done = run_tool([tool], directory=directory, timeout=30)
    assert (done.stdout, done.stderr) == ("out\n", "err\n")
    assert os.listdir(os.environ["TMPDIR"]) == []


def test_arguments_are_not_interpreted(program: Program) -> None:
    tool = program("tool", "print(sys.argv[1:])")
    odd = ["a b", "$HOME", "`id`", "; rm -rf x", "*", "'\"", "", "é\n"]
    with private_directory() as directory:
        done = run_tool([tool, *odd], directory=directory, timeout=30)
    assert done.stdout.rstrip("\n") == repr(odd)


def test_the_directory_is_private() -> None:
    with private_directory() as directory:
        assert directory.stat().st_mode & 0o777 == 0o700
        assert directory.stat().st_uid == os.getuid()
    assert not directory.exists()


def test_the_message_begins_with_the_tools_own_words(program: Program) -> None:
    """Case 13: the message first, then the command, then the kept input."""
    tool = program("tool", 'print("kernel.ll:3: bad", file=sys.stderr); sys.exit(1)')
    error = failure(tool)
    lines = str(error).splitlines()
    assert lines[0] == "kernel.ll:3: bad"
    assert lines[1] == "tool: failed with exit status 1"
    assert error.kept is not None
    assert lines[2] == f"to reproduce: {tool} {error.kept}/kernel.ll"
    assert lines[3] == f"input and both output streams kept in: {error.kept}"
    kept = Path(error.kept)
    assert (kept / "kernel.ll").read_text() == "the input"
    assert (kept / "stderr.txt").read_text() == "kernel.ll:3: bad\n"
    assert (kept / "stdout.txt").read_text() == ""
    assert error.returncode == 1
    assert os.listdir(os.environ["TMPDIR"]) == [kept.name]


def test_words_on_standard_output_count_too(program: Program) -> None:
    error = failure(program("tool", 'print("told here"); sys.exit(2)'))
    assert str(error).startswith("told here\ntool: failed with exit status 2\n")


def test_a_silent_failure_still_says_what_failed(program: Program) -> None:
    error = failure(program("tool", "sys.exit(3)"))
    assert str(error).startswith("tool: failed with exit status 3\nto reproduce: ")


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGKILL", "SIGTERM"])
def test_an_exit_by_signal_is_named(name: str, program: Program) -> None:
    error = failure(program("tool", f"os.kill(os.getpid(), signal.{name})"))
    assert f"tool: ended by {name}" in str(error)
    assert error.returncode == -getattr(signal, name)


def test_a_signal_passed_on_by_a_wrapper_is_named(program: Program) -> None:
    assert "ended by SIGSEGV" in str(failure(program("tool", "sys.exit(139)")))
    assert "failed with exit status 255" in str(failure(program("tool", "sys.exit(255)")))


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A zombie whose parent has not looked is not running either.
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state != "Z"


def test_a_tool_that_hangs_is_stopped_with_its_children(program: Program, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    tool = program(
        "tool",
        "import subprocess\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        "print('working on it', file=sys.stderr, flush=True)\n"
        "time.sleep(60)",
    )
    start = time.monotonic()
    error = failure(tool, timeout=1)
    assert time.monotonic() - start < 20
    assert str(error).startswith("working on it\ntool: stopped after 1 s without an end\n")
    assert error.returncode is None
    deadline = time.monotonic() + 10
    numbers = [int(pid) for pid in pids.read_text().split()]
    while any(alive(pid) for pid in numbers) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(alive(pid) for pid in numbers)


def test_a_child_that_outlives_the_tool_holds_nothing_up(program: Program) -> None:
    tool = program(
        "tool",
        "import subprocess\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(20)'])\n"
        "print('done')",
    )
    start = time.monotonic()
    with private_directory() as directory:
        done = run_tool([tool], directory=directory, timeout=60)
    assert done.stdout == "done\n"
    assert time.monotonic() - start < 15


def test_a_tool_that_cannot_be_started(tmp_path: Path) -> None:
    error = failure(tmp_path / "absent")
    assert str(error).startswith("absent: could not be started: No such file or directory\n")
    assert error.kept is not None


def test_long_output_is_shortened_in_the_message_only(program: Program) -> None:
    tool = program("tool", 'print("first" + "x" * 10**6 + "last", file=sys.stderr); sys.exit(1)')
    error = failure(tool)
    assert len(str(error)) < 6000
    assert str(error).startswith("firstxxx")
    assert "characters left out" in str(error)
    assert "xxxlast\n" in str(error)
    assert len(error.stderr) > 10**6
    assert error.kept is not None
    assert (Path(error.kept) / "stderr.txt").stat().st_size > 10**6


def test_bytes_that_are_no_text_do_no_harm(program: Program) -> None:
    tool = program(
        "tool", "sys.stderr.buffer.write(b'bad \\xff\\x00\\x07\\x1b[31mred\\x1b[0m'); sys.exit(1)"
    )
    message = str(failure(tool))
    assert message.startswith("bad ")
    assert "\x1b" not in message
    assert "\x07" not in message
    assert "red" in message


def test_standard_input_is_closed(program: Program) -> None:
    tool = program("tool", "print(repr(sys.stdin.read()))")
    with private_directory() as directory:
        assert run_tool([tool], directory=directory, timeout=30).stdout == "''\n"


def test_the_shown_command_is_quoted_for_a_shell(program: Program) -> None:
    tool = program("my tool", "sys.exit(1)")
    assert f"to reproduce: '{tool}' " in str(failure(tool, "a b"))


def test_success_without_a_result_is_a_failure(program: Program) -> None:
    tool = program("tool", 'print("all done", file=sys.stderr)')
    for contents in (None, b""):
        with private_directory() as directory:
            output = directory / "out.bin"
            if contents is not None:
                output.write_bytes(contents)
            done = run_tool([tool], directory=directory, timeout=30)
            with pytest.raises(ToolError) as caught:
                check_output_file(output, [tool, output], done)
        message = str(caught.value)
        assert message.startswith("all done\ntool: exited with 0 but wrote nothing to out.bin\n")


def test_errors_cross_process_boundaries(program: Program) -> None:
    error = failure(program("tool", 'print("words", file=sys.stderr); sys.exit(4)'))
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is ToolError
    assert (str(copy), copy.returncode, copy.stderr) == (str(error), 4, "words\n")


def test_an_assemblers_error_is_one_that_autotuners_catch(program: Program) -> None:
    tool = program("tool", "sys.exit(1)")
    with private_directory() as directory, pytest.raises(PTXASError) as caught:
        run_tool([tool], directory=directory, timeout=30, error=AssemblerError, keep=False)
    assert isinstance(caught.value, ToolError)
    assert str(caught.value).startswith("tool: failed")
    assert pickle.loads(pickle.dumps(caught.value)).returncode == 1
