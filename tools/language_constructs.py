"""Kernels that use every construct of the language, one construct at a time.

Each `Construct` is a JIT function with what is needed to compile it ahead of time. The tool-chain
table (toolchain_table.py) and the tests take them all through the PPU SDK's stages; the six demo
kernels are included under their own names. Nothing here asks the driver or needs a device.
"""

# The kernels are Triton's language, which has no types that mypy knows.
# mypy: disable-error-code="no-untyped-def, no-untyped-call, list-item, arg-type"

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import demo_kernels
import triton
import triton.language as tl
from triton.compiler import ASTSource
from triton.language.extra.cuda import (
    gdc_launch_dependents,
    gdc_wait,
    globaltimer,
    libdevice,
    smid,
)

# The number formats that conversions go between, with the pointer type of a signature.
FORMATS: dict[str, tuple[Any, str]] = {
    "int1": (tl.int1, "*i1"),
    "int8": (tl.int8, "*i8"),
    "int16": (tl.int16, "*i16"),
    "int32": (tl.int32, "*i32"),
    "int64": (tl.int64, "*i64"),
    "uint8": (tl.uint8, "*u8"),
    "uint16": (tl.uint16, "*u16"),
    "uint32": (tl.uint32, "*u32"),
    "uint64": (tl.uint64, "*u64"),
    "float8e5": (tl.float8e5, "*fp8e5"),
    "float8e4b15": (tl.float8e4b15, "*fp8e4b15"),
    "float8e4nv": (tl.float8e4nv, "*fp8e4nv"),
    "float16": (tl.float16, "*fp16"),
    "bfloat16": (tl.bfloat16, "*bf16"),
    "float32": (tl.float32, "*fp32"),
    "float64": (tl.float64, "*fp64"),
}
_FP8 = ("float8e5", "float8e4b15", "float8e4nv")


