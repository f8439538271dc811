"""The driver calls that test scripts make, through ``ctypes``.

For scripts that run in a child process and have to initialize, hold a context, or
fork in ways that Python has no function for. It works on a real driver as well.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable

_LIBRARY = {"cu": "libcuda.so.1", "hg": "libhggc.so"}
_SYS_CLONE = 56 if os.uname().machine == "x86_64" else 220


class Driver:
    """The mapped driver library of one ABI, ``"cu"`` or ``"hg"``."""

    def __init__(self, abi: str = "cu") -> None:
        self.abi = abi
        self.library = ctypes.CDLL(_LIBRARY[abi])

    def call(self, name: str, *arguments: object) -> int:
        """Makes a call by its name without the prefix; answers its result.

        Python integers are passed as C ints; wrap what is wider in ``ctypes``.
        """
        function = getattr(self.library, self.abi + name)
        return int(function(*arguments))

    def init(self) -> int:
        """cuInit(0)."""
        return self.call("Init", 0)

    def device_get(self, ordinal: int = 0) -> int:
        """The result of cuDeviceGet; reads only."""
        return self.call("DeviceGet", ctypes.byref(ctypes.c_int()), ordinal)

    def count(self) -> tuple[int, int]:
        """The result and number of cuDeviceGetCount."""
        number = ctypes.c_int(-1)
        return self.call("DeviceGetCount", ctypes.byref(number)), number.value

    def context_device(self) -> tuple[int, int]:
        """The result and ordinal of cuCtxGetDevice."""
        number = ctypes.c_int(-1)
        return self.call("CtxGetDevice", ctypes.byref(number)), number.value

    def context_current(self) -> tuple[int, int]:
        """The result and handle (0: none) of cuCtxGetCurrent."""
        handle = ctypes.c_void_p()
        return self.call("CtxGetCurrent", ctypes.byref(handle)), handle.value or 0

    def use(self, ordinal: int) -> None:
        """Makes a device's primary context current in this thread.

        Raises:
            RuntimeError: a call answered something other than 0.
        """
        handle = ctypes.c_void_p()
        result = self.call("DevicePrimaryCtxRetain", ctypes.byref(handle), ordinal)
        result = result or self.call("CtxSetCurrent", handle)
        if result:
            raise RuntimeError(f"device {ordinal} cannot be used: the driver answers {result}")


def run_forked(body: Callable[[], object], how: str = "python") -> int:
    """Runs ``body`` in a forked child; answers the child's exit status.

    A body that raises ends the child with status 1 and a traceback.

    Args:
        how: ``"python"`` (os.fork), ``"c"`` (the C library's fork, which Python's
            fork hooks do not see), or ``"clone"`` (the raw system call, which the
            C library's handlers do not see either).
    """
    sys.stdout.flush()
    sys.stderr.flush()
    pid = fork(how)
    if pid:
        _, status = os.waitpid(pid, 0)
        return os.waitstatus_to_exitcode(status)
    status = 1
    try:
        body()
        sys.stdout.flush()
        status = 0
    finally:
        # Never back into the parent's code, whatever the body raised.
        if status:
            sys.excepthook(*sys.exc_info())
            sys.stderr.flush()
        os._exit(status)


def fork(how: str = "python") -> int:
    """Forks as ``run_forked`` describes; answers 0 in the child."""
    if how == "python":
        return os.fork()
    # PyDLL keeps the interpreter lock, so that the child's only thread holds it.
    libc = ctypes.PyDLL(None, use_errno=True)
    pid = libc.fork() if how == "c" else libc.syscall(_SYS_CLONE, signal.SIGCHLD, 0, 0, 0, 0)
    if pid < 0:
        raise OSError(ctypes.get_errno(), f"{how} fork failed")
    return int(pid)
