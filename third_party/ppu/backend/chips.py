"""What each chip can do, as one table: number formats, clusters, and which tool chain serves it.

Every rule that depends on the chip reads a row of `CHIPS`; nothing else compares compute
capabilities for that purpose. A capability without a row of its own is judged by the nearest row
below it, as newer chips of a family keep what older ones have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_FP8_EMULATED = ("fp8e4b15", "fp8e5")
_FP8_NATIVE = ("fp8e4b15", "fp8e4nv", "fp8e5")


@dataclass(frozen=True)
class Chip:
    """One row of the table.

    Attributes:
        capability: compute capability, ten times major plus minor.
        examples: chips that report it, for messages.
        fp8_types: the 8-bit floating-point types that kernels may use, sorted.
        deprecated_fp8_dot_operands: those of them that warn when multiplied.
        num_ctas: the most blocks in a cluster; 1 where there are no clusters.
        sdk: whether the PPU SDK compiles for it.
    """

    capability: int
    examples: str
    fp8_types: tuple[str, ...]
    deprecated_fp8_dot_operands: tuple[str, ...] = ()
    num_ctas: int = 1
    sdk: bool = False

    @property
    def name(self) -> str:
        """The chip as messages call it."""
        return f"compute capability {self.capability / 10:.1f} ({self.examples})"


# PPU rows: ZW810E reports 8.0, newer parts 8.9 (docs/toolchain.md). The number formats are those
# for which the base has conversions at that capability, the cluster size is CUDA's largest.
CHIPS = (
    Chip(70, "V100 and the like", _FP8_EMULATED),
    Chip(75, "T4 and the like", _FP8_EMULATED),
    Chip(80, "PPU-ZW810E, A100 and the like", _FP8_EMULATED, sdk=True),
    Chip(86, "A10 and the like", _FP8_EMULATED),
    Chip(89, "newer PPUs, L4 and the like", _FP8_NATIVE, sdk=True),
    Chip(90, "H100 and the like", _FP8_NATIVE, ("fp8e4b15",), num_ctas=16),
    Chip(100, "B200 and the like", _FP8_NATIVE, ("fp8e4b15",), num_ctas=16),
    Chip(120, "RTX 50 and the like", _FP8_NATIVE, ("fp8e4b15",), num_ctas=16),
)


def of(capability: int) -> Chip:
    """The row that decides for `capability`, ten times major plus minor."""
    rows = [chip for chip in CHIPS if chip.capability <= capability]
    return rows[-1] if rows else CHIPS[0]


def served_by_sdk(capability: int) -> bool:
    """Whether the PPU SDK compiles for exactly this capability."""
    chip = of(capability)
    return chip.sdk and chip.capability == capability


# What can be a compute capability: one digit at least of the major number and one of the minor.
CAPABILITIES = range(10, 1000)


def _checked_count(options: Mapping[str, Any], name: str, chip: Chip) -> int | None:
    """An option that has to be a power of two, or None where nothing is asked for."""
    value = options.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or value < 1 or value & (value - 1):
        raise ValueError(
            f"option {name}={value!r}: for {chip.name}, as for every chip, it has to be a power of "
            "two, as an integer"
        )
    return int(value)


def check_options(options: Mapping[str, Any], capability: int) -> None:
    """Checks what a compilation asks for against what the chip can do.

    Args:
        options: keyword options as given; absent ones and None ask for nothing.
        capability: the target's, ten times major plus minor.

    Raises:
        ValueError: names the option, the chip and what it can do.
    """
    chip = of(capability)
    # How many warps fit is known when the kernel is loaded: an autotuner then goes on without it.
    _checked_count(options, "num_warps", chip)
    ctas = options.get("num_ctas")
    if isinstance(ctas, int) and ctas > chip.num_ctas:
        limit = (
            f"at most {chip.num_ctas} blocks in a cluster"
            if chip.num_ctas > 1
            else "no thread block clusters, so num_ctas can only be 1"
        )
        raise ValueError(f"option num_ctas={ctas!r}: {chip.name} has {limit}")
    _checked_count(options, "num_ctas", chip)
    for name in ("num_stages", "maxnreg"):
        value = options.get(name)
        if value is not None and not isinstance(value, int):
            raise ValueError(
                f"option {name}={value!r}: for {chip.name}, as for every chip, it has to be an "
                "integer"
            )
    wanted = options.get("supported_fp8_dtypes") or ()
    if isinstance(wanted, str) or not isinstance(wanted, Iterable):
        raise ValueError(
            f"option supported_fp8_dtypes={wanted!r} has to be a tuple of names: {chip.name} can "
            f"do {', '.join(chip.fp8_types)}"
        )
    lacking = [str(kind) for kind in wanted if kind not in chip.fp8_types]
    if lacking:
        raise ValueError(
            f"option supported_fp8_dtypes names {', '.join(lacking)}: {chip.name} can do "
            f"{', '.join(chip.fp8_types)}"
        )
