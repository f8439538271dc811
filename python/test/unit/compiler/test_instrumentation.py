"""Proton's instrumentation: its passes run in the stages, on a host whose driver is simulated."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

SCRIPT = """
import json, sys
import triton, triton.language as tl
import triton.profiler.language as pl
from triton.backends import backends
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import CUDABackend
from triton.profiler.hooks import InstrumentationHook

pl.enable_semantic("triton")

@triton.jit
def double(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    with pl.scope("loading"):
        value = tl.load(x + at, mask=at < n)
    tl.store(out + at, value * 2, mask=at < n)

def compiled(arch):
    double.create_binder()
    signature = {"x": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    source = triton.compiler.ASTSource(double, signature, {"BLOCK": 128})
    mode = triton.knobs.compilation.instrumentation_mode
    kernel = triton.compile(source, target=GPUTarget("cuda", arch, 32),
                            options={"instrumentation_mode": mode})
    return ["%clock" in kernel.asm["ptx"], kernel.metadata.profile_scratch_size > 0, kernel.hash]

def all_compiled():
    return [compiled(arch) for arch in (80, 90)]

hook = InstrumentationHook(None)
before = all_compiled()
hook.activate()
assert CUDABackend.instrumentation is backends["ppu"].compiler.instrumentation
instrumented = all_compiled()
hook.deactivate()
assert not CUDABackend.instrumentation
print(json.dumps([before, instrumented, all_compiled()]))
"""


def test_passes_run_while_they_are_installed(
    simulator: Callable[..., Any], run_python: Callable[..., Any]
) -> None:
    """Proton gives them to the class that `backends` names, the base's stages ask their own."""
    done = run_python(SCRIPT, simulator(devices=1).environment())
    before, instrumented, after = json.loads(done.stdout)
    for plain, with_scope, again in zip(before, instrumented, after, strict=True):
        assert plain[:2] == [False, False]
        assert with_scope[:2] == [True, True]
        assert again == plain
        assert with_scope[2] != plain[2]
