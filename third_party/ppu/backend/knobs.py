"""Every environment variable of the backend, each one declared, typed and documented.

The class is attached as ``triton.knobs.ppu``; nothing else in the backend's Python reads
``os.environ``.  The variables that the C++ core reads by itself are declared here as well, so that
this is the whole list.
"""

from __future__ import annotations

from typing import Any, cast

from triton import knobs as _knobs
from triton._C.libtriton import getenv  # type: ignore[attr-defined]
from triton.knobs import base_knobs, env_base, env_bool, env_opt_str

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


# --- hints (backend/hint_handler.py, docs/hints.md) ------------------------------------------


class env_hint_mode(env_base[str, str]):
    """How hint comments in kernels are treated."""

    MODES = ("off", "warn", "error")

    def get(self) -> str:
        return self.transform(getenv(self.key, "warn"))

    def transform(self, val: str) -> str:
        """Checks the mode; raises ValueError where it is none of `MODES`."""
        if val not in self.MODES:
            raise ValueError(
                f"{self.key}={val!r}: expected one of {', '.join(self.MODES)}. 'off' ignores "
                "hints, 'warn' obeys them and warns about those that have no effect, 'error' "
                "makes such a hint an error"
            )
        return val


# --- tool chain (backend/toolchain.py, docs/toolchain.md) ------------------------------------


class env_toolchain(env_base[str, str]):
    """Which tool chain makes the binary."""

    KINDS = ("auto", "sdk", "cuda")

    def get(self) -> str:
        return self.transform(getenv(self.key, "auto"))

    def transform(self, val: str) -> str:
        """Checks the kind; raises ValueError where it is none of `KINDS`."""
        if val not in self.KINDS:
            raise ValueError(
                f"{self.key}={val!r}: expected one of {', '.join(self.KINDS)}. 'auto' uses the PPU "
                "SDK where it is found, 'sdk' insists on it, 'cuda' uses ptxas"
            )
        return val


class env_seconds(env_base[int, int]):
    """A time limit in whole seconds; 0 for none."""

    def __init__(self, key: str, default: int) -> None:
        super().__init__(key)
        self.default = default

    def get(self) -> int:
        text = getenv(self.key)
        if text is None:
            return self.default
        if not (text.isascii() and text.isdigit()):
            raise ValueError(f"{self.key}={text!r}: expected seconds as a number, 0 for no limit")
        return int(text)


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

    # Hint comments in kernels: ignored ("off"), obeyed with a warning about those that have no
    # effect ("warn", the default), or with an error instead ("error"). Part of the cache key.
    hints: env_hint_mode = env_hint_mode("FLAGTREE_HINTS")

    # Which tool chain makes the binary: the PPU SDK's where one is found ("auto", the default), the
    # SDK's or an error ("sdk"), or the CUDA-compatible one ("cuda"). Part of the cache key.
    toolchain: env_toolchain = env_toolchain("TRITON_PPU_TOOLCHAIN")

    # The SDK's root directory, and its older name, which is looked at second. After both comes the
    # installer's default, /usr/local/PPU_SDK.
    sdk: env_opt_str = env_opt_str("PPU_SDK")
    sdk_home: env_opt_str = env_opt_str("PPU_HOME")

    # The SDK's two programs, instead of those below the root.
    llc_path: env_opt_str = env_opt_str("TRITON_PPU_LLC_PATH")
    ir_formatter_path: env_opt_str = env_opt_str("TRITON_IR_FORMATTER_PATH")

    # More options for ppu-llc, separated as a shell would. Part of the cache key. A kernel's own
    # option `llc_options` comes before it.
    llc_options: env_opt_str = env_opt_str("TRITON_PPU_LLC_OPTIONS")

    # Turns ppu-llc's optimizations off and asks for full debug information. Part of the cache key.
    disable_llc_opt: env_bool = env_bool("TRITON_PPU_DISABLE_LLC_OPT")

    # Prints what ppu-llc says about each kernel, such as its registers.
    dump_llc_log: env_bool = env_bool("TRITON_PPU_DUMP_LLC_LOG")

    # Seconds after which a tool (ppu-llc, llvm-irformatter, ptxas) is stopped; 0 for no limit.
    tool_timeout: env_seconds = env_seconds("TRITON_PPU_TOOL_TIMEOUT", 600)

    # --- launching (backend/launcher.py, docs/launcher.md) ---

    # Whether kernel[grid](...) finds its compiled kernel in C++ (default) or Triton's own way. Read
    # when the first kernel is launched.
    dispatch: env_bool = env_bool("TRITON_PPU_DISPATCH", True)


def active() -> ppu_knobs:
    """``triton.knobs.ppu``, attached now if nobody has done so yet."""
    instance: Any = getattr(_knobs, "ppu", None)
    if instance is None:
        instance = ppu_knobs()
        setattr(_knobs, "ppu", instance)  # noqa: B010 - mypy knows the module's own names only
    return cast(ppu_knobs, instance)
