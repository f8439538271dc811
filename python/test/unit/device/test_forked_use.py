"""Using the device where it cannot be used: the error, the warning and when each comes.

Cases 4 and 12 of the field: a pool whose manager initialized, fork servers, spawn."""

from __future__ import annotations

import textwrap

import pytest


def warnings_in(text):
    return text.count("ForkedDriverWarning:")


USE_IN_CHILD = """
live(1)
def child():
    try:
        ppu.require_usable()
    except errors.ForkedDriverError as error:
        return [str(error), error.pid == os.getpid(), error.initializer]
report([os.getpid(), *in_child(child), *in_child(child)])
"""


def test_the_error_names_both_processes(simulator, scripted):
    pid, text, is_own_pid, initializer, *_ = scripted(simulator(devices=2), USE_IN_CHILD)
    assert is_own_pid and initializer == pid
    assert f"process {pid} initialized" in text
    for way_out in ("spawn", "forkserver", "__main__", "after forking"):
        assert way_out in text


@pytest.mark.parametrize(
    ("mode", "idle", "using"), [("use", 0, 1), ("fork", 1, 1), ("off", 0, 0), (None, 0, 1)]
)
def test_when_the_warning_comes(simulator, run_python, mode, idle, using):
    machine = simulator()
    script = """
        import os, sys
        from flagtree_simulator.driver import Driver
        import triton
        from triton.backends.ppu import driver as ppu, errors
        driver_library = Driver()
        driver_library.init()
        driver_library.use(0)
        if os.fork() == 0:
            if sys.argv[1] == "using":
                for _ in range(3):
                    try:
                        ppu.require_usable()
                    except errors.ForkedDriverError:
                        print("error")
            sys.stdout.flush()
            os._exit(0)
        os.wait()
    """
    environment = machine.environment()
    if mode is not None:
        environment["FLAGTREE_FORK_WARNING"] = mode
    for what, expected in (("idle", idle), ("using", using)):
        done = run_python(script, environment, arguments=(what,))
        assert warnings_in(done.stderr) == expected, (what, done.stderr)
        assert done.stdout.count("error") == (3 if what == "using" else 0)


def test_every_child_warns_once(simulator, run_python):
    done = run_python(
        """
        import os
        from flagtree_simulator.driver import Driver
        import triton
        driver_library = Driver()
        driver_library.init()
        driver_library.use(0)
        if os.fork() == 0:
            if os.fork() == 0:
                os._exit(0)
            os.wait()
            os._exit(0)
        os.wait()
        """,
        {**simulator().environment(), "FLAGTREE_FORK_WARNING": "fork"},
    )
    assert warnings_in(done.stderr) == 2


def test_a_warning_that_is_an_error_does_not_hide_the_error(simulator, scripted):
    found = scripted(
        simulator(),
        "import warnings; warnings.simplefilter('error')\n"
        "live()\nreport(in_child(ppu.require_usable))",
    )
    assert found[0] == "ForkedDriverError"


def test_a_mode_that_does_not_exist(simulator, scripted):
    found = scripted(
        simulator(),
        """
        try:
            triton.knobs.ppu.fork_warning
        except ValueError as error:
            report(str(error))
        """,
        {"FLAGTREE_FORK_WARNING": "sometimes"},
    )
    assert "'sometimes'" in found and "use, fork, off" in found


PRELOADED = """
from flagtree_simulator.driver import Driver
import triton
driver = Driver()
driver.init()
driver.use(0)
"""

# A program that starts one worker by a start method; the worker may use the device. argv: method,
# where the module that initializes is imported ("top", "main" or "nowhere"), whether the worker
# uses the device.
PROGRAM = """
import multiprocessing, os, sys
from flagtree_simulator.driver import Driver
import triton
from triton.backends.ppu import driver as ppu, errors

method, where, use = sys.argv[1:4]
if where == "top":
    import preloaded

def work():
    state = ppu.process_state()
    result = "idle"
    if use == "use":
        try:
            ppu.require_usable()
            result = "used"
        except errors.ForkedDriverError:
            result = "error"
    print(f"worker {state} {result}", flush=True)

if __name__ == "__main__":
    if where == "main":
        import preloaded
    context = multiprocessing.get_context(method)
    if method == "forkserver":
        # Named, because the fork server of Python 3.11 does not preload the main module.
        context.set_forkserver_preload(["preloaded"] if where == "top" else [])
    worker = context.Process(target=work)
    worker.start()
    worker.join()
    assert worker.exitcode == 0
"""


