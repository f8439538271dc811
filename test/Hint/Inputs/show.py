"""Compiles the kernel of a lit test for compute capability 8.0 and prints one of its stages."""

from __future__ import annotations

import os
import re
import sys
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

# Also on a host that has the PPU SDK, whose tool chain makes no asynchronous copies.
os.environ["TRITON_PPU_TOOLCHAIN"] = "cuda"


def show(
    kernel: Any, types: str, constants: dict[str, int], capability: int = 80, **options: int
) -> None:
    """Prints the stage that the command line names.

    `types` holds the type of each argument before the constexprs; all but floats count as
    divisible by 16. Locations are left out.
    """
    signature = dict(zip(kernel.arg_names, types.split(), strict=False))
    attributes = {
        (index,): [["tt.divisibility", 16]]
        for index, kind in enumerate(signature.values())
        if kind != "fp32"
    }
    signature |= dict.fromkeys(constants, "constexpr")
    source = ASTSource(kernel, signature, constants, attributes)
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    text = str(compiled.asm[sys.argv[1]])
    print(re.sub(r" ?loc\((\"[^\"]*\"\()?#loc\d*\)?\)", "", text))
