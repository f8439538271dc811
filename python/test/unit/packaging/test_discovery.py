"""Which backends a tree has: its own, plug-ins, and never what is left over from the base."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

Run = Callable[..., "CompletedProcess[str]"]

# A plug-in's two modules: each holds one class without abstract methods.
MODULE = """
from triton.backends.{module} import {base}

class Mine({base}):
    pass

Mine.__abstractmethods__ = frozenset()
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment with a directory in front of the installed packages."""
    (tmp_path / "extra").mkdir()
    inherited = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([str(tmp_path / "extra"), *([inherited] if inherited else [])])
    return {**os.environ, "PYTHONPATH": path}


@pytest.fixture
def add(tmp_path: Path) -> Callable[..., None]:
    """Adds a distribution with entry points, and optionally a plug-in package, there."""

    def add_distribution(name: str, entry_points: dict[str, str], package: str = "") -> None:
        info = tmp_path / "extra" / f"{name}-3.6.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 3.6.0\n")
        lines = "".join(f"{key} = {value}\n" for key, value in entry_points.items())
        (info / "entry_points.txt").write_text(f"[triton.backends]\n{lines}")
        if package:
            directory = tmp_path / "extra" / package
            directory.mkdir()
            (directory / "__init__.py").write_text("")
            for module, base in (("compiler", "BaseBackend"), ("driver", "DriverBase")):
                text = MODULE.format(module=module, base=base)
                (directory / f"{module}.py").write_text(text)

    return add_distribution


LIST = """
    import warnings
    warnings.simplefilter("error")
    import triton.backends
    print(list(triton.backends.backends))
"""


def test_backends_of_this_tree(run_python: Run) -> None:
    answer = run_python("""
        import triton
        from triton.backends import Backend, BaseBackend, DriverBase, backends
        from triton._flagtree_backend import FLAGTREE_BACKEND
        import triton._flagtree_spec

        assert triton.__version__ == "3.6.0"
        assert FLAGTREE_BACKEND == "ppu"
        assert list(backends) == ["ppu"] and len(backends) == 1
        assert list(backends.keys()) == ["ppu"]
        (backend,) = backends.values()
        assert isinstance(backend, Backend)
        assert issubclass(backend.compiler, BaseBackend)
        assert issubclass(backend.driver, DriverBase)
        print(backend.driver.__module__)
    """)
    assert answer.stdout.strip() == "triton.backends.ppu.driver"


def test_cuda_is_found_by_the_name_callers_use(run_python: Run) -> None:
    run_python("""
        from triton.backends import backends

        assert "nvidia" in backends
        assert backends["nvidia"] is backends["ppu"] is backends.get("nvidia")
        assert dict(backends).keys() == {"ppu"}
        for name in ("amd", "intel", "cpu", "", None, 0):
            assert name not in backends
            assert backends.get(name) is None
            assert backends.get(name, 1) == 1
            try:
                backends[name]
            except KeyError as error:
                assert error.args == (name,)
            else:
                raise AssertionError(name)
    """)


@pytest.mark.parametrize("name", ["triton", "Triton", "pytorch-triton", "triton-rocm"])
def test_leftover_metadata_of_the_base(
    run_python: Run, environment: dict[str, str], add: Callable[..., None], name: str
) -> None:
    add(name, {"nvidia": "triton.backends.nvidia", "amd": "triton.backends.amd"})
    assert run_python(LIST, environment).stdout == "['ppu']\n"


def test_plugin(run_python: Run, environment: dict[str, str], add: Callable[..., None]) -> None:
    add("my-plugin", {"mine": "my_plugin"}, "my_plugin")
    assert run_python(LIST, environment).stdout == "['ppu', 'mine']\n"
    only_in_tree = {**environment, "TRITON_BACKENDS_IN_TREE": "1"}
    assert run_python(LIST, only_in_tree).stdout == "['ppu']\n"


def test_plugin_under_a_name_that_is_otherwise_an_alias(
    run_python: Run, environment: dict[str, str], add: Callable[..., None]
) -> None:
    add("my-plugin", {"nvidia": "my_plugin"}, "my_plugin")
    answer = run_python(
        """
        from triton.backends import backends
        print(list(backends), backends["nvidia"].driver.__module__)
        """,
        environment,
    )
    assert answer.stdout == "['ppu', 'nvidia'] my_plugin.driver\n"


def test_plugin_cannot_take_the_place_of_the_tree(
    run_python: Run, environment: dict[str, str], add: Callable[..., None]
) -> None:
    add("my-plugin", {"ppu": "my_plugin"}, "my_plugin")
    answer = run_python(
        """
        from triton.backends import backends
        print(list(backends), backends["ppu"].driver.__module__)
        """,
        environment,
    )
    assert answer.stdout == "['ppu'] triton.backends.ppu.driver\n"
    assert "'my_plugin' is not used: there is already a backend named 'ppu'" in answer.stderr


def test_broken_plugin_is_named(
    run_python: Run, environment: dict[str, str], add: Callable[..., None]
) -> None:
    add("gone", {"gone": "package_that_was_removed"})
    answer = run_python(
        "import triton.backends\nprint(list(triton.backends.backends))", environment
    )
    assert answer.stdout == "['ppu']\n"
    assert "'gone' (package_that_was_removed)" in answer.stderr
    assert "ModuleNotFoundError" in answer.stderr


def test_tree_without_a_backend(run_python: Run) -> None:
    answer = run_python("""
        import sys, types
        module = types.ModuleType("triton._flagtree_backend")
        module.FLAGTREE_BACKEND = ""
        sys.modules["triton._flagtree_backend"] = module
        from triton.backends import backends
        print(list(backends), "nvidia" in backends)
    """)
    assert answer.stdout == "[] False\n"


def test_what_is_not_in_the_tree(run_python: Run) -> None:
    run_python("""
        import importlib.util
        import triton

        for name in ("backends.amd", "backends.nvidia.driver", "language.extra.hip"):
            assert importlib.util.find_spec(f"triton.{name}") is None, name
        import triton.backends.nvidia.compiler
        import triton.language.extra.cuda
        import triton.profiler
    """)


def test_import_without_torch(run_python: Run) -> None:
    answer = run_python("""
        import sys
        sys.modules["torch"] = None
        import triton
        import triton.language
        import triton.compiler
        import triton.runtime
        from triton.backends import backends
        print(list(backends))
    """)
    assert answer.stdout == "['ppu']\n"


def test_metadata(run_python: Run) -> None:
    answer = run_python("""
        import importlib.metadata as metadata
        import re
        found = metadata.distribution("flagtree")
        version = found.version
        assert re.fullmatch(
            r"0\\.6\\.0(\\.dev[0-9]{8})?\\+ppu\\.(git[0-9a-f]{8}|unknown)", version
        ), version
        text = found.read_text("METADATA")
        assert "Provides-Dist: triton (3.6.0)" in text
        assert "License-File: triton/LICENSE" in text
        backends = metadata.entry_points(group="triton.backends")
        assert [(point.name, point.value) for point in backends if point.dist.name == "flagtree"
                ] == [("ppu", "triton.backends.ppu")]
        scripts = {point.name for point in metadata.entry_points(group="console_scripts")}
        assert {"proton", "proton-viewer"} <= scripts
    """)
    assert answer.returncode == 0
