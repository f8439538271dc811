"""Mathematical functions of NVVM's device library, callable in kernels on the PPU.

One name per function of `triton.language.extra.cuda.libdevice`, unchanged.
"""

from triton.language.extra.cuda.libdevice import *  # noqa: F403
