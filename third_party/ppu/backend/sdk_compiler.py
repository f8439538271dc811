"""The stages of the PPU SDK's tool chain: `ttgir -> llir -> tix -> hgbin`.

Lowering is the base's, made of the passes that need neither matrix units nor asynchronous copies,
because those encodings are T-Head's own; where libtriton was built with T-Head's passes
(`libtriton.ppu.passes`), those are used instead and know them. The text of the assembly dialect is
written by lib/TIX, the binary by the SDK's programs; which SDK that is was decided in
toolchain.py. Nothing in here asks the driver.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import triton.knobs
from triton._C import libtriton
from triton.backends.compiler import Language
from triton.backends.nvidia import compiler as nvidia_compiler
from triton.backends.ppu import knobs
from triton.backends.ppu import toolchain as toolchains
from triton.backends.ppu.tools import (
    AssemblerError,
    ToolchainError,
    ToolError,
    check_output_file,
    private_directory,
    run_tool,
)

__all__ = [
    "HGGCOptions",
    "UnsupportedError",
    "add_stages",
    "binary_extension",
    "cache_key",
    "load_dialects",
    "parse_options",
]

# Untyped, as are the functions that are taken from them.
_base: Any = nvidia_compiler
ir: Any = libtriton.ir
passes: Any = getattr(libtriton, "passes")  # noqa: B009 - not in the stub

# What the binary is called in the cache and in `CompiledKernel.asm`, and the name under which
# PyTorch looks for it.
BINARY = "hgbin"
BINARY_ALIAS = "cubin"
# The capability whose lowering needs no matrix unit, no ldmatrix and no asynchronous copy: CUDA's
# before 7.5 had none of them that the base's passes use.
PLAIN_CAPABILITY = 70
# The version of the PTX instruction set that the base's lowering may assume; it only unlocks
# instructions for capabilities above the PPU's, and giving it spares a question to ptxas.
PTX_VERSION = 80


class UnsupportedError(ToolchainError):
    """The kernel asks for something that has no publicly known encoding on the PPU.

    Attributes:
        diagnostics: every such thing, with `name`, `reason`, `source` and `ir_line`.
    """

    def __init__(self, message: str, diagnostics: tuple[Any, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.diagnostics = diagnostics

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[object, ...]:
        # Diagnostics are C++ values; their words are in the message.
        return (type(self), (self.message,))


@dataclasses.dataclass(frozen=True)
class HGGCOptions(nvidia_compiler.CUDAOptions):
    """Options of a compilation with the PPU SDK: the base's, and what only the SDK has.

    llc_options: more options for ppu-llc, separated as a shell would; those of
        `TRITON_PPU_LLC_OPTIONS` come after them.
    """

    llc_options: str | None = None


def parse_options(options: Any, given: dict[str, Any]) -> HGGCOptions:
    """Makes the SDK's options of the base's.

    Args:
        options: what the base made of `given`.
        given: keyword options of the compilation.

    Raises:
        ValueError: an option has no counterpart in the SDK.
    """
    if options.maxnreg is not None:
        raise ValueError(
            f"option maxnreg={options.maxnreg!r}: the PPU SDK has no publicly known way to limit "
            "registers per thread; leave it out, or set TRITON_PPU_TOOLCHAIN=cuda"
        )
    fields = {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
    extra = [given.get("llc_options"), knobs.active().llc_options]
    text = " ".join(part for part in extra if part) or None
    split_options(text)
    return HGGCOptions(**fields, llc_options=text)


def split_options(text: str | None) -> list[str]:
    """Splits options as a shell would.

    Raises:
        ValueError: a quotation mark is not closed.
    """
    try:
        return shlex.split(text or "")
    except ValueError as reason:
        raise ValueError(f"TRITON_PPU_LLC_OPTIONS or llc_options={text!r}: {reason}") from None


def binary_extension() -> str:
    """The stage that makes the binary.

    `hgbin`; but where only binaries are stored (`TRITON_STORE_BINARY_ONLY`), which the base does
    by a fixed list of names, the alias that is on that list.
    """
    return BINARY_ALIAS if triton.knobs.compilation.store_binary_only else BINARY


def cache_key(sdk: toolchains.SDK) -> str:
    """What tells this tool chain's results from another's, apart from options and source."""
    settings = knobs.active()
    parts = [
        sdk.fingerprint(),
        _extension_hash(),
        binary_extension(),
        f"disable_llc_opt={settings.disable_llc_opt}",
        f"disable_line_info={triton.knobs.compilation.disable_line_info}",
        f"vendor_passes={vendor_passes() is not None}",
    ]
    return f"sdk-{sdk.version}-{hashlib.sha256('|'.join(parts).encode()).hexdigest()}"


@functools.lru_cache
def _extension_hash() -> str:
    """Contents of the extension module, which holds the writer.

    Empty where the writer is part of libtriton, whose contents are in the base's own key.
    """
    from triton.backends.ppu._native import tix

    path = getattr(sys.modules.get(tix.__name__.rpartition(".")[0]), "__file__", None)
    return hashlib.sha256(Path(path).read_bytes()).hexdigest() if path else ""


def vendor_passes() -> Any:
    """T-Head's own passes if libtriton was built with them, else None.

    They are recognized by `libtriton.ppu.passes`: this tree's own bindings, which can be mounted
    as `libtriton.ppu` too, have no passes.
    """
    vendor = getattr(libtriton, "ppu", None)
    return vendor if hasattr(vendor, "passes") else None


def load_dialects(context: Any) -> None:
    """Makes T-Head's dialects known to `context`, if libtriton has them."""
    vendor = vendor_passes()
    if vendor is not None and hasattr(vendor, "load_dialects"):
        vendor.load_dialects(context)


