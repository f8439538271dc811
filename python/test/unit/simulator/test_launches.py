"""Launches on the simulator: what is refused, and that what is accepted is in the log
byte for byte."""

import struct

import pytest

PRELUDE = """
import ctypes, sys
from flagtree_simulator.driver import Driver
d = Driver()
d.init()

def load(image):
    module = ctypes.c_void_p()
    return d.call("ModuleLoadData", ctypes.byref(module), image), module

def function(module, name=b"k"):
    found = ctypes.c_void_p()
    return d.call("ModuleGetFunction", ctypes.byref(found), module, name), found

def launch(f, values, grid=(1, 1, 1), block=(128, 1, 1), shared=0, stream=None):
    array = (ctypes.c_void_p * max(len(values), 1))(*[ctypes.addressof(v) for v in values])
    return d.call("LaunchKernel", f, *grid, *block, shared, stream, array, None)

def attribute(f, number):
    value = ctypes.c_int(-1)
    return d.call("FuncGetAttribute", ctypes.byref(value), number, f), value.value

KERNEL = b"flagtree-simulated-kernel 1\\narch 80\\nkernel k params=8,4,2,8,1 registers=40\\n"
"""


def test_parameters_are_recorded_byte_for_byte(simulator, run_python):
    sim = simulator()
    done = run_python(
        PRELUDE
        + """
d.use(0)
_, module = load(KERNEL)
_, f = function(module)
values = [ctypes.c_uint64(0x0123456789abcdef), ctypes.c_float(1.5), ctypes.c_int16(-2),
          ctypes.c_double(-0.25), ctypes.c_bool(True)]
print(launch(f, values, (3, 2, 1), (64, 2, 1), 1024))
""",
        sim.environment(),
    )
    assert done.stdout.split() == ["0"]
    (call,) = sim.calls("cuLaunchKernel")
    assert call.detail["kernel"] == "k"
    assert (call.triple("grid"), call.triple("block")) == ((3, 2, 1), (64, 2, 1))
    assert (call.detail["shared"], call.detail["stream"]) == ("1024", "0x0")
    assert call.parameters == [
        struct.pack("<Q", 0x0123456789ABCDEF),
        struct.pack("<f", 1.5),
        struct.pack("<h", -2),
        struct.pack("<d", -0.25),
        b"\x01",
    ]


def test_attributes_streams_and_the_packed_form(simulator, run_python):
    sim = simulator(capability=(9, 0))
    done = run_python(
        PRELUDE
        + """
class Attribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", ctypes.c_uint * 16)]
class Config(ctypes.Structure):
    _fields_ = [("dims", ctypes.c_uint * 6), ("shared", ctypes.c_uint),
                ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p),
                ("count", ctypes.c_uint)]
d.use(0)
_, module = load(KERNEL.replace(b"80", b"90"))
_, f = function(module)
stream = ctypes.c_void_p()
assert d.call("StreamCreate", ctypes.byref(stream), 1) == 0
attributes = (Attribute * 2)()
attributes[0].id, attributes[1].id = 4, 6
attributes[0].value[:3] = [2, 1, 1]
attributes[1].value[0] = 1
config = Config((4, 1, 1, 128, 1, 1), 0, stream, ctypes.addressof(attributes), 2)
buffer = bytes(range(33))
size, short = ctypes.c_size_t(len(buffer)), ctypes.c_size_t(24)
raw = ctypes.create_string_buffer(buffer, len(buffer))
def extra(size):
    return (ctypes.c_void_p * 5)(1, ctypes.addressof(raw), 2, ctypes.addressof(size), 0)
print(hex(stream.value), d.call("LaunchKernelEx", ctypes.byref(config), f, None, extra(size)),
      d.call("LaunchKernelEx", ctypes.byref(config), f, None, extra(short)))
attributes[0].value[0] = 3
print(d.call("LaunchKernelEx", ctypes.byref(config), f, None, extra(size)))
attributes[0].value[0] = 16
print(d.call("LaunchKernelEx", ctypes.byref(config), f, None, extra(size)))
""",
        sim.environment(),
    )
    stream, *results = done.stdout.split()
    assert results == ["0", "1", "1", "912"]
    call = sim.calls("cuLaunchKernelEx")[0]
    assert call.detail["stream"] == stream
    assert call.attributes == {4: struct.pack("<3I", 2, 1, 1), 6: struct.pack("<I", 1)}
    data = bytes(range(33))
    assert call.detail["buffer"] == "33"
    assert call.parameters == [data[:8], data[8:12], data[12:14], data[16:24], data[24:25]]


