"""Using the device where it cannot be used: the error, the warning and when each comes.

Cases 4 and 12 of the field: a pool whose manager initialized, fork servers, spawn."""

from __future__ import annotations

import textwrap

import pytest
from forked_use import (
    CUDA_CORE,
    START_METHODS,
    WARNINGS,
    check_forked_children,
    check_start_method,
)


@pytest.mark.parametrize("by", ["cuInit", "context", CUDA_CORE])
@pytest.mark.parametrize("mode", WARNINGS)
def test_forked_children(simulator, run_python, by, mode):
    check_forked_children(run_python, simulator(devices=2).environment(), by, 1, mode)


@pytest.mark.parametrize("case", START_METHODS, ids=" ".join)
def test_start_methods(simulator, run_python, tmp_path, case):
    environment = simulator(devices=2).environment()
    for mode in (None, "fork", "off"):
        check_start_method(run_python, environment, "context", 1, mode, case, tmp_path)


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
        assert done.stderr.count("ForkedDriverWarning:") == expected