@dataclass(frozen=True)
class Construct:
    """One use of the language, ready to compile.

    group, name: what tables call it.
    fn: the JIT function.
    signature: Triton type of each argument that is not a constexpr.
    constants: value of each constexpr.
    options: keyword options of `triton.compile`.
    """

    group: str
    name: str
    fn: Any
    signature: dict[str, str]
    constants: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    aligned: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Group and name in one string, unique among all constructs."""
        return f"{self.group}: {self.name}"

    def source(self) -> ASTSource:
        """The kernel as `triton.compile` takes it, its pointers 16-byte aligned."""
        return demo_kernels.ahead_of_time_source(
            self.fn, self.signature, self.constants, self.aligned
        )


@triton.jit
def _load(x, y, n, CACHE: tl.constexpr, EVICTION: tl.constexpr, VOLATILE: tl.constexpr):
    offsets = tl.program_id(0) * 512 + tl.arange(0, 512)
    mask = offsets < n
    value = tl.load(
        x + offsets,
        mask=mask,
        other=3.0,
        cache_modifier=CACHE,
        eviction_policy=EVICTION,
        volatile=VOLATILE,
    )
    tl.store(y + offsets, value, mask=mask)


@triton.jit
def _store(x, y, n, CACHE: tl.constexpr, EVICTION: tl.constexpr):
    offsets = tl.program_id(0) * 512 + tl.arange(0, 512)
    mask = offsets < n
    value = tl.load(x + offsets)
    tl.store(y + offsets, value, mask=mask, cache_modifier=CACHE, eviction_policy=EVICTION)


@triton.jit
def _block_pointer(x, y, m, n):
    source = tl.make_block_ptr(x, (m, n), (n, 1), (0, 0), (32, 32), (1, 0))
    target = tl.make_block_ptr(y, (n, m), (m, 1), (0, 0), (32, 32), (1, 0))
    tl.store(target, tl.trans(tl.load(source, boundary_check=(0, 1))), boundary_check=(0, 1))


@triton.jit
def _descriptor(x, y, m, n):
    source = tl.make_tensor_descriptor(x, [m, n], [n, 1], [32, 32])
    target = tl.make_tensor_descriptor(y, [m, n], [n, 1], [32, 32])
    target.store([0, 32], source.load([32, 0]) + 1)


@triton.jit
def _atomic(x, y, OP: tl.constexpr, SEM: tl.constexpr, SCOPE: tl.constexpr):
    offsets = tl.arange(0, 256)
    value = tl.load(x + offsets)
    mask = offsets < 200
    if OP == "add":
        old = tl.atomic_add(y + offsets, value, mask=mask, sem=SEM, scope=SCOPE)
    elif OP == "max":
        old = tl.atomic_max(y + offsets, value, mask=mask, sem=SEM, scope=SCOPE)
    elif OP == "min":
        old = tl.atomic_min(y + offsets, value, mask=mask, sem=SEM, scope=SCOPE)
    elif OP == "and":
        old = tl.atomic_and(y + offsets, value, mask=mask, sem=SEM, scope=SCOPE)
    elif OP == "or":
        old = tl.atomic_or(y + offsets, value, mask=mask, sem=SEM, scope=SCOPE)
    elif OP == "xor":
        old = tl.atomic_xor(y + offsets, value, mask=mask, sem=SEM, scope=SCOPE)
    elif OP == "xchg":
        old = tl.atomic_xchg(y + offsets, value, mask=mask, sem=SEM, scope=SCOPE)
    else:
        old = tl.atomic_cas(y + offsets, value, value + 1, sem=SEM, scope=SCOPE)
    tl.store(x + offsets, old)


@triton.jit
def _spin_lock(lock, x):
    while tl.atomic_cas(lock, 0, 1, sem="acquire") == 1:
        pass
    offsets = tl.arange(0, 128)
    tl.store(x + offsets, tl.load(x + offsets) + 1)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0, sem="release")


@triton.jit
def _product(a, b):
    return a * b


@triton.jit
def reduce_kernel(x, y, index, OP: tl.constexpr, AXIS: tl.constexpr):
    rows = tl.arange(0, 32)[:, None]
    columns = tl.arange(0, 64)[None, :]
    value = tl.load(x + rows * 64 + columns)
    if AXIS == 0:  # noqa: SIM108 - decided at compile time
        out = tl.arange(0, 64)
    else:
        out = tl.arange(0, 32)
    if OP == "sum":
        tl.store(y + out, tl.sum(value, axis=AXIS))
    elif OP == "max":
        tl.store(y + out, tl.max(value, axis=AXIS))
    elif OP == "min":
        tl.store(y + out, tl.min(value, axis=AXIS))
    elif OP == "argmax":
        tl.store(index + out, tl.argmax(value, axis=AXIS))
    elif OP == "argmin":
        tl.store(index + out, tl.argmin(value, axis=AXIS))
    elif OP == "xor":
        tl.store(y + out, tl.xor_sum(value, axis=AXIS))
    else:
        tl.store(y + out, tl.reduce(value, AXIS, _product))


@triton.jit
def _scan(x, y, OP: tl.constexpr, REVERSE: tl.constexpr):
    rows = tl.arange(0, 16)[:, None]
    columns = tl.arange(0, 128)[None, :]
    value = tl.load(x + rows * 128 + columns)
    if OP == "sum":
        value = tl.cumsum(value, axis=1, reverse=REVERSE)
    elif OP == "product":
        value = tl.cumprod(value, axis=1, reverse=REVERSE)
    else:
        value = tl.associative_scan(value, 0, _product, reverse=REVERSE)
    tl.store(y + rows * 128 + columns, value)


@triton.jit
def sort_kernel(x, y, DESCENDING: tl.constexpr):
    offsets = tl.arange(0, 256)
    tl.store(y + offsets, tl.sort(tl.load(x + offsets), descending=DESCENDING))


@triton.jit
def _topk(x, y):
    offsets = tl.arange(0, 256)
    tl.store(y + tl.arange(0, 16), tl.topk(tl.load(x + offsets), 16))


@triton.jit
def _histogram(x, y):
    offsets = tl.arange(0, 256)
    tl.store(y + tl.arange(0, 64), tl.histogram(tl.load(x + offsets), 64))


@triton.jit
def _gather(x, index, y):
    rows = tl.arange(0, 16)[:, None]
    columns = tl.arange(0, 64)[None, :]
    value = tl.load(x + rows * 64 + columns)
    where = tl.load(index + rows * 64 + columns)
    tl.store(y + rows * 64 + columns, tl.gather(value, where, 1))


@triton.jit
def _shapes(x, y):
    offsets = tl.arange(0, 1024)
    value = tl.load(x + offsets)
    a, b = tl.split(tl.reshape(value, (16, 32, 2)))
    joined = tl.join(b, tl.flip(a, 1))
    swapped = tl.permute(joined, (2, 0, 1))
    tl.store(y + offsets, tl.ravel(swapped))
    tl.store(y + 1024 + tl.arange(0, 1024), tl.ravel(tl.interleave(a, b)))
    tl.store(y + 2048 + tl.arange(0, 1024), tl.cat(tl.ravel(a), tl.ravel(b), can_reorder=True))


@triton.jit
def _control_flow(x, y, n):
    offsets = tl.arange(0, 128)
    total = tl.zeros((128,), tl.float32)
    for i in range(0, n):
        value = tl.load(x + i * 128 + offsets)
        if i % 3 == 0:
            total += value
        else:
            total = tl.where(value > 0, total - value, total)
    count = n
    while count > 0:
        total *= 0.5
        count //= 2
    tl.store(y + offsets, total)


@triton.jit
def _convert(x, y, TO: tl.constexpr, ROUNDING: tl.constexpr):
    offsets = tl.arange(0, 512)
    value = tl.load(x + offsets)
    tl.store(y + offsets, value.to(TO, fp_downcast_rounding=ROUNDING))


@triton.jit
def _bitcast(x, y):
    offsets = tl.arange(0, 512)
    tl.store(y + offsets, tl.load(x + offsets).to(tl.int32, bitcast=True))


@triton.jit
def _random(y, seed, OP: tl.constexpr):
    offsets = tl.arange(0, 256)
    if OP == "rand":
        tl.store(y + offsets, tl.rand(seed, offsets))
    elif OP == "randn":
        tl.store(y + offsets, tl.randn(seed, offsets))
    elif OP == "randint":
        tl.store(y + offsets, tl.randint(seed, offsets))
    else:
        a, b, c, d = tl.randint4x(seed, offsets)
        tl.store(y + offsets, a ^ b ^ c ^ d)


@triton.jit
def _math(x, y, OP: tl.constexpr):
    offsets = tl.arange(0, 256)
    value = tl.load(x + offsets)
    if OP == "exp":
        value = tl.exp(value)
    elif OP == "exp2":
        value = tl.exp2(value)
    elif OP == "log":
        value = tl.log(value)
    elif OP == "log2":
        value = tl.log2(value)
    elif OP == "cos":
        value = tl.cos(value)
    elif OP == "sin":
        value = tl.sin(value)
    elif OP == "sqrt":
        value = tl.sqrt(value)
    elif OP == "sqrt_rn":
        value = tl.sqrt_rn(value)
    elif OP == "rsqrt":
        value = tl.rsqrt(value)
    elif OP == "abs":
        value = tl.abs(value)
    elif OP == "fdiv":
        value = tl.fdiv(value, value + 1.0)
    elif OP == "div_rn":
        value = tl.div_rn(value, value + 1.0)
    elif OP == "erf":
        value = tl.erf(value)
    elif OP == "floor":
        value = tl.floor(value)
    elif OP == "ceil":
        value = tl.ceil(value)
    elif OP == "fma":
        value = tl.fma(value, value, value)
    elif OP == "clamp":
        value = tl.clamp(value, -1.0, 1.0)
    elif OP == "sigmoid":
        value = tl.sigmoid(value)
    elif OP == "softmax":
        value = tl.softmax(value)
    elif OP == "maximum":
        value = tl.maximum(value, 0.0, propagate_nan=tl.PropagateNan.ALL)
    elif OP == "minimum":
        value = tl.minimum(value, 0.0)
    tl.store(y + offsets, value)


@triton.jit
def _integer(x, y, OP: tl.constexpr):
    offsets = tl.arange(0, 256)
    value = tl.load(x + offsets)
    other = tl.load(x + 256 + offsets)
    if OP == "umulhi":
        value = tl.umulhi(value, other)
    elif OP == "divide":
        value = value // other + value % other
    elif OP == "shift":
        value = (value << 3) ^ (other >> 2)
    elif OP == "compare":
        value = tl.where(value < other, value, ~other)
    tl.store(y + offsets, value)


@triton.jit
def _libdevice_unary(x, y, OP: tl.constexpr):
    offsets = tl.arange(0, 256)
    tl.store(y + offsets, OP(tl.load(x + offsets)))


@triton.jit
def _libdevice_binary(x, y, OP: tl.constexpr):
    offsets = tl.arange(0, 256)
    value = tl.load(x + offsets)
    tl.store(y + offsets, OP(value, value + 1.0))


@triton.jit
def _assembly(x, y, TEXT: tl.constexpr):
    offsets = tl.arange(0, 256)
    value = tl.load(x + offsets)
    value = tl.inline_asm_elementwise(TEXT, "=r,r", [value], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(y + offsets, value)


@triton.jit
def _clock(y):
    tl.store(y, globaltimer())
    tl.store(y + 1, smid().to(tl.int64))


@triton.jit
def _grid_dependency(x, y):
    gdc_wait()
    offsets = tl.arange(0, 256)
    tl.store(y + offsets, tl.load(x + offsets))
    gdc_launch_dependents()


@triton.jit
def _print(x, n):
    offsets = tl.arange(0, 32)
    tl.device_print("value, in hex: ", tl.load(x + offsets), hex=True)
    tl.device_print('a "quoted" 100% \\ name; mov.u32 ', n)


@triton.jit
def _assert(x, n):
    offsets = tl.arange(0, 128)
    value = tl.load(x + offsets)
    tl.device_assert(value > 0, 'a value is "not" positive; ld.global')
    tl.store(x + offsets, value + n)


@triton.jit
def dot_kernel(a, b, c, K, PRECISION: tl.constexpr, OUT: tl.constexpr, SIZE: tl.constexpr):
    rows = tl.arange(0, SIZE)
    depth = tl.arange(0, 32)
    total = tl.zeros((SIZE, SIZE), OUT)
    for k in range(0, K, 32):
        left = tl.load(a + rows[:, None] * K + (k + depth)[None, :])
        right = tl.load(b + (k + depth)[:, None] * SIZE + rows[None, :])
        total = tl.dot(left, right, total, input_precision=PRECISION, out_dtype=OUT)
    tl.store(c + rows[:, None] * SIZE + rows[None, :], total)


@triton.jit
def _dot_scaled(a, scale, b, c):
    rows = tl.arange(0, 64)
    depth = tl.arange(0, 64)
    left = tl.load(a + rows[:, None] * 64 + depth[None, :])
    factor = tl.load(scale + rows[:, None] * 2 + tl.arange(0, 2)[None, :])
    right = tl.load(b + depth[:, None] * 64 + rows[None, :])
    total = tl.dot_scaled(left, factor, "e5m2", right, None, "bf16")
    tl.store(c + rows[:, None] * 64 + rows[None, :], total)


ASSEMBLY: dict[str, str] = {
    "one instruction": "shl.b32 $0, $1, 3;",
    "several instructions": "add.u32 $0, $1, 1; xor.b32 $0, $0, 0x55; shl.b32 $0, $0, 1;",
    "lines and comments": "// mov.u32 is not here\n\tadd.u32 $0, $1, 7; /* nor;\n add.u32 */\n",
    "block with registers": "{\n.reg .b32 t<2>;\n.reg .pred p;\nsetp.gt.s32 p, $1, 0;\n"
    "mov.b32 t0, 5;\n@p mov.b32 t0, 9;\n@!p add.u32 t0, t0, $1;\nmov.b32 $0, t0;\n}",
    "label and branch": "{\n.reg .pred q;\nsetp.eq.s32 q, $1, 0;\n@q bra ZERO_${:uid};\n"
    "mov.b32 $0, 1;\nbra.uni END_${:uid};\nZERO_${:uid}:\nmov.b32 $0, 2;\nEND_${:uid}:\n}",
    "vector operands": "{ .reg .b16 l, h; mov.b32 {l, h}, $1; mov.b32 $0, {h, l}; }",
    "mma.sync": "{ .reg .b32 d<4>;\nmma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
    "{d0,d1,d2,d3}, {$1,$1,$1,$1}, {$1,$1}, {d0,d1,d2,d3};\nmov.b32 $0, d0; }",
    "cp.async": "cp.async.wait_all; mov.b32 $0, $1;",
}

_LIBDEVICE_UNARY = """
    acos acosh asin asinh atan atanh cbrt ceil cos cosh cospi erf erfc erfcinv erfcx erfinv exp
    exp10 exp2 expm1 floor j0 j1 lgamma log log10 log1p log2 logb nearbyint normcdf normcdfinv
    rcbrt rint round rsqrt sin sinh sinpi sqrt tan tanh tgamma trunc y0 y1
