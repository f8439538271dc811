"""FlagTree's failure is impossible here: decorating, parsing, tuning and compiling for an explicit
target ask no driver anything - not one that works, nor one on which every call fails, hangs or
crashes, nor where there is none."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

TOOLS = Path(__file__).resolve().parents[4] / "tools"

# Case 6: a library whose import decorates kernels and builds autotuners. Cases 1 and 7: it
# compiles for an explicit target, a kernel with hints and one without, through all stages.
LIBRARY = f"""
import sys
sys.path.insert(0, {str(TOOLS)!r})
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler.hint_manager import hint_get_flagtree_backend, hint_trigger
from hinted_kernels import KERNELS, add_staged_kernel, matmul_kernel

configurations = [triton.Config({{"BLOCK": block}}) for block in (512, 1024)]

@triton.autotune(configurations, key=["n"])
@triton.heuristics({{"EVEN": lambda args: args["n"] % args["BLOCK"] == 0}})
@triton.jit
def tuned(x, y, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    a = tl.load(x + offsets, mask=mask)  # @hint: shared_memory
    tl.store(y + offsets, a, mask=mask)

assert hint_get_flagtree_backend() == "ppu"
assert hint_trigger("hint_mode") == "warn"
tuned.fn.fn.parse()

def compile(function, signature, constants):
    kernel = triton.jit(function)
    signature = dict(zip(kernel.arg_names, signature)) | dict.fromkeys(constants, "constexpr")
    return triton.compile(
        ASTSource(kernel, signature, constants), target=GPUTarget("cuda", 80, 32))

staged = compile(add_staged_kernel, ["*fp32"] * 3 + ["i32"], {{"BLOCK": 1024}})
assert "async_copy_global_to_local" in staged.asm["ttgir"]
blocks = {{"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32}}
product = compile(matmul_kernel, ["*fp16"] * 3 + ["i32"] * 3, blocks)
assert product.asm["cubin"][:4] == b"\\x7fELF"
print("compiled")
"""

FAULTS: dict[str, dict[str, Any]] = {
    "works": {},
    "fails": {"result": 999},
    "hangs": {"hang": True},
    "crashes": {"crash": True},
}
CALLS = ("cuInit", "cuDriverGetVersion", "cuDeviceGet", "cuDeviceGetCount", "cuCtxGetCurrent")
MORE_CALLS = ("cuCtxGetDevice", "cuDeviceGetAttribute", "cuGetProcAddress_v2")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_driver_that(
    fault: str,
    run_python: Callable[..., CompletedProcess[str]],
    simulator: Callable[..., Any],
) -> None:
    device = simulator(devices=1, capability=(8, 0))
    if FAULTS[fault]:
        for name in (*CALLS, *MORE_CALLS):
            device.fault(name, occurrence="every", **FAULTS[fault])
    done = run_python(LIBRARY, device.environment(), timeout=100)
    assert done.stdout == "compiled\n"
    assert device.calls() == []


def test_the_faults_are_real(
    run_python: Callable[..., CompletedProcess[str]], simulator: Callable[..., Any]
) -> None:
    """The test above would notice: one call of such a driver does what was ordered."""
    device = simulator(devices=1, capability=(8, 0))
    device.fault("cuInit", occurrence="every", result=999)
    call = "import ctypes; print(ctypes.CDLL('libcuda.so.1').cuInit(0))"
    assert run_python(call, device.environment()).stdout == "999\n"
    assert [called.name for called in device.calls()] == ["cuInit"]


@pytest.mark.parametrize("visible", ["", "-1", None])
def test_no_device_visible(visible: str | None, run_python: Callable[..., Any]) -> None:
    environment = dict(os.environ)
    if visible is not None:
        environment["CUDA_VISIBLE_DEVICES"] = visible
    assert run_python(LIBRARY, environment).stdout == "compiled\n"


PARENT = """
import ctypes, os, runpy, sys
import triton

driver = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert driver.cuInit(0) == 0
assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuCtxSetCurrent(context) == 0
child = os.fork()
if child == 0:
    status = 1
    try:
        runpy.run_path("library.py")
        sys.stdout.flush()
        status = 0
    finally:
        os._exit(status)
assert os.waitpid(child, 0)[1] == 0
print(child)
"""


def test_a_child_of_an_initialized_process(
    run_python: Callable[..., CompletedProcess[str]],
    simulator: Callable[..., Any],
    tmp_path: Path,
) -> None:
    """Case 1: the parent holds a context; the hint path in its child asks nothing."""
    device = simulator(devices=1, capability=(8, 0))
    (tmp_path / "library.py").write_text(LIBRARY)
    done = run_python(PARENT, device.environment())
    first, child = done.stdout.split()
    assert first == "compiled"
    assert device.calls(pid=int(child)) == []
    assert "cuInit" in [call.name for call in device.calls()]
