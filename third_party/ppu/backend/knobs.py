"""Every environment variable of the backend, each one declared, typed and documented.

The class is attached as ``triton.knobs.ppu``; nothing else in the backend's Python reads
``os.environ``.  The variables that the C++ core reads by itself are declared here as well, so that
this is the whole list.
"""

from __future__ import annotations

from typing import Any, cast

from triton import knobs as _knobs
from triton.knobs import base_knobs, env_base, env_opt_str, getenv

__all__ = ["active", "ppu_knobs"]

# --- device and fork (backend/driver.py, docs/resolver.md) -----------------------------------


class env_fork_warning(env_base[str, str]):
    """When a process that cannot use the driver, because it was forked, says so by itself."""

    MODES = ("use", "fork", "off")

    def get(self) -> str:
        return self.transform(getenv(self.key, "use"))

    def transform(self, val: str) -> str:
        """Checks the mode; raises ValueError where it is none of `MODES`."""
        if val not in self.MODES:
            raise ValueError(
                f"{self.key}={val!r}: expected one of {', '.join(self.MODES)}. "
                "'use' warns when the device is first used, 'fork' at a forked child's start, "
                "'off' never"
            )
        return val


class ppu_knobs(base_knobs):
    """The knobs of the PPU backend."""

    # When to warn in a child forked after initialization: at its first "use" of the device
    # (default), at its start ("fork"), or never ("off").
    fork_warning: env_fork_warning = env_fork_warning("FLAGTREE_FORK_WARNING")

    # The device ordinal of a process in which no context is current and nothing was inherited: how
    # a parent tells a spawned child its own device. Counted after CUDA_VISIBLE_DEVICES. Read by the
    # resolver itself whenever it is asked.
    device: env_opt_str = env_opt_str("FLAGTREE_PPU_DEVICE")

    # The driver library, or the directory that holds it, instead of the search. Read by the core.
    libcuda_path: env_opt_str = env_opt_str("TRITON_PPU_LIBCUDA_PATH")

    # For tests: the directory under which dev/ is looked at for device nodes. Read by the core.
    device_root: env_opt_str = env_opt_str("FLAGTREE_DEVICE_ROOT")


def active() -> ppu_knobs:
    """``triton.knobs.ppu``, attached now if nobody has done so yet."""
    instance: Any = getattr(_knobs, "ppu", None)
    if instance is None:
        instance = ppu_knobs()
        setattr(_knobs, "ppu", instance)  # noqa: B010 - mypy knows the module's own names only
    return cast(ppu_knobs, instance)
