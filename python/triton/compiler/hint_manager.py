"""FlagTree's public hint interface: which backend this tree was built for, and how a hook of that
backend's hint handler is called.  The names are FlagTree's own.  What a hint *means* lives in the
backend (``triton/backends/<name>/hint_handler.py``), how it is attached to operations in
``hint_code_generator.py``.

Nothing here asks a device.  The backend of a tree is decided when the tree is built, so the answer
is the same in a fresh process, in a forked worker, for an explicit-target compilation and on a
host without any driver.
"""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["BaseHintHandler", "HintManager", "hint_get_flagtree_backend", "hint_trigger"]


class BaseHintHandler:
    """The interface of a backend's hint handler: public methods are hooks, called by name."""

    def trigger(self, hook_name: str, *args: Any, **kwargs: Any) -> Any:
        """Calls the hook `hook_name` and returns its value; None where there is no such hook.

        What the hook raises is not swallowed: a wrong hint must be seen by the kernel's author.
        """
        hook = None if hook_name.startswith("_") else getattr(self, hook_name, None)
        return hook(*args, **kwargs) if callable(hook) else None


class HintManager:
    """Holds the hint handler of the backend `backend_name`; a backend may have none."""

    def __init__(self, backend_name: str | None) -> None:
        self.backend_name = backend_name
        self.handler: BaseHintHandler | None = self.load_handler()

    def load_handler(self) -> BaseHintHandler | None:
        """Imports ``triton.backends.<backend_name>.hint_handler`` and makes its one handler.

        Returns None where the backend has no such module.  Raises ImportError where the module is
        there but broken, and RuntimeError where it does not define exactly one handler class.
        """
        if not self.backend_name:
            return None
        name = f"triton.backends.{self.backend_name}.hint_handler"
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is not None and (name + ".").startswith(error.name + "."):
                return None
            raise
        return self._handler_class(module)()

    @staticmethod
    def _handler_class(module: ModuleType) -> type[BaseHintHandler]:
        classes = [
            value
            for value in vars(module).values()
            if inspect.isclass(value)
            and issubclass(value, BaseHintHandler)
            and value.__module__ == module.__name__
        ]
        if len(classes) != 1:
            raise RuntimeError(
                f"{module.__name__} must define exactly one subclass of BaseHintHandler, "
                f"it defines {len(classes)}: {[value.__name__ for value in classes]}"
            )
        return classes[0]

    def trigger(self, hook_name: str, *args: Any, **kwargs: Any) -> Any:
        """Calls `hook_name` of the handler; None where there is no handler or no such hook."""
        return self.handler.trigger(hook_name, *args, **kwargs) if self.handler else None


def _built_backend() -> str | None:
    """The backend's name as the build wrote it down, or None in a tree built without one."""
    try:
        from triton._flagtree_backend import FLAGTREE_BACKEND

        return str(FLAGTREE_BACKEND) or None
    except ImportError:
        pass
    note = Path(__file__).resolve().parents[1] / "FLAGTREE_BACKEND"
    # The staged tree may be made of links, so the file is looked for beside the package as well.
    for path in (note, Path(__file__).parents[1] / "FLAGTREE_BACKEND"):
        if path.is_file():
            return path.read_text().strip() or None
    return None


def _ask_for_backend() -> str | None:
    """For a tree that was built without a backend: the only one installed, else the active one.

    Activity is asked of the drivers' own `is_active`, which for the PPU goes through the resolver
    and so initializes nothing.
    """
    from triton.backends import backends

    names = list(backends)
    if len(names) > 1:
        drivers: dict[str, Any] = {name: backends[name].driver for name in names}
        names = [name for name in names if drivers[name].is_active()]
    return names[0] if len(names) == 1 else None


_backend_name: str | None = None
_manager: HintManager | None = None


def hint_get_flagtree_backend() -> str | None:
    """The name of the backend this tree was built for, e.g. ``"ppu"``.

    Never asks a device.  Only in a tree built without a backend (a developer's plain checkout) the
    installed backends are asked; None where that has no single answer.
    """
    global _backend_name
    if _backend_name is None:
        _backend_name = _built_backend() or _ask_for_backend()
    return _backend_name


def hint_trigger(hook_name: str, *args: Any, **kwargs: Any) -> Any:
    """Calls the hook `hook_name` of the tree's hint handler.

    Returns what the hook returns; None where the backend has no handler or the handler no such
    hook.  Raises what the hook raises.
    """
    global _manager
    if _manager is None:
        _manager = HintManager(hint_get_flagtree_backend())
    return _manager.trigger(hook_name, *args, **kwargs)
