"""A launch as a whole: grids, attributes, hooks, scratch, contexts, errors, references."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

# CUlaunchAttributeID, as the driver numbers them.
COOPERATIVE, CLUSTER, CLUSTER_POLICY, PDL = 2, 4, 5, 6


def test_grid_block_and_shared_memory(launching: Callable[..., Any]) -> None:
    session = launching(
        """
        from simulated import Kernel, driver, report
        kernel = Kernel({"n": "i32"}, num_warps=8, shared=1000)
        big = Kernel({"n": "i32"}, shared=100000)
        kernel(1, grid=(2, 3, 4))
        big(1)
        report(driver.active.utils.get_device_properties(0))
        """
    )
    plain, big = session.launches()
    assert plain.triple("grid") == (2, 3, 4)
    assert plain.triple("block") == (256, 1, 1)
    assert plain.detail["shared"] == "1000"
    assert plain.attributes == {}
    assert big.result == 0
    assert set(session.report) == {
        "max_shared_mem", "max_num_regs", "multiprocessor_count", "warpSize", "sm_clock_rate",
        "mem_clock_rate", "mem_bus_width",
    }  # fmt: skip
    assert session.report["warpSize"] == 32
    assert all(type(value) is int and value > 0 for value in session.report.values())


@pytest.mark.parametrize("grid", [(0, 1, 1), (1, 0, 1), (1, 1, 0), (65536, 65536, 0)])
def test_an_empty_grid_launches_nothing(launching: Callable[..., Any], grid: Any) -> None:
    session = launching(
        f"""
        import triton
        from simulated import Kernel, Pointer, outcome, report
        calls = []
        def allocate(size, alignment, stream):
            raise AssertionError("allocated for an empty grid")
        triton.set_allocator(allocate)
        kernel = Kernel({{"n": "*i32"}}, global_scratch=64)
        kernel(None, grid={grid}, enter=lambda m: calls.append("enter"),
               exit=lambda m: calls.append("exit"))
        report([calls, outcome(lambda: kernel(Pointer(16), grid={grid}))[0]])
        """
    )
    assert session.report == [["enter", "exit"], "ValueError"]
    assert session.launches() == []


def test_launch_attributes(launching: Callable[..., Any]) -> None:
    session = launching(
        """
        from simulated import Kernel, report
        Kernel({"n": "i32"}, cooperative=True)(1)
        Kernel({"n": "i32"}, pdl=True)(1)
        Kernel({"n": "i32"}, num_ctas=2)(1, grid=(5, 1, 1))
        Kernel({"n": "i32"}, num_ctas=16)(1)
        report(None)
        """,
        capability=(9, 0),
    )
    cooperative, pdl, cluster, large = session.launches()
    one = (1).to_bytes(4, "little")
    assert list(cooperative.attributes) == [COOPERATIVE]
    assert cooperative.attributes[COOPERATIVE].startswith(one)
    assert list(pdl.attributes) == [PDL]
    assert pdl.attributes[PDL].startswith(one)
    assert list(cluster.attributes) == [CLUSTER, CLUSTER_POLICY]
    assert cluster.triple("grid") == (10, 1, 1)
    assert cluster.attributes[CLUSTER][:12] == (2).to_bytes(4, "little") + one + one
    assert [call.result for call in (cooperative, pdl, cluster, large)] == [0] * 4
    consent = session.simulator.calls("cuFuncSetAttribute")
    assert len(consent) == 1


def test_hooks_get_the_metadata(launching: Callable[..., Any]) -> None:
    session = launching(
        """
        from triton import knobs
        from simulated import Kernel, report
        kernel = Kernel({"n": "i32"})
        seen = []
        chain = knobs.HookChain()
        kernel(1, enter=chain, exit=chain, metadata="unseen")
        chain.add(lambda metadata: seen.append(["chain", metadata]))
        kernel(1, enter=chain, exit=lambda metadata: seen.append(["exit", metadata]),
               metadata="first")
        class Sub(knobs.HookChain):
            def __call__(self, metadata):
                seen.append(["sub", metadata])
        kernel(1, enter=Sub(), metadata="second")
        report(seen)
        """
    )
    assert session.report == [["chain", "first"], ["exit", "first"], ["sub", "second"]]
    assert len(session.launches()) == 3


def test_hooks_and_metadata_that_change_are_noticed(launching: Callable[..., Any]) -> None:
    """Both are remembered from one launch to the next."""
    session = launching(
        """
        from triton import knobs
        from simulated import Kernel, report
        kernel = Kernel({"n": "i32"})
        seen = []
        chains = [knobs.HookChain() for _ in range(5)]
        for number, chain in enumerate(chains * 2):
            kernel(1, enter=chain, exit=chain, metadata=number)
        chains[0].calls = [lambda metadata: seen.append(metadata)]
        kernel(1, enter=chains[0], exit=chains[1], metadata="assigned")
        chains[0].calls.clear()
        kernel(1, enter=chains[0], exit=chains[1], metadata="cleared")
        chains[1].add(lambda metadata: seen.append(metadata))
        kernel(1, enter=chains[0], exit=chains[1], metadata="added")
        del chains[0].calls
        try:
            kernel(1, enter=chains[0])
        except AttributeError as error:
            seen.append(type(error).__name__)
        for warps in (4, 8, 8, 2):
            kernel.packed = (warps, 1, 16 * warps)
            kernel(1)
        report(seen)
        """
    )
    assert session.report == ["assigned", "added", "AttributeError"]
    last = [(call.triple("block"), call.detail["shared"]) for call in session.launches()[-4:]]
    assert last == [((32 * warps, 1, 1), str(16 * warps)) for warps in (4, 8, 8, 2)]


def test_hooks_that_raise(launching: Callable[..., Any]) -> None:
    session = launching(
        """
        from simulated import Kernel, Pointer, outcome, report
        kernel = Kernel({"n": "*i32"})
        seen = []
        def enter(metadata):
            seen.append("enter")
        def exit(metadata):
            seen.append("exit")
        def fail(metadata):
            seen.append("fail")
            raise KeyError("hook")
        results = [outcome(lambda: kernel(1, enter=fail, exit=exit)),
                   outcome(lambda: kernel(1, enter=enter, exit=fail)),
                   outcome(lambda: kernel(Pointer(16), enter=enter, exit=exit)),
                   outcome(lambda: kernel(1, grid=(1, 99999, 1), enter=enter, exit=exit))]
        report([seen, [result[0] for result in results]])
        """
    )
    seen, results = session.report
    # A launch whose arguments are refused runs no hook; one that fails, no exit hook.
    assert seen == ["fail", "enter", "fail", "enter"]
    assert results == ["KeyError", "KeyError", "ValueError", "DriverError"]
    assert [call.result for call in session.launches()] == [0, 1]


def test_scratch_comes_from_the_allocators(launching: Callable[..., Any]) -> None:
    session = launching(
        """
        import triton
        from triton.runtime import _allocation
        from simulated import Kernel, Pointer, allocate, outcome, report
        asked = []
        def allocator(name):
            def run(size, alignment, stream):
                asked.append([name, size, alignment, stream])
                return Pointer(memory)
            return run
        kernel = Kernel({"n": "i32"}, name="scratchy", global_scratch=100, profile_scratch=8,
                        num_ctas=2)
        memory = allocate()
        missing = outcome(lambda: kernel(1))
        triton.set_allocator(allocator("global"))
        _allocation.set_profile_allocator(allocator("profile"))
        kernel(1, grid=(2, 3, 4))
        triton.set_allocator(lambda *args: Pointer(0x1000))
        host = outcome(lambda: kernel(1))
        triton.set_allocator(lambda *args: 1 // 0)
        failing = outcome(lambda: kernel(1))
        triton.set_allocator(allocator("global"))
        huge = outcome(lambda: kernel(1, grid=(2**31 - 1,) * 3))
        report([memory, asked[:2], missing, host, failing, huge])
        """,
        capability=(9, 0),
    )
    memory, asked, missing, host, failing, huge = session.report
    assert asked == [["global", 100 * 24 * 2, 16, 0], ["profile", 8 * 24 * 2, 32, 0]]
    address = memory.to_bytes(8, "little").hex()
    assert session.parameters() == [["01000000", address, address]]
    assert missing[0] == "RuntimeError"
    assert "no allocator was set" in missing[1]
    assert host[0] == "ValueError"
    assert "argument 'global scratch' of kernel 'scratchy'" in host[1]
    assert failing[0] == "ZeroDivisionError"
    assert huge[0] == "OverflowError"


def test_errors_say_what_was_launched(launching: Callable[..., Any]) -> None:
    session = launching(
        """
        from simulated import Kernel, driver, outcome, report
        kernel = Kernel({"n": "i32"}, name="softmax", shared=64, cooperative=True)
        utils = driver.active.utils
        report([outcome(lambda: kernel(1, grid=(3, 70000, 1))),
                outcome(lambda: kernel(1, grid=(10**9, 1, 1))),
                outcome(lambda: utils.load_binary("missing", b"no image" + bytes(64), 0, 0)),
                outcome(lambda: utils.get_device_properties(99)),
                outcome(lambda: utils.set_printf_fifo_size(-1)),
                outcome(lambda: utils.set_printf_fifo_size(1 << 21))])
        """
    )
    grid, large, image, device, negative, fifo = session.report
    assert grid[0] == "DriverError"
    assert grid[1].startswith("Triton Error [CUDA]: invalid argument")
    for part in (
        "CUDA_ERROR_INVALID_VALUE", "cuLaunchKernelEx", "'softmax'", "(3, 70000, 1)",
        "(128, 1, 1)", "64 bytes of shared memory", "cooperatively", "65535",
    ):  # fmt: skip
        assert part in grid[1], part
    assert "(1000000000, 1, 1)" in large[1]
    assert "earlier launch" not in large[1]
    assert "cuModuleLoadData" in image[1]
    assert "'missing'" in image[1]
    assert "device 99" in device[1]
    assert negative == ["ValueError", "fifo size must be non-negative"]
    assert fifo == ["ok"]


@pytest.mark.parametrize("code", [700, 719, 999])
def test_an_asynchronous_error_says_so(launching: Callable[..., Any], code: int) -> None:
    session = launching(
        """
        from simulated import Kernel, outcome, report
        kernel = Kernel({"n": "i32"}, name="later")
        report([outcome(lambda: kernel(1)), outcome(lambda: kernel(1))])
        """,
        prepare=lambda simulator: simulator.fault("cuLaunchKernelEx", 2, result=code),
    )
    first, second = session.report
    assert first == ["ok"]
    assert second[0] == "DriverError"
    assert f", {code})" in second[1]
    assert "may stem from an earlier launch" in second[1]
    assert "'later'" in second[1]


def test_a_thread_without_a_context_uses_the_streams(launching: Callable[..., Any]) -> None:
    session = launching(
        """
        import ctypes, threading
        from simulated import Kernel, driver, outcome, report
        library = ctypes.CDLL("libcuda.so.1")
        first = Kernel({"n": "i32"})
        context = ctypes.c_void_p()
        assert library.cuDevicePrimaryCtxRetain(ctypes.byref(context), 1) == 0
        assert library.cuCtxSetCurrent(context) == 0
        second = Kernel({"n": "i32"}, device=1)
        stream = ctypes.c_void_p()
        assert library.cuStreamCreate(ctypes.byref(stream), 0) == 0
        devices = []
        def work():
            second(1, stream=stream.value)
            device = ctypes.c_int(-1)
            library.cuCtxGetDevice(ctypes.byref(device))
            devices.append(device.value)
        def plain():
            first(1)
            devices.append("launched")
        for target in (work, plain):
            thread = threading.Thread(target=target)
            thread.start()
            thread.join()
        report(devices)
        """,
        devices=2,
    )
    assert session.report == [1, "launched"]
    on_stream, on_default = session.launches()
    assert (on_stream.detail["device"], on_stream.result) == ("1", 0)
    assert (on_default.detail["device"], on_default.result) == ("0", 0)


def test_threads_launch_at_once(launching: Callable[..., Any]) -> None:
    session = launching(
        """
        import threading
        from simulated import Kernel, report
        kernel = Kernel({"a": "i32", "b": "fp64"})
        barrier = threading.Barrier(8)
        def work(number):
            barrier.wait()
            for step in range(50):
                kernel(number * 1000 + step, float(number))
        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        report(None)
        """
    )
    values = [int.from_bytes(bytes.fromhex(v[0]), "little") for v in session.parameters()]
    assert sorted(values) == sorted(n * 1000 + step for n in range(8) for step in range(50))


def test_the_gil_is_released_around_the_driver_call(launching: Callable[..., Any]) -> None:
    session = launching(
        """
        import threading, time
        from simulated import Kernel, report
        kernel = Kernel({"a": "i32"})
        thread = threading.Thread(target=lambda: kernel(1))
        began = time.monotonic()
        thread.start()
        ticks = 0
        while thread.is_alive():
            ticks += 1
            time.sleep(0.01)
        report([ticks, time.monotonic() - began])
        """,
        prepare=lambda simulator: simulator.fault("cuLaunchKernelEx", delay=1.0),
    )
    ticks, elapsed = session.report
    assert elapsed >= 1.0
    assert ticks > 10


def test_occupancy(launching: Callable[..., Any]) -> None:
    session = launching(
        """
        from simulated import Kernel, driver, report
        kernel = Kernel({"n": "i32"}, num_ctas=2)
        report(driver.active.utils.cuOccupancyMaxActiveClusters(kernel.function, 1024, 4))
        """,
        capability=(9, 0),
    )
    assert session.report > 0


def test_every_way_out_keeps_references(launching: Callable[..., Any]) -> None:
    session = launching(
        """
        import gc, sys, triton
        from types import SimpleNamespace
        from triton.runtime import _allocation
        from simulated import Kernel, Pointer, allocate, report
        kernel = Kernel({"p": "*i32", "n": "i32", "f": "fp16", "t": ("i8", "*i8"),
                         "d": "tensordesc<fp16[8, 8]>"}, global_scratch=8)
        device, host = Pointer(allocate()), Pointer(0x1000)
        number, half = 10**6, 1.25
        shape, strides, padding = [100000, 200000], (300000, 1), "zero" * 2
        good = SimpleNamespace(base=device, shape=shape, strides=strides, padding=padding)
        bad = SimpleNamespace(base=host, shape=shape, strides=strides, padding=padding)
        pair, metadata = (5, device), object()
        scratch = Pointer(device.address)
        def fail(*args):
            raise KeyError
        def nothing(*args):
            pass
        calls = [
            dict(args=(device, number, half, pair, good)),
            dict(args=(host, number, half, pair, good)),
            dict(args=(device, "x", half, pair, good)),
            dict(args=(device, 2**40, half, pair, good)),
            dict(args=(device, number, 1e9, pair, good)),
            dict(args=(device, number, half, (5, host), good)),
            dict(args=(device, number, half, (1, 2, 3), good)),
            dict(args=(device, number, half, pair, bad)),
            dict(args=(device, number, half, pair, good), enter=fail),
            dict(args=(device, number, half, pair, good), enter=nothing, exit=fail),
            dict(args=(device, number, half, pair, good), grid=(1, 99999, 1)),
            dict(args=(device, number)),
            dict(args=(device, number, half, pair, good), alloc=fail),
            dict(args=(device, number, half, pair, good), alloc=lambda *a: host),
        ]
        watched = [kernel.launcher, device, host, number, half, shape, strides, padding, good, bad,
                   pair, metadata, scratch, fail, nothing, _allocation._allocator]
        def run(call, times):
            call = dict(call)
            args = call.pop("args")
            allocator = call.pop("alloc", lambda *a: scratch)
            triton.set_allocator(allocator)
            for _ in range(times):
                try:
                    kernel(*args, metadata=metadata, **call)
                except Exception:
                    pass
            triton.set_allocator(nothing)
        grown = []
        for call in calls:
            run(call, 5)
            gc.collect()
            before = [sys.getrefcount(value) for value in watched]
            run(call, 200)
            gc.collect()
            after = [sys.getrefcount(value) for value in watched]
            grown.append([b - a for a, b in zip(before, after)])
        report(grown)
        """
    )
    assert len(session.report) == 14
    for number, grown in enumerate(session.report):
        assert not any(grown), (number, grown)


def test_launchers_are_freed(launching: Callable[..., Any]) -> None:
    session = launching(
        """
        import gc, sys
        from simulated import Kernel, report
        kernel = Kernel({"p": "*i32", "n": ("i32", "i8")})
        name = kernel.metadata.name = "a name of its own" * 2
        make = lambda: type(kernel).__init__.__globals__["driver"].active.launcher_cls(
            kernel.source, kernel.metadata)
        kind = type(kernel.launcher)
        before = sys.getrefcount(name), sys.getrefcount(kind)
        for _ in range(1000):
            launcher = make()
        del launcher
        after = sys.getrefcount(name), sys.getrefcount(kind)
        fields = kernel.launcher
        report([before == after, repr(fields), fields.num_ctas, fields.global_scratch_size,
                fields.launch_pdl])
        """
    )
    assert session.report == [True, "<KernelLauncher of 'kernel', 2 arguments>", 1, 0, False]


def test_a_forked_child_is_told_why(launching: Callable[..., Any]) -> None:
    session = launching(
        """
        import os, json
        from simulated import Kernel, driver, outcome, report
        kernel = Kernel({"n": "i32"})
        kernel(1)
        read, write = os.pipe()
        if os.fork() == 0:
            results = [outcome(lambda: kernel(1)),
                       outcome(lambda: driver.active.utils.get_device_properties(0)),
                       outcome(lambda: Kernel({"n": "i32"}))]
            os.write(write, json.dumps(results).encode())
            os._exit(0)
        os.close(write)
        with open(read) as stream:
            results = json.load(stream)
        kernel(2)
        report([os.getpid(), results])
        """
    )
    parent, results = session.report
    for error, text in results:
        assert error == "ForkedDriverError"
        assert f"process {parent} initialized the driver" in text
    assert [values[0] for values in session.parameters()] == ["01000000", "02000000"]


def test_nothing_is_initialized_before_the_first_use(launching: Callable[..., Any]) -> None:
    session = launching(
        """
        from types import SimpleNamespace
        from triton.backends.ppu import launcher
        from triton.runtime.driver import driver
        from simulated import report
        source = SimpleNamespace(signature={"n": "i32"}, fn=SimpleNamespace(arg_names=["n"]))
        metadata = SimpleNamespace(
            name="k", num_ctas=1, launch_cooperative_grid=False, launch_pdl=False,
            global_scratch_size=0, global_scratch_align=1, profile_scratch_size=0,
            profile_scratch_align=1)
        utils = driver.active.utils
        made = driver.active.launcher_cls(source, metadata)
        report(callable(made))
        """
    )
    assert session.report is True
    assert session.simulator.calls("cuInit") == []


def test_the_other_abi(launching: Callable[..., Any]) -> None:
    session = launching(
        """
        from simulated import Kernel, outcome, report
        kernel = Kernel({"n": "i32"})
        kernel(7)
        report(outcome(lambda: kernel(1, grid=(1, 99999, 1))))
        """,
        abi="hg",
    )
    (launch, failed) = session.simulator.calls("hgLaunchKernelEx")
    assert launch.result == 0
    assert launch.parameters[0] == (7).to_bytes(4, "little")
    assert failed.result == 1
    assert "hgLaunchKernelEx" in session.report[1]