def add_stages(
    backend: Any,
    stages: dict[str, Callable[[Any, dict[str, Any]], Any]],
    options: HGGCOptions,
    language: Language,
    capability: int,
    sdk: toolchains.SDK,
) -> None:
    """Fills `stages` with the SDK's way from Triton's IR to a binary.

    Args:
        backend: the `PPUBackend`, whose `make_ttir` and `make_llir` are used.
        stages: filled in order, as `BaseBackend.add_stages` wants it.
        options: the compilation's.
        language: Triton or Gluon.
        capability: the target's compute capability, ten times major plus minor.
        sdk: the SDK to use.
    """
    from triton.compiler.hint_manager import hint_trigger

    vendor = vendor_passes()
    # `ptx_version` is a field of the base class, which the type checker does not see.
    version = options.ptx_version or PTX_VERSION
    lowered = dataclasses.replace(options, ptx_version=version)  # type: ignore[call-arg]

    def ttir(src: Any, metadata: dict[str, Any]) -> Any:
        # The backend's, not the base's: it lets hints do what they have to do at this stage.
        module = backend.make_ttir(src, metadata, options, capability)
        return module if vendor else widen_integer_dots(module)

    def ttgir(src: Any, metadata: dict[str, Any]) -> Any:
        if vendor:
            make = with_vendor(_base.CUDABackend.make_ttgir, vendor)
            module = make(src, metadata, options, capability)
        else:
            module = make_ttgir(src, metadata, options)
        hint_trigger("hint_ttgir", module, options)
        return module

    def llir(src: Any, metadata: dict[str, Any]) -> Any:
        if vendor:
            make = with_vendor(_base.CUDABackend.make_llir, vendor)
            return make(backend, src, metadata, lowered, capability)
        return backend.make_llir(src, metadata, lowered, lowering_capability(src, capability))

    if language == Language.TRITON:
        stages["ttir"] = ttir
        stages["ttgir"] = ttgir
    else:
        stages["ttgir"] = lambda src, metadata: backend.gluon_to_ttgir(
            src, metadata, options, capability
        )
    stages["llir"] = llir
    stages["tix"] = lambda src, metadata: make_tix(src, metadata, sdk, bool(vendor))
    stages[binary_extension()] = lambda src, metadata: make_hgbin(
        src, metadata, options, capability, sdk
    )
    inspect: Any = triton.knobs.runtime.add_stages_inspection_hook
    if inspect is not None:
        inspect(backend, stages, options, language, capability)


def with_vendor(function: Any, vendor: Any) -> Any:
    """The base's stage `function`, run with T-Head's passes in the place of NVIDIA's.

    A pass that T-Head's module does not have is the base's.
    """
    names = dict(function.__globals__)
    names["nvidia"] = _Overlay(vendor, _base.nvidia)
    return FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )


