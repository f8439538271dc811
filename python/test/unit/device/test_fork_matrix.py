"""The fork matrix: all its cells are right for the installed tree, and it tells wrong
from right, shown on a made-up Triton that misbehaves in every way it knows."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

MATRIX = Path(__file__).resolve().parents[4] / "tools" / "fork_matrix.py"

# A Triton as far as the matrix asks one, right but for what FAULTS says.
PRETENDER = '''
"""Not Triton: a stand-in that answers the fork matrix, and misbehaves on order."""
import ctypes, json, os, pathlib, sys, types, typing

__version__ = "0.0-pretended"
FAULTS = json.loads(os.environ.get("PRETENDER_FAULTS", "{}"))

def cuda():
    return ctypes.CDLL("libcuda.so.1")

def misbehave(what):
    fault = FAULTS.get(what)
    if fault == "initialize":
        cuda().cuInit(0)
    elif fault == "context":
        context = ctypes.c_void_p()
        cuda().cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    elif fault == "hang":
        while True:
            pass
    elif fault == "crash":
        os.kill(os.getpid(), 11)
    elif fault == "raise":
        raise RuntimeError("made to fail")
    elif fault == "poison":
        # Makes every child answer as if forked after initialization, seen by no log.
        library = ctypes.CDLL("libcuda.so.1")
        os.register_at_fork(after_in_child=lambda: library.cuInit(1) and os._exit(9))
    return fault

def ordinal():
    value = ctypes.c_int()
    return 0 if cuda().cuCtxGetDevice(ctypes.byref(value)) else value.value

class Target(typing.NamedTuple):
    backend: str
    arch: int
    warp_size: int

class Driver:
    @staticmethod
    def is_active():
        misbehave("is_active")
        return FAULTS.get("is_active") != "lie"
    def get_current_device(self):
        return ordinal() + (misbehave("device") == "lie")
    def get_active_torch_device(self):
        return f"cuda:{ordinal()}"
    def get_current_target(self):
        misbehave("target")
        return Target("cuda", (80, 90)[ordinal()], 32)

class Compiler:
    @staticmethod
    def supports_target(target):
        return target.backend == "cuda"

class Kernel:
    def __init__(self, function):
        import inspect
        self.source = inspect.getsource(function)
        self.arg_names = list(inspect.signature(function).parameters)
        self.cache_key = self.source
    def parse(self):
        import ast
        return ast.parse(self.source)

def jit(function):
    return Kernel(function)

class Config:
    def __init__(self, values, num_warps):
        pass

def autotune(configs, key):
    misbehave("autotuner")
    return lambda kernel: types.SimpleNamespace(configs=configs, arg_names=kernel.arg_names)

def compile(source, target=None):
    misbehave("compile" if target is None else "compile_80")
    target = target or runtime.driver.active.get_current_target()
    binary = repr((source.fn.source, target.arch)).encode()
    if FAULTS.get("compile") == "lie":
        binary += str(os.getpid()).encode()
    return types.SimpleNamespace(
        asm={"cubin": binary}, metadata=types.SimpleNamespace(target=target))

def module(name, **content):
    made = types.ModuleType(name)
    vars(made).update(content)
    sys.modules[name] = made
    return made

runtime = module("triton.runtime", driver=types.SimpleNamespace(active=Driver()))
backends = module("triton.backends", backends={
    "pretended": types.SimpleNamespace(driver=Driver, compiler=Compiler)})
module("triton.backends.compiler", GPUTarget=Target)
compiler = module("triton.compiler", ASTSource=lambda fn, **rest: types.SimpleNamespace(fn=fn),
                  __path__=[])
language = module("triton.language", constexpr=int)
'''


@pytest.fixture
def measure(tmp_path, monkeypatch):
    """Runs the matrix on the pretender; returns status, last line and cells by question."""
    package = tmp_path / "pretended" / "triton"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(PRETENDER)

    def run(row, limit=20.0, **faults):
        monkeypatch.setenv("PRETENDER_FAULTS", json.dumps(faults))
        result = tmp_path / "cells.json"
        command = [sys.executable, str(MATRIX), "--path", str(package.parent), "--rows", row]
        command += ["--json", str(result), "--limit", str(limit), "--jobs", "2"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert result.exists(), done.stderr + done.stdout
        cells = json.loads(result.read_text())["cells"]
        return done.returncode, done.stdout.splitlines()[-1], cells

    return run


def marks(cells):
    return {cell["question"]: cell["mark"] for cell in cells if cell["mark"] not in ".-"}


def test_a_triton_that_does_nothing_wrong_is_right(measure):
    status, last, cells = measure("fresh, context after")
    assert (marks(cells), status) == ({}, 0)
    assert last == "9 of 9 cells right"
    assert [cell["why"] for cell in cells if cell["mark"] == "-"] == ["lacks a hint manager"]


@pytest.mark.parametrize("row", ["os.fork, nobody", "pool manager, nobody", "mp spawn, nobody"])
def test_asking_that_initializes_is_found_and_does_not_spoil_the_rest(measure, row):
    status, last, cells = measure(row, is_active="initialize", autotuner="initialize")
    wrong = {"is_active": "I", "autotuner": "I"}
    found = [marks([cell for cell in cells if cell["row"] == label]) for label in labels(cells)]
    assert found == [wrong] * len(found)
    assert status == 1
    assert last == f"{7 * len(found)} of {9 * len(found)} cells right"


def labels(cells):
    return list(dict.fromkeys(cell["row"] for cell in cells))


def test_asking_that_makes_a_context_is_found(measure):
    _, _, cells = measure("fresh, cuInit before", device="context")
    assert marks(cells) == {"device": "I"}
    assert "cuDevicePrimaryCtxRetain" in "".join(cell["why"] for cell in cells)


def test_hangs_crashes_errors_and_wrong_answers_are_told_apart(measure):
    faults = {"is_active": "lie", "target": "hang", "autotuner": "crash", "compile_80": "raise"}
    status, last, cells = measure("os.fork, cuInit before", limit=5, **faults)
    # The target is asked to compile for it, too.
    wrong = {"is_active": "A", "target": "H", "compile": "H", "autotuner": "C", "compile_80": "E"}
    assert labels(cells) == [
        "os.fork, cuInit before",
        "os.fork, cuInit before, tree imported in the child",
    ]
    for label in labels(cells):
        assert marks([cell for cell in cells if cell["row"] == label]) == wrong
    assert (status, last) == (1, "8 of 18 cells right")


def test_a_worker_that_crashes_in_a_pool_is_found(measure):
    _, _, cells = measure("pool manager, cuInit after", device="crash")
    assert marks(cells) == {"device": "C"}


def test_another_binary_in_each_process_is_found(measure):
    _, _, cells = measure("os.fork, nobody", compile="lie")
    assert set(marks(cells)) == {"compile", "compile_80"}


def test_a_child_that_can_no_longer_initialize_is_found(measure):
    _, _, cells = measure("fresh, nobody", device="poison")
    assert marks(cells)["device"] == "F"


def test_without_a_device_the_cause_must_be_named(measure):
    _, _, cells = measure("fresh, no device visible", target="raise")
    assert marks(cells) == {"is_active": "A", "target": "E", "compile": "E"}


def test_a_tree_that_is_not_there_is_refused(tmp_path):
    command = [sys.executable, str(MATRIX), "--path", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "holds no triton" in done.stderr


def test_matrices_are_put_side_by_side(tmp_path):
    def write(name, marks):
        cells = [
            {"row": "fresh", "question": question, "mark": mark, "why": why, "verdict": verdict}
            for question, mark, why, verdict in marks
        ]
        content = {"machine": {}, "triton": {}, "cells": cells}
        (tmp_path / name).write_text(json.dumps(content))
        return f"{name}={tmp_path / name}"

    one = write("one", [("device", ".", "", "right"), ("hint", "-", "none", "not applicable")])
    other = write("other", [("device", "A", "answered 1", "wrong"), ("hint", ".", "", "right")])
    command = [sys.executable, str(MATRIX.with_name("fork_matrix_table.py"))]
    done = subprocess.run([*command, one, other], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[2] == "| cells right | 1 of 1 | 1 of 2 |"
    assert "| fresh | `.-` | `A.` |" in lines
    assert lines[-1] == "| 1 | `A` | `answered 1` |"
    for wrong in ("one", f"x={tmp_path / 'absent'}", f"x={__file__}"):
        done = subprocess.run([*command, wrong], capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert done.stderr.startswith("fork_matrix_table: ")


def test_it_has_at_least_400_cells():
    command = [sys.executable, str(MATRIX), "--list"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = listed.splitlines()
    questions = sum(": " in line for line in lines)
    rows = [line for line in lines if ": " not in line and "torch" not in line]
    assert len(rows) == len(set(rows))
    assert questions * len(rows) >= 400


# All rows are played by .ci/run; these are the ones that go wrong first.
@pytest.mark.parametrize(
    "row",
    [
        "os.fork, context before",
        "os.fork, management while",
        "pool manager, context before",
        "raw clone, context before, parent had asked",
        "fresh, no device visible",
    ],
)
def test_the_installed_tree_is_right(row):
    if not find_spec("triton") or not find_spec("triton._flagtree_spec"):
        pytest.skip("the tree is not installed here")
    command = [sys.executable, str(MATRIX), "--driver", "simulator", "--wrong", "--rows", row]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    right, of, total, *rest = done.stdout.splitlines()[-1].split()
    assert (right, of, rest) == (total, "of", ["cells", "right"])
    assert int(total) >= 9


@pytest.mark.gpu
@pytest.mark.slow
def test_every_cell_is_right_on_a_real_driver():
    command = [sys.executable, str(MATRIX), "--driver", "real", "--wrong"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
