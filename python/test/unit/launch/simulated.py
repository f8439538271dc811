"""For scripts that launch on the simulated driver: kernels that were never compiled.

The simulated driver takes a text in place of a binary, which says what parameters a kernel has. So
a test can have a kernel of any signature at once, launch it through the real launcher, and find the
bytes of its parameters in the call log.
"""

from __future__ import annotations

import ctypes
import json
import sys
from types import SimpleNamespace
from typing import Any

from flagtree_simulator.driver import Driver
from triton.runtime.driver import driver

SIZES = {"i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8}
SIZES |= {"u" + name[1:]: size for name, size in SIZES.items()}
SIZES |= {"fp16": 2, "bf16": 2, "fp32": 4, "f32": 4, "fp64": 8, "nvTmaDesc": 128}


def parameter_sizes(types: Any, mapped: bool = False) -> list[int]:
    """The sizes in bytes of the parameters that a signature's types stand for."""
    sizes: list[int] = []
    for type_ in types:
        if isinstance(type_, tuple):
            sizes += parameter_sizes(type_, mapped)
        elif type_.startswith("*"):
            sizes.append(8)
        elif type_.startswith("tensordesc"):
            rank = type_.split("[")[1].split("]")[0].count(",") + 1
            head = [128] if mapped else [8] + [8] * 2 * rank + [1]
            sizes += head + [4] * rank + [8] * rank
        elif type_ != "constexpr":
            sizes.append(SIZES[type_])
    return sizes


class Kernel:
    """A kernel of the given signature, loaded on the simulated device."""

    def __init__(
        self,
        signature: dict[Any, Any],
        *,
        name: str = "kernel",
        num_warps: int = 4,
        num_ctas: int = 1,
        shared: int = 0,
        cooperative: bool = False,
        pdl: bool = False,
        global_scratch: int = 0,
        profile_scratch: int = 0,
        tensordesc_meta: list[dict[str, Any] | None] | None = None,
        arg_names: list[str] | None = None,
        device: int = 0,
    ) -> None:
        self.metadata = SimpleNamespace(
            name=name,
            num_ctas=num_ctas,
            launch_cooperative_grid=cooperative,
            launch_pdl=pdl,
            global_scratch_size=global_scratch,
            global_scratch_align=16,
            profile_scratch_size=profile_scratch,
            profile_scratch_align=32,
            tensordesc_meta=tensordesc_meta,
        )
        function = SimpleNamespace(arg_names=arg_names or list(signature))
        self.source = SimpleNamespace(signature=signature, fn=function)
        self.launcher = driver.active.launcher_cls(self.source, self.metadata)
        sizes = [*parameter_sizes(signature.values(), bool(tensordesc_meta)), 8, 8]
        image = "flagtree-simulated-kernel 1\nkernel {} shared=0 params={}\n".format(
            name, ",".join(map(str, sizes))
        )
        self.module, self.function, *_ = driver.active.utils.load_binary(
            name, image.encode() + b"\0", shared, device
        )
        self.packed = (num_warps, num_ctas, shared)

    def __call__(
        self,
        *args: Any,
        grid: tuple[Any, ...] = (1, 1, 1),
        stream: int = 0,
        enter: Any = None,
        exit: Any = None,
        metadata: Any = None,
    ) -> None:
        self.launcher(*grid, stream, self.function, self.packed, metadata, enter, exit, *args)


def allocate(size: int = 4096, abi: str = "cu") -> int:
    """The address of new device memory; needs a context."""
    address = ctypes.c_uint64()
    status = Driver(abi).call("MemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
    assert status == 0, status
    return address.value


class Pointer:
    """An object with `data_ptr()`."""

    def __init__(self, address: Any) -> None:
        self.address = address

    def data_ptr(self) -> Any:
        if isinstance(self.address, Exception):
            raise self.address
        return self.address


def outcome(action: Any) -> list[str]:
    """["ok"], or the type and the text of the exception that `action` raised."""
    try:
        action()
    except Exception as error:
        return [type(error).__name__, str(error)]
    return ["ok"]


def report(value: Any) -> None:
    """Hands `value` to the test that started this script."""
    json.dump(value, sys.stdout)
