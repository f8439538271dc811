"""lit configuration of the tests under test/: the command-line tools of bin/ and compiled kernels.

Runs in two ways. CMake writes ``<build>/test/lit.site.cfg.py``, which names the build it belongs to;
``lit <build>/test`` uses that. ``lit test`` from a checkout works too and takes the newest build
directory that holds tools, or the one named by ``--param build=DIR`` or ``FLAGTREE_BUILD_DIR``.
Tests that import ``triton`` take it from ``--param tree=DIR``, else from ``PYTHONPATH`` or the
interpreter's own packages, and say ``REQUIRES: triton``. FileCheck is LLVM's where it is on PATH,
else the ``filecheck`` package's.
"""

import os
import shutil
import subprocess
import sys

import lit.formats

config.name = "FlagTree-PPU"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".test", ".ll", ".py"]
config.excludes = ["lit.cfg.py", "lit.site.cfg.py", "lit.site.cfg.py.in", "Inputs"]
config.test_source_root = os.path.dirname(os.path.abspath(__file__))
source_root = os.path.dirname(config.test_source_root)


def newest_build():
    """Return the checkout's most recently used build directory that has tools, or None."""
    root = os.path.join(source_root, "build")
    names = os.listdir(root) if os.path.isdir(root) else []
    built = [d for d in (os.path.join(root, n) for n in names) if os.path.isdir(f"{d}/bin")]
    return max(built, key=lambda d: os.path.getmtime(f"{d}/bin"), default=None)


build_dir = (
    lit_config.params.get("build")
    or getattr(config, "flagtree_build_dir", None)
    or os.environ.get("FLAGTREE_BUILD_DIR")
    or newest_build()
)
if build_dir is None:
    lit_config.fatal("no build directory found; build the tree first or pass --param build=DIR")
build_dir = os.path.abspath(build_dir)
config.test_exec_root = os.path.join(build_dir, "test")

python = lit_config.params.get("python") or getattr(config, "flagtree_python", None)
python = python or sys.executable

# lit starts tests with an almost empty environment; these are what the tree and its tools need.
for name in ("PYTHONPATH", "HOME", "LD_LIBRARY_PATH", "TMPDIR", "ASAN_OPTIONS", "UBSAN_OPTIONS"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
# Tests run in directories of their own, where a relative path would mean something else.
if "PYTHONPATH" in config.environment:
    parts = config.environment["PYTHONPATH"].split(os.pathsep)
    config.environment["PYTHONPATH"] = os.pathsep.join(os.path.abspath(part) for part in parts)
tree = lit_config.params.get("tree") or getattr(config, "flagtree_tree", None)
if tree:
    inherited = config.environment.get("PYTHONPATH")
    parts = [os.path.abspath(tree)] + ([inherited] if inherited else [])
    config.environment["PYTHONPATH"] = os.pathsep.join(parts)
# A test never reads or fills the user's own kernel cache, nor what an earlier run left: a kernel
# that is found there is not lowered, and warns of nothing.
kernel_cache = os.path.join(config.test_exec_root, "cache")
shutil.rmtree(kernel_cache, ignore_errors=True)
config.environment["TRITON_CACHE_DIR"] = kernel_cache

bin_dir = os.path.join(build_dir, "bin")
scripts = os.path.dirname(python)
config.environment["PATH"] = os.pathsep.join([bin_dir, scripts, os.environ.get("PATH", "")])

filecheck = (
    shutil.which("FileCheck", path=config.environment["PATH"])
    or shutil.which("filecheck", path=config.environment["PATH"])
    or shutil.which("filecheck", path=os.path.dirname(sys.executable))
)
if filecheck is None:
    lit_config.fatal("FileCheck not found: install LLVM's, or the Python package 'filecheck'")
config.substitutions.append((r"\bFileCheck\b", filecheck))
negate = f"{python} {os.path.join(config.test_source_root, 'Inputs', 'not.py')}"
config.substitutions.append((r"%not\b", negate))
config.substitutions.append((r"%python\b", python))
for tool in ("flagtree-device", "flagtree-hint", "flagtree-tix"):
    path = os.path.join(bin_dir, tool)
    config.substitutions.append((rf"%{tool}\b", path))
    if os.path.exists(path):
        config.available_features.add(tool)

found = subprocess.run(
    [python, "-c", "import importlib.util as u, sys; sys.exit(u.find_spec('triton') is None)"],
    env={**os.environ, **config.environment},
    check=False,
)
if found.returncode == 0:
    config.available_features.add("triton")
