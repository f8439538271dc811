"""The exceptions and the warning of the PPU backend, and the one place that words them.

The C++ core answers with values; its bindings call the ``raise_*`` functions here to turn such an
answer into an exception that says what was wrong, where, and what to do.
"""

from __future__ import annotations

import os
import warnings
from typing import NoReturn

from triton.backends.ppu import knobs
from triton.backends.ppu._native import device as _device

__all__ = [
    "DeviceVariableError",
    "DriverError",
    "DriverLibraryError",
    "ForkedDriverError",
    "ForkedDriverWarning",
    "NoDeviceError",
]


class DriverError(RuntimeError):
    """A driver call answered an error.

    Attributes:
        call: the call without its ABI prefix, e.g. ``"CtxGetDevice"``.
        code: the driver's result code.
    """

    def __init__(self, message: str, call: str = "", code: int = 0) -> None:
        super().__init__(message)
        self.call = call
        self.code = code


class DriverLibraryError(RuntimeError):
    """No driver library could be opened."""


class NoDeviceError(RuntimeError):
    """No device is visible to this process."""


class DeviceVariableError(ValueError):
    """``FLAGTREE_PPU_DEVICE`` does not name a device."""


class ForkedDriverError(RuntimeError):
    """The device is used in a process forked after the driver was initialized.

    Attributes:
        pid: this process.
        initializer: the process that initialized the driver, or 0 if that is not known.
    """

    def __init__(self, message: str, pid: int = 0, initializer: int = 0) -> None:
        super().__init__(message)
        self.pid = pid
        self.initializer = initializer


class ForkedDriverWarning(RuntimeWarning):
    """This process was forked after the driver was initialized, so it cannot use the device."""


def _cause(initializer: int) -> str:
    who = (
        f"process {initializer} initialized the driver before it forked"
        if initializer
        else f"an ancestor (the parent is {os.getppid()}) initialized the driver before it forked"
    )
    return f"process {os.getpid()} cannot use the device: {who}, and a driver does not survive fork"


_WAYS_OUT = (
    "Start workers with the 'spawn' method; or with 'forkserver', with everything that touches the "
    "device in the main module behind `if __name__ == '__main__':`; or initialize the device only "
    "after forking."
)


def warn_forked(initializer: int, stacklevel: int = 2) -> None:
    """Warns, once per process, that this forked process cannot use the device.

    Args:
        initializer: the process that initialized the driver; 0 if it is not known.
        stacklevel: as for `warnings.warn`, counted from the caller.
    """
    if not _device.claim_fork_warning():
        return
    warnings.warn(
        f"{_cause(initializer)}. {_WAYS_OUT} (FLAGTREE_FORK_WARNING=off silences this.)",
        ForkedDriverWarning,
        stacklevel=stacklevel + 1,
    )


def raise_forked(initializer: int, proven: bool) -> NoReturn:
    """Raises ForkedDriverError, after the warning that ``FLAGTREE_FORK_WARNING=use`` asks for.

    Args:
        initializer: the process that initialized the driver; 0 if it is not known.
        proven: the driver's Init itself proved the fork, as nothing was noted before it.
    """
    message = f"{_cause(initializer)}. {_WAYS_OUT}"
    if proven:
        message += (
            " (Nothing was noted before the fork, as the ancestor had not imported this Triton or "
            "the fork was made by a C library; the driver's Init answering NOT_INITIALIZED proves "
            "it.)"
        )
    error = ForkedDriverError(message, os.getpid(), initializer)
    if knobs.active().fork_warning == "use":
        try:
            warn_forked(initializer, stacklevel=3)
        except ForkedDriverWarning as warning:  # Warnings may be errors; the error says it all.
            raise error from warning
    raise error


def raise_driver_error(call: str, code: int, doing: str = "") -> NoReturn:
    """Raises DriverError for a driver call's result code.

    Args:
        call: the call without its ABI prefix.
        code: what it answered.
        doing: what for, as "while ..."; may be empty.
    """
    name, description = _device.result_text(code)
    raise DriverError(
        f"the driver's {call} answered {code} ({name}: {description}){' ' if doing else ''}{doing}",
        call,
        code,
    )


def raise_device_variable(text: str, count: int) -> NoReturn:
    """Raises DeviceVariableError.

    Args:
        text: the variable's value.
        count: how many devices are visible where the value is an ordinal beyond them; -1 where it
            is no ordinal at all.
    """
    if count < 0:
        raise DeviceVariableError(
            f"FLAGTREE_PPU_DEVICE={text!r} is not a device ordinal: expected a decimal number "
            "without a sign, 0 for the first visible device"
        )
    raise DeviceVariableError(
        f"FLAGTREE_PPU_DEVICE={text!r} is beyond the last device: {count} "
        f"{'is' if count == 1 else 'are'} visible to this process, counted from 0 after "
        "CUDA_VISIBLE_DEVICES"
    )


def no_device(explanation: str) -> NoDeviceError:
    """The error for a process that sees no device; ``explanation`` says why."""
    return NoDeviceError(f"No device is visible to this process. {explanation}".rstrip())


def raise_unusable(kind: int, text: str, code: int, initializer: int, proven: bool) -> NoReturn:
    """Raises the error for the core's answer that the device cannot be used.

    Args:
        kind: the answer, flagtree::Usability: 1 no library, 2 no device, 3 forked, 4 driver failed.
        text: the core's explanation.
        code: the driver's result code.
        initializer: as for `raise_forked`.
        proven: as for `raise_forked`.
    """
    if kind == 1:
        raise DriverLibraryError(text)
    if kind == 2:
        name, _ = _device.result_text(code)
        raise no_device(f"{text} The driver's Init answered {code} ({name}).".lstrip())
    if kind == 3:
        raise_forked(initializer, proven)
    raise_driver_error("Init", code, f"while initializing {text}")
