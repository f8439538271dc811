"""Tensors: the quick way to their address, and that it never lets host memory through.

No torch with a device is needed: a type that answers as torch.Tensor would stands in for it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

STAND_IN = """
import ctypes
from simulated import Kernel, Pointer, allocate, driver, outcome, report
from triton.backends.ppu._native import launch

class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32),
                ("index", ctypes.c_int32), ("rank", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p),
                ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64)]

Fill = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Tensor))

class Table(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32),
                ("previous", ctypes.c_void_p), ("unused", ctypes.c_void_p * 3), ("fill", Fill)]

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13

class StandIn:
    def __init__(self, address, device, offset=0):
        self.address, self.device, self.offset = address, device, offset
        self.asked = 0
    def data_ptr(self):
        self.asked += 1
        return self.address + self.offset
    @property
    def is_cuda(self):
        return self.device == CUDA

class SubClass(StandIn):
    pass

@Fill
def fill(tensor, out):
    if tensor.device is None:
        ctypes.pythonapi.PyErr_SetString(ctypes.py_object(TypeError), b"no such type")
        return -1
    out[0].data, out[0].device, out[0].offset = tensor.address, tensor.device, tensor.offset
    return 0

def offer(major, previous=None):
    table = Table(major, 3, ctypes.addressof(previous) if previous else None)
    table.fill = fill
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p,
                                                   ctypes.c_void_p]
    name = ctypes.create_string_buffer(b"dlpack_exchange_api")
    KEPT.extend([table, name])
    return new(ctypes.addressof(table), name, None)

KEPT = []
"""


def test_the_exchange_table_answers_for_plain_tensors(launching: Callable[..., Any]) -> None:
    session = launching(
        STAND_IN
        + """
StandIn.__dlpack_c_exchange_api__ = offer(1)
kernel = Kernel({"p": "*i32"}, name="k")
device = allocate()
launch.add_tensor_type(StandIn)
launch.add_tensor_type(StandIn)
tensors = [StandIn(device, CUDA), StandIn(device, CUDA_MANAGED), StandIn(device, CUDA, 64),
           StandIn(0, CPU), StandIn(device, CUDA_HOST),
           StandIn(0x1000, CPU), StandIn(0x1000, CUDA_HOST), StandIn(0x1000, 7),
           SubClass(0x1000, CUDA), StandIn(device, None), StandIn(0x1000, None)]
report([device, [outcome(lambda: kernel(tensor))[0] for tensor in tensors],
        [tensor.asked for tensor in tensors]])
"""
    )
    device, results, asked = session.report
    addresses = [device, device, device + 64, 0, device, device]
    assert [values[0] for values in session.parameters()] == [
        address.to_bytes(8, "little").hex() for address in addresses
    ]
    refused = ["ValueError"] * 4
    assert results == ["ok"] * 5 + refused + ["ok", "ValueError"]
    # data_ptr() is called only for a subclass and where the table has no answer.
    assert asked == [0] * 8 + [1, 1, 1]
    # The driver is asked about every address but null that its tensor does not place on a device.
    lookups = session.simulator.calls("cuPointerGetAttribute")
    assert len(lookups) == 7


@pytest.mark.parametrize(
    "attribute",
    ["None", "offer(2)", "offer(2, None)", "object()"],
)
def test_without_a_table_is_cuda_vouches(launching: Callable[..., Any], attribute: str) -> None:
    session = launching(
        STAND_IN
        + f"""
StandIn.__dlpack_c_exchange_api__ = {attribute}
launch.add_tensor_type(StandIn)
kernel = Kernel({{"p": "*i32"}}, name="k")
device = allocate()
tensors = [StandIn(device, CUDA), StandIn(device, CPU), StandIn(0x1000, CPU), StandIn(0, CPU)]
report([outcome(lambda: kernel(tensor))[0] for tensor in tensors]
       + [[tensor.asked for tensor in tensors]])
"""
    )
    assert session.report == ["ok", "ok", "ValueError", "ok", [1, 1, 1, 1]]
    assert len(session.simulator.calls("cuPointerGetAttribute")) == 2


def test_an_older_table_behind_a_newer_one(launching: Callable[..., Any]) -> None:
    session = launching(
        STAND_IN
        + """
