"""The PPU driver as Triton sees it: discovery of the device, and the way to use it.

Everything that only *asks* goes through the resolver (``triton._C.ppu.device``) and initializes
nothing, in whatever kind of process; docs/resolver.md says what is answered when.  What *uses* the
device, loading and launching, is `PPUUtils` and `PPULauncher` of ``launcher.py``, taken from there
when they are first needed.  Making a `PPUDriver` compiles nothing, opens nothing and imports no
torch.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from triton import _flagtree_spec
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase
from triton.backends.ppu import errors, knobs
from triton.backends.ppu._native import device as _device

if TYPE_CHECKING:
    import torch

__all__ = [
    "PPUDriver",
    "child_environment",
    "device_for_children",
    "process_state",
    "require_usable",
]

# Threads in a warp, on every PPU and every CUDA GPU so far.
WARP_SIZE = 32

require_usable: Callable[[], None] = _device.require_usable


def process_state() -> str:
    """The state of the driver in this process; initializes nothing.

    Returns:
        ``"Absent"``, ``"Uninitialized"``, ``"Initialized"`` or ``"ForkedAfterInit"``, as
        docs/resolver.md explains them.
    """
    state: str = _device.state()
    return state


# --- forked children -------------------------------------------------------------------------


def _on_forked_child() -> None:
    """Called in a child of an initialized process, at its start."""
    if knobs.active().fork_warning == "fork":
        errors.warn_forked(_device.initializer())


def _watch_forks() -> None:
    _device.keep_errors(errors)
    _device.set_fork_callback(_on_forked_child)
    program = os.path.join(os.path.dirname(__file__), "bin", "flagtree-device")
    _device.set_management_program(os.fsencode(program))
    # A child whose parent never imported this tree has no note; torch may know. The other modes
    # wait for a question.
    _device.hear_torch()
    if _device.forked_after_init():
        _on_forked_child()


_watch_forks()


# --- the device of a spawned child -----------------------------------------------------------


def child_environment(
    device: int | None = None, base: Mapping[str, str] | None = None
) -> dict[str, str]:
    """An environment that tells a child process its device, for ``subprocess``'s ``env=``.

    Args:
        device: the ordinal the child is to use where it has no context of its own, counted among
            the devices visible to it; by default the calling thread's current device.
        base: the environment to start from, by default this process's.

    Returns:
        A copy of ``base`` with ``FLAGTREE_PPU_DEVICE`` set.  This process's own is not touched.
    """
    environment = dict(os.environ if base is None else base)
    environment["FLAGTREE_PPU_DEVICE"] = str(_checked_ordinal(device))
    return environment


def _checked_ordinal(device: int | None) -> int:
    if device is None:
        return int(_device.get_current_device())
    if isinstance(device, bool) or not isinstance(device, int):
        raise TypeError(f"device must be an int or None, not {type(device).__name__}")
    if device < 0:
        raise ValueError(f"device must not be negative: {device}")
    return device


_spawning = threading.Lock()


def _renew_lock() -> None:
    global _spawning
    _spawning = threading.Lock()


# The thread that held the lock does not exist in a child.
os.register_at_fork(after_in_child=_renew_lock)


@contextlib.contextmanager
def device_for_children(device: int | None = None) -> Iterator[None]:
    """Passes a device to the processes that are *spawned* inside the ``with`` block.

    For ``multiprocessing``'s ``spawn``, which takes no environment::

        with device_for_children():
            process.start()

    ``FLAGTREE_PPU_DEVICE`` is set for the duration, and this process goes on to answer as if it
    were not.  Blocks of several threads take turns, as an environment is one per process.

    Args:
        device: as for `child_environment`.
    """
    ordinal = _checked_ordinal(device)
    with _spawning:
        before = os.environ.get("FLAGTREE_PPU_DEVICE")
        if not _device.hold_device_variable(None if before is None else os.fsencode(before)):
            raise ValueError(f"FLAGTREE_PPU_DEVICE is too long to be an ordinal: {before!r}")
        os.environ["FLAGTREE_PPU_DEVICE"] = str(ordinal)
        try:
            yield
        finally:
            if before is None:
                os.environ.pop("FLAGTREE_PPU_DEVICE", None)
            else:
                os.environ["FLAGTREE_PPU_DEVICE"] = before
            _device.release_device_variable()


# --- the target ------------------------------------------------------------------------------


def _override_capability() -> int | None:
    """The capability that TRITON_OVERRIDE_ARCH names, or None where it is not set."""
    import triton.knobs

    text = triton.knobs.runtime.override_arch
    if not text:
        return None
    # The form that the compiler takes; any other would give a target no kernel compiles for.
    match = re.fullmatch(r"sm([1-9]\d{1,2})", text)
    if match is None:
        raise ValueError(
            f"TRITON_OVERRIDE_ARCH={text!r} is not an architecture: expected text such as 'sm80'"
        )
    return int(match.group(1))


def _capability(ordinal: int) -> tuple[int, int]:
    """A device's compute capability, without initializing anything.

    Raises:
        DriverError: the driver is live and does not say, and nothing else does.
        NoDeviceError: no device is visible.
        RuntimeError: it cannot be known before the driver is initialized.
    """
    answer = _device.capability(ordinal)
    if answer["major"]:
        return answer["major"], answer["minor"]
    if answer["driver_answer"]:
        errors.raise_driver_error(
            answer["driver_call"],
            answer["driver_answer"],
            f"while it was asked for the compute capability of device {ordinal}",
        )
    presence = _device.presence()
    if not presence["present"]:
        raise errors.no_device(presence["explanation"])
    why = {
        "no management library": "no management library (libhgml.so, libnvidia-ml.so.1) answers: "
        + answer["detail"],
        "no such device": "there is no such device",
        "ambiguous order": "this host's devices differ, and the driver's order of them is not "
        "known before it is initialized (set CUDA_DEVICE_ORDER=PCI_BUS_ID to fix it)",
    }[answer["reason"]]
    raise RuntimeError(
        f"The compute capability of device {ordinal} cannot be told without initializing the "
        f"driver: {why}. Compile for an explicit target (triton.compile(..., "
        'target=GPUTarget("cuda", 80, 32))), set TRITON_OVERRIDE_ARCH, e.g. to sm80, or initialize '
        "the driver first."
    )


# --- the driver ------------------------------------------------------------------------------

_CPP_TYPES = {
    "i1": "int8_t",
    "i8": "int8_t",
    "i16": "int16_t",
    "i32": "int32_t",
    "i64": "int64_t",
    "u1": "uint8_t",
    "u8": "uint8_t",
    "u16": "uint16_t",
    "u32": "uint32_t",
    "u64": "uint64_t",
    "fp16": "double",
    "bf16": "double",
    "fp32": "double",
    "f32": "double",
    "fp64": "double",
    "nvTmaDesc": "CUtensorMap",
}


class PPUDriver(DriverBase):
    """Triton's driver for a PPU, or any other CUDA-compatible device."""

    # The two that are called for every kernel are C functions: they need no instance and are not
    # bound to one, so a call costs nothing but the answer.
    get_current_device: Callable[[], int] = _device.get_current_device
    get_active_torch_device: Callable[[], torch.device] = _device.get_active_torch_device

    utils: Any
    launcher_cls: Any

    def __init__(self) -> None:
        super().__init__()
        _flagtree_spec.install_argument_names()
        self.get_active_torch_device = _device.get_active_torch_device
        self.get_current_device = _device.get_current_device

    @staticmethod
    def is_active() -> bool:
        """Whether a driver library and a visible device are there.

        True in a child that was forked from an initialized process, where the device is there and
        only cannot be used.  Initializes nothing and imports nothing.
        """
        return bool(_device.is_active())

    def get_current_target(self) -> GPUTarget:
        """The current device as a compilation target, e.g. ``GPUTarget("cuda", 80, 32)``.

        The compute capability comes from the driver where it is live, in a forked child from what
        the parent noted, else from the management library.  Initializes nothing.

        Raises:
            DriverError: the driver is live and does not say, and nothing else does.
            NoDeviceError: no device is visible, and TRITON_OVERRIDE_ARCH is not set.
            RuntimeError: the capability cannot be known without initializing.
        """
        try:
            major, minor = _capability(self.get_current_device())
        except RuntimeError:
            override = _override_capability()
            if override is None:
                raise
            return GPUTarget("cuda", override, WARP_SIZE)
        return GPUTarget("cuda", major * 10 + minor, WARP_SIZE)

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        """A device's compute capability as (major, minor).

        Args:
            device: an ordinal, a ``torch.device`` or its name; by default the current device.
        """
        ordinal = device
        if isinstance(device, str):
            kind, _, index = device.partition(":")
            if kind != "cuda" or not (index.isdigit() or device == "cuda"):
                raise ValueError(f"not a device of this backend: {device!r}, expected 'cuda:0'")
            ordinal = int(index) if index else None
        elif device is not None and not isinstance(device, int):
            ordinal = device.index
        return _capability(self.get_current_device() if ordinal is None else ordinal)

    def set_current_device(self, device: int) -> None:
        """Makes a device current on the calling thread, for torch and for launches."""
        import torch

        torch.cuda.set_device(device)

    def get_current_stream(self, device: int) -> int:
        """The stream torch launches on for a device; 0, the default stream, where torch has none.

        Never imports torch, and never makes it initialize: a torch that has not been used in this
        process has no stream but the default one.
        """
        if not _device.torch_is_live():
            return 0
        raw_stream = sys.modules["torch._C"]._cuda_getCurrentRawStream
        # From now on torch's own function is the method.
        self.get_current_stream = raw_stream  # type: ignore[method-assign]
        return int(raw_stream(device))

    def get_device_interface(self) -> Any:
        """``torch.cuda``."""
        import torch

        return torch.cuda

    def get_benchmarker(self) -> Any:
        """Triton's default benchmarking function."""
        from triton.testing import do_bench

        return do_bench

    def get_empty_cache_for_benchmark(self) -> torch.Tensor:
        """A buffer to be cleared before each measured call, so that the L2 cache holds no input.

        256 MiB, as in Triton: several times the L2 cache of any device so far.
        """
        import torch

        size = 256 * 1024 * 1024
        return torch.empty(size // 4, dtype=torch.int, device=self.get_active_torch_device())

    def clear_cache(self, cache: torch.Tensor) -> None:
        """Overwrites the buffer of `get_empty_cache_for_benchmark`."""
        cache.zero_()

    def map_python_to_cpp_type(self, ty: str) -> str:
        """The C++ type of a kernel parameter of Triton type ``ty``, e.g. ``"*fp32"``.

        Raises:
            ValueError: there is no such type.
        """
        if ty.startswith("*"):
            return "CUdeviceptr"
        if ty.startswith("tensordesc"):
            return "CUtensorMap"
        try:
            return _CPP_TYPES[ty]
        except KeyError:
            raise ValueError(f"no C++ type for the kernel parameter type {ty!r}") from None

    def assemble_tensormap_to_arg(self, tensormaps_info: Any, args: Any) -> Any:
        """What older Triton code calls for TMA arguments: they are passed as they are."""
        return args

    def __getattr__(self, name: str) -> Any:
        """Takes ``utils`` and ``launcher_cls`` from ``launcher.py``, at their first use."""
        if name not in ("utils", "launcher_cls"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        from triton.backends.ppu import launcher

        # No lock: two threads that come first both make one, and either will do.
        self.utils = launcher.PPUUtils()
        self.launcher_cls = launcher.PPULauncher
        return self.__dict__[name]
