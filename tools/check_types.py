"""Runs mypy in strict mode over everything that is typed: the build scripts, the tools, the
simulator's Python face, and the overlay - the latter inside the composed tree, since it imports
modules of the base. The base is not typed, so its modules are skipped; so are files that hold
kernels: a kernel is in Triton's language, which only looks like typed Python."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))

from setup_tools.compose import overlay_files  # noqa: E402


def overlay_modules(backend: str) -> list[str]:
    """Return the names of the overlay's modules."""
    names = []
    for name in overlay_files(ROOT, backend):
        if name.endswith(".py"):
            module = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            names.append(module)
    return sorted(names)


def typed_scripts() -> list[str]:
    """Return the scripts that hold no kernels."""
    scripts = [ROOT / "setup.py", *sorted((ROOT / "tools").glob("*.py"))]
    return [
        str(path)
        for path in scripts
        if "import triton.language" not in path.read_text(encoding="utf-8")
    ]


def check(arguments: list[str], search: list[Path]) -> int:
    """Run mypy and return its exit status."""
    environment = {**os.environ, "MYPYPATH": os.pathsep.join(str(path) for path in search)}
    command = [sys.executable, "-m", "mypy", "--strict", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def main() -> int:
    """Check everything; return the exit status."""
    backend = os.environ.get("FLAGTREE_BACKEND", "ppu")
    platform_name = f"{sysconfig.get_platform()}-{sys.implementation.cache_tag}"
    tree = ROOT / "build" / f"editable.{platform_name}"
    if not (tree / "triton/__init__.py").exists():
        print(f"error: {tree} is not there; `make lint` makes it (pip install -e .)")
        return 1
    modules = [argument for name in overlay_modules(backend) for argument in ("-m", name)]
    simulator = ROOT / "third_party/ppu/simulator"
    status = check(["-p", "setup_tools"], [ROOT / "python"])
    search = [ROOT / "python", ROOT, ROOT / "tools", simulator]
    status |= check(
        ["--follow-imports=silent", "--ignore-missing-imports", *typed_scripts()], search
    )
    status |= check(modules, [tree])
    if (simulator / "flagtree_simulator").is_dir():
        status |= check(["-p", "flagtree_simulator"], [simulator])
    return status


if __name__ == "__main__":
    sys.exit(main())
