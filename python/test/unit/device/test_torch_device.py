"""Where several devices are visible and torch is live: the device that torch would use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# As much of torch as the resolver looks at. `torch._C` says device 1, whose context is not current.
SCRIPT = """
import ctypes, types
asked = []
torch, core, cuda = (types.ModuleType(name) for name in ("torch", "torch._C", "torch.cuda"))
cuda._initialized = True
cuda._is_in_bad_fork = lambda: os.getpid() != parent
core._cuda_getDevice = lambda: asked.append(1) or 1
torch._C, torch.cuda = core, cuda
parent = os.getpid()
sys.modules |= {"torch": torch, "torch._C": core, "torch.cuda": cuda}
if len(sys.argv) > 1:
    ctypes.CDLL(sys.argv[1])
live(0)
answers = [device.get_current_device() for _ in range(3)]
answers.append(in_child(device.get_current_device))
answers.append(in_child(device.state))
report([answers, len(asked) > 0])
"""


def test_torch_is_asked(simulator: Callable[..., Any], scripted: Callable[..., Any]) -> None:
    answers, asked = scripted(simulator(devices=2), SCRIPT)
    assert answers == [1, 1, 1, 1, "ForkedAfterInit"]
    assert asked


@pytest.mark.parametrize("status", [0, 3])
def test_torchs_library_is_asked_where_it_can_be(
    status: int,
    compiled_library: Callable[[str, str], Path],
    simulator: Callable[..., Any],
    scripted: Callable[..., Any],
) -> None:
    """c10's own function saves the way through Python; where it fails, that way is taken."""
    library = compiled_library(
        "libc10_cuda.so",
        f"int _ZN3c104cuda9GetDeviceEPa(signed char *to) {{ *to = 1; return {status}; }}\n",
    )
    answers, asked = scripted(simulator(devices=2), SCRIPT, arguments=(str(library),))
    assert answers == [1, 1, 1, 1, "ForkedAfterInit"]
    assert asked == (status != 0)


def test_with_one_device_the_context_settles_it(
    simulator: Callable[..., Any], scripted: Callable[..., Any]
) -> None:
    answers, asked = scripted(simulator(devices=1), SCRIPT)
    assert answers == [0, 0, 0, 0, "ForkedAfterInit"]
    assert not asked
