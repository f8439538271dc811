"""PPUDriver: what Triton and PyTorch call on it, the device variable, and odd circumstances of
being imported."""

from __future__ import annotations

import pytest


def test_making_it_opens_nothing_and_imports_no_torch(simulator, scripted):
    machine = simulator()
    found = scripted(
        machine,
        "d = ppu.PPUDriver(); report(['torch' in sys.modules, device.library(), "
        "'triton.backends.ppu.launcher' in sys.modules])",
    )
    assert found == [False, None, False]
    assert machine.calls() == []


def test_no_query_imports_torch(simulator, scripted):
    found = scripted(
        simulator(devices=2),
        """
        d = triton.runtime.driver.active
        def ask():
            d.get_current_device(), d.get_current_stream(0), d.get_device_capability(), facts()
            return "torch" in sys.modules
        report([ask(), live(1) and ask(), in_child(ask)])
        """,
    )
    assert found == [False, False, False]


def test_torch_devices_are_made_once(simulator, scripted):
    pytest.importorskip("torch")
    machine = simulator(devices=2)
    parent, same, child = scripted(
        machine,
        """
        d = triton.runtime.driver.active
        live(1)
        first = d.get_active_torch_device()
        def child():
            return [str(d.get_active_torch_device()), d.get_active_torch_device() is first]
        report([str(first), d.get_active_torch_device() is first, in_child(child)])
        """,
    )
    assert parent == "cuda:1" and same
    assert child == ["cuda:1", True]
    assert len([c for c in machine.calls() if c.name == "cuInit"]) == 1


@pytest.mark.parametrize("state", ["fresh", "live", "forked"])
def test_the_device_variable(simulator, scripted, state):
    body = "report(list(device.ordinal()))"
    if state == "live":
        body = "live(0)\n" + body
    if state == "forked":
        body = "live(0)\nreport(in_child(lambda: list(device.ordinal())))"
    found = scripted(simulator(devices=2), body, {"FLAGTREE_PPU_DEVICE": "1"})
    assert (
        found
        == {
            "fresh": [1, "FLAGTREE_PPU_DEVICE"],
            "live": [0, "context"],
            "forked": [0, "fork note"],
        }[state]
    )


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("one", "decimal number"),
        ("-1", "decimal number"),
        ("1.0", "decimal number"),
        ("cuda:1", "decimal number"),
        ("99999999999", "decimal number"),
        ("2", "2 are visible"),
    ],
)
def test_a_malformed_device_variable(simulator, scripted, value, message):
    found = scripted(
        simulator(devices=2),
        """
        answers = []
        for ask in (device.get_current_device, triton.runtime.driver.active.get_current_target):
            try:
                ask()
            except errors.DeviceVariableError as error:
                answers.append(str(error))
        os.environ["FLAGTREE_PPU_DEVICE"] = "1"
        answers.append(device.get_current_device())
        report(answers)
        """,
        {"FLAGTREE_PPU_DEVICE": value},
    )
    assert len(found) == 3 and found[2] == 1
    for text in found[:2]:
        assert repr(value) in text and message in text


def test_passing_the_device_to_a_spawned_child(simulator, scripted):
    found = scripted(
        simulator(devices=2),
        """
        import subprocess
        live(1)
        code = ("from triton.backends.ppu._native import device; import triton; "
                "print(*device.ordinal())")
        def spawned(**options):
            return subprocess.check_output([sys.executable, "-c", code], text=True, **options)
        plain = spawned()
        by_environment = spawned(env=ppu.child_environment())
        with ppu.device_for_children():
            by_block = spawned()
            own = list(device.ordinal())
            Driver().call("CtxSetCurrent", None)
            own_without_context = list(device.ordinal())
            forked = in_child(lambda: list(device.ordinal()))
        other = spawned(env=ppu.child_environment(0))
        report([plain, by_environment, by_block, own, own_without_context, forked, other,
                "FLAGTREE_PPU_DEVICE" in os.environ])
        """,
    )
    assert [text.strip() if isinstance(text, str) else text for text in found] == [
        "0 default",
        "1 FLAGTREE_PPU_DEVICE",
        "1 FLAGTREE_PPU_DEVICE",
        [1, "context"],
        # The variable is the child's; this process answers as if it were not set.
        [0, "default"],
        [1, "FLAGTREE_PPU_DEVICE"],
        "0 FLAGTREE_PPU_DEVICE",
        False,
    ]


@pytest.mark.parametrize(("bad", "error"), [(-1, "ValueError"), ("0", "TypeError")])
def test_a_device_for_children_that_is_none(simulator, scripted, bad, error):
    found = scripted(
        simulator(),
        f"""
        try:
            ppu.child_environment({bad!r})
        except (TypeError, ValueError) as found:
            report(type(found).__name__)
        """,
    )
    assert found == error


LIBRARY = """
import triton
import triton.language as tl
@triton.autotune(configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["n"])
@triton.jit
def kernel(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, i, mask=i < n)
kernel.fn.parse()
device = triton.runtime.driver.active.get_current_device()
"""


@pytest.mark.parametrize("hidden", ["variable", "no device", "no driver"])
def test_no_device(simulator, scripted, run_python, tmp_path, hidden):
    # Case 6: a module that decorates, parses and tunes imports; launching says why it cannot.
    machine = simulator(devices=1 if hidden == "variable" else 0, management=False)
    variables = {"CUDA_VISIBLE_DEVICES": "" if hidden == "variable" else None}
    if hidden == "no driver":
        variables["LD_LIBRARY_PATH"] = None
    (tmp_path / "library.py").write_text(LIBRARY)
    found = scripted(
        machine,
        """
        sys.path.insert(0, os.getcwd())
        import library
        try:
            library.kernel.fn[(1,)](0x1000, 64, BLOCK=64)
        except errors.NoDeviceError as error:
            report([str(error), ppu.PPUDriver.is_active(), library.device])
        """,
        variables,
    )
    text, active, ordinal = found
    assert text.startswith("No device is visible")
    assert not active and ordinal == 0
    expected = {
        "variable": "CUDA_VISIBLE_DEVICES is ''",
        "no device": "no device node",
        "no driver": "No driver library was found",
    }
    assert expected[hidden] in text
    assert machine.calls() == []


