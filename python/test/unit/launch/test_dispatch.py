"""kernel[grid](...): the dispatch does what JITFunction.run would have done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from dispatch_kernels import KERNELS

pytest.importorskip("torch")


def test_equal_fingerprints_mean_equal_specializations(launching: Callable[..., Any]) -> None:
    """Over many calls: what Triton specializes on follows from the fingerprint."""
    session = launching(
        KERNELS
        + """
import itertools, warnings
warnings.simplefilter("ignore")
first()
storage = torch.empty(4096, dtype=torch.uint8)
dtypes = sorted({value for value in vars(torch).values() if isinstance(value, torch.dtype)},
                key=str)
tensors, numbers = [], []
for dtype in dtypes:
    for start in (0, 8):
        try:
            view = storage[start:start + 64].view(dtype)
        except Exception:
            continue
        tensors += [view, torch.nn.Parameter(view, requires_grad=False)]
for value in (0, 1, 2, 8, 15, 16, 17, 32, 100, 2**31, 2**32, 2**63, 2**64 - 16, 2**64):
    numbers += [value - 1, value, -value]
others = [True, False, None, 1.0, 0.5, float("nan"), -0.0, "text", tl.float16, tl.float32,
          tl.constexpr(4), tl.constexpr(5), (1, 2), plain]
mine, theirs = {}, 0
undecided = 0
def look(kernel, *args, **kwargs):
    global theirs, undecided
    words = launch.fingerprint(kernel, args, kwargs)
    binder = kernel.device_caches[0][4]
    try:
        _, specialization, options = binder(*args, **kwargs)
    except Exception as error:
        assert words is None or not isinstance(error, TypeError), (args, kwargs, error)
        return
    if words is None:
        undecided += 1
        return
    theirs += 1
    known = mine.setdefault((kernel.__name__, words), (str(specialization), str(options)))
    assert known == (str(specialization), str(options)), (args, kwargs, known)
for value in tensors + numbers + others:
    look(plain, value, 5, 1.0, 16)
    look(plain, null, value, 1.0, 16)
    look(plain, null, 5, value, 16)
    look(plain, null, 5, 1.0, value)
    look(plain, null, f=1.0, BLOCK=16, n=value)
    look(plain, null, 5, 1.0, 16, num_warps=value)
    look(plain, null, 5, 1.0, 16, other=value)
    look(defaults, null, value)
    look(defaults, null, flag=value)
    for position in range(7):
        args = [tensors[0], tensors[1], 3, 4, 1.0, True, 5]
        args[position] = value
        look(unspecialized, *args)
for pair in itertools.product(tensors[::3] + numbers[::3] + others, repeat=2):
    look(plain, null, *pair, 16)
look(plain); look(plain, 1); look(plain, 1, 2, 3, 4, 5); look(plain, 1, 2, 3, 4, n=5)
report([theirs, undecided, len(mine), len({str(t.dtype) for t in tensors})])
"""
    )
    decided, undecided, distinct, dtypes = session.report
    assert decided > 2000
    assert undecided > 100
    assert distinct > 100
    assert dtypes > 10


def test_what_is_launched(launching: Callable[..., Any]) -> None:
    session = launching(
        KERNELS
        + """
first()
def call(grid, *args, **kwargs):
    kernel = plain[grid](*args, **kwargs)
    return [kernel.metadata.num_warps, len(compiled)]
