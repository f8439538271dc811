"""Builds and packs the tree. `FLAGTREE_BACKEND` says for which backend; everything else is in
`python/setup_tools`, and `docs/install.md` says how to use it."""

import os
import sys
from pathlib import Path

from setuptools import setup
from setuptools.dist import Distribution

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "python"))

from setup_tools.commands import COMMANDS, Tree  # noqa: E402
from setup_tools.compose import chosen_backend  # noqa: E402
from setup_tools.errors import SetupError  # noqa: E402
from setup_tools.version import version  # noqa: E402


class TreeDistribution(Distribution):
    """A distribution that holds compiled code; ``flagtree_tree`` is what the commands build."""

    flagtree_tree: Tree

    def has_ext_modules(self) -> bool:
        """Say that the wheel depends on interpreter and machine."""
        return True


def main() -> None:
    """Run the command that was asked for."""
    backend = chosen_backend(ROOT, os.environ)
    TreeDistribution.flagtree_tree = Tree(backend, ROOT)
    readme = ROOT / "README.md"
    setup(
        name="flagtree",
        version=version(ROOT, backend),
        description="Triton for T-Head PPU accelerators, safe in forked compile workers",
        long_description=readme.read_text(encoding="utf-8") if readme.exists() else "",
        long_description_content_type="text/markdown",
        license="MIT",
        license_files=["LICENSE"],
        python_requires=">=3.10,<3.15",
        packages=["triton"],
        package_dir={"triton": "python/triton"},
        classifiers=[
            "Development Status :: 4 - Beta",
            "Intended Audience :: Developers",
            "Operating System :: POSIX :: Linux",
            "Programming Language :: C++",
            *(f"Programming Language :: Python :: 3.{minor}" for minor in range(10, 15)),
            "Topic :: Software Development :: Compilers",
        ],
        keywords=["Compiler", "Deep Learning", "Triton", "PPU"],
        entry_points={
            "console_scripts": [
                "proton = triton.profiler.proton:main",
                "proton-viewer = triton.profiler.viewer:main",
            ],
            "triton.backends": [f"{backend} = triton.backends.{backend}"],
        },
        distclass=TreeDistribution,
        cmdclass=COMMANDS,
        zip_safe=False,
    )


try:
    main()
except SetupError as error:
    sys.exit(f"error: {error}")
