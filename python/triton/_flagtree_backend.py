"""Which backend this tree was built for: ``FLAGTREE_BACKEND``, read from the file of that name that
the build writes beside this module. It is a fact of the tree, so no environment variable and no
device is asked. An empty string stands for a tree that was built without a backend."""

from __future__ import annotations

from pathlib import Path

__all__ = ["FLAGTREE_BACKEND"]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""


FLAGTREE_BACKEND: str = _read(Path(__file__).with_name("FLAGTREE_BACKEND"))
