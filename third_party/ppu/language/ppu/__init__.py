"""Device functions for kernels on the PPU (`triton.language.extra.ppu`).

The PPU runs NVVM's device library and special registers, so the functions are the
base's CUDA ones under the chip's own name; what Hopper alone has (programmatic
dependent launch) is left out.
"""

from triton.language.extra.cuda import globaltimer, num_threads, num_warps, smid

from . import libdevice

__all__ = ["globaltimer", "libdevice", "num_threads", "num_warps", "smid"]