"""
_LIBDEVICE_BINARY = "atan2 copysign div_rz fdim fmod hypot nextafter pow remainder"


def _memory() -> Iterator[Construct]:
    for kind in ("*fp32", "*fp16", "*i8", "*i64"):
        signature = {"x": kind, "y": kind, "n": "i32"}
        plain = {"CACHE": "", "EVICTION": "", "VOLATILE": False}
        yield Construct("load", f"masked {kind[1:]}", _load, signature, plain)
        name = f"masked {kind[1:]}, n aligned"
        yield Construct("load", name, _load, signature, plain, {}, ("n",))
    signature = {"x": "*fp32", "y": "*fp32", "n": "i32"}
    for cache in ("", ".ca", ".cg", ".cv"):
        for eviction in ("", "evict_first", "evict_last"):
            constants = {"CACHE": cache, "EVICTION": eviction, "VOLATILE": False}
            name = f"cache {cache or 'default'}, {eviction or 'no eviction policy'}"
            yield Construct("load", name, _load, signature, constants)
    volatile = {"CACHE": "", "EVICTION": "", "VOLATILE": True}
    yield Construct("load", "volatile", _load, signature, volatile)
    for cache in ("", ".wb", ".cg", ".cs", ".wt"):
        for eviction in ("", "evict_first", "evict_last"):
            constants = {"CACHE": cache, "EVICTION": eviction}
            name = f"cache {cache or 'default'}, {eviction or 'no eviction policy'}"
            yield Construct("store", name, _store, signature, constants)
    matrix = {"x": "*fp32", "y": "*fp32", "m": "i32", "n": "i32"}
    yield Construct("load", "block pointer", _block_pointer, matrix)
    yield Construct("load", "tensor descriptor", _descriptor, matrix, {}, {}, ("n",))


def _atomics() -> Iterator[Construct]:
    def one(operation: str, kind: str, sem: str, scope: str) -> Construct:
        signature = {"x": f"*{kind}", "y": f"*{kind}"}
        constants = {"OP": operation, "SEM": sem, "SCOPE": scope}
        name = f"{operation} {kind} {sem} {scope}"
        return Construct("atomic", name, _atomic, signature, constants)

    for kind in ("i32", "i64", "u32", "u64", "fp16", "bf16", "fp32", "fp64"):
        yield one("add", kind, "acq_rel", "gpu")
    for operation in ("max", "min"):
        for kind in ("i32", "u32", "i64", "u64", "fp32", "fp64"):
            yield one(operation, kind, "acq_rel", "gpu")
    for operation in ("and", "or", "xor"):
        for kind in ("i32", "i64"):
            yield one(operation, kind, "acq_rel", "gpu")
    for operation in ("xchg", "cas"):
        for kind in ("i32", "i64", "fp32"):
            yield one(operation, kind, "acq_rel", "gpu")
    for sem in ("relaxed", "acquire", "release", "acq_rel"):
        for scope in ("cta", "gpu", "sys"):
            for operation in ("add", "cas"):
                yield one(operation, "i32", sem, scope)
    yield Construct("atomic", "spin lock", _spin_lock, {"lock": "*i32", "x": "*fp32"})


def _collectives() -> Iterator[Construct]:
    for operation in ("sum", "max", "min", "argmax", "argmin", "product", "xor"):
        kinds = ("i32",) if operation == "xor" else ("fp32", "fp16", "i32")
        for kind in kinds:
            for axis in (0, 1):
                signature = {"x": f"*{kind}", "y": f"*{kind}", "index": "*i32"}
                name = f"{operation} {kind} axis {axis}"
                constants = {"OP": operation, "AXIS": axis}
                yield Construct("reduce", name, reduce_kernel, signature, constants)
    for operation in ("sum", "product", "associative"):
        for reverse in (False, True):
            constants = {"OP": operation, "REVERSE": reverse}
            name = f"{operation}{' reversed' if reverse else ''}"
            yield Construct("scan", name, _scan, {"x": "*fp32", "y": "*fp32"}, constants)
    for kind in ("fp32", "i32", "i16"):
        for descending in (False, True):
            name = f"{kind} {'descending' if descending else 'ascending'}"
            signature = {"x": f"*{kind}", "y": f"*{kind}"}
            yield Construct("sort", name, sort_kernel, signature, {"DESCENDING": descending})
    yield Construct("sort", "topk fp32", _topk, {"x": "*fp32", "y": "*fp32"})
    yield Construct("shape", "histogram", _histogram, {"x": "*i32", "y": "*i32"})
    yield Construct("shape", "gather", _gather, {"x": "*fp32", "index": "*i32", "y": "*fp32"})
    yield Construct("shape", "reshape, split, join", _shapes, {"x": "*fp32", "y": "*fp32"})
    signature = {"x": "*fp32", "y": "*fp32", "n": "i32"}
    yield Construct("control flow", "for, if, while", _control_flow, signature)


def _conversions() -> Iterator[Construct]:
    for source, (_, source_pointer) in FORMATS.items():
        for target, (kind, target_pointer) in FORMATS.items():
            if source == target:
                continue
            rounding = None
            if target in _FP8 and source in ("float16", "bfloat16", "float32", "float64"):
                rounding = "rtne"
            signature = {"x": source_pointer, "y": target_pointer}
            constants = {"TO": kind, "ROUNDING": rounding}
            yield Construct("convert", f"{source} to {target}", _convert, signature, constants)
    signature = {"x": "*fp32", "y": "*fp16"}
    constants = {"TO": tl.float16, "ROUNDING": "rtz"}
    yield Construct("convert", "float32 to float16, towards zero", _convert, signature, constants)
    yield Construct("convert", "bits of float32", _bitcast, {"x": "*fp32", "y": "*i32"})


def _arithmetic() -> Iterator[Construct]:
    for operation in ("rand", "randn", "randint", "randint4x"):
        kind = "*fp32" if operation in ("rand", "randn") else "*i32"
        signature = {"y": kind, "seed": "i32"}
        yield Construct("random", operation, _random, signature, {"OP": operation})
    operations = (
        "exp exp2 log log2 cos sin sqrt sqrt_rn rsqrt abs fdiv div_rn erf floor ceil fma clamp "
        "sigmoid softmax maximum minimum"
    )
    for operation in operations.split():
        signature = {"x": "*fp32", "y": "*fp32"}
        yield Construct("math", f"{operation} fp32", _math, signature, {"OP": operation})
    for operation in ("exp", "log", "cos", "sqrt", "fma", "floor"):
        signature = {"x": "*fp64", "y": "*fp64"}
        yield Construct("math", f"{operation} fp64", _math, signature, {"OP": operation})
    for operation in ("umulhi", "divide", "shift", "compare"):
        for kind in ("i32", "u32", "i64"):
            signature = {"x": f"*{kind}", "y": f"*{kind}"}
            yield Construct("math", f"{operation} {kind}", _integer, signature, {"OP": operation})
    for kind in ("fp32", "fp64"):
        signature = {"x": f"*{kind}", "y": f"*{kind}"}
        for name in _LIBDEVICE_UNARY.split():
            constants = {"OP": getattr(libdevice, name)}
            yield Construct("libdevice", f"{name} {kind}", _libdevice_unary, signature, constants)
        for name in _LIBDEVICE_BINARY.split():
            constants = {"OP": getattr(libdevice, name)}
            yield Construct("libdevice", f"{name} {kind}", _libdevice_binary, signature, constants)


def _others() -> Iterator[Construct]:
    for name, text in ASSEMBLY.items():
        signature = {"x": "*i32", "y": "*i32"}
        yield Construct("inline assembly", name, _assembly, signature, {"TEXT": text})
    yield Construct("inline assembly", "globaltimer, smid", _clock, {"y": "*i64"})
    signature = {"x": "*fp32", "y": "*fp32"}
    yield Construct("inline assembly", "grid dependency", _grid_dependency, signature)
    yield Construct("debug", "printf", _print, {"x": "*i32", "n": "i32"})
    signature = {"x": "*fp32", "n": "fp32"}
    yield Construct("debug", "assert", _assert, signature, {}, {"debug": True})


def _dots() -> Iterator[Construct]:
    kinds = [
        ("fp16", "fp32", None),
        ("fp16", "fp16", None),
        ("bf16", "fp32", None),
        ("fp32", "fp32", "tf32"),
        ("fp32", "fp32", "tf32x3"),
        ("fp32", "fp32", "ieee"),
        ("i8", "i32", None),
        ("fp8e5", "fp32", None),
        ("fp64", "fp64", "ieee"),
    ]
    types = {"fp32": tl.float32, "fp16": tl.float16, "i32": tl.int32, "fp64": tl.float64}
    for kind, out, precision in kinds:
        signature = {"a": f"*{kind}", "b": f"*{kind}", "c": f"*{out}", "K": "i32"}
        constants = {"PRECISION": precision, "OUT": types[out], "SIZE": 32}
        name = f"{kind} to {out}{', ' + precision if precision else ''}"
        yield Construct("dot", name, dot_kernel, signature, constants, {}, ("K",))
    signature = {"a": "*fp16", "b": "*fp16", "c": "*fp32", "K": "i32"}
    constants = {"PRECISION": None, "OUT": tl.float32, "SIZE": 64}
    for stages in (1, 2, 4):
        name = f"64x64 fp16, num_stages={stages}"
        options = {"num_stages": stages, "num_warps": 4}
        yield Construct("dot", name, dot_kernel, signature, constants, options, ("K",))
    signature = {"a": "*u8", "scale": "*u8", "b": "*bf16", "c": "*fp32"}
    yield Construct("dot", "scaled, fp8e5 by bf16", _dot_scaled, signature)


def constructs() -> list[Construct]:
    """All constructs, the demo's kernels first."""
    demo = [
        Construct("demo", k.name, k.fn, k.signature, k.constants, dict(k.options), k.aligned)
        for k in demo_kernels.KERNELS.values()
    ]
    generators = (_memory, _atomics, _collectives, _conversions, _arithmetic, _others, _dots)
    return demo + [construct for generate in generators for construct in generate()]