offer(1)
StandIn.__dlpack_c_exchange_api__ = offer(2, KEPT[0])
launch.add_tensor_type(StandIn)
kernel = Kernel({"p": "*i32"}, name="k")
tensor = StandIn(allocate(), CUDA)
report([outcome(lambda: kernel(tensor)), tensor.asked])
"""
    )
    assert session.report == [["ok"], 0]


def test_tensor_types_are_types_and_few(launching: Callable[..., Any]) -> None:
    session = launching(
        STAND_IN
        + """
report([outcome(lambda: launch.add_tensor_type(3)),
        [outcome(lambda: launch.add_tensor_type(type(f"T{i}", (), {})))[0] for i in range(9)]])
"""
    )
    wrong, added = session.report
    assert wrong == ["TypeError", "a tensor type must be a type, not int"]
    assert added[0] == "ok"
    assert added[-1] == "ValueError"


# As much of torch's stable C functions as is used. What they get is the place of the word in a
# tensor's object that holds the address of its implementation: here a bytes object, that begins
# with the device's kind, the status to answer and the address.
STABLE_FUNCTIONS = """
#include <stdint.h>
struct implementation { char header[32]; int32_t kind, status; void *address; };
int32_t aoti_torch_device_type_cuda(void) { return 1; }
int32_t aoti_torch_get_device_type(struct implementation **tensor, int32_t *kind) {
  *kind = (*tensor)->kind;
  return 0;
}
int32_t aoti_torch_get_data_ptr(struct implementation **tensor, void **address) {
  *address = (*tensor)->address;
  return (*tensor)->status;
}
"""

STABLE_STAND_IN = """
import ctypes, struct, sys
from simulated import Kernel, allocate, outcome, report
from triton.backends.ppu._native import launch

ctypes.CDLL(sys.argv[1])
assert bytes.__basicsize__ - 1 == 32  # Where the contents begin.
CPU, CUDA = 0, 1

class Tensor:
    __slots__ = ("before", "implementation", "address", "is_cuda", "asked")
    def __init__(self, address, kind, told=None, status=0, vouches=None):
        told = address if told is None else told
        self.implementation = struct.pack("iiQ", kind, status, told)
        self.before = None
        self.address, self.asked = address, 0
        self.is_cuda = kind == CUDA if vouches is None else vouches
    @property
    def _cdata(self):
        return id(self.implementation)
    def data_ptr(self):
        self.asked += 1
        return self.address

launch.add_tensor_type(Tensor)
kernel = Kernel({"p": "*i32"}, name="k")
device = allocate()
def launched(*tensors):
    return [[outcome(lambda: kernel(tensor))[0] for tensor in tensors],
            [tensor.asked for tensor in tensors]]
"""


def test_torchs_stable_functions_answer_once_they_are_proven(
    launching: Callable[..., Any], compiled_library: Callable[[str, str], Path]
) -> None:
    session = launching(
        STABLE_STAND_IN
        + """
report([device, *launched(
    Tensor(device, CUDA),                  # Proves them, and is asked itself meanwhile.
    Tensor(device + 64, CUDA), Tensor(0, CUDA),
    Tensor(device, CUDA, status=1),        # They fail: the tensor is asked,
    Tensor(0x1000, CPU),                   # and about host memory the driver.
    Tensor(device + 128, CUDA))])
""",
        arguments=(str(compiled_library("libtorch_cpu.so", STABLE_FUNCTIONS)),),
    )
    device, results, asked = session.report
    assert results == ["ok"] * 4 + ["ValueError", "ok"]
    assert asked == [2, 0, 0, 1, 1, 0]
    addresses = [device, device + 64, 0, device, device + 128]
    assert [values[0] for values in session.parameters()] == [
        address.to_bytes(8, "little").hex() for address in addresses
    ]
    assert len(session.simulator.calls("cuPointerGetAttribute")) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        "Tensor(device, CUDA, told=device + 64)",
        "Tensor(device, CUDA, status=1)",
        "Tensor(device, CPU, vouches=True)",
        "Tensor(0, CUDA)",
    ],
)
def test_torchs_stable_functions_are_not_relied_on(
    launching: Callable[..., Any], compiled_library: Callable[[str, str], Path], wrong: str
) -> None:
    """Where they do not say what the tensor says; that is seen eight times before it is settled.
    Without an address there is nothing to compare."""
    session = launching(
        STABLE_STAND_IN
        + f"""
kinds = [{wrong} for _ in range(9)] + [Tensor(device, CUDA) for _ in range(2)]
report(launched(*kinds))
""",
        arguments=(str(compiled_library("libtorch_cpu.so", STABLE_FUNCTIONS)),),
    )
    results, asked = session.report
    assert results == ["ok"] * 11
    assert asked == [2] * 8 + [1] * 3


TORCH_CASES = """
import torch
x = torch.arange(12.0)
class SubClass(torch.Tensor):
    pass