def test_leftover_metadata_of_stock_triton(simulator, scripted, tmp_path):
    # Case 9.
    info = tmp_path / "leftover" / "triton-3.6.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: triton\nVersion: 3.6.0\n")
    (info / "entry_points.txt").write_text(
        "[triton.backends]\namd = triton.backends.amd\nnvidia = triton.backends.nvidia\n"
    )
    machine = simulator()
    path = machine.environment().get("PYTHONPATH", "")
    found = scripted(
        machine,
        "report([list(triton.backends.backends), type(triton.runtime.driver.active).__name__])",
        {"PYTHONPATH": f"{path}:{tmp_path / 'leftover'}"},
        options=("-W", "error"),
    )
    assert found == [["ppu"], "PPUDriver"]


@pytest.mark.parametrize(
    ("argument", "minor"), [("None", 0), ("1", 9), ("'cuda:1'", 9), ("'cuda'", 0)]
)
def test_device_capability(simulator, scripted, argument, minor):
    machine = simulator(devices=2, capability=[(8, 0), (8, 9)])
    found = scripted(
        machine,
        f"live(0); report(triton.runtime.driver.active.get_device_capability({argument}))",
        {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
    )
    assert found == [8, minor]


def test_c_types(simulator, scripted):
    found = scripted(
        simulator(),
        """
        d = ppu.PPUDriver()
        names = ["*fp32", "i1", "u64", "fp16", "tensordesc<fp16[64,64]>", "nvTmaDesc"]
        answers = [d.map_python_to_cpp_type(name) for name in names]
        try:
            d.map_python_to_cpp_type("i7")
        except ValueError as error:
            report([*answers, str(error)])
        """,
    )
    assert found[:-1] == ["CUdeviceptr", "int8_t", "uint64_t", "double", *["CUtensorMap"] * 2]
    assert "'i7'" in found[-1]


def test_imported_anew(simulator, scripted):
    # sys.modules is cleaned; the hooks must not be registered again, nor the note be lost.
    machine = simulator(devices=2)
    found = scripted(
        machine,
        """
        live(1)
        calls = []
        real = os.register_at_fork
        os.register_at_fork = lambda **hooks: (calls.append(sorted(hooks)), real(**hooks))
        for name in [n for n in sys.modules if n.split(".")[0] == "triton"]:
            # The base's own extension cannot be imported twice.
            if not name.startswith("triton._C.libtriton"):
                del sys.modules[name]
        import triton as again
        from triton.backends.ppu import driver as ppu_again
        from triton.backends.ppu._native import device as device_again
        native = [hooks for hooks in calls if "before" in hooks]
        child = in_child(lambda: [ppu_again.process_state(), *device_again.ordinal()])
        report([native, again is not triton, child])
        """,
    )
    native, is_new, child = found
    assert native == [] and is_new
    assert child == ["ForkedAfterInit", 1, "fork note"]


def test_fork_while_another_thread_imports(simulator, run_python):
    done = run_python(
        """
        import os, sys, threading, time
        thread = threading.Thread(target=lambda: __import__("triton"))
        thread.start()
        codes = []
        while thread.is_alive():
            pid = os.fork()
            if pid == 0:
                os._exit(7)
            codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
            time.sleep(0.005)
        thread.join()
        import triton
        print(set(codes), triton.runtime.driver.active.get_current_device())
        """,
        simulator().environment(),
    )
    assert done.stdout.split() == ["{7}", "0"], done.stdout + done.stderr


def test_questions_while_the_interpreter_shuts_down(simulator, run_python):
    done = run_python(
        """
        import atexit, os
        from flagtree_simulator.driver import Driver
        import triton
        from triton.backends.ppu import driver
        from triton.backends.ppu._native import device
        driver_library = Driver()
        driver_library.init()
        driver_library.use(0)
        class Late:
            def __del__(self):
                print(device.get_current_device(), driver.process_state(), flush=True)
                if os.fork() == 0:
                    os._exit(0)
                os.wait()
        late = Late()
        atexit.register(lambda: print(device.get_current_device(), flush=True))
        import builtins
        builtins.late = late
        """,
        simulator().environment(),
    )
    assert done.stdout.split() == ["0", "0", "Initialized"], done.stdout + done.stderr
    assert "Error" not in done.stderr


def test_a_sub_interpreter_is_refused(simulator, run_python, tmp_path):
    (tmp_path / "inside.py").write_text(
        "import importlib.util\n"
        "try:\n"
        "    spec = importlib.util.spec_from_file_location('triton._C.ppu', PATH)\n"
        "    spec.loader.exec_module(importlib.util.module_from_spec(spec))\n"
        "except ImportError as error:\n"
        "    print('refused:', error, flush=True)\n"
    )
    done = run_python(
        """
        import sys
        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters
        import triton.backends.ppu.driver
        code = open("inside.py").read()
        path = sys.modules["triton._C.ppu"].__file__
        interpreters.run_string(interpreters.create(), code.replace("PATH", repr(path)))
        """,
        simulator().environment(),
    )
    assert "refused:" in done.stdout, done.stdout + done.stderr
    assert "interpreter" in done.stdout