class _Overlay(SimpleNamespace):
    """Names of `first`, and of `second` where `first` has none; modules are overlaid in turn."""

    def __init__(self, first: Any, second: Any) -> None:
        super().__init__(first=first, second=second)

    def __getattr__(self, name: str) -> Any:
        if not hasattr(self.first, name):
            return getattr(self.second, name)
        value = getattr(self.first, name)
        base = getattr(self.second, name, None)
        return _Overlay(value, base) if isinstance(base, ModuleType) else value


def lowering_capability(module: Any, capability: int) -> int:
    """The capability to lower for, so that no instruction without an encoding comes out.

    `PLAIN_CAPABILITY`, unless the module uses a number format which the base converts only for
    the chip's own capability; then a kernel that moves data between layouts through ldmatrix is
    refused by the writer, by name.
    """
    needs_own = "f8E4M3FN" in module.str_nodebug()
    return capability if needs_own else PLAIN_CAPABILITY


_DOT_TYPE = re.compile(r"tensor<(\d+(?:x\d+)*)xi8(?:,.*)?>")


def widen_integer_dots(module: Any) -> Any:
    """Makes dots of 8-bit integers dots of 32-bit ones, which need no matrix unit.

    The base's lowering without matrix units multiplies elements of the accumulator's type only.
    Products and sums are exact in 32 bits, so nothing changes but the work.
    """
    dots: list[Any] = []

    def visit(operation: Any) -> None:
        if operation.get_name() == "tt.dot":
            dots.append(operation)

    module.walk(visit)
    builder = ir.builder(module.context)
    for dot in dots:
        operands = [dot.get_operand(i) for i in range(3)]
        matches = [_DOT_TYPE.fullmatch(str(operand.get_type())) for operand in operands[:2]]
        if not all(matches):
            continue
        result = dot.get_result(0)
        builder.set_insertion_point_after(dot)
        builder.set_loc(result.get_loc())
        widened = []
        for operand, match in zip(operands[:2], matches, strict=True):
            assert match is not None
            shape = [int(size) for size in match.group(1).split("x")]
            kind = builder.get_block_ty(builder.get_int32_ty(), shape)
            widened.append(builder.create_int_cast(operand, kind, True))
        wide = builder.create_dot(*widened, operands[2], ir.INPUT_PRECISION.IEEE, 0)
        result.replace_all_uses_with(wide)
    if dots:
        manager = ir.pass_manager(module.context)
        passes.common.add_canonicalizer(manager)
        passes.common.add_symbol_dce(manager)
        manager.run(module, "widen_integer_dots")
    return module


def make_ttgir(module: Any, metadata: dict[str, Any], options: HGGCOptions) -> Any:
    """Lowers to the GPU dialect with the base's passes that need no special unit.

    For `PLAIN_CAPABILITY` the pass that would pick matrix instructions turns dots into
    multiplications of the accumulator's type instead. Loops are not pipelined: the base pipelines
    through asynchronous copies only.
    """
    manager = ir.pass_manager(module.context)
    manager.enable_debug()
    target = f"cuda:{PLAIN_CAPABILITY}"
    passes.ttir.add_convert_to_ttgpuir(manager, target, options.num_warps, 32, options.num_ctas)
    passes.ttgpuir.add_coalesce(manager)
    passes.ttgpuir.add_remove_layout_conversions(manager)
    passes.ttgpuir.add_optimize_thread_locality(manager)
    passes.ttgpuir.add_accelerate_matmul(manager)
    passes.ttgpuir.add_remove_layout_conversions(manager)
    passes.ttgpuir.add_optimize_dot_operands(manager, False)
    passes.ttir.add_loop_aware_cse(manager)
    passes.ttir.add_triton_licm(manager)
    passes.common.add_canonicalizer(manager)
    passes.ttgpuir.add_remove_layout_conversions(manager)
    passes.ttgpuir.add_reduce_data_duplication(manager)
    passes.ttgpuir.add_reorder_instructions(manager)
    passes.ttir.add_loop_aware_cse(manager)
    passes.common.add_symbol_dce(manager)
    passes.common.add_sccp(manager)
    passes.common.add_cse(manager)
    passes.common.add_canonicalizer(manager)
    manager.run(module, "make_ttgir")
    metadata["tensordesc_meta"] = module.get_tensordesc_metadata()
    return module


