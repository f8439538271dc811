"""Tensors: the quick way to their address, and that it never lets host memory through.

No torch with a device is needed: a type that answers as torch.Tensor would stands in for it.
"""

from __future__ import annotations

from collections.abc import Callable
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


TORCH_CASES = """
import torch
x = torch.arange(12.0)
class SubClass(torch.Tensor):
    pass
from torch._subclasses import FakeTensorMode
with FakeTensorMode():
    fake = torch.empty(4, device="cuda")
cases = {
    "plain": x, "view": x[3:], "parameter": torch.nn.Parameter(x),
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
