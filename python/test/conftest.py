"""What every Python test shares: the simulated machine, fresh interpreters, an own
cache and home per test, and the ``gpu`` marker.

The tests run against the *installed* tree: a virtual environment with the wheel,
or ``PYTHONPATH`` naming a directory it was installed into. They never import
``python/triton`` of the checkout, which is only an overlay.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
SIMULATOR = str(CHECKOUT / "third_party" / "ppu" / "simulator")
sys.path.insert(0, SIMULATOR)
# For what tests of several folders share.
sys.path.insert(0, str(Path(__file__).resolve().parent))
pytest.register_assert_rewrite("forked_use")

from flagtree_simulator import Simulator  # noqa: E402


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--gpu",
        action="store_true",
        help="run tests marked gpu even where no device node is seen (they then fail)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "gpu: needs a CUDA GPU or a PPU")
    origin = _triton_origin()
    if origin is not None and origin.is_relative_to(CHECKOUT / "python" / "triton"):
        raise pytest.UsageError(
            f"'import triton' finds the checkout's overlay ({origin}), which is not a whole "
            "Triton. Install the tree (pip install . or pip install --target DIR .) and run "
            "the tests with that environment, or with PYTHONPATH=DIR."
        )


def pytest_report_header() -> str:
    origin = _triton_origin()
    return f"triton: {origin.parent if origin else 'not installed'}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--gpu") or _has_device_node():
        return
    skip = pytest.mark.skip(reason="no device node /dev/nvidia<N> or /dev/alixpu_ppu<N> here")
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(skip)


def _triton_origin() -> Path | None:
    spec = importlib.util.find_spec("triton")
    return Path(spec.origin).absolute() if spec and spec.origin else None


def _has_device_node() -> bool:
    names = ("nvidia[0-9]*", "alixpu_ppu[0-9]*", "dxg")
    return any(any(Path("/dev").glob(name)) for name in names)


@pytest.fixture(autouse=True)
def own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives each test, and the processes it starts, an own home and Triton cache."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TRITON_HOME", str(home))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton-cache"))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor-cache"))


@pytest.fixture
def simulator(tmp_path: Path) -> Callable[..., Simulator]:
    """A maker of simulated machines; takes ``Simulator``'s arguments."""
    numbers = itertools.count()

    def make(*args: Any, **kwargs: Any) -> Simulator:
        kwargs.setdefault("root", tmp_path / f"machine-{next(numbers)}")
        try:
            return Simulator(*args, **kwargs)
        except FileNotFoundError as error:
            pytest.fail(str(error), pytrace=False)

    return make


@pytest.fixture
def run_python(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a script in a fresh interpreter of the same installed tree.

    The script is a file, so that multiprocessing's spawn and forkserver find its
    main module, and it may import ``flagtree_simulator``. Arguments: the code
    (dedented), the environment (this process's by default), ``arguments`` for
    ``sys.argv``, ``timeout`` in seconds, ``options`` for the interpreter, and
    ``check``: whether a status other than 0 fails the test.
    """
    numbers = itertools.count()

    def run(
        code: str,
        env: Mapping[str, str] | None = None,
        *,
        arguments: tuple[str, ...] = (),
        options: tuple[str, ...] = (),
        timeout: float = 120,
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        script = tmp_path / f"script_{next(numbers)}.py"
        script.write_text(textwrap.dedent(code))
        variables = dict(os.environ if env is None else env)
        # Absolute, as the script runs in another directory.
        path = [*filter(None, variables.get("PYTHONPATH", "").split(os.pathsep)), SIMULATOR]
        variables["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, path))
        done = subprocess.run(
            [sys.executable, *options, str(script), *arguments],
            env=variables,
            capture_output=True,
            text=True,
            timeout=timeout,
            cwd=tmp_path,
            check=False,
        )
        if check and done.returncode != 0:
            pytest.fail(
                f"{script.name} ended with status {done.returncode}\n"
                f"--- stdout\n{done.stdout}\n--- stderr\n{done.stderr}",
                pytrace=False,
            )
        return done

    return run


@pytest.fixture
def compiled_library(tmp_path: Path) -> Callable[[str, str], Path]:
    """Makes a shared library of C code that stands in for a real one.

    Arguments: its file name, which is its soname too, and the code. Without a C
    compiler the test is skipped.
    """
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        pytest.skip("no C compiler to make a library with")

    def make(name: str, code: str) -> Path:
        source, library = tmp_path / f"{name}.c", tmp_path / name
        source.write_text(code)
        command = [compiler, "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o"]
        subprocess.run([*command, str(library), str(source)], check=True)
        return library

    return make