from torch._subclasses import FakeTensorMode
with FakeTensorMode():
    fake = torch.empty(4, device="cuda")
# Its Python object dies and comes back: meanwhile the tensor in C++ holds it.
owner = torch.empty(12, requires_grad=True)
owner.grad = torch.ones(12)
cases = {
    "plain": x, "view": x[3:], "parameter": torch.nn.Parameter(x), "resurrected": owner.grad,
    "graph": (x * 1).requires_grad_(),
    "conj": torch.randn(4, dtype=torch.complex64).conj(), "neg": torch._neg_view(x),
    "copy on write": torch._lazy_clone(x), "bits": torch.empty(4, dtype=torch.bits8),
    "half": x.half(), "float8": x.to(torch.float8_e5m2), "subclass": x.as_subclass(SubClass),
    "empty": torch.empty(0), "zero": torch._efficientzerotensor(4), "fake": fake,
    "meta": torch.empty(4, device="meta"), "sparse": x.to_sparse(),
}
"""


def test_real_tensors(launching: Callable[..., Any]) -> None:
    pytest.importorskip("torch")
    session = launching(
        TORCH_CASES
        + """
from simulated import Kernel, outcome, report
kernel = Kernel({"p": "*i32"}, name="k")
report({name: outcome(lambda: kernel(tensor)) for name, tensor in cases.items()})
"""
    )
    null = {"empty", "zero", "fake", "meta"}
    for name, result in session.report.items():
        if name in null:
            assert result == ["ok"], name
        elif name == "sparse":
            assert result[0] == "TypeError", name
        else:
            assert result[0] == "ValueError", (name, result)
            assert (
                "Pointer argument (at 0) cannot be accessed from Triton (cpu tensor?)"
                in (result[1])
            )
    assert all(values[0] == "00" * 8 for values in session.parameters())


def test_the_table_agrees_with_data_ptr(run_python: Callable[..., Any]) -> None:
    """torch's table is trusted for the address: here is where that is checked."""
    torch = pytest.importorskip("torch")
    if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        pytest.skip("this torch has no exchange table")
    run_python(
        TORCH_CASES
        + """
import ctypes
pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
table = pointer(torch.Tensor.__dlpack_c_exchange_api__, b"dlpack_exchange_api")
assert ctypes.c_uint32.from_address(table).value == 1
fill = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(
    ctypes.c_void_p.from_address(table + 40).value)
assert torch._C._is_cow_tensor(cases["copy on write"])
answered = 0
for name, tensor in cases.items():
    out = (ctypes.c_uint64 * 6)()
    try:
        fill(tensor, out)
    except Exception:
        continue
    answered += 1
    assert out[0] + out[5] == tensor.data_ptr(), name
    assert out[1] & 0xFFFFFFFF == (2 if tensor.is_cuda else 1), name
assert answered >= 10, answered
assert not torch._C._is_cow_tensor(cases["copy on write"])
"""
    )


def test_torchs_stable_functions_agree_with_data_ptr(run_python: Callable[..., Any]) -> None:
    """The tensor inside the Python object is found by `_cdata`, and torch's functions are trusted
    for what they say of it: here is where that is checked."""
    pytest.importorskip("torch")
    run_python(
        TORCH_CASES
        + """
import ctypes, os
torch_cpu = os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so")
library = ctypes.CDLL(torch_cpu, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
def place(tensor):
    words = (ctypes.c_uint64 * (type(tensor).__basicsize__ // 8)).from_address(id(tensor))
    found = [8 * at for at in range(2, len(words)) if words[at] == tensor._cdata]
    assert found, type(tensor)
    return found[0]
answered = 0
for name, tensor in cases.items():
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or name == "sparse":
        continue
    assert place(tensor) == place(cases["plain"]), name
    handle, kind = ctypes.c_void_p(id(tensor) + place(tensor)), ctypes.c_int32(-1)
    assert library.aoti_torch_get_device_type(handle, ctypes.byref(kind)) == 0
    assert (kind.value == library.aoti_torch_device_type_cuda()) == tensor.is_cuda, name
    address = ctypes.c_void_p()
    assert library.aoti_torch_get_data_ptr(handle, ctypes.byref(address)) == 0
    assert (address.value or 0) == tensor.data_ptr(), name
    answered += 1
assert answered >= 10, answered
"""
    )
