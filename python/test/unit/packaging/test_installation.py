"""The ways to install the tree, each from the sources to an import in a fresh environment. Slow:
what is built here takes minutes. Needs the base, which comes from the cache or the index."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from setup_tools import base

pytestmark = pytest.mark.slow

CHECKOUT = Path(__file__).resolve().parents[4]
VERSION = r"0\.6\.0\+ppu\.(git[0-9a-f]{8}|unknown)"
SIZE_LIMIT = 75_000_000

# Taken before the fixtures give each test another home.
CACHE = base.cache_directory(os.environ)
ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if name not in ("PYTHONPATH", "FLAGTREE_BUILD_DIR", "FLAGTREE_NIGHTLY", "TRITON_BASE_WHEEL")
} | {
    "FLAGTREE_BACKEND": "ppu",
    "FLAGTREE_CACHE_DIR": str(CACHE),
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}

# Imports everything, compiles a kernel for a PPU without a device, and says what was found.
CHECK = """
import importlib.metadata, json, sys
import triton, triton.language as tl
import triton._flagtree_spec, triton.profiler
from triton._flagtree_backend import FLAGTREE_BACKEND
from triton.backends import backends
from triton.backends.compiler import GPUTarget

@triton.jit
def add(x, y, out, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + index, tl.load(x + index) + tl.load(y + index))

