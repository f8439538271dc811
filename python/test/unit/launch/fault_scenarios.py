"""For scripts that sweep driver errors: what makes each call of EntryPoints.def.

`SCENARIOS` lists, by entry point, the uses of the driver that are swept; see fault_sweep.py. All of
them go through what Triton calls: the driver's utilities, its launcher, a kernel's grid, the
resolver's questions.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import triton
from fault_sweep import (
    EITHER,
    ERROR,
    RIGHT,
    Raised,
    Scenario,
    Sweep,
    outcome,
    tolerated,
    tolerated_for,
)
from flagtree_simulator.driver import Driver
from simulated import Kernel, Pointer, allocate, report
from triton.backends.ppu._native import device as resolver
from triton.backends.ppu._native import launch as extension
from triton.backends.ppu.driver import process_state, require_usable
from triton.runtime.driver import driver

ABI = sys.argv[1]

# More than a block has without being asked for: the kernel has to be opened to it.
MUCH_SHARED_MEMORY = 100_000

# An element type and a swizzle as the compiler writes them.
TENSOR_MAP = {
    "swizzle": 3,
    "elem_size": 2,
    "elem_type": 10,
    "block_size": [16, 32],
    "fp4_padded": False,
}

modules_kept = 0


@triton.jit
def do_nothing(n):
    """A kernel that is compiled."""


def make_kernel(signature: dict[str, str], **options: Any) -> Kernel:
    """A loaded kernel."""
    global modules_kept
    kernel = Kernel(signature, **options)
    modules_kept += 1
    return kernel


def in_new_thread(act: Callable[[], Any]) -> Any:
    """What `act` answers or raises in a thread that has no context yet."""
    answers: list[Any] = []
    errors: list[Exception] = []

    def work() -> None:
        try:
            answers.append(act())
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return answers[0]


# --- opening the driver ----------------------------------------------------------------------


def first_use() -> Callable[[], Any]:
    """The device's properties, from a process that has not opened the driver."""
    return lambda: [driver.active.utils.get_device_properties(0), process_state()]


def first_load() -> Callable[[], Any]:
    """A kernel loaded and launched by a process that has not opened the driver."""

    def act() -> Any:
        make_kernel({"n": "i32"})(1)
        return process_state()

    return act


def first_use_and_version() -> Callable[[], Any]:
    """As `first_use`, with the driver's version."""

    def act() -> Any:
        properties = driver.active.utils.get_device_properties(0)
        return [properties, resolver.library()["version"]]

    return act


def making_usable() -> Callable[[], Any]:
    """The step before any first use, where somebody has mapped the driver."""
    Driver(ABI)
    return lambda: [require_usable(), process_state()]


def first_use_of_mapped() -> Callable[[], Any]:
    """As `first_use`, where somebody has mapped the driver."""
    Driver(ABI)
    return first_use()


# --- questions -------------------------------------------------------------------------------


def properties() -> Callable[[], Any]:
    return lambda: driver.active.utils.get_device_properties(0)


def target() -> Callable[[], Any]:
    """The compilation target of a process that uses the device."""
    driver.active.utils.get_device_properties(0)
    return lambda: str(driver.active.get_current_target())


def devices() -> Callable[[], Any]:
    """The current device and the number of devices, asked beside launches."""
    kernel = make_kernel({"n": "i32"})

    def act() -> Any:
        kernel(1)
        return [driver.active.get_current_device(), resolver.device_count()]

    return act


def current_device() -> Callable[[], Any]:
    make_kernel({"n": "i32"})
    return lambda: driver.active.get_current_device()


# --- loading ---------------------------------------------------------------------------------


def load(name: str = "kernel") -> Any:
    """Loads a kernel named "kernel"; answers what the driver says of it."""
    global modules_kept
    image = b"flagtree-simulated-kernel 1\nkernel kernel registers=40 local=8 params=4\0"
    loaded = driver.active.utils.load_binary(name, image, MUCH_SHARED_MEMORY, 0)
    modules_kept += 1
    return loaded[2:]


def loading() -> Callable[[], Any]:
    return load


def loading_in_new_thread() -> Callable[[], Any]:
    return lambda: in_new_thread(load)


def failing_load() -> Callable[[], Any]:
    """A load that fails after the module is there, and has to give it back."""

    def act() -> Any:
        error = outcome(lambda: load("missing"))
        assert isinstance(error, Raised), error
        return [error.kind, error.call, error.code]

    return act


# --- launching -------------------------------------------------------------------------------


def launching() -> Callable[[], Any]:
    kernel = make_kernel({"n": "i32"})
    return lambda: kernel(1)


