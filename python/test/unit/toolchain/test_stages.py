"""The SDK's stages from a kernel to a binary, against the fake SDK."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tix_grammar
from module_rules import find_llvm_as

Compile = Callable[..., Any]


def header(binary: bytes) -> dict[str, Any]:
    """What the fake ppu-llc wrote into its container."""
    magic = b"\x7fHGBIN\x00"
    assert binary.startswith(magic)
    loaded: dict[str, Any] = json.loads(binary[len(magic) :])
    return loaded


def opcodes(tix: str) -> list[str]:
    """All opcodes of a module's inline assembly, as they are written there."""
    templates = re.findall(r'\basm (?:sideeffect )?"([^"]*)"', tix)
    found = []
    for template in templates:
        text = tix_grammar.unescape(template)
        found += re.findall(r"(?:^|[;{}\s])((?:ppu\.)?[a-z][\w]*\.[\w.:]+) ", text)
    return found


def test_an_llvm_that_reads_the_ir_is_there() -> None:
    """Without one the fake SDK judges text only; .ci/run installs one."""
    if find_llvm_as() is None:
        pytest.skip("no llvm-as of version 20 or later: apt-get install llvm-22")


def test_a_kernel_goes_through(sdk: Path, compile_kernel: Compile) -> None:
    kernel = compile_kernel("demo: softmax")
    assert list(kernel.asm) == ["source", "ttir", "ttgir", "llir", "tix", "hgbin", "cubin"]
    told = header(kernel.asm["hgbin"])
    assert told["chip"] == "sm_80"
    assert told["flags"] == ["-lineinfo"]
    shared = kernel.metadata.shared
    assert shared > 0
    assert told["kernels"] == {"softmax_kernel": {"reqntidx": 128, "smemsize": shared}}
    assert kernel.metadata.name == "softmax_kernel"
    assert kernel.name == "softmax_kernel"
    assert kernel.kernel == kernel.asm["hgbin"]


def test_both_grammars(sdk: Path, compile_kernel: Compile, monkeypatch: Any) -> None:
    """Case 10: SDK 2.0.0 wants opcodes without the prefix, 2.1 with it."""
    from triton.backends.ppu import toolchain

    new = compile_kernel()
    assert opcodes(new.asm["tix"])
    assert all(opcode.startswith("ppu.") for opcode in opcodes(new.asm["tix"]))
    monkeypatch.setenv("FAKE_PPU_SDK_VERSION", "2.0.0")
    toolchain._read_version.cache_clear()
    old = compile_kernel()
    assert opcodes(old.asm["tix"])
    assert not any(opcode.startswith("ppu.") for opcode in opcodes(old.asm["tix"]))
    assert old.hash != new.hash


def test_the_wrong_grammar_would_be_noticed(sdk: Path, compile_kernel: Compile) -> None:
    """The fake SDK is a check only if it refuses what the real one does."""
    from module_rules import AbortError, ModuleError, check, formatted

    text = formatted(compile_kernel().asm["tix"])
    check(text, prefixed=True)
    with pytest.raises(AbortError, match="mismatched input 'ppu'"):
        check(text, prefixed=False)
    with pytest.raises(ModuleError, match=r"mismatched input 'mov' expecting 'ppu\.'"):
        check(text.replace("ppu.", ""), prefixed=True)
    with pytest.raises(ModuleError, match="data layout"):
        check(text.replace("-f16:16", ""), prefixed=True)
    with pytest.raises(ModuleError, match="no annotation smemsize"):
        check(text.replace('!"smemsize"', '!"other"'), prefixed=True)
    with pytest.raises(ModuleError, match="nvvm-reflect-ftz"):
        check(text.replace("nvvm-reflect-ftz", "x"), prefixed=True)


def test_pytorch_finds_the_binary(sdk: Path, compile_kernel: Compile) -> None:
    kernel = compile_kernel()
    assert kernel.asm["cubin"] is kernel.asm["hgbin"]
    entry = Path(next(iter(kernel.metadata_group.values()))).parent
    assert (entry / "softmax_kernel.cubin").read_bytes() == kernel.asm["hgbin"]
    with pytest.raises(KeyError, match="no disassembler"):
        kernel.asm["sass"]
    with pytest.raises(KeyError):
        kernel.asm["ptx"]


def test_a_cached_kernel_is_the_same(sdk: Path, compile_kernel: Compile, monkeypatch: Any) -> None:
    log = Path(os.environ["TMPDIR"]) / "log"
    monkeypatch.setenv("FAKE_SDK_LOG", str(log))
    first = compile_kernel()
    ran = log.read_text().count("--gpu-name")
    second = compile_kernel()
    assert log.read_text().count("--gpu-name") == ran == 1
    assert dict(second.asm) == dict(first.asm)
    assert second.kernel == first.kernel


