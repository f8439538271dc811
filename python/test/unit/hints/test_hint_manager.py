"""FlagTree's public hint names: they answer from the build and never ask a device."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import triton
from triton.compiler import hint_manager
from triton.compiler.hint_manager import (
    BaseHintHandler,
    HintManager,
    hint_get_flagtree_backend,
    hint_trigger,
)


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test starts as a fresh process does: nothing is remembered."""
    monkeypatch.setattr(hint_manager, "_backend_name", None)
    monkeypatch.setattr(hint_manager, "_manager", None)


@pytest.fixture
def made_up_backend() -> Iterator[ModuleType]:
    """A module `triton.backends.made_up.hint_handler`."""
    name = "triton.backends.made_up"
    package = ModuleType(name)
    package.__path__ = []
    module = ModuleType(f"{name}.hint_handler")
    sys.modules[name], sys.modules[module.__name__] = package, module
    yield module
    del sys.modules[name], sys.modules[module.__name__]


class Forbidden:
    """Whatever is asked of it is a device being asked."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the hint path asked the driver for {name}")


def test_the_backend_is_the_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton.runtime.driver, "_active", Forbidden())
    monkeypatch.setattr(triton.runtime.driver, "_default", Forbidden())
    assert hint_get_flagtree_backend() == "ppu"
    assert hint_trigger("hint_mode") == "warn"


def test_a_tree_without_a_backend_asks_the_drivers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hint_manager, "_built_backend", lambda: None)

    def backend(active: bool) -> Any:
        return SimpleNamespace(driver=SimpleNamespace(is_active=lambda: active))

    for backends, expected in (
        ({"one": Forbidden()}, "one"),
        ({"one": backend(False), "two": backend(True)}, "two"),
        ({"one": backend(True), "two": backend(True)}, None),
        ({"one": backend(False), "two": backend(False)}, None),
    ):
        monkeypatch.setattr(hint_manager, "_backend_name", None)
        monkeypatch.setattr("triton.backends.backends", backends)
        assert hint_get_flagtree_backend() == expected


def test_trigger_calls_the_hook_of_that_name() -> None:
    class Handler(BaseHintHandler):
        def add(self, left: int, *, right: int) -> int:
            return left + right

        def _private(self) -> int:
            raise AssertionError

        def broken(self) -> None:
            raise ValueError("seen")

    handler = Handler()
    assert handler.trigger("add", 1, right=2) == 3
    assert handler.trigger("missing") is None
    assert handler.trigger("_private") is None
    with pytest.raises(ValueError, match="seen"):
        handler.trigger("broken")


def test_a_backend_may_have_no_handler() -> None:
    for name in (None, "", "no_such_backend"):
        manager = HintManager(name)
        assert manager.handler is None
        assert manager.trigger("hint_mode") is None


def test_the_handler_is_the_one_of_the_module(made_up_backend: ModuleType) -> None:
    with pytest.raises(RuntimeError, match="exactly one subclass of BaseHintHandler, it defines 0"):
        HintManager("made_up")
    code = "class Handler(Base):\n    def answer(self): return 42\n"
    made_up_backend.Base = BaseHintHandler  # type: ignore[attr-defined]
    exec(code, vars(made_up_backend))
    assert HintManager("made_up").trigger("answer") == 42
    exec("class Other(Base): pass\n", vars(made_up_backend))
    with pytest.raises(RuntimeError, match=r"it defines 2: \['Handler', 'Other'\]"):
        HintManager("made_up")


def test_a_broken_handler_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> ModuleType:
        raise ModuleNotFoundError("No module named 'missing'", name="missing")

    monkeypatch.setattr(hint_manager.importlib, "import_module", fail)
    with pytest.raises(ModuleNotFoundError, match="missing"):
        HintManager("ppu")
