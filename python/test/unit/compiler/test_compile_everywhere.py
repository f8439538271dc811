"""A kernel compiles to the same bytes wherever it is compiled.

On a host with no driver library at all, in a process that initialized the driver,
and in workers forked from that process. The simulator's call log shows that the
compilations for an explicit target asked the driver nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

TOOLS = Path(__file__).resolve().parents[4] / "tools"

# Compiles every demo kernel into its own cache and prints {kernel: {stage: SHA-256}}.
COMPILE = f"""
import hashlib, json, os, sys
sys.path.insert(0, {str(TOOLS)!r})
import triton
from triton.backends.compiler import GPUTarget
from demo_kernels import KERNELS

def digests():
    found = {{}}
    for kernel in KERNELS.values():
        compiled = triton.compile(
            kernel.source(), target=GPUTarget("cuda", 80, 32), options=kernel.options)
        found[kernel.name] = {{
            stage: hashlib.sha256(
                text if isinstance(text, bytes) else str(text).encode()).hexdigest()
            for stage, text in compiled.asm.items()
        }}
    return found
"""

ALONE = (
    COMPILE
    + """
print(json.dumps(digests()))
"""
)

IN_A_FORKED_WORKER = (
    COMPILE
    + """
import ctypes
driver = ctypes.CDLL("libcuda.so.1")
assert driver.cuInit(0) == 0
before = os.environ["TRITON_CACHE_DIR"]
read_end, write_end = os.pipe()
child = os.fork()
if child == 0:
    os.close(read_end)
    os.environ["TRITON_CACHE_DIR"] = before + "-worker"
    with os.fdopen(write_end, "w") as pipe:
        json.dump(digests(), pipe)
    os._exit(0)
os.close(write_end)
with os.fdopen(read_end) as pipe:
    text = pipe.read()
assert os.waitpid(child, 0)[1] == 0
print(json.dumps({"child": child, "digests": json.loads(text)}))
"""
)


@pytest.fixture
def compiled_alone(
    run_python: Callable[..., CompletedProcess[str]], simulator: Any
) -> dict[str, dict[str, str]]:
    """The digests from a process in which no driver library can be found or is mapped."""
    result = run_python(ALONE, None)
    assert result.returncode == 0, result.stderr
    digests: dict[str, dict[str, str]] = json.loads(result.stdout)
    return digests


def test_all_stages_are_there(compiled_alone: dict[str, dict[str, str]]) -> None:
    assert len(compiled_alone) == 6
    for stages in compiled_alone.values():
        assert {"ttir", "ttgir", "llir", "ptx", "cubin"} <= set(stages)


def test_a_forked_worker_makes_the_same_bytes(
    run_python: Callable[..., CompletedProcess[str]],
    simulator: Callable[..., Any],
    compiled_alone: dict[str, dict[str, str]],
) -> None:
    device = simulator(devices=1, capability=(8, 0))
    result = run_python(IN_A_FORKED_WORKER, device.environment())
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    assert answer["digests"] == compiled_alone
    # The worker compiled for an explicit target, so it had nothing to ask the driver.
    assert device.calls(pid=answer["child"]) == []
