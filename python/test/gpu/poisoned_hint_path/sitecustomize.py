"""Puts FlagTree's old fault back, for one test: the hint path asks torch for the current device.

Python imports `sitecustomize` at the start of a process whose PYTHONPATH holds this folder, and in
every process that one starts. Only `test_inductor_workers.py` puts it there, to prove that its
suite notices the fault: in a worker forked from a process that initialized CUDA the question
raises "Cannot re-initialize CUDA in forked subprocess". Nothing of this is in the product.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

POISONED_MODULE = "triton.compiler.hint_manager"
POISONED_FUNCTIONS = ("hint_get_flagtree_backend", "hint_trigger")


def ask_for_device_first(inner: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a function of the hint path as FlagTree's was: torch's current device comes first."""

    @functools.wraps(inner)
    def poisoned(*args: Any, **kwargs: Any) -> Any:
        import torch

        torch.cuda.current_device()
        return inner(*args, **kwargs)

    return poisoned


class PoisoningLoader(importlib.abc.Loader):
    """Loads the hint manager as usual, then wraps its functions."""

    def __init__(self, loader: importlib.abc.Loader) -> None:
        self.loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        for name in POISONED_FUNCTIONS:
            setattr(module, name, ask_for_device_first(getattr(module, name)))


class PoisoningFinder(importlib.abc.MetaPathFinder):
    """Finds the hint manager where its package does, and hands it to `PoisoningLoader`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != POISONED_MODULE:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is not None and spec.loader is not None:
            spec.loader = PoisoningLoader(spec.loader)
        return spec


sys.meta_path.insert(0, PoisoningFinder())