@pytest.mark.parametrize(
    ("change", "result"),
    [
        ("grid=(0, 1, 1)", 1),
        ("grid=(1, 65536, 1)", 1),
        ("block=(0, 1, 1)", 1),
        ("block=(1025, 1, 1)", 1),
        ("block=(512, 1, 1)", 701),
        ("shared=49153", 1),
        ("stream=ctypes.c_void_p(4096)", 400),
    ],
)
def test_launches_that_a_driver_refuses(simulator, run_python, change, result):
    done = run_python(
        PRELUDE
        + f"""
d.use(0)
_, module = load(KERNEL.replace(b"registers=40", b"max_threads=256"))
_, f = function(module)
values = [ctypes.c_uint64() for _ in range(5)]
assert launch(f, values) == 0
print(launch(f, values, {change}))
""",
        simulator().environment(),
    )
    assert done.stdout.split() == [str(result)]


def test_contexts_modules_and_functions_are_checked(simulator, run_python):
    done = run_python(
        PRELUDE
        + """
results = [load(KERNEL)[0]]
d.use(0)
results += [load(b"not an image")[0], load(KERNEL.replace(b"80", b"90"))[0]]
results += [load(KERNEL.replace(b"params=", b"parms="))[0]]
_, module = load(KERNEL)
results += [function(module, b"other")[0], function(ctypes.c_void_p(64))[0]]
_, f = function(module)
values = [ctypes.c_uint64() for _ in range(5)]
results += [attribute(f, 4), attribute(f, 0), d.call("FuncSetAttribute", f, 8, 166913),
            d.call("FuncSetAttribute", f, 8, 160000), launch(f, values, shared=160000)]
d.use(1)
results += [launch(f, values)]
d.call("CtxSetCurrent", None)
results += [launch(f, values)]
d.use(0)
results += [d.call("ModuleUnload", module), launch(f, values), d.call("ModuleUnload", module)]
print(results)
""",
        simulator(devices=2).environment(),
    )
    expected = [201, 200, 209, 200, 500, 400, (0, 40), (0, 1024), 1, 0, 0, 400, 201, 0, 400, 400]
    assert done.stdout.strip() == str(expected)


def test_memory_is_the_devices_and_pointers_are_told_apart(simulator, run_python):
    sim = simulator(memory_mib=1)
    done = run_python(
        PRELUDE
        + """
d.use(0)
p = ctypes.c_uint64()
size = ctypes.c_size_t(1000)
def about(pointer):
    found = ctypes.c_uint64(7)
    return (d.call("PointerGetAttribute", ctypes.byref(found), 3, ctypes.c_uint64(pointer)),
            found.value == pointer)
results = [d.call("MemAlloc_v2", ctypes.byref(p), size)]
host = ctypes.create_string_buffer(b"x" * 1000, 1000)
results += [d.call("MemcpyHtoD_v2", p, host, size)]
results += [d.call("MemsetD8_v2", p, 65, ctypes.c_size_t(3))]
back = ctypes.create_string_buffer(1000)
results += [d.call("MemcpyDtoH_v2", back, p, size), back.raw[:5], back.raw == b"AAA" + b"x" * 997]
results += [about(p.value), about(p.value + 999), about(p.value + 1000)]
results += [about(ctypes.addressof(host))]
results += [d.call("MemcpyHtoD_v2", ctypes.c_uint64(p.value + 1), host, size)]
results += [d.call("MemAlloc_v2", ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(1 << 20))]
results += [d.call("MemFree_v2", p), d.call("MemFree_v2", p), about(p.value)]
print(results)
""",
        sim.environment(),
    )
    copies = [0, 0, 0, 0, b"AAAxx", True]
    pointers = [(0, True), (0, True), (1, False), (1, False)]
    limits = [1, 2, 0, 1, (1, False)]
    assert done.stdout.strip() == str([*copies, *pointers, *limits])


