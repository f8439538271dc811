"""What cannot be compiled is refused before anything is generated, by its own name."""

from __future__ import annotations

from typing import Any

import pytest
import triton
from triton.backends.compiler import GPUTarget
from triton.backends.ppu.compiler import PPUBackend

CHIP = r"compute capability 8\.0 \(PPU-ZW810E, A100 and the like\)"


@pytest.mark.parametrize(
    "arch",
    [
        "8",
        "8.0",
        "80 ",
        "sm_80",
        "sm80",
        "",
        None,
        80.0,
        -1,
        0,
        1,
        9,
        1000,
        10**6,
        10**30,
        True,
        (8, 0),
    ],
)
def test_no_compute_capability(arch: Any) -> None:
    with pytest.raises(ValueError, match=r"GPUTarget\.arch is .*compute\s+capability"):
        PPUBackend(GPUTarget("cuda", arch, 32))


@pytest.mark.parametrize("warp_size", [0, 64, -32, "64", "+32", None, 32.0, True])
def test_no_warp_size(warp_size: Any) -> None:
    with pytest.raises(ValueError, match=r"GPUTarget\.warp_size is .* 32 threads per warp"):
        PPUBackend(GPUTarget("cuda", 80, warp_size))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("num_warps", value) for value in (0, 3, -4, 6, "4", 4.0, (4,), b"4")),
        *(("num_ctas", value) for value in (0, -1, -2, 2, 3, "1", 1.0, 2**70)),
        *(("num_stages", value) for value in ("x", 2.0, (1,))),
        *(("maxnreg", value) for value in ("x", 64.0)),
        *(("supported_fp8_dtypes", value) for value in ("fp8e5", 5, ("nonsense",), (5,))),
    ],
)
def test_an_option_that_no_chip_takes(name: str, value: Any) -> None:
    backend = PPUBackend(GPUTarget("cuda", 80, 32))
    with pytest.raises(ValueError, match=rf"option {name}[= ].*{CHIP}"):
        backend.parse_options({name: value})


@pytest.mark.parametrize("arch", ["garbage", 80, "sm", "80", "sm_80", "sm80a", "sm080", "sm8000"])
def test_an_architecture_of_no_known_form(arch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = PPUBackend(GPUTarget("cuda", 80, 32))
    with pytest.raises(ValueError, match=r"option arch=.*'sm80'"):
        backend.parse_options({"arch": arch})
    monkeypatch.setattr(triton.knobs.runtime, "override_arch", str(arch))
    with pytest.raises(ValueError, match=r"TRITON_OVERRIDE_ARCH=.*'sm80'"):
        backend.parse_options({})
    with pytest.raises(ValueError, match=r"TRITON_OVERRIDE_ARCH=.*'sm80'"):
        triton.backends.backends["ppu"].driver().get_current_target()


def test_what_the_base_takes_is_taken() -> None:
    backend = PPUBackend(GPUTarget("cuda", 90, 32))
    taken: list[dict[str, Any]] = [
        {"num_warps": 1, "num_ctas": 1, "num_stages": 0},
        {"num_warps": 32, "num_ctas": 16, "maxnreg": 64},
        {"num_warps": None, "num_ctas": None, "num_stages": None, "maxnreg": None},
        {"arch": "sm80"},
        {"supported_fp8_dtypes": ("fp8e5",)},
        {"supported_fp8_dtypes": ["fp8e5"]},
        {"not_an_option": 1},
    ]
    for options in taken:
        assert backend.parse_options(options).num_warps in (1, 4, 32)


def test_no_assembler_for_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wheel leaves out the assembler for 10.0 and above; the error says how to name one."""

    def none(arch: int) -> Any:
        raise RuntimeError("Cannot find ptxas-blackwell")

    monkeypatch.setattr("triton.backends.nvidia.compiler.get_ptxas", none)
    with pytest.raises(RuntimeError, match=r"capability 10\.0: .*TRITON_PTXAS_BLACKWELL_PATH"):
        PPUBackend(GPUTarget("cuda", 100, 32)).hash()
