"""How others initialize the driver: by themselves, through PyTorch or through cuda.core.

For the fork matrix and for tests, on a real driver and on the simulated one. A PyTorch
without CUDA asks no driver, so PyTorch's way is for a real one.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from flagtree_simulator.driver import Driver


def initialize(by: str, ordinal: int) -> None:
    """Initializes the driver in this process, and makes a device current in this thread.

    Args:
        by: ``"cuInit"``, the bare call, which makes no device current; ``"context"``, the
            driver's calls for a primary context; ``"torch"``; ``"cuda.core"``.
        ordinal: the device.

    Raises:
        RuntimeError: the driver answered something other than 0.
    """
    if by == "torch":
        torch = importlib.import_module("torch")
        torch.cuda.set_device(ordinal)
        torch.ones(1, device=f"cuda:{ordinal}")
    elif by == "cuda.core":
        _cuda_core().Device(ordinal).set_current()
    elif by in ("cuInit", "context"):
        driver = Driver()
        result = driver.init()
        if result:
            raise RuntimeError(f"cuInit answers {result}")
        if by == "context":
            driver.use(ordinal)
    else:
        raise ValueError(f"nobody initializes by {by!r}")


def has_cuda_core() -> bool:
    """Whether cuda.core can be imported. Asking loads no driver."""
    try:
        _cuda_core()
    except ImportError:
        return False
    return True


def _cuda_core() -> ModuleType:
    """The module that holds cuda.core's classes: before 1.0 it was an experimental one."""
    core = importlib.import_module("cuda.core")
    return core if hasattr(core, "Device") else importlib.import_module("cuda.core.experimental")