def test_tensor_maps_hold_their_arguments(simulator, run_python):
    done = run_python(
        PRELUDE
        + """
raw = (ctypes.c_ubyte * 256)()
at = -ctypes.addressof(raw) % 64
def encode(offset, address, stride):
    return d.call("TensorMapEncodeTiled", ctypes.c_void_p(ctypes.addressof(raw) + offset), 6, 2,
        ctypes.c_void_p(address), (ctypes.c_uint64 * 2)(100, 50), (ctypes.c_uint64 * 1)(stride),
        (ctypes.c_uint32 * 2)(64, 32), (ctypes.c_uint32 * 2)(1, 1), 0, 3, 2, 1)
print(encode(at + 8, 4096, 208), encode(at, 4100, 208), encode(at, 4096, 200),
      encode(at, 4096, 208), bytes(raw[at:at + 128]).hex())
""",
        simulator(capability=(9, 0)).environment(),
    )
    *results, text = done.stdout.split()
    assert results == ["1", "1", "1", "0"]
    data = bytes.fromhex(text)
    assert data[:10] == b"FLTM\x06\x02\x00\x03\x02\x01"
    assert struct.unpack_from("<3Q", data, 16) == (4096, 100, 50)
    assert struct.unpack_from("<Q", data, 64) == (208,)
    assert struct.unpack_from("<2H", data, 96) == (64, 32)


COMPILE = """
import sys, triton, triton.language as tl
from triton.backends.compiler import GPUTarget

@triton.jit
def kernel(x, y, n, small, wide, scale, flag, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n) * scale + small + wide
    tl.store(y + i, value, mask=(i < n) & flag)

signature = {"x": "*fp32", "y": "*fp32", "n": "i32", "small": "i8", "wide": "i64",
             "scale": "fp32", "flag": "i1", "BLOCK": "constexpr"}
source = triton.compiler.ASTSource(kernel, signature, {(7,): 256})
compiled = triton.compile(source, target=GPUTarget("cuda", 80, 32))
open(sys.argv[1], "wb").write(compiled.asm["cubin"])
"""


def test_a_compiled_cubin_is_loaded_and_launched(simulator, run_python, tmp_path):
    pytest.importorskip("triton")
    cubin = tmp_path / "kernel.cubin"
    sim = simulator()
    run_python(COMPILE, sim.environment(), arguments=(str(cubin),))
    assert sim.calls() == []
    done = run_python(
        PRELUDE
        + """
d.use(0)
result, module = load(open(sys.argv[1], "rb").read())
_, f = function(module, b"kernel")
values = [ctypes.c_uint64(1 << 40), ctypes.c_uint64(2 << 40), ctypes.c_int32(-5),
          ctypes.c_int8(-128), ctypes.c_int64(-1), ctypes.c_float(0.5), ctypes.c_int8(1),
          ctypes.c_uint64(0), ctypes.c_uint64(3 << 40)]
print(result, attribute(f, 0)[1], attribute(f, 4)[1] > 0, attribute(f, 3)[1],
      launch(f, values), launch(f, values, block=(256, 1, 1)))
""",
        sim.environment(),
        arguments=(str(cubin),),
    )
    # A block of four warps, as compiled, and no larger one; nothing spilled.
    assert done.stdout.split() == ["0", "128", "True", "0", "0", "701"]
    call = sim.calls("cuLaunchKernel")[0]
    assert call.detail["kernel"] == "kernel"
    assert b"".join(call.parameters) == struct.pack(
        "<QQibqfbQQ", 1 << 40, 2 << 40, -5, -128, -1, 0.5, 1, 0, 3 << 40
    )
    assert [len(parameter) for parameter in call.parameters] == [8, 8, 4, 1, 8, 4, 1, 8, 8]
