"""The table of chips, and the errors that quote it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from triton.backends.ppu import chips


def test_the_table_is_in_order_and_plausible() -> None:
    capabilities = [chip.capability for chip in chips.CHIPS]
    assert capabilities == sorted(set(capabilities))
    for chip in chips.CHIPS:
        assert list(chip.fp8_types) == sorted(chip.fp8_types)
        assert set(chip.deprecated_fp8_dot_operands) <= set(chip.fp8_types)
        assert (chip.num_ctas > 1) == (chip.capability >= 90)


def test_the_sdk_serves_the_ppus_only() -> None:
    assert [c.capability for c in chips.CHIPS if chips.served_by_sdk(c.capability)] == [80, 89]
    for capability in (75, 86, 87, 90, 100):
        assert not chips.served_by_sdk(capability)


@pytest.mark.parametrize(
    ("capability", "row"), [(60, 70), (72, 70), (80, 80), (87, 86), (103, 100), (121, 120)]
)
def test_the_nearest_row_below_decides(capability: int, row: int) -> None:
    assert chips.of(capability).capability == row


@pytest.mark.parametrize("capability", [70, 75, 80, 86, 89, 90, 100, 120])
def test_the_rows_agree_with_the_base(capability: int, monkeypatch: Any) -> None:
    """What the base allows by its own conditions is what the table says."""
    from triton.backends.compiler import GPUTarget
    from triton.backends.nvidia.compiler import CUDABackend

    options = CUDABackend(GPUTarget("cuda", capability, 32)).parse_options({})
    chip = chips.of(capability)
    assert options.supported_fp8_dtypes == chip.fp8_types
    assert options.deprecated_fp8_dot_operand_dtypes == chip.deprecated_fp8_dot_operands


def test_clusters_where_there_are_none(compile_kernel: Callable[..., Any]) -> None:
    with pytest.raises(ValueError) as caught:
        compile_kernel(num_ctas=2)
    assert str(caught.value) == (
        "option num_ctas=2: compute capability 8.0 (PPU-ZW810E, A100 and the like) has no thread "
        "block clusters, so num_ctas can only be 1"
    )
    with pytest.raises(ValueError, match=r"num_ctas=2: compute capability 8\.9"):
        compile_kernel(capability=89, num_ctas=2)
    with pytest.raises(ValueError, match="at most 16 blocks in a cluster"):
        chips.check_options({"num_ctas": 32}, 90)
    chips.check_options({"num_ctas": 4}, 90)
    chips.check_options({"num_ctas": 1}, 80)
    chips.check_options({"num_ctas": None}, 80)


def test_a_number_format_the_chip_lacks(compile_kernel: Callable[..., Any]) -> None:
    with pytest.raises(ValueError) as caught:
        compile_kernel(supported_fp8_dtypes=("fp8e5", "fp8e4nv"))
    assert str(caught.value) == (
        "option supported_fp8_dtypes names fp8e4nv: compute capability 8.0 (PPU-ZW810E, A100 and "
        "the like) can do fp8e4b15, fp8e5"
    )
    chips.check_options({"supported_fp8_dtypes": ("fp8e4nv",)}, 89)