@functools.cache
def compile_do_nothing() -> None:
    global modules_kept
    do_nothing[(1,)](5)
    modules_kept += 1


def launching_by_grid() -> Callable[[], Any]:
    """`kernel[grid](...)`, which asks for the device before it launches."""
    compile_do_nothing()

    def act() -> None:
        do_nothing[(1,)](5)

    return act


def launching_in_new_thread() -> Callable[[], Any]:
    kernel = make_kernel({"n": "i32"})
    return lambda: in_new_thread(lambda: kernel(1))


def launching_on_stream_in_new_thread() -> Callable[[], Any]:
    kernel = make_kernel({"n": "i32"})
    stream = ctypes.c_void_p()
    assert Driver(ABI).call("StreamCreate", ctypes.byref(stream), 0) == 0
    handle = stream.value or 0
    return lambda: in_new_thread(lambda: kernel(1, stream=handle))


def launching_large_cluster() -> Callable[[], Any]:
    """A cluster of a size that a kernel has to be opened to."""
    kernel = make_kernel({"n": "i32"}, num_ctas=16)
    return lambda: kernel(1)


def launching_with_pointer() -> Callable[[], Any]:
    kernel = make_kernel({"p": "*i32"})
    pointer = Pointer(allocate(abi=ABI))
    return lambda: kernel(pointer)


def launching_with_scratch() -> Callable[[], Any]:
    kernel = make_kernel({"n": "i32"}, global_scratch=16)
    scratch = Pointer(allocate(abi=ABI))
    triton.set_allocator(lambda size, alignment, stream: scratch)
    return lambda: kernel(1)


def launching_with_tensor_map() -> Callable[[], Any]:
    kernel = make_kernel({"d": "tensordesc<bf16[16, 32]>"}, tensordesc_meta=[TENSOR_MAP])
    tensor = SimpleNamespace(
        base=Pointer(allocate(abi=ABI)), shape=(64, 96), strides=(96, 1), padding="nan"
    )
    return lambda: kernel(tensor)


def refused_launch() -> Callable[[], Any]:
    """A launch that the driver refuses, so that its error has to be told."""
    kernel = make_kernel({"n": "i32"})

    def act() -> Any:
        error = outcome(lambda: kernel(1, grid=(1, 99999, 1)))
        assert isinstance(error, Raised), error
        told = f", 1) from {ABI}LaunchKernelEx, launching kernel 'kernel'" in error.text
        return [error.kind, error.call, error.code, told]

    return act


def timing_launches() -> Callable[[], Any]:
    kernel = make_kernel({"n": "i32"})
    values = [bytes(4), bytes(8), bytes(8)]
    return lambda: len(extension.time_launches(kernel.function, 0, (1, 1, 1), 4, 0, values, 3, 2))


# --- the other utilities ---------------------------------------------------------------------


def printf_buffer(read_back: bool) -> Callable[[], Callable[[], Any]]:
    """Another size of the printf buffer each time; `read_back` asks the driver for it, too."""

    def prepare() -> Callable[[], Any]:
        make_kernel({"n": "i32"})
        sizes = [1 << 20, 1 << 21]
        library = Driver(ABI)

        def act() -> Any:
            sizes.reverse()
            driver.active.utils.set_printf_fifo_size(sizes[0])
            if not read_back:
                return True
            found = ctypes.c_size_t()
            assert library.call("CtxGetLimit", ctypes.byref(found), 1) == 0
            return found.value == sizes[0]

        return act

    return prepare


def occupancy() -> Callable[[], Any]:
    kernel = make_kernel({"n": "i32"})
    return lambda: driver.active.utils.cuOccupancyMaxActiveClusters(kernel.function, 1024, 4)


def tensor_map() -> Callable[[], Any]:
    make_kernel({"n": "i32"})
    base = allocate(abi=ABI)

    def act() -> Any:
        made = driver.active.utils.fill_tma_descriptor(
            base, 0, 4, 7, [8, 16], [100, 200], [200, 1], 0
        )
        return type(made).__name__

    return act


# --- what is swept ---------------------------------------------------------------------------

HOST_MEMORY = ("ValueError", "is in host memory")