source = triton.compiler.ASTSource(
    add, {"x": "*fp32", "y": "*fp32", "out": "*fp32", "BLOCK": "constexpr"}, {"BLOCK": 128}
)
binary = triton.compile(source, target=GPUTarget("cuda", 80, 32)).asm["cubin"]
print(json.dumps({
    "triton": triton.__version__,
    "flagtree": importlib.metadata.version("flagtree"),
    "backend": FLAGTREE_BACKEND,
    "backends": list(backends),
    "file": triton.__file__,
    "cubin": len(binary),
    "torch": "torch" in sys.modules,
}))
"""


def run(command: list[str], environment: dict[str, str] | None = None, cwd: Path = CHECKOUT) -> str:
    """Run a command that must succeed; return what it printed."""
    answer = subprocess.run(
        command,
        env=ENVIRONMENT if environment is None else environment,
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if answer.returncode != 0:
        pytest.fail(f"{' '.join(command)}\n{answer.stdout[-5000:]}", pytrace=False)
    return answer.stdout


class Environment:
    """A fresh virtual environment."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        run([sys.executable, "-m", "venv", str(directory)])
        self.python = str(directory / "bin/python")
        self.site = Path(
            run(
                [self.python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
            ).strip()
        )

    def pip(self, *arguments: str, **environment: str) -> str:
        """Run pip there."""
        return run([self.python, "-m", "pip", *arguments], {**ENVIRONMENT, **environment})

    def check(self, cwd: Path, **environment: str) -> dict[str, object]:
        """Import and use the tree there; return what it says about itself."""
        settings = {**ENVIRONMENT, "TRITON_CACHE_DIR": str(cwd / "triton-cache"), **environment}
        script = cwd / "check_tree.py"  # a kernel must be in a file
        script.write_text(CHECK)
        found: dict[str, object] = json.loads(
            run([self.python, "-W", "error", str(script)], settings, cwd).splitlines()[-1]
        )
        assert found["triton"] == "3.6.0"
        assert found["backend"] == "ppu"
        assert found["backends"] == ["ppu"]
        assert found["torch"] is False
        assert isinstance(found["cubin"], int) and found["cubin"] > 1000
        return found


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    """A fresh virtual environment with nothing installed."""
    return Environment(tmp_path / "environment")


@pytest.fixture
def builder(environment: Environment) -> Environment:
    """A fresh virtual environment with what python/requirements.txt lists."""
    environment.pip("install", "-q", "-r", "python/requirements.txt")
    return environment


@pytest.fixture(scope="module")
def base_wheel() -> Path:
    """The verified wheel of the base."""
    lock = base.read_lock()
    return base.cached_wheel(base.locked_wheel(lock, base.Interpreter.running()), lock, CACHE)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The wheel of this checkout, as a release is built."""
    directory = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", str(directory)]
    run(command)
    (path,) = directory.glob("*.whl")
    yield path
    path.unlink()


def test_wheel_is_small_and_complete(wheel: Path) -> None:
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert re.fullmatch(rf"flagtree-{VERSION}-{tag}-{tag}-(many)?linux\S+\.whl", wheel.name)
    print(f"{wheel.name}: {wheel.stat().st_size} bytes")
    assert wheel.stat().st_size < SIZE_LIMIT
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        (record_name,) = (name for name in names if name.endswith(".dist-info/RECORD"))
        rows = list(csv.reader(io.StringIO(archive.read(record_name).decode())))
        assert sorted(row[0] for row in rows) == sorted(names)
        for name, digest, size in rows:
            if name != record_name:
                data = archive.read(name)
                hashed = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
                assert (digest, size) == (f"sha256={hashed.decode()}", str(len(data)))
        info = record_name.removesuffix("/RECORD")
        assert f"{info}/licenses/LICENSE" in names
        assert f"{info}/licenses/triton/LICENSE" in names
        assert archive.read("triton/FLAGTREE_BACKEND") == b"ppu\n"
        modes = {entry.filename: entry.external_attr >> 16 for entry in archive.infolist()}
        assert modes["triton/backends/nvidia/bin/ptxas"] & 0o111
        tools = [name for name in names if name.startswith("triton/backends/ppu/bin/")]
        assert "triton/backends/ppu/bin/flagtree-tix" in tools
        assert all(modes[name] & 0o111 for name in tools)
    unwanted = re.compile(
        r"backends/amd|nvidia/driver\.|/include/|ptxas-blackwell|\.a$|\.pyc$|__pycache__|/tests?/|simulator"
    )
    assert not [name for name in names if unwanted.search(name)]
    assert sum(name.startswith("triton/_C/ppu.") for name in names) == 1


def test_install_use_and_uninstall(wheel: Path, environment: Environment, tmp_path: Path) -> None:
    before = {path.name for path in environment.site.iterdir()}
    environment.pip("install", "--no-index", str(wheel))
    shown = environment.pip("show", "flagtree")
    assert re.search(rf"^Version: {VERSION}$", shown, re.MULTILINE)
    found = environment.check(tmp_path)
    assert str(found["file"]).startswith(str(environment.site))
    environment.pip("check")
    assert (environment.directory / "bin/proton").exists()
    environment.pip("uninstall", "-y", "flagtree")
    assert {path.name for path in environment.site.iterdir()} - {"__pycache__"} == before
    assert not list(environment.directory.rglob("*triton*"))
    assert not list(environment.directory.rglob("*proton*"))
    assert not list(environment.directory.rglob("*flagtree*"))


def test_over_stock_triton(
    wheel: Path, base_wheel: Path, environment: Environment, tmp_path: Path
) -> None:
    environment.pip("install", "--no-index", "--no-deps", str(base_wheel))
    assert (environment.site / "triton/backends/nvidia/driver.py").exists()
    environment.pip("install", "--no-index", str(wheel))
    assert list(environment.site.glob("triton-3.6.0.dist-info"))
    environment.check(tmp_path)
    # What docs/install.md says about taking the two apart again.
    environment.pip("uninstall", "-y", "triton")
    environment.pip("install", "--no-index", "--force-reinstall", str(wheel))
    environment.check(tmp_path)
    assert not list(environment.site.glob("triton-*.dist-info"))
    assert not (environment.site / "triton/backends/amd").exists()


def test_where_stock_triton_was(
    wheel: Path, base_wheel: Path, environment: Environment, tmp_path: Path
) -> None:
    """Metadata that outlived the package, as `rm -r site-packages/triton` leaves it."""
    environment.pip("install", "--no-index", "--no-deps", str(base_wheel))
    shutil.rmtree(environment.site / "triton")
    environment.pip("install", "--no-index", str(wheel))
    environment.check(tmp_path)


def test_base_is_the_installed_triton(
    base_wheel: Path, builder: Environment, tmp_path: Path
) -> None:
    """The second route, with neither index nor cache; the sources are a copy, so that nothing
    prepared before is there."""
    sources = tmp_path / "sources"
    run(["git", "clone", "-q", str(CHECKOUT), str(sources)])
    # What is not committed yet belongs to what is tested.
    for name in run(["git", "ls-files", "-m", "-o", "--exclude-standard"]).splitlines():
        if (CHECKOUT / name).is_file():
            (sources / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(CHECKOUT / name, sources / name, follow_symlinks=False)
    builder.pip("install", "--no-index", "--no-deps", str(base_wheel))
    offline = {"PIP_NO_INDEX": "1", "FLAGTREE_CACHE_DIR": str(tmp_path / "empty")}
    arguments = ("install", "-v", "--no-build-isolation", str(sources))
    log = builder.pip(*arguments, **offline)
    assert "base: installed Triton 3.6.0 in" in log
    builder.check(tmp_path)
    # The installed Triton is now overwritten, so it cannot be the base a second time; what was
    # prepared from it can.
    log = builder.pip(*arguments, "--force-reinstall", **offline)
    assert "backends/__init__.py has" in log
    assert "base: prepared before from installed Triton" in log
    builder.check(tmp_path)
    assert not (tmp_path / "empty").exists()


def test_target_directory(builder: Environment, tmp_path: Path) -> None:
    target = tmp_path / "target"
    builder.pip("install", "--no-build-isolation", "--target", str(target), ".")
    found = builder.check(tmp_path, PYTHONPATH=str(target))
    assert str(found["file"]).startswith(str(target))


def test_editable(
    builder: Environment, base_wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # A stock Triton beside it must not win.
    builder.pip("install", "--no-index", "--no-deps", str(base_wheel))
    sources = tmp_path / "sources"
    ignore = shutil.ignore_patterns("build", ".git", ".venv*", "dist", "__pycache__")
    shutil.copytree(CHECKOUT, sources, symlinks=True, ignore=ignore)
    builder.pip("install", "--no-build-isolation", "-e", str(sources))
    found = builder.check(tmp_path)
    assert str(found["file"]).startswith(str(sources / "build"))
    module = sources / "third_party/ppu/backend/__init__.py"
    module.write_text(module.read_text() + "\nEDITED = 'at once'\n")
    code = "import triton.backends.ppu; print(triton.backends.ppu.EDITED)"
    assert run([builder.python, "-c", code], cwd=tmp_path) == "at once\n"
    # PYTHONPATH comes before what is installed, as always.
    (tmp_path / "first/triton").mkdir(parents=True)
    (tmp_path / "first/triton/__init__.py").write_text("print('first')\n")
    settings = {**ENVIRONMENT, "PYTHONPATH": str(tmp_path / "first")}
    assert run([builder.python, "-c", "import triton"], settings, tmp_path) == "first\n"
    builder.pip("uninstall", "-y", "flagtree")
    assert not list(builder.site.glob("*flagtree*"))


def test_source_archive(builder: Environment, base_wheel: Path, tmp_path: Path) -> None:
    run([sys.executable, "-m", "build", "--sdist", "--no-isolation", "-o", str(tmp_path)])
    (archive,) = tmp_path.glob("flagtree-*.tar.gz")
    version = re.search(r"^Version: (.*)$", builder_show(archive), re.MULTILINE)
    assert version is not None
    with tarfile.open(archive) as file:
        names = file.getnames()
    assert not [name for name in names if re.search(r"\.so$|/build/|\.pyc$|\.venv", name)]
    settings = {"TRITON_BASE_WHEEL": str(base_wheel)}
    builder.pip("install", "--no-build-isolation", str(archive), **settings)
    assert builder.check(tmp_path)["flagtree"] == version.group(1)


def builder_show(archive: Path) -> str:
    """Return the metadata inside of an sdist."""
    with tarfile.open(archive) as file:
        name = archive.name.removesuffix(".tar.gz")
        member = file.extractfile(f"{name}/PKG-INFO")
        assert member is not None
        return member.read().decode()


def failing_build(builder: Environment, **environment: str) -> str:
    """Return the output of an installation that must fail."""
    settings = {**ENVIRONMENT, **environment}
    answer = subprocess.run(
        [builder.python, "-m", "pip", "install", "--no-build-isolation", "."],
        env={name: value for name, value in settings.items() if value},
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert answer.returncode != 0
    assert not (builder.site / "triton").exists()
    return answer.stdout


def test_wrong_settings_stop_the_build(builder: Environment, tmp_path: Path) -> None:
    output = failing_build(builder, FLAGTREE_BACKEND="")
    assert "FLAGTREE_BACKEND must say which backend to build" in output
    assert "one of: ppu" in output
    output = failing_build(builder, FLAGTREE_BACKEND="xpu")
    assert "found:     'xpu'" in output
    output = failing_build(builder, MAX_JOBS="lots")
    assert "MAX_JOBS is malformed" in output
    wrong = tmp_path / "triton.whl"
    wrong.write_bytes(b"PK")
    output = failing_build(builder, TRITON_BASE_WHEEL=str(wrong))
    assert f"{wrong}, 2 bytes: not a complete wheel" in output
    assert "Traceback" not in output


def test_nightly_and_debug(builder: Environment, tmp_path: Path) -> None:
    # A build directory of its own, so that the next release build need not compile again.
    settings = {
        "FLAGTREE_NIGHTLY": "20260102",
        "DEBUG": "1",
    }
    arguments = ("wheel", "--no-build-isolation", "--no-deps", "-w", str(tmp_path), ".")
    log = builder.pip("-v", *arguments, **settings)
    assert "-DCMAKE_BUILD_TYPE=Debug" in log
    (path,) = tmp_path.glob("*.whl")
    assert path.name.startswith("flagtree-0.6.0.dev20260102+ppu.")
    with zipfile.ZipFile(path) as archive:
        (name,) = (n for n in archive.namelist() if n.startswith("triton/_C/ppu."))
        module = archive.extract(name, tmp_path)
    assert ".debug_info" in run(["readelf", "-SW", str(module)])


def test_any_directory(wheel: Path, environment: Environment, tmp_path: Path) -> None:
    """A wheel installed below a path with blanks and other characters."""
    target = tmp_path / "a directory's name, ünusual"
    environment.pip("install", "--no-index", "--target", str(target), str(wheel))
    found = environment.check(tmp_path, PYTHONPATH=str(target))
    assert str(found["file"]).startswith(str(target))
