"""Forks at the worst moment: what the child knows of the device all the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

INHERITED = ["ForkedAfterInit", 1, "fork note"]


def test_after_the_modules_are_gone(
    simulator: Callable[..., Any], scripted: Callable[..., Any]
) -> None:
    """Errors keep their type in a child whose sys.modules has lost every module of Triton."""
    found = scripted(
        simulator(devices=2),
        """
        live(1)
        for name in [n for n in sys.modules if n.split(".")[0] in ("triton", "torch")]:
            del sys.modules[name]
        def ask():
            try:
                device.require_usable()
            except Exception as error:
                return [device.state(), *device.ordinal(), type(error).__name__]
        report(in_child(ask))
        """,
    )
    assert found == [*INHERITED, "ForkedDriverError"]


def test_in_a_signal_handler(simulator: Callable[..., Any], scripted: Callable[..., Any]) -> None:
    found = scripted(
        simulator(devices=2),
        """
        import signal, time
        live(1)
        answers = []
        def handler(*_):
            answers.append(in_child(lambda: [ppu.process_state(), *device.ordinal()]))
            signal.setitimer(signal.ITIMER_REAL, 0.002)
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.002)
        while len(answers) < 20:
            device.get_current_device(); device.state(); device.presence(); device.capability(0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        answers = answers[:20]
        report(answers)
        """,
    )
    assert found == [INHERITED] * 20


def test_with_hooks_that_initialize_or_raise(
    simulator: Callable[..., Any], scripted: Callable[..., Any]
) -> None:
    """A hook that runs before ours, and makes the driver live, is noted; one that raises is not."""
    found = scripted(
        simulator(devices=2),
        """
        os.register_at_fork(before=lambda: live(1))
        first = in_child(lambda: [ppu.process_state(), *device.ordinal()])
        os.register_at_fork(before=lambda: 1 / 0)
        report([first, in_child(lambda: [ppu.process_state(), *device.ordinal()])])
        """,
    )
    assert found == [INHERITED] * 2


def test_on_a_kernel_without_wipe_on_fork(
    compiled_library: Callable[[str, str], Path],
    simulator: Callable[..., Any],
    scripted: Callable[..., Any],
) -> None:
    """Before Linux 4.14 madvise knows no MADV_WIPEONFORK: the fork handler alone has to do."""
    shim = compiled_library(
        "madvise.so",
        "#define _GNU_SOURCE\n#include <errno.h>\n#include <stddef.h>\n#include <sys/syscall.h>\n"
        "#include <unistd.h>\n"
        "int madvise(void *at, size_t size, int advice) {\n"
        "  if (advice == 18) { errno = EINVAL; return -1; }\n"
        "  return (int)syscall(SYS_madvise, at, size, advice);\n}\n",
    )
    found = scripted(
        simulator(devices=2),
        """
        from flagtree_simulator.driver import fork
        live(1)
        assert device.ordinal() == (1, "context")
        ask = lambda: [ppu.process_state(), *device.ordinal()]
        answers = [in_child(ask), in_child(lambda: in_child(ask))]
        # A fork made in C, which Python's hooks miss, and one past the C library's handlers.
        answers += [in_child(ask, lambda how=how: fork(how)) for how in ("c", "clone")]
        report(answers)
        """,
        {"LD_PRELOAD": str(shim)},
    )
    assert found == [INHERITED] * 4


def test_while_a_thread_is_inside_the_management_library(
    simulator: Callable[..., Any], scripted: Callable[..., Any]
) -> None:
    """A monitor's thread in NVML at the fork holds its locks in the child for ever; torch's own
    count of devices is such a thread. The child learns the capability all the same."""
    machine = simulator(devices=2, capability=[(8, 0), (9, 0)])
    machine.fault("nvmlInit_v2", "every", delay=0.05)
    found = scripted(
        machine,
        """
        import ctypes, threading
        from flagtree_simulator.driver import fork
        library = ctypes.CDLL("libnvidia-ml.so.1")
        def monitor():
            while True:
                library.nvmlInit_v2()
                library.nvmlShutdown()
        threading.Thread(target=monitor, daemon=True).start()
        ask = lambda: [device.capability(n)["major"] for n in (0, 1)] + [ppu.process_state()]
        answers = [in_child(ask) for _ in range(5)]
        answers.append(in_child(lambda: in_child(ask)))
        # Nobody may have asked for Python's lock when C forks: the child would let it go, and wait
        # for the one who asked.
        sys.setswitchinterval(60)
        answers += [in_child(ask, lambda how=how: fork(how)) for how in ("c", "clone")]
        report(answers)
        """,
        {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
    )
    assert found == [[8, 9, "Uninitialized"]] * 8


def test_where_the_tree_is_first_imported_in_the_child(
    simulator: Callable[..., Any], run_python: Callable[..., Any]
) -> None:
    """No note tells that child what it is, and its management library is an ancestor's all the
    same."""
    machine = simulator(devices=2, capability=[(8, 0), (9, 0)])
    machine.fault("nvmlInit_v2", "every", delay=0.3)
    done = run_python(
        """
        import ctypes, os, signal, threading, time
        library = ctypes.CDLL("libnvidia-ml.so.1")
        threading.Thread(target=library.nvmlInit_v2, daemon=True).start()
        time.sleep(0.1)
        pid = os.fork()
        if pid == 0:
            signal.alarm(30)  # The library would hang the child for ever.
            import triton
            from triton.backends.ppu._native import device
            print([device.capability(n)["major"] for n in (0, 1)], flush=True)
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        """,
        machine.environment() | {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
    )
    assert done.stdout.split("\n") == ["[8, 9]", ""]


def test_a_program_that_hangs_holds_no_other_thread_up(
    tmp_path: Path, simulator: Callable[..., Any], scripted: Callable[..., Any]
) -> None:
    """The device is asked for without Python's lock where that may take long."""
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nexec sleep 2\n")
    program.chmod(0o755)
    found = scripted(
        simulator(devices=1),
        f"""
        import ctypes, threading, time
        ctypes.CDLL("libnvidia-ml.so.1")
        device.set_management_program({bytes(program)!r})
        def ask(question):
            asking = threading.Thread(target=question)
            longest, last = 0, time.monotonic()
            asking.start()
            while asking.is_alive():
                time.sleep(0.01)
                longest, last = max(longest, time.monotonic() - last), time.monotonic()
            return longest
        report([in_child(lambda: ask(question)) for question in
                (device.get_current_device, device.device_count)])
        """,
        # Which of these there are is for the management library to say.
        {"FLAGTREE_PPU_DEVICE": "0", "CUDA_VISIBLE_DEVICES": "GPU-1"},
    )
    assert max(found) < 1


def test_without_the_program_that_asks_in_a_childs_stead(
    simulator: Callable[..., Any], scripted: Callable[..., Any]
) -> None:
    """The error of a child that cannot learn the capability says what is missing."""
    found = scripted(
        simulator(devices=1),
        """
        import ctypes
        ctypes.CDLL("libnvidia-ml.so.1")
        device.set_management_program(b"/nonexistent/flagtree-device")
        report(in_child(lambda: triton.runtime.driver.active.get_current_target()))
        """,
    )
    assert found[0] == "RuntimeError"
    assert "/nonexistent/flagtree-device" in found[1] and "No such file" in found[1]
