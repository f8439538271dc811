"""The C++ half of the backend, from wherever it was built.

This tree builds it as the extension module ``triton._C.ppu``; built upstream's way, as a plug-in of
``libtriton``, it is ``triton._C.libtriton.ppu``.  Either holds one submodule per part: ``device``,
``hint``, ``launch``, ``tix``.  Take them from here::

    from triton.backends.ppu._native import device
"""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType
from typing import Any

_PARTS = ("device", "hint", "launch", "tix")


def _extension() -> ModuleType:
    # Looked for before it is imported, so that an extension that is there and cannot be loaded
    # (another Python, a sub-interpreter) reports its own reason.
    if importlib.util.find_spec("triton._C.ppu") is not None:
        return importlib.import_module("triton._C.ppu")
    libtriton = importlib.import_module("triton._C.libtriton")
    extension = getattr(libtriton, "ppu", None)
    if not isinstance(extension, ModuleType):
        raise ImportError(
            "this Triton has no PPU extension: there is neither triton/_C/ppu*.so nor "
            "triton._C.libtriton.ppu. Reinstall it with FLAGTREE_BACKEND=ppu pip install ."
        )
    return extension


_module = _extension()


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        part = getattr(_module, name, None)
        if part is not None:
            return part
        raise ImportError(f"{_module.__name__} was built without its part {name!r}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
