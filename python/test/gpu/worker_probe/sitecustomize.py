"""Records, in every process of a test run, which process compiled which kernel.

Python imports `sitecustomize` at the start of a process whose PYTHONPATH holds
this folder. Only `test_inductor_workers.py` puts it there; it wraps
`triton.compile` so that each compilation appends one JSON line to the file that
FLAGTREE_TEST_COMPILE_LOG names: the process, its parent, the kernel, and what the
tree's resolver said of the process's driver state.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import sys
from types import ModuleType
from typing import Any

LOG = os.environ.get("FLAGTREE_TEST_COMPILE_LOG", "")


def record(kernel: str) -> None:
    """Appends one line; a single write with O_APPEND, so that processes do not mix."""
    entry: dict[str, Any] = {"pid": os.getpid(), "parent": os.getppid(), "kernel": kernel}
    try:
        from triton.backends.ppu._native import device

        entry["state"] = device.state()
    except Exception as error:
        entry["state"] = f"unknown: {error}"
    descriptor = os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, (json.dumps(entry) + "\n").encode())
    finally:
        os.close(descriptor)


class TritonLoader(importlib.abc.Loader):
    """Loads `triton` as usual, then wraps its `compile`."""

    def __init__(self, loader: importlib.abc.Loader) -> None:
        self.loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        inner = module.compile

        def compile(src: Any, *args: Any, **kwargs: Any) -> Any:
            record(str(getattr(src, "name", src)))
            return inner(src, *args, **kwargs)

        module.compile = compile  # type: ignore[attr-defined]


class TritonFinder(importlib.abc.MetaPathFinder):
    """Finds `triton` where the path does, and hands it to `TritonLoader`."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != "triton":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            spec.loader = TritonLoader(spec.loader)
        return spec


if LOG:
    sys.meta_path.insert(0, TritonFinder())
