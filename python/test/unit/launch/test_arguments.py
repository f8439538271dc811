"""Every kind of argument, byte for byte as the driver gets it."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from typing import Any

import pytest

INTEGERS = {f"{sign}{bits}": (sign, bits) for sign in "iu" for bits in (8, 16, 32, 64)}

CODE = """
import json, sys
from simulated import Kernel, outcome, report
nan, inf = float("nan"), float("inf")
kernels = {}
results = []
for type_, text in json.loads(sys.argv[1]):
    if type_ not in kernels:
        kernels[type_] = Kernel({"x": type_})
    results.append(outcome(lambda: kernels[type_](eval(text))))
report(results)
"""


def limits(sign: str, bits: int) -> tuple[int, int]:
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if sign == "i" else (0, (1 << bits) - 1)


def run_cases(launching: Callable[..., Any], cases: list[tuple[str, str]]) -> list[Any]:
    """The first parameter's bytes for each case that was launched, else [exception, text]."""
    session = launching(CODE, arguments=(json.dumps(cases),))
    values = iter(session.parameters())
    return [next(values)[0] if result == ["ok"] else result for result in session.report]


def test_integers_at_their_limits(launching: Callable[..., Any]) -> None:
    cases, expected = [], []
    for type_, (sign, bits) in INTEGERS.items():
        low, high = limits(sign, bits)
        for value in {low, low + 1, 0, 1, high - 1, high}:
            cases.append((type_, str(value)))
            expected.append(value.to_bytes(bits // 8, "little", signed=sign == "i").hex())
    for type_ in ("i1", "u1"):
        cases += [(type_, "True"), (type_, "False"), (type_, "1"), (type_, "0")]
        expected += ["01", "00", "01", "00"]
    assert run_cases(launching, cases) == expected


def test_integers_out_of_range(launching: Callable[..., Any]) -> None:
    cases = []
    for type_, (sign, bits) in INTEGERS.items():
        low, high = limits(sign, bits)
        cases += [(type_, str(low - 1)), (type_, str(high + 1)), (type_, str(1 << 100))]
    for type_ in ("i1", "u1"):
        cases += [(type_, "2"), (type_, "-1")]
    for (type_, value), result in zip(cases, run_cases(launching, cases), strict=True):
        assert result[0] == "OverflowError", (type_, value, result)
        assert "argument 'x' of kernel 'kernel'" in result[1]
        assert value in result[1]
        assert f"out of range for {type_}" in result[1]


def test_what_is_no_integer(launching: Callable[..., Any]) -> None:
    cases = [("i32", "1.5"), ("i32", "'1'"), ("u64", "None"), ("i1", "[]")]
    for (type_, _), result in zip(cases, run_cases(launching, cases), strict=True):
        assert result[0] == "TypeError"
        assert f"argument 'x' of kernel 'kernel' ({type_}) must be an integer" in result[1]


def test_index_is_asked(launching: Callable[..., Any]) -> None:
    index = "type('N', (), {'__index__': lambda self: %d})()"
    failing = "type('N', (), {'__index__': lambda self: 1 // 0})()"
    results = run_cases(
        launching,
        [
            ("i32", index % -7),
            ("u64", index % ((1 << 64) - 1)),
            ("i8", index % 200),
            ("i32", failing),
        ],
    )
    assert results[:2] == ["f9ffffff", "f" * 16]
    assert results[2][0] == "OverflowError"
    assert results[3][0] == "ZeroDivisionError"


FLOATS = (
    "0.0", "-0.0", "1.0", "-1.5", "0.1", "1/3", "65504.0", "6.1e-5", "5.96e-8", "2.9e-8",
    "3.1e-8", "2049.0", "2051.0", "1e-40", "3.4e38", "inf", "-inf", "nan", "7", "True",
)  # fmt: skip


def test_floats_round_as_triton_rounds(launching: Callable[..., Any]) -> None:
    cases, expected = [], []
    for text in FLOATS:
        value = float(eval(text, {"nan": math.nan, "inf": math.inf}))
        single = struct.pack("<f", value)
        packed = {"fp64": struct.pack("<d", value), "fp32": single, "f32": single}
        packed["bf16"] = single[2:]  # truncated, not rounded
        if abs(value) < 65520 or math.isinf(value) or math.isnan(value):
            packed["fp16"] = struct.pack("<e", value)
        for type_, data in packed.items():
            cases.append((type_, text))
            expected.append(data.hex())
    assert run_cases(launching, cases) == expected


def test_floats_too_large(launching: Callable[..., Any]) -> None:
    results = run_cases(
        launching,
        [
            ("fp32", "1e300"),
            ("fp32", "-1e300"),
            ("bf16", "1e300"),
            ("fp16", "65520.0"),
            ("fp16", "-1e300"),
            ("fp64", "10**400"),
        ],
    )
    assert results[:3] == ["0000807f", "000080ff", "807f"]
    for result in results[3:]:
        assert result[0] == "OverflowError"
        assert "argument 'x' of kernel 'kernel'" in result[1]


def test_what_is_no_number(launching: Callable[..., Any]) -> None:
    for result in run_cases(launching, [("fp32", "'1'"), ("fp16", "None")]):
        assert result[0] == "TypeError"
        assert "must be a number" in result[1]


def test_pointers(launching: Callable[..., Any]) -> None:
    session = launching(
        """
        from simulated import Kernel, Pointer, allocate, outcome, report
        kernel = Kernel({"a": "*fp32", "b": "*i8"}, name="add")
        device = allocate()
        cases = [(device, None), (Pointer(device), Pointer(0)), (2**64 - 1, 0),
                 (device + 64, True),
                 (1, Pointer(0x1000)), (Pointer(-1), 1), (-1, 1), (2**64, 1), (1.5, 1),
                 (Pointer("text"), 1), (Pointer(ValueError("no storage")), 1), (1, object())]
        report([device, [outcome(lambda: kernel(*case)) for case in cases]])
        """
    )
    device, results = session.report
    address = device.to_bytes(8, "little").hex()
    null = "00" * 8
    assert [values[:2] for values in session.parameters()] == [
        [address, null],
        [address, null],
        ["f" * 16, null],
        [(device + 64).to_bytes(8, "little").hex(), "01" + "00" * 7],
    ]
    assert results[:4] == [["ok"]] * 4
    host, *others = results[4:]
    assert host == [
        "ValueError",
        "Pointer argument (at 1) cannot be accessed from Triton (cpu tensor?): argument 'b' of "
        "kernel 'add' is in host memory",
    ]
    assert [error for error, _ in others] == [
        "OverflowError", "OverflowError", "OverflowError", "TypeError", "TypeError", "TypeError",
        "TypeError",
    ]  # fmt: skip
    for _, text in others:
        assert (
            "argument 'a' of kernel 'add'" in text
            or "argument 'b' (at 1) of" in text
            or ("argument 'a' (at 0) of kernel 'add'" in text)
        )
    assert "must be either uint64 or have data_ptr method" in others[3][1]
    assert "must return 64-bit int" in others[4][1]


def test_data_ptr_errors_are_kept_as_causes(launching: Callable[..., Any]) -> None:
    session = launching(
        """
        from simulated import Kernel, Pointer, report
        kernel = Kernel({"a": "*fp32"})
        try:
            kernel(Pointer(ValueError("no storage")))
        except TypeError as error:
            report(repr(error.__cause__))
        """
    )
    assert session.report == "ValueError('no storage')"


def test_tuples_and_constexprs(launching: Callable[..., Any]) -> None:
    session = launching(
        """
        from collections import namedtuple
        from simulated import Kernel, outcome, report
        kernel = Kernel({"a": "i32", "t": ("*fp32", ("constexpr", "i8"), (), "i64"),
                         "n": "constexpr", "z": "u16"})
        Named = namedtuple("Named", "p q r s")
        cases = [(1, (2, ("any", 3), (), 4), object(), 5),
                 (1, Named(2, [None, 3], (), 4), None, 5),
                 (1, (2, ("any", 3), ()), 0, 5), (1, 2, 0, 5), (1, (2, ("any", 3), (1,), 4), 0, 5),
                 (1, (2, ("any", 300), (), 4), 0, 5), (1, (Ellipsis, ("any", 3), (), 4), 0, 5)]
        report([outcome(lambda: kernel(*case)) for case in cases])
        """
    )
    flat = ["01000000", "02" + "00" * 7, "03", "04" + "00" * 7, "0500", "00" * 8, "00" * 8]
    assert session.parameters() == [flat, flat]
    assert session.report[:2] == [["ok"]] * 2
    assert session.report[2:] == [
        ["TypeError", "argument 't' of kernel 'kernel' must have 4 elements, not 3"],
        ["TypeError", "argument 't' of kernel 'kernel' must be a tuple, not int"],
        ["TypeError", "argument 't[2]' of kernel 'kernel' must have 0 elements, not 1"],
        ["OverflowError", "argument 't[1][1]' of kernel 'kernel': 300 is out of range for i8 "
         "(-128 to 127)"],
        ["TypeError", "Pointer argument must be either uint64 or have data_ptr method: argument "
         "'t[0]' (at 1) of kernel 'kernel' is of type ellipsis"],
    ]  # fmt: skip


def test_the_number_of_arguments(launching: Callable[..., Any]) -> None:
    session = launching(
        """
        from simulated import Kernel, outcome, report
        kernel = Kernel({"a": "i32", "b": "i32"}, name="two")
        report([outcome(lambda: kernel(1)), outcome(lambda: kernel(1, 2, 3)),
                outcome(lambda: kernel.launcher(1, 1)),
                outcome(lambda: kernel.launcher(1, 1, b=3)),
                outcome(lambda: kernel(1, 2, grid=(1, 1.5, 1))),
                outcome(lambda: kernel(1, 2, grid=(1, 1, -1))),
                outcome(lambda: kernel(1, 2, grid=(2**31, 1, 1))),
                outcome(lambda: kernel(1, 2, stream="s"))])
        """
    )
    names, texts = zip(*session.report, strict=True)
    assert names == (
        "TypeError", "TypeError", "TypeError", "TypeError", "TypeError", "OverflowError",
        "OverflowError", "TypeError",
    )  # fmt: skip
    assert texts[0] == "kernel 'two' takes 2 arguments, given 1"
    assert texts[1] == "kernel 'two' takes 2 arguments, given 3"
    assert "no keyword arguments" in texts[3]
    assert "gridY" in texts[4]
    assert "gridZ" in texts[5]
    assert not session.launches()


def test_an_unknown_type_names_the_argument(launching: Callable[..., Any]) -> None:
    session = launching(
        """
        from types import SimpleNamespace
        from simulated import Kernel, SIZES, outcome, report
        SIZES["fp8"] = 1
        report([outcome(lambda: Kernel({"a": "i32", "scale": "fp8"}, name="gemm")),
                outcome(lambda: Kernel({0: ("i32", "fp8")}, arg_names=["pair"], name="gemm"))])
        """
    )
    for (error, text), name in zip(session.report, ("scale", "pair[1]"), strict=True):
        assert error == "ValueError"
        assert "kernel 'gemm'" in text
        assert f"argument '{name}' has type 'fp8'" in text


def test_many_parameters(launching: Callable[..., Any]) -> None:
    session = launching(
        """
        from simulated import Kernel, report
        kernel = Kernel({f"a{i}": "i32" for i in range(300)})
        kernel(*range(300))
        report(None)
        """
    )
    (values,) = session.parameters()
    assert values[:300] == [i.to_bytes(4, "little").hex() for i in range(300)]


@pytest.mark.parametrize("padding", ["zero", "nan"])
def test_expanded_descriptors(launching: Callable[..., Any], padding: str) -> None:
    session = launching(
        """
        import sys
        from types import SimpleNamespace
        from simulated import Kernel, Pointer, allocate, outcome, report
        kernel = Kernel({"d": "tensordesc<fp16[16, 32]>", "n": "i32"}, name="load")
        base = allocate()
        def descriptor(**changes):
            fields = dict(base=Pointer(base), shape=[100, 200], strides=(200, 1),
                          padding=sys.argv[1])
            return SimpleNamespace(**{**fields, **changes})
        cases = [descriptor(), descriptor(shape=[1]), descriptor(shape=[2**31, 1]), object(),
                 descriptor(base=Pointer(0x1000)), descriptor(strides=("a", 1)),
                 descriptor(shape=7)]
        report([base, [outcome(lambda: kernel(case, 9)) for case in cases]])
        """,
        arguments=(padding,),
    )
    base, results = session.report
    shape = [value.to_bytes(8, "little").hex() for value in (100, 200)]
    strides = [value.to_bytes(8, "little").hex() for value in (200, 1)]
    assert session.parameters() == [
        [base.to_bytes(8, "little").hex(), *shape, *strides, "01" if padding == "nan" else "00",
         "64000000", "c8000000", *strides, "09000000", "00" * 8, "00" * 8]
    ]  # fmt: skip
    what = "argument 'd' of kernel 'load'"
    assert results == [
        ["ok"],
        ["ValueError", f"{what}: its shape has 1 dimensions, the kernel was compiled for 2"],
        ["OverflowError", f"{what}: shape[0]: 2147483648 is out of range for i32 (-2147483648 to "
         "2147483647)"],
        ["TypeError", f"{what} must be a tensor descriptor, not object"],
        ["ValueError", "Pointer argument (at 0) cannot be accessed from Triton (cpu tensor?): "
         f"{what} is in host memory"],
        ["TypeError", f"{what}: strides[0] (i64) must be an integer, not str"],
        ["TypeError", "'int' object is not iterable"],
    ]  # fmt: skip


def test_mapped_descriptors(launching: Callable[..., Any]) -> None:
    session = launching(
        """
        from types import SimpleNamespace
        from simulated import Kernel, Pointer, allocate, outcome, report
        meta = dict(swizzle=3, elem_size=2, elem_type=10, block_size=[16, 32], fp4_padded=False)
        kernel = Kernel({"d": "tensordesc<bf16[16, 32]>"}, tensordesc_meta=[meta])
        padded = Kernel({"d": "tensordesc<i8[16, 32]>"},
                        tensordesc_meta=[meta | {"fp4_padded": True}])
        wrong = Kernel({"d": "tensordesc<i8[16, 32]>"},
                       tensordesc_meta=[meta | {"block_size": [16]}])
        base = allocate()
        good = SimpleNamespace(base=Pointer(base), shape=(64, 96), strides=(96, 1),
                               padding="nan")
        sparse = SimpleNamespace(base=Pointer(base), shape=(64, 96), strides=(96, 2),
                                 padding="zero")
        askew = SimpleNamespace(base=Pointer(base + 8), shape=(64, 96), strides=(96, 1),
                                padding="zero")
        report([base, [outcome(lambda: k(d)) for k, d in
                       [(kernel, good), (padded, good), (kernel, sparse), (wrong, good),
                        (kernel, askew)]]])
        """,
        capability=(9, 0),
    )
    base, results = session.report
    plain, padded = session.parameters()
    tensor_map = bytes.fromhex(plain[0])
    assert len(tensor_map) == 128
    assert tensor_map[:4] == b"FLTM"
    # Element type bf16 is 10 on the device and 9 for the driver; rank, no interleave, swizzle 128,
    # promotion to 128 bytes, NaN outside.
    assert list(tensor_map[4:10]) == [9, 2, 0, 3, 2, 1]
    assert int.from_bytes(tensor_map[16:24], "little") == base
    strides = [value.to_bytes(8, "little").hex() for value in (96, 1)]
    assert plain[1:] == ["40000000", "60000000", *strides, "00" * 8, "00" * 8]
    assert padded[1:3] == ["40000000", "c0000000"]
    assert [result[0] for result in results] == [
        "ok", "ok", "ValueError", "ValueError", "DriverError",
    ]  # fmt: skip
    assert "must be contiguous" in results[2][1]
    assert "block of 1 dimensions" in results[3][1]
    assert "shape [64, 96]" in results[4][1]


def test_tensor_maps_made_by_hand(launching: Callable[..., Any]) -> None:
    session = launching(
        """
        from simulated import Kernel, allocate, driver, outcome, report
        kernel = Kernel({"m": "nvTmaDesc"})
        utils = driver.active.utils
        base = allocate()
        made = utils.fill_tma_descriptor(base, 0, 4, 7, [8, 16], [100, 200], [200, 1], 0)
        assert type(made) is utils.PyCUtensorMap
        report([made.bytes.hex(),
                [outcome(lambda: kernel(made)), outcome(lambda: kernel(3)),
                 outcome(type(made)),
                 outcome(lambda: utils.fill_tma_descriptor(base, 0, 4, 7, [8], [1, 2], [1], 0)),
                 outcome(lambda: utils.fill_tma_descriptor(base, 0, 4, 7, [1] * 6, [1] * 6,
                                                           [1] * 6, 0))]])
        """,
        capability=(9, 0),
    )
    made, results = session.report
    assert session.parameters()[0][0] == made
    assert [result[0] for result in results] == [
        "ok", "TypeError", "TypeError", "RuntimeError", "ValueError",
    ]  # fmt: skip
    assert "must be of type PyCUtensorMap" in results[1][1]
    assert "Rank mismatch" in results[3][1]
