"""Which backends there are. This module replaces the base's of the same name.

The base takes every entry point of the group ``triton.backends`` that lies about in the
environment. Here the tree's own backend is known from the build (``FLAGTREE_BACKEND``), entry
points that belong to the base are passed over - its metadata may be left from an earlier
installation, and with it two drivers would claim the device - and those of third-party plug-ins
are taken as the base takes them. ``TRITON_BACKENDS_IN_TREE=1`` leaves plug-ins out, as there."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any, TypeVar

from triton import _flagtree_spec
from triton._flagtree_backend import FLAGTREE_BACKEND

from .compiler import BaseBackend
from .driver import DriverBase

__all__ = ["Backend", "BaseBackend", "DriverBase", "backends"]

_T = TypeVar("_T")

# Distributions whose entry points are this tree's own or the base's, and the packages that the
# base's entry points name, by whatever distribution (PyTorch has published it under other names).
_OWN_DISTRIBUTIONS = frozenset({"triton", "flagtree"})
_OWN_PACKAGES = frozenset({"triton.backends.nvidia", "triton.backends.amd"})
# Names under which callers ask for the backend of a CUDA device, by backend of this tree: the PPU
# is CUDA-compatible, and PyTorch asks `"nvidia" in triton.backends.backends` before it uses Triton
# for a CUDA device, as Proton asks for `backends["nvidia"]` to instrument kernels for one.
_ALIASES = {"ppu": ("nvidia",)}


@dataclass(frozen=True)
class Backend:
    """The two classes that make up a backend."""

    compiler: type[BaseBackend]
    driver: type[DriverBase]


class _Backends(dict[str, Backend]):
    """The backends by name. Iteration, length, keys and values show each backend once, under its
    own name; a look-up also finds the tree's backend under the names of `_ALIASES`."""

    def __init__(self, aliases: dict[str, str]) -> None:
        super().__init__()
        self._aliases = aliases

    def _name(self, key: object) -> Any:
        # A plug-in that really has the name comes before an alias.
        if isinstance(key, str) and not super().__contains__(key):
            return self._aliases.get(key, key)
        return key

    def __contains__(self, key: object) -> bool:
        return super().__contains__(self._name(key))

    def __getitem__(self, key: str) -> Backend:
        return super().__getitem__(self._name(key))

    def get(self, key: str, default: Any = None) -> Any:
        return super().get(self._name(key), default)


def _concrete_subclass(module: ModuleType, base_class: type[_T]) -> type[_T]:
    """Return the one class of a module that implements ``base_class``."""
    found: list[type[_T]] = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, base_class)
        and not inspect.isabstract(value)
    ]
    unique = list(dict.fromkeys(found))
    if len(unique) != 1:
        names = ", ".join(value.__qualname__ for value in unique) or "none"
        raise RuntimeError(
            f"{module.__name__} must hold exactly one class that implements "
            f"{base_class.__name__}, but holds: {names}"
        )
    return unique[0]


def _load(package: str) -> Backend:
    """Import a backend's package."""
    compiler = importlib.import_module(f"{package}.compiler")
    driver = importlib.import_module(f"{package}.driver")
    return Backend(
        _concrete_subclass(compiler, BaseBackend),  # type: ignore[type-abstract]
        _concrete_subclass(driver, DriverBase),  # type: ignore[type-abstract]
    )


def _is_own(entry_point: EntryPoint) -> bool:
    """Say whether an entry point belongs to this tree or to the base it is made of."""
    if entry_point.value.strip() in _OWN_PACKAGES:
        return True
    distribution = getattr(entry_point, "dist", None)
    name = distribution.metadata["Name"] if distribution is not None else ""
    return re.sub(r"[-_.]+", "-", name or "").lower() in _OWN_DISTRIBUTIONS


def _plugins() -> Iterator[EntryPoint]:
    """Yield the entry points of third-party plug-ins."""
    if os.environ.get("TRITON_BACKENDS_IN_TREE", "") == "1":
        return
    for entry_point in entry_points(group="triton.backends"):
        if not _is_own(entry_point):
            yield entry_point


def _discover() -> dict[str, Backend]:
    """Return the tree's backend and those of plug-ins."""
    aliases = dict.fromkeys(_ALIASES.get(FLAGTREE_BACKEND, ()), FLAGTREE_BACKEND)
    found = _Backends(aliases)
    if FLAGTREE_BACKEND:
        found[FLAGTREE_BACKEND] = _load(f"{__name__}.{FLAGTREE_BACKEND}")
    for entry_point in _plugins():
        if dict.__contains__(found, entry_point.name):
            warnings.warn(
                f"the Triton plug-in {entry_point.value!r} is not used: there is already a "
                f"backend named {entry_point.name!r}",
                RuntimeWarning,
                stacklevel=2,
            )
            continue
        try:
            found[entry_point.name] = _load(entry_point.value)
        except Exception as error:
            # One broken plug-in, or metadata that outlived its package, is no reason why nothing
            # else should work; the base lets `import triton` fail here.
            warnings.warn(
                f"the Triton plug-in {entry_point.name!r} ({entry_point.value}) is not used, "
                f"since it cannot be loaded: {type(error).__name__}: {error}",
                RuntimeWarning,
                stacklevel=2,
            )
    return found


_flagtree_spec.install()
backends: dict[str, Backend] = _discover()
_flagtree_spec.install_driver_choice()