results = [
    call((1,), null, 1000, 2.5, 16), call((2, 3), null, 1001, 1.5, 16),
    call([4, 5, 6], null, 2000, 0.5, BLOCK=16), call((1,), f=3, x=null, BLOCK=16, n=40),
    call((1,), null, 1, 2.5, 16), call((1,), null, 1, 3.5, 16),
    call((1,), null, 2**40, 2.5, 16), call((1,), null, 999, 2.5, 32),
    call((1,), null, 1000, 2.5, 16, num_warps=8), call((1,), null, 1000, 4.5, 16, num_warps=8),
    call(lambda meta: (meta["n"] // meta["BLOCK"], 7), null, 1000, 2.5, 16),
    call(lambda meta: (meta.update(n=77), 1)[1:], null, 1000, 2.5, 16),
]
report(results)
"""
    )
    launches = session.launches()[1:]
    grids = [call.triple("grid") for call in launches]
    assert grids == [
        (1, 1, 1), (2, 3, 1), (4, 5, 6), (1, 1, 1), (1, 1, 1), (1, 1, 1), (1, 1, 1), (1, 1, 1),
        (1, 1, 1), (1, 1, 1), (62, 7, 1), (1, 1, 1),
    ]  # fmt: skip
    numbers = [int.from_bytes(call.parameters[1], "little") for call in launches]
    assert numbers[:3] == [1000, 1001, 2000]
    assert numbers[6:] == [2**40, 999, 1000, 1000, 1000, 77]
    # 1000 is known; 2000 is a multiple of 16, 3 an int in place of a float, 1 a constant, 2**40 an
    # i64, 32 another constant, 8 another option.
    assert [count for _, count in session.report] == [0, 0, 1, 2, 3, 3, 4, 5, 6, 6, 6, 6]
    assert [warps for warps, _ in session.report] == [4] * 8 + [8, 8, 4, 4]
    assert launches[8].triple("block") == (256, 1, 1)


def test_defaults_and_wrong_calls(launching: Callable[..., Any]) -> None:
    session = launching(
        KERNELS
        + """
first()
for _ in range(2):
    defaults[(1,)](whole)
    defaults[(1,)](whole, 18)
    defaults[(1,)](whole, n=19)
base = lambda *args, **kwargs: defaults.run(*args, grid=(1,), warmup=False, **kwargs)
wrong = [((), {}), ((whole, 1, True, 16, 4), {}), ((whole, 1), {"n": 2}),
         ((whole,), {"no_option": 1})]
report([[outcome(lambda: defaults[(1,)](*args, **kwargs)), outcome(lambda: base(*args, **kwargs))]
        for args, kwargs in wrong])
"""
    )
    numbers = [int.from_bytes(call.parameters[1], "little") for call in session.launches()[1:]]
    assert numbers == [17, 18, 19, 17, 18, 19]
    for ours, base in session.report:
        assert ours == base
        assert ours != ["ok"]


def test_an_integer_of_no_type_is_named(launching: Callable[..., Any]) -> None:
    """Triton's specializer refuses those before there is a launch, and without a name."""
    session = launching(
        KERNELS
        + """
@triton.jit
def pairs(x, items, n):
    tl.store(x, items[0] + items[1][0] + n)

first()
huge = 1 << 64
calls = [lambda: plain[(1,)](null, huge, 2.5, 16), lambda: plain[(1,)](null, f=2.5, BLOCK=16,
         n=-(1 << 63) - 1), lambda: pairs[(1,)](null, (3, (huge, 4)), 5),
         lambda: unspecialized[(1,)](null, null, 1, 1, 1 << 2000, True, 2)]
report([outcome(call) for call in calls])
"""
    )
    every = "is out of range for every integer type (-9223372036854775808 to 18446744073709551615)"
    assert session.report[:3] == [
        ["OverflowError", f"argument 'n' of kernel 'plain': 18446744073709551616 {every}"],
        ["OverflowError", f"argument 'n' of kernel 'plain': -9223372036854775809 {every}"],
        [
            "OverflowError",
            f"argument 'items[1][0]' of kernel 'pairs': 18446744073709551616 {every}",
        ],
    ]
    # What the launcher refuses is named by it.
    kind, text = session.report[3]
    assert kind == "OverflowError"
    assert text.startswith("argument 'f' of kernel 'unspecialized': ")
    assert text.endswith("is too large for fp16")


def test_hooks_run_and_get_metadata(launching: Callable[..., Any]) -> None:
    session = launching(
        KERNELS
        + """
first()
seen = []
def hook(metadata):
    data = metadata.get()
    seen.append([data["name"], data["function"] != 0, data["stream"]])
knobs.runtime.launch_enter_hook.add(hook)
kernel = plain[(1,)](null, 1000, 2.5, 16)
kernel[(1, 1, 1)](null, 1000, 2.5, 16)
knobs.runtime.launch_enter_hook.remove(hook)
knobs.runtime.launch_exit_hook.add(hook)
plain[(1,)](null, 1000, 2.5, 16)
knobs.runtime.launch_exit_hook.remove(hook)
plain.pre_run_hooks.append(lambda *args, **kwargs: seen.append(["pre", len(args)]))
plain[(1,)](null, 1000, 2.5, 16)
plain.pre_run_hooks.clear()
plain[(1,)](null, 1000, 2.5, 16)
report(seen)
"""
    )
    hooked = ["plain", True, 0]
    assert session.report == [hooked, hooked, hooked, ["pre", 4]]
    assert len(session.launches()) == 6


def test_changed_globals_are_noticed(
    launching: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_ALLOW_NON_CONSTEXPR_GLOBALS", "1")
    session = launching(
        KERNELS
        + """
first()
def both():
    return [outcome(lambda: uses_globals[(1,)](whole, 7)),
            outcome(lambda: uses_number[(1,)](whole, 7))]
results = [both(), both()]
GLOBAL, NUMBER = tl.constexpr(4), 6
results.append(both())
GLOBAL, NUMBER = tl.constexpr(3), 5
results.append(both())
report(results)
"""
    )
    ok = [["ok"], ["ok"]]
    before, again, changed, restored = session.report
    assert before == again == restored == ok
    for (error, text), name in zip(changed, ("GLOBAL", "NUMBER"), strict=True):
        assert error == "RuntimeError"
        assert f"Global variable {name} has changed since we compiled this kernel" in text


def test_what_is_replaced_by_hand_is_used(launching: Callable[..., Any]) -> None:
    session = launching(
        KERNELS
        + """
first()
call = lambda: plain[(1,)](null, 1000, 2.5, 16)
results = []
call()
results.append(len(compiled))
plain.device_caches.clear()
call(); call()
results.append(len(compiled))
for cache in plain.device_caches.values():
    cache[0].clear()
call(); call()
results.append(len(compiled))
knobs.runtime.debug = True
call(); call()
results.append(len(compiled))
knobs.runtime.debug = False
call()
results.append(len(compiled))
plain.run = lambda *args, grid, warmup, **kwargs: ["instance", len(args), grid]
results.append(call())
del plain.run
base = JITFunction.run
JITFunction.run = lambda self, *args, **kwargs: "class"
results.append(call())
JITFunction.run = base
results.append(type(call()).__name__)
class Mine(JITFunction):
    pass
mine = Mine(plain.fn)
results.append(type(mine[(1,)]).__name__)
report(results)
"""
    )
    assert session.report == [
        0, 1, 2, 3, 3, ["instance", 4, [1]], "class", "CompiledKernel", "function",
    ]  # fmt: skip


def test_each_device_has_its_kernels(launching: Callable[..., Any]) -> None:
    session = launching(
        KERNELS
        + """
import ctypes
first()
library = ctypes.CDLL("libcuda.so.1")
contexts = []
for number in range(2):
    context = ctypes.c_void_p()
    assert library.cuDevicePrimaryCtxRetain(ctypes.byref(context), number) == 0
    contexts.append(context)
kernels = []
for number in (0, 1, 0, 1):
    assert library.cuCtxSetCurrent(contexts[number]) == 0
    kernels.append(plain[(1,)](null, 1000, 2.5, 16))
report([kernels[0] is kernels[2], kernels[1] is kernels[3], kernels[0] is kernels[1]])
""",
        devices=2,
    )
    assert session.report == [True, True, False]
    assert [call.detail["device"] for call in session.launches()[1:]] == ["0", "1", "0", "1"]


def test_references_are_kept(launching: Callable[..., Any]) -> None:
    session = launching(
        KERNELS
        + """
first()
number, real, block = 10**9, 2.25, 16
grid = (1, 1)
options = {"num_warps": 4}
def fail(meta):
    raise KeyError
class Odd:
    pass
odd = Odd()
def calls():
    plain[grid](null, number, real, block)
    plain[grid](null, number, real, BLOCK=block, **options)
    plain[lambda meta: grid](null, number, real, block)
    for attempt in (lambda: plain[fail](null, number, real, block),
                    lambda: plain[()](null, number, real, block),
                    lambda: plain[grid](null, number),
                    lambda: plain[grid](null, 2**100, real, block),
                    lambda: plain[grid](odd, number, real, block)):
        try:
            attempt()
        except Exception:
            pass
    compiled_kernel[(1, 1, 1)](null, number, real, block)
    compiled_kernel[(1, 1, 1)](null, number, real, block, stream=0)
    try:
        compiled_kernel[(1,)](null, number, real, block)
    except IndexError:
        pass
compiled_kernel = plain[grid](null, number, real, block)
watched = [null, number, real, grid, odd, plain, compiled_kernel, compiled_kernel._run, fail,
           type(plain[grid]), type(compiled_kernel[grid]), options]
for _ in range(3):
    calls()
gc.collect()
before = [sys.getrefcount(value) for value in watched]
for _ in range(20):
    calls()
gc.collect()
after = [sys.getrefcount(value) for value in watched]
report([b - a for a, b in zip(before, after)])
"""
    )
    assert not any(session.report), session.report


def test_functions_can_be_collected(launching: Callable[..., Any]) -> None:
    session = launching(
        KERNELS
        + """
import weakref
first()
def make():
    function = JITFunction(plain.fn)
    function[(1,)](null, 1000, 2.5, 16)
    function[(1,)](null, 1000, 2.5, 16)
    assert hasattr(function, "_flagtree_dispatch_table")
    return weakref.ref(function)
alive = [make() for _ in range(3)]
gc.collect()
report([reference() is None for reference in alive])
"""
    )
    assert session.report == [True, True, True]


def test_it_can_be_switched_off(
    launching: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_PPU_DISPATCH", "0")
    session = launching(
        KERNELS
        + """
for _ in range(2):
    plain[(1,)](null, 1000, 2.5, 16)
report(type(plain[(1,)]).__name__)
"""
    )
    assert session.report == "function"
    assert len(session.launches()) == 2
