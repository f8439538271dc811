"""Running the assembler and its helpers, and what their failures say.

Every external program of this backend is started here: with a list of arguments (never a shell),
in a private temporary directory, in its own process group, under a time limit, with both of its
output streams kept. A failure becomes one `ToolError` that begins with the tool's own message,
then gives the command that reproduces it and the path of the kept input. Which program is run,
and why, is decided in toolchain.py; nothing here knows the PPU.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from triton.errors import TritonError
from triton.runtime.errors import PTXASError

# How much of one output stream an error message repeats; the streams are kept whole beside the
# kept input.
_MESSAGE_LIMIT = 4000
# Prefix of the directories that failures leave behind and that running tools work in.
_DIRECTORY_PREFIX = "flagtree-ppu-"


class ToolchainError(TritonError):
    """The tool chain cannot be used as asked: not found, too old, or its answer makes no sense."""


class ToolError(ToolchainError):
    """A tool was started and did not do its job.

    Attributes:
        tool: the program's name, such as `ppu-llc`.
        command: the arguments it was run with, after the input was moved to `kept`.
        returncode: its exit status, negative for a signal, None where it did not start or was
            stopped at the time limit.
        stdout, stderr: all that it wrote.
        kept: the directory that holds its input and both streams, or None.
    """

    def __init__(
        self,
        message: str,
        *,
        tool: str = "",
        command: Sequence[str] = (),
        returncode: int | None = None,
        stdout: str = "",
        stderr: str = "",
        kept: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.tool = tool
        self.command = tuple(command)
        self.returncode = returncode
        self.stdout = stdout
        self.stderr = stderr
        self.kept = kept

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[object, ...]:
        # Compilation errors cross process boundaries in Inductor's pool.
        return (_rebuild, (type(self), self.message, dict(self.__dict__)))


class AssemblerError(ToolError, PTXASError):
    """A tool that makes the device binary failed.

    Also a `PTXASError`, because callers such as autotuners catch that name to skip a
    configuration which the assembler does not take.
    """


def _rebuild(kind: type[ToolError], message: str, state: dict[str, object]) -> ToolError:
    error = kind(message)
    error.__dict__.update(state)
    return error


@dataclass(frozen=True)
class Completed:
    """What a tool that exited with 0 wrote to its two streams."""

    stdout: str
    stderr: str


@contextlib.contextmanager
def private_directory() -> Iterator[Path]:
    """A temporary directory that only this user can read, removed at the end.

    `keep_input` moves it out of the way first when a failure has to be looked at later.
    """
    path = Path(tempfile.mkdtemp(prefix=_DIRECTORY_PREFIX))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def run_tool(
    command: Sequence[str | os.PathLike[str]],
    *,
    directory: Path,
    timeout: float | None,
    error: type[ToolError] = ToolError,
    keep: bool = True,
    hint: str = "",
) -> Completed:
    """Runs a tool to its end and returns what it wrote.

    Args:
        command: program and arguments; nothing in it is interpreted by a shell.
        directory: the private directory the tool works in, with its input. After a failure its
            contents are kept elsewhere, and the command in the message names them there.
        timeout: seconds after which the tool and whatever it started are killed; None for no
            limit.
        error: the class of the error to raise.
        keep: whether a failure keeps the directory's contents.
        hint: a sentence for the end of the error message.

    Raises:
        ToolError: the tool did not start, exited with something other than 0, was ended by a
            signal, or ran past `timeout`.
    """
    arguments = [os.fspath(part) for part in command]
    tool = os.path.basename(arguments[0])

    def fail(
        what: str, returncode: int | None = None, out: str = "", err: str = "", own: str = ""
    ) -> ToolError:
        kept = _keep(directory, out, err) if keep else None
        shown = [_moved(part, directory, kept) for part in arguments]
        lines = [own] if own else []
        lines.append(f"{tool}: {what}")
        lines.append(f"to reproduce: {shlex.join(shown)}")
        if kept is not None:
            lines.append(f"input and both output streams kept in: {kept}")
        if hint:
            lines.append(hint)
        return error(
            "\n".join(lines),
            tool=tool,
            command=shown,
            returncode=returncode,
            stdout=out,
            stderr=err,
            kept=None if kept is None else str(kept),
        )

    # Files rather than pipes: a tool's surviving grandchild can hold a pipe open for ever, a file
    # cannot block, and what was written before a kill is still there.
    with (
        tempfile.TemporaryFile() as out_file,
        tempfile.TemporaryFile() as err_file,
    ):

        def streams() -> tuple[str, str]:
            texts = []
            for stream in (out_file, err_file):
                stream.seek(0)
                texts.append(stream.read().decode("utf-8", errors="replace"))
            return texts[0], texts[1]

        try:
            process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=out_file,
                stderr=err_file,
                cwd=directory,
                start_new_session=True,
            )
        except OSError as reason:
            raise fail(f"could not be started: {reason.strerror or reason}") from reason
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            _kill_group(process)
            out, err = streams()
            raise fail(
                f"stopped after {timeout:g} s without an end",
                out=out,
                err=err,
                own=_own_message(out, err),
            ) from None
        except BaseException:
            # KeyboardInterrupt and the like: leave nothing running behind.
            _kill_group(process)
            raise
        out, err = streams()
    if status == 0:
        return Completed(out, err)
    raise fail(_ending(status), status, out, err, _own_message(out, err))


def check_output_file(
    path: Path,
    command: Sequence[str | os.PathLike[str]],
    completed: Completed,
    *,
    error: type[ToolError] = ToolError,
) -> bytes:
    """Returns the contents of the file that a tool which exited with 0 was to write.

    Raises:
        ToolError: the file is not there or is empty, so the tool's success was none.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        data = b""
    if data:
        return data
    arguments = [os.fspath(part) for part in command]
    tool = os.path.basename(arguments[0])
    kept = _keep(path.parent, completed.stdout, completed.stderr)
    shown = [_moved(part, path.parent, kept) for part in arguments]
    own = _own_message(completed.stdout, completed.stderr)
    lines = [own] if own else []
    lines.append(f"{tool}: exited with 0 but wrote nothing to {path.name}")
    lines.append(f"to reproduce: {shlex.join(shown)}")
    lines.append(f"input and both output streams kept in: {kept}")
    raise error(
        "\n".join(lines),
        tool=tool,
        command=shown,
        returncode=0,
        stdout=completed.stdout,
        stderr=completed.stderr,
        kept=str(kept),
    )


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Ends the tool and everything it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _ending(status: int) -> str:
    """Says in words how a tool ended: by which signal, or with which exit status."""
    number = -status if status < 0 else status - 128
    if status < 0 or number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGKILL):
        # 128+N is how a shell wrapper around the tool passes the tool's signal on.
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = f"signal {number}"
        note = " (out of memory?)" if name == "SIGKILL" else ""
        return f"ended by {name}{note}"
    return f"failed with exit status {status}"


def _own_message(out: str, err: str) -> str:
    """The part of a tool's output that says what it objects to, shortened in the middle."""
    text = (err.strip() or out.strip()).replace("\r\n", "\n")
    # Nothing that a tool prints may move the cursor or recolour the terminal.
    text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text)
    text = "".join(
        c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text
    )
    if len(text) <= _MESSAGE_LIMIT:
        return text
    half = _MESSAGE_LIMIT // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"


def _keep(directory: Path, out: str, err: str) -> Path:
    """Moves the contents of `directory` to a new one that stays, and adds both streams."""
    kept = Path(tempfile.mkdtemp(prefix=f"{_DIRECTORY_PREFIX}failed-"))
    for entry in directory.iterdir():
        # A half-written result is not an input; keeping it would invite using it.
        if entry.is_file():
            shutil.copy2(entry, kept / entry.name)
    (kept / "stdout.txt").write_text(out)
    (kept / "stderr.txt").write_text(err)
    return kept


def _moved(part: str, directory: Path, kept: Path | None) -> str:
    """An argument of the command, with paths inside `directory` pointing to where they are kept."""
    return part if kept is None else part.replace(str(directory), str(kept))
