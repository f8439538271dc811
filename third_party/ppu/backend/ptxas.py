"""The last stage of the CUDA-compatible tool chain: the base's ptxas, run as any other tool.

The options are the base's, so the binary is the same to the byte; what differs is how a failure is
told: the assembler's own message first, then the command that reproduces it and the kept input,
instead of the whole of the generated code.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from triton import knobs as base_knobs
from triton.backends.nvidia import compiler as nvidia_compiler
from triton.backends.ppu import knobs
from triton.backends.ppu.tools import (
    AssemblerError,
    check_output_file,
    private_directory,
    run_tool,
)


def require(capability: int) -> None:
    """Refuses a target that no assembler here can serve.

    From compute capability 10.0 on the base has an assembler of its own, `ptxas-blackwell`, which
    the wheel leaves out as no PPU needs it.

    Raises:
        RuntimeError: the assembler is not there; the message says how to name one.
    """
    try:
        nvidia_compiler.get_ptxas(capability)
    except RuntimeError as error:
        raise RuntimeError(
            f"no assembler for compute capability {capability / 10:.1f}: this tree comes without "
            "ptxas-blackwell. Set TRITON_PTXAS_BLACKWELL_PATH to the ptxas of a CUDA toolkit, "
            "12.8 or newer"
        ) from error


def arguments(options: Any, capability: int) -> list[str]:
    """The options of ptxas for a compilation, without its input and output.

    Args:
        options: the compilation's (`CUDAOptions`).
        capability: the target's compute capability, ten times major plus minor.
    """
    if base_knobs.compilation.disable_line_info:
        result = ["-lineinfo", "-suppress-debug-info"]
    elif base_knobs.nvidia.disable_ptxas_opt:
        result = ["-g"]
    else:
        result = ["-lineinfo"]
    if not options.enable_fp_fusion:
        result.append("--fmad=false")
    result.append("-v")
    if base_knobs.nvidia.disable_ptxas_opt:
        result += ["--opt-level", "0"]
    result += (options.ptx_options or "").split()
    return [*result, f"--gpu-name={nvidia_compiler.sm_arch_from_capability(capability)}"]


def assemble(ptx: str, options: Any, capability: int) -> bytes:
    """Assembles PTX into a cubin.

    Args:
        ptx: the text of one module.
        options, capability: as for `arguments`.

    Raises:
        AssemblerError: ptxas did not make a binary; also a `PTXASError`.
    """
    tool = nvidia_compiler.get_ptxas(capability).path
    # A bare name would be looked for in the tool's own directory.
    tool = shutil.which(tool) or tool
    with private_directory() as directory:
        source = directory / "kernel.ptx"
        binary = directory / "kernel.cubin"
        source.write_text(ptx, encoding="utf-8", errors="surrogateescape")
        command: list[str | Path] = [tool, *arguments(options, capability), source, "-o", binary]
        done = run_tool(
            command,
            directory=directory,
            timeout=knobs.active().tool_timeout or None,
            error=AssemblerError,
        )
        if base_knobs.nvidia.dump_ptxas_log:
            print(done.stderr)
        return check_output_file(binary, command, done, error=AssemblerError)
