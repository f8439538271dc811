"""Loading and launching kernels: what Triton finds as `driver.utils` and `driver.launcher_cls`.

The work is done in C++ (`triton._C.ppu.launch`), made when the tree was built, so nothing is
compiled at run time. What lives here is the reading of what the compiler hands over - a kernel's
signature and metadata - once per kernel; a launch itself runs none of this module's code.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from typing import Any

from triton import _flagtree_spec, knobs
from triton.backends.ppu import errors
from triton.backends.ppu import knobs as ppu_knobs
from triton.backends.ppu._native import device as _device
from triton.backends.ppu._native import launch as _launch
from triton.runtime import _allocation

PyCUtensorMap = _launch.PyCUtensorMap

_environment_lock = threading.Lock()
_environment_is_set = False
_tensor_types_are_known = False


def _prepare() -> None:
    """Tells the extension what it needs from Python: see `set_environment` there.

    The tensor types are taken from torch once it has been imported by somebody; it is never
    imported for this.
    """
    global _environment_is_set, _tensor_types_are_known
    if _environment_is_set and _tensor_types_are_known:
        return
    with _environment_lock:
        if not _environment_is_set:
            _launch.set_environment(
                _device.require_usable,
                _device.get_current_device,
                knobs.HookChain,
                errors.DriverError,
            )
            _environment_is_set = True
        torch: Any = sys.modules.get("torch")
        # Partly imported by another thread, torch may not have its tensor type yet.
        if not _tensor_types_are_known and hasattr(torch, "Tensor") and hasattr(torch, "nn"):
            _launch.add_tensor_type(torch.Tensor)
            _launch.add_tensor_type(torch.nn.Parameter)
            _tensor_types_are_known = True


class PPUUtils:
    """The driver calls behind `triton.runtime.driver.active.utils`.

    Every one of them *uses* the device: it initializes the driver where nobody has, and raises
    `ForkedDriverError` in a process whose ancestor had initialized it. A failing call raises
    `DriverError`, a `RuntimeError`, with the driver's own description.
    """

    PyCUtensorMap = PyCUtensorMap

    def load_binary(
        self, name: str, kernel: bytes, shared: int, device: int
    ) -> tuple[int, int, int, int, int]:
        """Loads a compiled kernel.

        Args:
            name: the kernel's symbol.
            kernel: the binary, as the tool chain made it.
            shared: dynamic shared memory of its launches, bytes per block.
            device: ordinal whose primary context is used if the thread has none.

        Returns:
            module handle, function handle, registers per thread, spilled registers per thread, and
            the largest number of threads per block.
        """
        _prepare()
        result: tuple[int, int, int, int, int] = _launch.load_binary(name, kernel, shared, device)
        return result

    def get_device_properties(self, device: int) -> dict[str, int]:
        """What Triton asks about a device.

        Returns:
            `max_shared_mem` (bytes per block), `max_num_regs` (per block), `multiprocessor_count`,
            `warpSize`, `sm_clock_rate` and `mem_clock_rate` (kHz), `mem_bus_width` (bits).
        """
        _prepare()
        result: dict[str, int] = _launch.get_device_properties(device)
        return result

    def cuOccupancyMaxActiveClusters(self, function: int, shared: int, cluster_dim: int) -> int:
        """How many clusters of `cluster_dim` blocks, each with `shared` bytes, run at once."""
        _prepare()
        result: int = _launch.max_active_clusters(function, shared, cluster_dim)
        return result

    def set_printf_fifo_size(self, size: int) -> None:
        """Sets the device's printf buffer to `size` bytes; output beyond it is dropped.

        The driver takes another size only before the first kernel that prints has run.
        """
        _prepare()
        _launch.set_printf_fifo_size(size, _device.get_current_device())

    def fill_tma_descriptor(
        self,
        global_address: int,
        swizzle: int,
        elem_size: int,
        elem_type: int,
        block_size: Sequence[int],
        shape: Sequence[int],
        strides: Sequence[int],
        padding: int,
    ) -> Any:
        """Makes a tensor map for a tiled tensor, outermost dimension first.

        Args:
            global_address: address of the tensor, aligned to 16 bytes.
            swizzle: the driver's number of the shared-memory swizzle.
            elem_size: bytes per element.
            elem_type: the driver's number of the element type.
            block_size: the tile, in elements.
            shape: the tensor, in elements.
            strides: in elements; that of the last dimension is 1.
            padding: 1 to read NaN outside the tensor, 0 for zero.

        Returns:
            a `PyCUtensorMap`, which a kernel takes as `nvTmaDesc`.
        """
        _prepare()
        return _launch.fill_tma_descriptor(
            global_address, swizzle, elem_size, elem_type, block_size, shape, strides, padding
        )


def _named_signature(names: Sequence[str], types: Sequence[Any]) -> list[tuple[str, Any]]:
    """Pairs each type of a signature with a name for messages; tuples nest."""
    pairs: list[tuple[str, Any]] = []
    for name, type_ in zip(names, types, strict=True):
        if isinstance(type_, (tuple, list)):
            inner = [f"{name}[{index}]" for index in range(len(type_))]
            pairs.append((name, _named_signature(inner, type_)))
        else:
            pairs.append((name, str(type_)))
    return pairs


def _argument_names(src: Any) -> list[str]:
    """What to call each argument of `src.signature`, whose keys are names or positions."""
    declared = getattr(getattr(src, "fn", None), "arg_names", ())
    names = []
    for key in src.signature:
        position = key[0] if isinstance(key, tuple) else key
        if isinstance(position, int) and position < len(declared):
            names.append(declared[position])
        else:
            names.append(position if isinstance(position, str) else f"argument {position}")
    return names


def _count_descriptors(types: Sequence[Any]) -> int:
    return sum(
        _count_descriptors(type_)
        if isinstance(type_, (tuple, list))
        else str(type_).startswith("tensordesc")
        for type_ in types
    )


class PPULauncher:
    """`PPULauncher(src, metadata)` makes the callable through which a compiled kernel is launched.

    What comes back is the extension's `KernelLauncher`, called as

        launcher(grid_x, grid_y, grid_z, stream, function, packed_metadata, launch_metadata,
                 launch_enter_hook, launch_exit_hook, *arguments)

    and not an instance of this class: a Python subclass could not be called without a tuple of its
    arguments being made first.
    """

    def __new__(cls, src: Any, metadata: Any) -> Any:
        """Reads the kernel's signature and metadata.

        Args:
            src: the compiled source; its `signature` maps arguments to types.
            metadata: the kernel's metadata, as `CompiledKernel` holds it.

        Raises:
            ValueError: a type that cannot be launched with; the message names the argument.
        """
        _prepare()
        if ppu_knobs.active().dispatch:
            _flagtree_spec.install_dispatch()
        types = list(src.signature.values())
        descriptors = list(getattr(metadata, "tensordesc_meta", None) or ())
        if not descriptors:
            descriptors = [None] * _count_descriptors(types)
        return _launch.make_launcher(
            name=str(getattr(metadata, "name", "kernel")),
            signature=_named_signature(_argument_names(src), types),
            descriptors=descriptors,
            num_ctas=getattr(metadata, "num_ctas", 1),
            cooperative=bool(metadata.launch_cooperative_grid),
            pdl=bool(metadata.launch_pdl),
            global_scratch=(
                metadata.global_scratch_size,
                metadata.global_scratch_align,
                _allocation._allocator,
            ),
            profile_scratch=(
                metadata.profile_scratch_size,
                metadata.profile_scratch_align,
                _allocation._profile_allocator,
            ),
        )