SCENARIOS: dict[str, list[Scenario]] = {
    "DriverGetVersion": [
        Scenario(
            first_use_and_version,
            # What calls itself a stub is asked again within a use.
            lambda code, n: RIGHT if code != 34 else ERROR if n == 1 else EITHER,
            {34: ("DriverLibraryError", "is a stub for linking, not a driver")},
            excused=lambda right: [right[0], 0],
            lasting=True,
            fresh=True,
        )
    ],
    "DeviceGet": [
        # The state is asked for with the third.
        Scenario(making_usable, tolerated, fresh=True, occurrences=2),
        Scenario(properties),
        Scenario(loading),
        Scenario(launching_in_new_thread),
    ],
    "DeviceGetCount": [Scenario(devices, tolerated, lasting=True, fresh=True)],
    "DeviceGetAttribute": [
        Scenario(properties),
        Scenario(loading),
        Scenario(target, tolerated, lasting=True, fresh=True),
    ],
    "CtxGetDevice": [
        Scenario(current_device, tolerated_for(201)),
        Scenario(launching_in_new_thread, tolerated_for(201)),
        Scenario(printf_buffer(read_back=True), tolerated_for(201)),
        Scenario(launching_by_grid, tolerated_for(201)),
    ],
    "GetErrorName": [Scenario(refused_launch, tolerated)],
    "GetErrorString": [Scenario(refused_launch, tolerated)],
    "Init": [
        Scenario(
            prepare,
            errors={
                3: ("ForkedDriverError", "the driver's Init answering NOT_INITIALIZED proves it"),
                100: ("NoDeviceError", "Init answered 100"),
            },
            lasting=True,
            fresh=True,
        )
        for prepare in (first_use, first_load)
    ],
    "CtxGetCurrent": [
        # A launch asks up to three times before it gives up; loading and setting the buffer's size
        # look whether the driver is live before they need the context.
        Scenario(first_use_of_mapped, tolerated, fresh=True),
        Scenario(launching, tolerated),
        Scenario(launching, lambda code, n: RIGHT if n % 3 else ERROR, lasting=True),
        Scenario(printf_buffer(read_back=True), lambda code, n: RIGHT if n % 2 else ERROR),
        Scenario(loading, lambda code, n: RIGHT if n % 2 else ERROR),
    ],
    "CtxSetCurrent": [
        Scenario(launching_in_new_thread),
        Scenario(launching_on_stream_in_new_thread),
        Scenario(loading_in_new_thread),
    ],
    "DevicePrimaryCtxRetain": [Scenario(launching_in_new_thread), Scenario(loading_in_new_thread)],
    "StreamGetCtx": [Scenario(launching_on_stream_in_new_thread)],
    "CtxGetLimit": [Scenario(printf_buffer(read_back=False))],
    "CtxSetLimit": [Scenario(printf_buffer(read_back=True))],
    "ModuleLoadData": [Scenario(loading)],
    "ModuleUnload": [Scenario(failing_load, tolerated)],
    "ModuleGetFunction": [Scenario(loading)],
    "FuncGetAttribute": [Scenario(loading)],
    "FuncSetAttribute": [
        Scenario(loading),
        Scenario(launching_large_cluster),
        Scenario(occupancy),
    ],
    "FuncSetCacheConfig": [Scenario(loading)],
    "PointerGetAttribute": [
        Scenario(launching_with_pointer, errors={1: HOST_MEMORY}),
        Scenario(launching_with_scratch, errors={1: HOST_MEMORY}),
    ],
    # Where the driver has no LaunchKernelEx; the test takes it away.
    "LaunchKernel": [Scenario(launching)],
    "LaunchKernelEx": [Scenario(launching), Scenario(launching_by_grid)],
    "StreamSynchronize": [Scenario(timing_launches)],
    "OccupancyMaxActiveClusters": [Scenario(occupancy)],
    "TensorMapEncodeTiled": [Scenario(tensor_map), Scenario(launching_with_tensor_map)],
}


# On a machine whose management library cannot stand in for the driver.
WITHOUT_MANAGEMENT: dict[str, list[Scenario]] = {
    "DeviceGetAttribute": [Scenario(target, lasting=True, fresh=True)]
}


def sweep(scenarios: dict[str, list[Scenario]], calls: list[str]) -> None:
    """Sweeps the scenarios of some calls and reports the cases, as `Sweep.run` answers them, how
    many modules this process has loaded and kept, and all calls that there are scenarios for."""
    missing = sorted(set(calls) - set(scenarios))
    assert not missing, f"nothing here makes the calls {missing}: give each a use"
    sweeps = [Sweep(ABI, call, scenario) for call in calls for scenario in scenarios[call]]
    # Once this process has used the driver, its children cannot.
    sweeps.sort(key=lambda sweep: not sweep.scenario.fresh)
    played = [case for sweep in sweeps for case in sweep.run()]
    report(
        {
            "pid": os.getpid(),
            "played": played,
            "modules": modules_kept,
            "calls": sorted(scenarios),
        }
    )