def test_only_binaries_stored(sdk: Path, compile_kernel: Compile, monkeypatch: Any) -> None:
    full = compile_kernel()
    monkeypatch.setenv("TRITON_STORE_BINARY_ONLY", "1")
    first, again = compile_kernel(), compile_kernel()
    assert first.hash != full.hash
    assert list(again.asm) == ["source", "cubin"]
    assert again.kernel == first.kernel == full.kernel


def test_a_dump_of_all_stages(
    sdk: Path, compile_kernel: Compile, monkeypatch: Any, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRITON_KERNEL_DUMP", "1")
    monkeypatch.setenv("TRITON_DUMP_DIR", str(tmp_path / "dump"))
    compile_kernel()
    suffixes = {path.suffix for path in (tmp_path / "dump").rglob("softmax_kernel.*")}
    assert {".ttir", ".ttgir", ".llir", ".tix", ".hgbin"} <= suffixes


def llc_arguments(log: Path) -> list[str]:
    for line in reversed(log.read_text().splitlines()):
        arguments: list[str] = json.loads(line)
        if arguments != ["--version"]:
            return arguments[:-3]
    raise AssertionError("ppu-llc was not run")


@pytest.mark.parametrize(
    ("environment", "options", "expected"),
    [
        ({}, {}, ["-lineinfo", "-v", "--gpu-name=sm_80"]),
        ({}, {"enable_fp_fusion": False}, ["-lineinfo", "--fmad=false", "-v"]),
        (
            {"TRITON_PPU_DISABLE_LLC_OPT": "1"},
            {},
            ["-g", "-v", "--opt-level", "0", "--gpu-name=sm_80"],
        ),
        (
            {"TRITON_DISABLE_LINE_INFO": "1"},
            {},
            ["-lineinfo", "-suppress-debug-info", "-v", "--gpu-name=sm_80"],
        ),
        (
            {"TRITON_PPU_LLC_OPTIONS": "--opt-level '2'"},
            {"llc_options": "-g"},
            ["-lineinfo", "-v", "-g", "--opt-level", "2", "--gpu-name=sm_80"],
        ),
    ],
)
def test_options_reach_the_tool_and_the_key(
    environment: dict[str, str],
    options: dict[str, Any],
    expected: list[str],
    sdk: Path,
    compile_kernel: Compile,
    monkeypatch: Any,
) -> None:
    plain = compile_kernel()
    log = Path(os.environ["TMPDIR"]) / "log"
    monkeypatch.setenv("FAKE_SDK_LOG", str(log))
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    kernel = compile_kernel(**options)
    assert llc_arguments(log)[: len(expected)] == expected
    assert (kernel.hash == plain.hash) == (not environment and not options)


def test_an_open_quotation_mark_in_options(
    sdk: Path, compile_kernel: Compile, monkeypatch: Any
) -> None:
    monkeypatch.setenv("TRITON_PPU_LLC_OPTIONS", "-a 'b")
    with pytest.raises(ValueError, match=r"TRITON_PPU_LLC_OPTIONS.*No closing quotation"):
        compile_kernel()


def test_the_log_can_be_shown(
    sdk: Path, compile_kernel: Compile, monkeypatch: Any, capsys: Any
) -> None:
    compile_kernel()
    assert capsys.readouterr().out == ""
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    monkeypatch.setenv("TRITON_PPU_DUMP_LLC_LOG", "1")
    compile_kernel()
    assert "softmax_kernel: used 32 registers" in capsys.readouterr().out


def test_what_has_no_encoding_is_refused_with_its_line(sdk: Path, compile_kernel: Compile) -> None:
    from triton.backends.ppu.sdk_compiler import UnsupportedError

    with pytest.raises(UnsupportedError) as caught:
        compile_kernel("inline assembly: mma.sync")
    message = str(caught.value)
    assert re.search(
        r"^  \S+/language_constructs\.py:\d+:\d+: mma\.sync\.aligned\.m16n8k8\.\S+: matrix "
        "instructions have no publicly known PPU encoding$",
        message,
        re.MULTILINE,
    )
    assert "TRITON_PPU_TOOLCHAIN=cuda" in message
    file, line, _ = caught.value.diagnostics[0].source[-1]
    assert "inline_asm_elementwise" in Path(file).read_text().splitlines()[line - 1]


@pytest.mark.parametrize(
    "title",
    [
        "demo: matmul",
        "demo: attention",
        "dot: fp16 to fp16",
        "dot: bf16 to fp32",
        "dot: fp32 to fp32, tf32",
        "dot: i8 to i32",
        "dot: 64x64 fp16, num_stages=4",
        "reduce: sum fp32 axis 0",
        "debug: printf",
        "debug: assert",
        "load: cache default, evict_last",
        "atomic: spin lock",
    ],
)
def test_kernels_go_through_without_special_units(
    title: str, sdk: Path, compile_kernel: Compile
) -> None:
    tix = compile_kernel(title).asm["tix"]
    assert "llvm.nvvm.mma" not in tix
    assert "ldmatrix" not in tix
    assert "cp.async" not in tix


def test_dots_of_integers_are_exact(sdk: Path, compile_kernel: Compile) -> None:
    """Multiplied as 32-bit integers, not as floating-point numbers of 24 bits."""
    kernel = compile_kernel("dot: i8 to i32")
    assert "arith.extsi" in kernel.asm["ttir"]
    assert re.search(r"= mul .*i32", kernel.asm["tix"])
    assert "fmul" not in kernel.asm["tix"]
    assert "tensor<32x32xi8> * tensor" not in kernel.asm["ttir"]


def test_a_format_of_the_newer_chip(sdk: Path, compile_kernel: Compile) -> None:
    kernel = compile_kernel("convert: float32 to float8e4nv", capability=89)
    assert header(kernel.kernel)["chip"] == "sm_89"
    with pytest.raises(Exception, match="fp8e4nv not supported"):
        compile_kernel("convert: float32 to float8e4nv", capability=80)


def test_targets_that_are_no_ppu_use_the_other_tool_chain(
    sdk: Path, compile_kernel: Compile
) -> None:
    assert "ptx" in compile_kernel(capability=90).asm
    assert "ptx" in compile_kernel(capability=75).asm


def test_registers_cannot_be_limited(sdk: Path, compile_kernel: Compile) -> None:
    with pytest.raises(ValueError, match="option maxnreg=64: the PPU SDK has no"):
        compile_kernel(maxnreg=64)


def test_the_choice_is_in_the_key(sdk: Path, compile_kernel: Compile, monkeypatch: Any) -> None:
    ours = compile_kernel()
    monkeypatch.setenv("TRITON_PPU_TOOLCHAIN", "cuda")
    theirs = compile_kernel()
    assert "ptx" in theirs.asm
    assert "hgbin" not in theirs.asm
    assert theirs.hash != ours.hash


def test_an_sdk_that_is_asked_for_and_missing(compile_kernel: Compile, monkeypatch: Any) -> None:
    from triton.backends.ppu.toolchain import SDKNotFoundError

    monkeypatch.setenv("TRITON_PPU_TOOLCHAIN", "sdk")
    with pytest.raises(SDKNotFoundError, match="PPU_SDK is not set"):
        compile_kernel()


def test_no_ptxas_is_needed(sdk: Path, compile_kernel: Compile, monkeypatch: Any) -> None:
    from triton import knobs
    from triton.backends.nvidia import compiler

    def fail(*_: Any) -> None:
        raise AssertionError("ptxas was asked for")

    monkeypatch.setattr(compiler, "get_ptxas", fail)
    monkeypatch.setattr(compiler, "get_ptxas_version", fail)
    compile_kernel("demo: bias_gelu")
    assert knobs.ppu.toolchain == "auto"


class Recorder:
    """Passes that note their names and are otherwise NVIDIA's."""

    def __init__(self, base: Any, names: list[str]) -> None:
        self.base, self.names = base, names

    def __getattr__(self, name: str) -> Any:
        self.names.append(name)
        return getattr(self.base, name)


def test_vendor_passes_are_used_where_libtriton_has_them(
    sdk: Path, compile_kernel: Compile, monkeypatch: Any
) -> None:
    """T-Head's passes write the PPU's form themselves, so lib/TIX stays out of it.

    The stand-in runs the base's passes, whose output the SDK then refuses: that proves that the
    whole pipeline was run with them, matrix units included, and that nothing was rewritten.
    """
    from types import SimpleNamespace

    from triton._C import libtriton
    from triton.backends.ppu.tools import ToolError

    names: list[str] = []
    plain = compile_kernel("demo: matmul")
    passes = SimpleNamespace(ttgpuir=Recorder(libtriton.nvidia.passes.ttgpuir, names))
    monkeypatch.setattr(libtriton, "ppu", SimpleNamespace(passes=passes), raising=False)
    with pytest.raises(ToolError, match=r"target triple|data layout|mismatched input") as caught:
        compile_kernel("demo: matmul")
    assert {"add_allocate_shared_memory_nv", "add_to_llvmir"} <= set(names)
    assert caught.value.kept is not None
    text = (Path(caught.value.kept) / "kernel.tix.ll").read_text()
    assert "mma.sync" in text
    assert "mma.sync" not in plain.asm["tix"]
