"""The PPU's compiler backend: from Triton's IR to a binary the driver loads.

The PPU is CUDA-compatible, so lowering down to LLVM IR is the base's CUDA
lowering, subclassed here rather than repeated. What this module adds is what
differs: which target and options a chip accepts, which tool chain makes the
binary, and what takes part in the cache key. Nothing in here asks the driver:
a kernel for an explicit target compiles on a host that has none.
"""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

from triton import _flagtree_spec
from triton.backends.compiler import GPUTarget

# A module import, not `from ... import CUDABackend`: upstream's backend discovery
# wants exactly one concrete backend class among a module's names.
from triton.backends.nvidia import compiler as nvidia_compiler
from triton.backends.ppu import chips, ptxas, sdk_compiler, toolchain

# Threads per warp on every CUDA-compatible chip, the PPU included.
WARP_SIZE = 32


def _as_number(text: Any) -> Any:
    """An integer written in decimal digits as that integer, anything else as it is.

    `python -m triton.tools.compile --target cuda:80:32` makes a target of such texts.
    """
    return int(text) if isinstance(text, str) and re.fullmatch("[0-9]{1,4}", text) else text


class _SharesInstrumentation(type(nvidia_compiler.CUDABackend)):  # type: ignore[misc]
    """Makes `PPUBackend.instrumentation` the base's attribute of that name.

    Proton assigns its passes to the class of the backend it finds, and the base's stages, which
    are this tree's too, look for them in `CUDABackend` and nowhere else.
    """

    @property
    def instrumentation(cls) -> Any:
        return nvidia_compiler.CUDABackend.instrumentation

    @instrumentation.setter
    def instrumentation(cls, passes: Any) -> None:
        nvidia_compiler.CUDABackend.instrumentation = passes


class PPUBackend(nvidia_compiler.CUDABackend, metaclass=_SharesInstrumentation):
    """Compiles for the PPU, and for any other CUDA-compatible device.

    With the CUDA-compatible tool chain the stages are `ttir, ttgir, llir, ptx,
    cubin`, and for a kernel without hints their results are the base's own, byte
    for byte.
    """

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        """Whether this backend compiles for `target`: any target of kind `cuda`."""
        return target.backend == "cuda"

    def __init__(self, target: GPUTarget) -> None:
        """Makes a backend for `target`.

        Raises:
            ValueError: the target's architecture is not a compute capability such as 80,
                or its warp size is not 32.
            ToolchainError: the tool chain that is asked for is not there.
        """
        target = GPUTarget(target.backend, _as_number(target.arch), _as_number(target.warp_size))
        super().__init__(target)
        if type(target.arch) is not int or target.arch not in chips.CAPABILITIES:
            raise ValueError(
                f"GPUTarget.arch is {target.arch!r}; a CUDA-compatible target needs the compute "
                f"capability as an integer, ten times the major number plus the minor one, such as "
                f"80 for 8.0"
            )
        if type(target.warp_size) is not int or target.warp_size != WARP_SIZE:
            raise ValueError(
                f"GPUTarget.warp_size is {target.warp_size!r}; CUDA-compatible devices have "
                f"{WARP_SIZE} threads per warp"
            )
        self.toolchain = toolchain.choose(target.arch, chips.served_by_sdk(target.arch))
        if self.toolchain.sdk is not None:
            self.binary_ext = sdk_compiler.binary_extension()
            _flagtree_spec.install_binary_alias()

    def parse_options(self, opts: dict[str, Any]) -> Any:
        """Turns a launch's keyword options into the options object of a compilation.

        Raises:
            ValueError: an option asks for what the target cannot do.
        """
        asked = opts.get("arch")
        arch = asked or nvidia_compiler.knobs.runtime.override_arch
        if arch and not (isinstance(arch, str) and re.fullmatch(r"sm[1-9]\d{1,2}", arch)):
            raise ValueError(
                f"{'option arch' if asked else 'TRITON_OVERRIDE_ARCH'}={arch!r} is not an "
                f"architecture: expected text such as 'sm{self.target.arch}', which is the "
                "target's own"
            )
        chips.check_options(opts, self._parse_arch(arch) if arch else self.target.arch)
        options = super().parse_options(opts)
        capability = self._parse_arch(options.arch)
        if capability > self.target.arch:
            raise ValueError(
                f"option arch={options.arch!r} (TRITON_OVERRIDE_ARCH sets it too) is above the "
                f"target's compute capability {self.target.arch / 10:.1f}: the device cannot run "
                f"that code. Leave it out, or compile for an explicit "
                f'GPUTarget("cuda", {capability}, {WARP_SIZE})'
            )
        if self.toolchain.sdk is not None:
            options = sdk_compiler.parse_options(options, opts)
        return options

    def add_stages(self, stages: dict[str, Any], options: Any, language: Any) -> None:
        """Fills in the stages of the tool chain in use."""
        if self.toolchain.sdk is None:
            super().add_stages(stages, options, language)
        else:
            sdk_compiler.add_stages(
                self,
                stages,
                options,
                language,
                self._parse_arch(options.arch),
                self.toolchain.sdk,
            )

    def load_dialects(self, ctx: Any) -> None:
        """Makes the dialects of the tool chain in use known to an MLIR context."""
        super().load_dialects(ctx)
        if self.toolchain.sdk is not None:
            sdk_compiler.load_dialects(ctx)

    def make_cubin(self, src: str, metadata: dict[str, Any], opt: Any, capability: int) -> bytes:
        """The base's last stage, with errors that say first what the assembler says."""
        return ptxas.assemble(src, opt, capability)

    def get_codegen_implementation(self, options: Any) -> dict[str, Any]:
        """The functions that the code generator takes from a backend."""
        _flagtree_spec.install_code_generator()
        codegen: dict[str, Any] = super().get_codegen_implementation(options)
        return codegen

    def get_module_map(self) -> dict[str, ModuleType]:
        """The modules that stand in for `triton.language.extra.*` on this target."""
        from triton.language.extra.ppu import libdevice

        return {"triton.language.extra.libdevice": libdevice}

    @staticmethod
    def make_ttir(mod: Any, metadata: Any, opt: Any, capability: int) -> Any:
        """The base's stage, then what hints have to do once all calls are inlined."""
        mod = nvidia_compiler.CUDABackend.make_ttir(mod, metadata, opt, capability)
        from triton.compiler.hint_manager import hint_trigger

        hint_trigger("hint_ttir", mod, opt)
        return mod

    @staticmethod
    def make_ttgir(mod: Any, metadata: Any, opt: Any, capability: int) -> Any:
        """The base's stage, then what hints have to do once layouts are known."""
        mod = nvidia_compiler.CUDABackend.make_ttgir(mod, metadata, opt, capability)
        from triton.compiler.hint_manager import hint_trigger

        hint_trigger("hint_ttgir", mod, opt)
        return mod

    def hash(self) -> str:
        """What tells this backend's results from another's in the compilation cache.

        Made anew each time, since the treatment of hints may change; the base keeps its part.
        """
        from triton.compiler.hint_manager import hint_trigger

        hints = hint_trigger("hint_cache_key")
        if self.toolchain.sdk is not None:
            return f"ppu-{sdk_compiler.cache_key(self.toolchain.sdk)}-{self.target.arch}-{hints}"
        ptxas.require(self.target.arch)
        return f"ppu-{super().hash()}-{hints}"
