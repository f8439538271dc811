"""Values of environment variables that are no text, and no library where a driver should be."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

NO_TEXT = os.fsdecode(b"\xff\xfe\xc3")

ASK = """
import json
from triton.backends.ppu._native import device
from triton.backends.ppu.driver import PPUDriver, child_environment, device_for_children
from triton.backends.ppu.driver import process_state
driver = PPUDriver()
def spawning():
    with device_for_children(1):
        return True
def ask(question):
    try:
        return str(question())
    except (RuntimeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
print(json.dumps({question.__name__: ask(question) for question in (
    process_state, PPUDriver.is_active, driver.get_current_device, driver.get_current_target,
    spawning, child_environment, device.presence, device.require_usable)}))
"""


@pytest.mark.parametrize(
    "name",
    [
        "FLAGTREE_PPU_DEVICE",
        "CUDA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER",
        "TRITON_PPU_LIBCUDA_PATH",
        "FLAGTREE_DEVICE_ROOT",
        "LD_LIBRARY_PATH",
        "PPU_SDK",
    ],
)
def test_a_value_that_is_no_text(
    simulator: Callable[..., Any], run_python: Callable[..., Any], name: str
) -> None:
    """Every question has its answer or its own error, which shows the bytes; nothing aborts."""
    environment = simulator(devices=2).environment()
    environment[name] = NO_TEXT
    done = run_python(ASK, environment)
    assert "UnicodeDecodeError" not in done.stdout
    if name in ("FLAGTREE_PPU_DEVICE", "CUDA_VISIBLE_DEVICES", "TRITON_PPU_LIBCUDA_PATH"):
        assert re.search(r"\\xff\\+xfe\\+xc3", done.stdout)


@pytest.mark.parametrize("what", ["text", "empty", "directory", "other class", "no driver"])
@pytest.mark.parametrize("how", ["loader", "directory", "path"])
def test_no_library_where_the_driver_should_be(
    tmp_path: Path,
    simulator: Callable[..., Any],
    run_python: Callable[..., Any],
    what: str,
    how: str,
) -> None:
    """Asking answers; using says which file it is and what is wrong with it."""
    directory = tmp_path / "drivers"
    directory.mkdir()
    library = directory / "libcuda.so.1"
    if what == "directory":
        library.mkdir()
    elif what == "no driver":
        library.write_bytes(_some_library())
    else:
        contents = {"text": b"no library\n", "empty": b""}
        contents["other class"] = b"\x7fELF\x01\x01\x01" + bytes(300)
        library.write_bytes(contents[what])
    environment = simulator().environment()
    environment["LD_LIBRARY_PATH"] = str(directory)
    if how != "loader":
        environment["LD_LIBRARY_PATH"] = ""
        environment["TRITON_PPU_LIBCUDA_PATH"] = str(directory if how == "directory" else library)
    answers = run_python(ASK, environment).stdout
    assert "DriverLibraryError: " in answers
    assert "libcuda.so.1" in answers


def _some_library() -> bytes:
    """A shared library that is no driver: one of the interpreter's own extension modules."""
    import _json

    origin = getattr(_json, "__file__", None)
    if origin is None:
        pytest.skip("this interpreter has its extension modules built in")
    return Path(origin).read_bytes()