def make_tix(src: str, metadata: dict[str, Any], sdk: toolchains.SDK, written: bool) -> str:
    """Writes the LLVM IR in the form the SDK reads.

    Args:
        src: text of the LLVM module.
        metadata: the kernel's; `name` is added, `num_warps` and `shared` are read.
        sdk: decides the dialect.
        written: whether T-Head's own passes have written the PPU's form already.

    Raises:
        UnsupportedError: something in it has no known encoding, or is not what Triton writes.
    """
    if written:
        names = re.findall(r'^define .*ptx_kernel .*?@"?([^"(\s]+)"?\(', src, re.MULTILINE)
        metadata["name"] = _only_kernel(names)
        return src
    from triton.backends.ppu._native import tix

    result = tix.convert(
        src,
        prefixed=sdk.version.dialect == "2.1",
        threads=metadata["num_warps"] * 32,
        shared_bytes=metadata["shared"] or 0,
    )
    if result.diagnostics:
        raise _unsupported(result.diagnostics)
    metadata["name"] = _only_kernel(result.kernels)
    text: str = result.text
    return text


def _only_kernel(names: list[str]) -> str:
    if len(names) != 1:
        raise ToolchainError(f"the module has {len(names)} kernels ({', '.join(names)}), not one")
    return names[0]


def _unsupported(diagnostics: list[Any]) -> UnsupportedError:
    words: list[str] = []
    for diagnostic in diagnostics:
        text = str(diagnostic)
        if text not in words:
            words.append(text)
    head = "this kernel cannot be compiled by the PPU SDK's tool chain:"
    note = (
        "Write the kernel without it, or set TRITON_PPU_TOOLCHAIN=cuda to use the CUDA-compatible "
        "tool chain."
    )
    lines = "\n".join(f"  {text}" for text in words)
    return UnsupportedError(f"{head}\n{lines}\n{note}", tuple(diagnostics))


def llc_arguments(options: HGGCOptions, capability: int) -> list[str]:
    """The options of ppu-llc for a compilation, without its input and output."""
    if triton.knobs.compilation.disable_line_info:
        arguments = ["-lineinfo", "-suppress-debug-info"]
    elif knobs.active().disable_llc_opt:
        arguments = ["-g"]
    else:
        arguments = ["-lineinfo"]
    if not options.enable_fp_fusion:
        arguments.append("--fmad=false")
    arguments.append("-v")
    if knobs.active().disable_llc_opt:
        arguments += ["--opt-level", "0"]
    arguments += split_options(options.llc_options)
    return [*arguments, f"--gpu-name=sm_{capability}"]


def make_hgbin(
    src: str,
    metadata: dict[str, Any],
    options: HGGCOptions,
    capability: int,
    sdk: toolchains.SDK,
) -> bytes:
    """Makes the binary with the SDK's two programs.

    The binary is also put beside the cache entry's other files under the name that PyTorch looks
    for. Nothing reaches the cache unless both programs succeed.

    Raises:
        ToolError: llvm-irformatter failed.
        AssemblerError: ppu-llc failed.
    """
    timeout = knobs.active().tool_timeout or None
    hint = f"SDK {sdk.version}, found by {sdk.llc.found_by}"
    with private_directory() as directory:
        written = directory / "kernel.tix.ll"
        formatted = directory / "kernel.ll"
        binary = directory / "kernel.hgbin"
        written.write_text(src, encoding="utf-8", errors="surrogateescape")
        command: list[str | Path] = [sdk.formatter.path, written, "-S", "-o", formatted]
        done = run_tool(command, directory=directory, timeout=timeout, error=ToolError, hint=hint)
        check_output_file(formatted, command, done)
        command = [
            sdk.llc.path,
            *llc_arguments(options, capability),
            formatted,
            "-o",
            binary,
        ]
        done = run_tool(
            command, directory=directory, timeout=timeout, error=AssemblerError, hint=hint
        )
        data = check_output_file(binary, command, done, error=AssemblerError)
    if knobs.active().dump_llc_log:
        print(done.stdout + done.stderr)
    _write_alias(data, metadata)
    return data


def _write_alias(data: bytes, metadata: dict[str, Any]) -> None:
    """Puts the binary where PyTorch's static launcher expects a CUDA kernel's."""
    if "hash" not in metadata or binary_extension() == BINARY_ALIAS:
        return
    from triton.runtime.cache import get_cache_manager

    # The base cuts names to 150 characters, to stay below what file systems take.
    name = f"{metadata['name'][:150]}.{BINARY_ALIAS}"
    get_cache_manager(metadata["hash"]).put(data, name)