@pytest.mark.parametrize(
    ("method", "where", "worker", "warned"),
    [
        # The child of fork is poisoned by whatever its parent did.
        ("fork", "main", "ForkedAfterInit error", True),
        ("fork", "top", "ForkedAfterInit error", True),
        ("fork", "nowhere", "Uninitialized used", False),
        # A fork server is, if a module it preloads initializes at its top level.
        ("forkserver", "top", "ForkedAfterInit error", True),
        ("forkserver", "main", "Uninitialized used", False),
        ("forkserver", "nowhere", "Uninitialized used", False),
        # A spawned process never is.
        ("spawn", "top", "Initialized used", False),
        ("spawn", "main", "Uninitialized used", False),
    ],
)
def test_start_methods(simulator, run_python, tmp_path, method, where, worker, warned):
    (tmp_path / "preloaded.py").write_text(PRELOADED)
    machine = simulator()
    for mode in ("use", "fork", "off"):
        done = run_python(
            PROGRAM,
            {**machine.environment(), "FLAGTREE_FORK_WARNING": mode},
            arguments=(method, where, "use"),
        )
        assert f"worker {worker}" in done.stdout, done.stdout + done.stderr
        assert warnings_in(done.stderr) == (warned and mode != "off"), (mode, done.stderr)
    # By default, whoever does not use the device is left in peace.
    done = run_python(PROGRAM, machine.environment(), arguments=(method, where, "idle"))
    assert "idle" in done.stdout
    assert warnings_in(done.stderr) == 0, done.stderr


@pytest.fixture
def worker_kernel(tmp_path):
    """A module that the scripts import, with a kernel that holds a hint."""
    (tmp_path / "worker_kernel.py").write_text(
        textwrap.dedent("""
        import triton
        import triton.language as tl
        @triton.jit
        def add_one(x, n, BLOCK: tl.constexpr):
            i = tl.arange(0, BLOCK)
            v = tl.load(x + i, mask=i < n)  # @hint: shared_memory
            tl.store(x + i, v + 1, mask=i < n)
        """)
    )


def test_a_pool_whose_manager_initialized(simulator, scripted, worker_kernel):
    # Case 4: the manager reads device properties, forks sixteen, each compiles for the active
    # target.
    machine = simulator(devices=2)
    found = scripted(
        machine,
        """
        live(1)
        from worker_kernel import add_one
        from triton.compiler import ASTSource, make_backend
        def worker():
            active = triton.runtime.driver.active
            target = active.get_current_target()
            # To Triton's IR, where the hints are: sixteen runs of ptxas would only take time.
            types = {"x": "*fp32", "n": "i32", "BLOCK": "constexpr"}
            source = ASTSource(add_one, types, {"BLOCK": 64})
            backend, context = make_backend(target), triton._C.libtriton.ir.context()
            triton._C.libtriton.ir.load_dialects(context)
            backend.load_dialects(context)
            options = backend.parse_options({})
            module = source.make_ir(target, options, backend.get_codegen_implementation(options),
                                    backend.get_module_map(), context)
            assert "tt.load" in str(module)
            return [type(active).__name__, str(target), active.get_current_device()]
        report([in_child(worker) for _ in range(16)])
        """,
    )
    expected = ["PPUDriver", "GPUTarget(backend='cuda', arch=80, warp_size=32)", 1]
    assert found == [expected] * 16


def test_a_forked_worker_compiles_a_new_kernel(simulator, scripted, worker_kernel):
    # Case 1: the parent holds a context, the worker compiles; the binary is the parent's.
    machine = simulator()
    pid, parent, child, child_pid = scripted(
        machine,
        """
        import hashlib
        from worker_kernel import add_one
        from triton.compiler import ASTSource
        def compile_it():
            source = ASTSource(add_one, {"x": "*fp32", "n": "i32", "BLOCK": "constexpr"},
                               {"BLOCK": 64})
            binary = triton.compile(source).asm["cubin"]
            return [hashlib.sha256(binary).hexdigest(), os.getpid()]
        live(0)
        triton.knobs.compilation.always_compile = True
        child, child_pid = in_child(compile_it)
        parent, pid = compile_it()
        report([pid, parent, child, child_pid])
        """,
    )
    assert parent == child
    assert not [c for c in machine.calls(pid=child_pid) if c.name == "cuInit"]
    assert len([c for c in machine.calls(pid=pid) if c.name == "cuInit"]) == 1


def test_torchs_flag_is_a_second_witness(simulator, run_python, tmp_path):
    # The tree is first imported in the child of a process that torch had initialized.
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("")
    (tmp_path / "torch" / "cuda.py").write_text(
        textwrap.dedent("""
        _initialized = True
        def _is_in_bad_fork():
            return True
        """)
    )
    machine = simulator()
    environment = machine.environment()
    environment["PYTHONPATH"] = f"{tmp_path}:{environment.get('PYTHONPATH', '')}"
    for mode, expected in (("use", 0), ("fork", 1)):
        done = run_python(
            """
            import sys
            sys.path.insert(0, sys.argv[1])
            import torch, torch.cuda
            import triton
            from triton.backends.ppu import driver
            print(driver.process_state())
            """,
            {**environment, "FLAGTREE_FORK_WARNING": mode},
            arguments=(str(tmp_path),),
        )
        assert done.stdout.split() == ["ForkedAfterInit"]
        assert warnings_in(done.stderr) == expected
