"""kernel[grid](...) under hostile use: it launches nothing that JITFunction.run would not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from dispatch_kernels import KERNELS

pytest.importorskip("torch")


@pytest.mark.parametrize("name", ["run", "__getitem__", "launch_metadata"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_wrapped_methods_are_called(launching: Callable[..., Any], name: str, when: str) -> None:
    """A method of the base that somebody wraps, whenever that is, runs at every launch."""
    session = launching(
        KERNELS
        + """
import functools
from triton.compiler import CompiledKernel
from triton.runtime.jit import KernelInterface
name, when = sys.argv[1:]
seen = []
if when == "after":
    first()
    plain[(1,)](null, 1000, 2.5, 16)
owner = {"run": JITFunction, "__getitem__": KernelInterface, "launch_metadata": CompiledKernel}
base = getattr(owner[name], name)
@functools.wraps(base)
def wrapper(*args, **kwargs):
    seen.append(name)
    return base(*args, **kwargs)
setattr(owner[name], name, wrapper)
counts = []
for _ in range(3):
    plain[(1,)](null, 1000, 2.5, 16)
    counts.append(len(seen))
setattr(owner[name], name, base)
plain[(1,)](null, 1000, 2.5, 16)
report([counts, len(seen)])
""",
        arguments=(name, when),
    )
    assert session.report == [[1, 2, 3], 3]


def test_a_replaced_launcher_is_used(launching: Callable[..., Any]) -> None:
    """The compiled kernel's own launcher, function and CompiledKernel.run can be exchanged."""
    session = launching(
        KERNELS
        + """
from triton.compiler import CompiledKernel
first()
call = lambda: plain[(1,)](null, 1000, 2.5, 16)
compiled_kernel = call()
direct = compiled_kernel[(1, 1, 1)]
results = []
launcher = compiled_kernel._run
compiled_kernel._run = lambda *args: results.append("instance")
call()
direct(null, 1000, 2.5, 16)
compiled_kernel._run = launcher
call()
base = CompiledKernel.run
CompiledKernel.run = property(lambda self: lambda *args: results.append("class"))
call()
CompiledKernel.run = base
function = compiled_kernel.function
compiled_kernel.function = 0
results.append(outcome(call)[0])
compiled_kernel.function = function
packed = compiled_kernel.packed_metadata
compiled_kernel.packed_metadata = (2, 1, 0)
call()
compiled_kernel.packed_metadata = packed
call()
report(results)
"""
    )
    assert session.report == ["instance", "instance", "class", "DriverError"]
    warps = [call.triple("block")[0] // 32 for call in session.launches() if call.result == 0]
    assert warps == [4, 4, 4, 2, 4]


def test_parameters_named_as_what_run_sets(launching: Callable[..., Any]) -> None:
    """Triton's run puts `debug` and `instrumentation_mode` into the keywords of every call."""
    session = launching(
        KERNELS
        + """
@triton.jit
def named_debug(x, debug):
    tl.store(x, debug)

@triton.jit
def with_default(x, debug=7):
    tl.store(x, debug)

@triton.jit
def named_self(x, self):
    tl.store(x, self)

@triton.jit
def named_grid(x, grid, warmup):
    tl.store(x, grid + warmup)

@triton.jit
def named_mode(x, instrumentation_mode: tl.constexpr = "none"):
    tl.store(x, 1)

first()
calls = [(named_debug, (whole,), {"debug": 5}), (named_debug, (whole,), {"debug": 0}),
         (named_debug, (whole, 5), {}), (named_debug, (whole,), {}),
         (with_default, (whole,), {}), (with_default, (whole,), {"debug": 0}),
         (with_default, (whole,), {"debug": 3}), (with_default, (whole, 5), {}),
         (named_self, (whole, 5), {}), (named_self, (whole,), {"self": 5}),
         (named_grid, (whole, 5, 6), {}), (named_grid, (whole,), {"grid": 5, "warmup": 6}),
         (named_mode, (whole,), {}), (named_mode, (whole, "text"), {})]
base = triton.runtime.jit.KernelInterface.__getitem__
results = []
for kernel, args, kwargs in calls:
    answers = []
    for launch_it in (base(kernel, (1,)), kernel[(1,)], kernel[(1,)], base(kernel, (1,))):
        try:
            answers.append(id(launch_it(*args, **kwargs)))
        except Exception as error:
            answers.append(type(error).__name__)
    results.append(answers)
report(results)
"""
    )
    for answers in session.report:
        assert len(set(answers)) == 1, session.report
    numbers = [call.parameters[1:-2] for call in session.launches()[1:] if call.result == 0]
    assert len(numbers) % 4 == 0
    for start in range(0, len(numbers), 4):
        assert len(set(map(tuple, numbers[start : start + 4]))) == 1, numbers


def test_what_a_grid_function_does_to_its_arguments(launching: Callable[..., Any]) -> None:
    """Triton passes on whatever is in the dictionary afterwards, in its order."""
    session = launching(
        KERNELS
        + """
@triton.jit
def two(x, a, b):
    tl.store(x, a - b)
first()
two[(1,)](whole, 5, 7)
def reorder(meta):
    meta["a"] = meta.pop("a")
    return (1,)
def surplus(meta):
    meta["more"] = 1
    return (1,)
def remove(meta):
    del meta["b"]
    return (1,)
def same(meta):
    meta["a"], meta["b"] = 70, 80
    return (1,)
report([[outcome(lambda: two[grid](whole, 5, 7))[0],
         outcome(lambda: two.run(whole, 5, 7, grid=grid, warmup=False))[0]]
        for grid in (reorder, surplus, remove, same)])
"""
    )
    for ours, base in session.report:
        assert ours == base
    numbers = [
        [int.from_bytes(value, "little") for value in call.parameters[1:3]]
        for call in session.launches()[2:]
    ]
    assert numbers == [[7, 5], [7, 5], [70, 80], [70, 80]]


@pytest.mark.parametrize("grid", ["None", "5", "()", "(1, 2, 3, 4)", "(0,)", "(-1,)", "(1.0,)",
                                  "('1',)", "[]", "{0: 1}", "'abc'", "lambda meta: None",
                                  "lambda meta: 3", "lambda meta: {0: 4, 1: 2}", "Odd()",
                                  "(True,)", "torch.ones(2, dtype=torch.int32)", "(None,)",
                                  "(2**40,)", "lambda meta: 1 / 0", "Small((2, 3))"])  # fmt: skip
def test_odd_grids(launching: Callable[..., Any], grid: str) -> None:
    """A grid that Triton takes launches the same blocks; one that it refuses is refused."""
    session = launching(
        KERNELS
        + f"""
class Odd:
    def __len__(self):
        raise KeyError("no length")
    def __getitem__(self, index):
        return 1
class Small(tuple):
    def __len__(self):
        return 1
first()
grid = {grid}
ours = outcome(lambda: plain[grid](null, 1000, 2.5, 16))
base = outcome(lambda: plain.run(null, 1000, 2.5, 16, grid=grid, warmup=False))
report([ours, base])
"""
    )
    ours, base = session.report
    assert ours[0] == base[0], session.report
    launches = session.launches()[1:]
    assert len(launches) in (0, 2)
    assert len({call.triple("grid") for call in launches}) <= 1


def test_parameters_are_read_anew(launching: Callable[..., Any]) -> None:
    """A function that is made anew in place does not keep what was known of its parameters."""
    session = launching(
        KERNELS
        + """
import copy
@triton.jit
def constant(x, n, f, BLOCK: tl.constexpr, MORE: tl.constexpr = 1):
    tl.store(x, n + BLOCK + MORE)
@triton.jit
def number(x, n: tl.constexpr, f, BLOCK):
    tl.store(x, n + BLOCK)
first()
again = JITFunction(plain.fn)
again[(1,)](null, 1000, 2.5, 16)
again.__init__(number.fn)
kernels = [again[(1,)](whole, n, 2.5, 16) for n in (48, 64, 48, 64)]
again.__init__(constant.fn)
more = [again[(1,)](whole, 3, 2.5, 16, MORE=value) for value in (2, 3, 2, 3)]
twin = copy.copy(plain)
twin.__init__(number.fn)
twins = [twin[(1,)](whole, n, 2.5, 16) for n in (48, 64, 48, 64)]
report([[list(map(id, k))[:2] == list(map(id, k))[2:], k[0] is k[1]]
        for k in (kernels, more, twins)])
"""
    )
    assert session.report == [[True, False]] * 3


def test_defaults_of_any_kind(launching: Callable[..., Any]) -> None:
    """A default value that cannot be compared is none of the dispatch's business."""
    session = launching(
        KERNELS
        + """
class Awkward:
    def __eq__(self, other):
        raise RuntimeError("compared")
    __ne__ = __eq__
    def __hash__(self):
        return 1
    def __repr__(self):
        return "Awkward"
AWKWARD = Awkward()
@triton.jit
def awkward(x, n, unused: tl.constexpr = AWKWARD):
    tl.store(x, n)
first()
base = lambda value: awkward.run(whole, 5, value, grid=(1,), warmup=False)
report([outcome(lambda: base(1)), outcome(lambda: awkward[(1,)](whole, 5, 1)),
        outcome(lambda: awkward[(1,)](whole, 5, 1))])
"""
    )
    assert session.report == [["ok"]] * 3


def test_globals_that_compare_oddly(
    launching: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changed global is an error even where the new value is not a number or cannot compare."""
    monkeypatch.setenv("TRITON_ALLOW_NON_CONSTEXPR_GLOBALS", "1")
    session = launching(
        KERNELS
        + """
class Raising:
    def __ne__(self, other):
        raise ValueError("compared")
    __eq__ = __ne__
class Never:
    def __ne__(self, other):
        return False
first()
call = lambda: uses_number[(1,)](whole, 7)
base = lambda: uses_number.run(whole, 7, grid=(1,), warmup=False)
call(); call()
results = []
for NUMBER in (float("nan"), 5.0, True, None, Raising(), Never(), torch.ones(3), [5], "5",
               tl.constexpr(5), tl.constexpr(6), int, print):
    results.append([outcome(base), outcome(call), outcome(call)])
del NUMBER
results.append([outcome(base), outcome(call), outcome(call)])
NUMBER = 5
results.append([outcome(base), outcome(call), outcome(call)])
# What Triton compares is not the same as itself.
(key, (_, names)), = uses_number.used_global_vals.items()
NUMBER = float("nan")
uses_number.used_global_vals = {key: (NUMBER, names)}
results.append([outcome(base), outcome(call), outcome(call)])
report([[[answer[0] for answer in row], row] for row in results])
"""
    )
    kinds = []
    for (base, ours, again), row in session.report:
        assert base == ours == again, row
        kinds.append(base)
    assert "RuntimeError" in kinds and "ValueError" in kinds
    assert kinds[-2:] == ["ok", "RuntimeError"]


def test_constants_that_are_equal_but_not_the_same(launching: Callable[..., Any]) -> None:
    """Whichever of True, 1 and 1.0 comes first, the dispatch finds the kernel that Triton finds."""
    session = launching(
        KERNELS
        + """
import enum, numpy as np
from collections import namedtuple
class Level(enum.IntEnum):
    ONE = 1
class Text(str):
    pass
class Real(float):
    pass
class Count(int):
    pass
Pair = namedtuple("Pair", "a b")
first()
base = triton.runtime.jit.KernelInterface.__getitem__
values = [1, True, 1.0, tl.constexpr(1), Level.ONE, np.int64(1), np.float64(1.0), np.bool_(True),
          0, False, 0.0, -0.0, tl.constexpr(0), None, "1", Text("1"), "", float("nan"),
          float("nan"), Real(1.0), Count(1), (1, 2), (True, 2), Pair(1, 2), tl.float32, tl.float16,
          2**70, "\\ud800", "a\\0b", "a", b"a", 1j, frozenset()]
@triton.jit
def constant(x, n, VALUE: tl.constexpr):
    tl.store(x, n)
def number(kernel, value):
    try:
        return id(kernel(whole, 5, value))
    except Exception as error:
        return type(error).__name__
results = []
for order in (values, values[::-1]):
    mine, theirs = JITFunction(constant.fn), JITFunction(constant.fn)
    groups = []
    for _ in range(2):
        a = [number(mine[(1,)], value) for value in order]
        b = [number(base(theirs, (1,)), value) for value in order]
        groups.append([[a.index(x) for x in a], [b.index(x) for x in b]])
    results.append(groups)
report(results)
"""
    )
    for groups in session.report:
        for ours, base in groups:
            assert ours == base


def test_arguments_of_any_class(launching: Callable[..., Any]) -> None:
    """Subclasses, numpy scalars, tuples, descriptors, odd data_ptr: as Triton takes them."""
    session = launching(
        KERNELS
        + """
import numpy as np
from collections import namedtuple
from triton.tools.tensor_descriptor import TensorDescriptor
class Count(int):
    pass
class Real(float):
    pass
class Own(torch.Tensor):
    pass
class Pointer:
    dtype = torch.float32
    def __init__(self, address):
        self.address = address
    def data_ptr(self):
        return self.address
class Meta(type):
    def __eq__(self, other):
        raise RuntimeError("type compared")
    __hash__ = type.__hash__
class Hostile(metaclass=Meta):
    def __getattr__(self, name):
        raise RuntimeError(name)
Pair = namedtuple("Pair", "a b")
first()
base = triton.runtime.jit.KernelInterface.__getitem__
@triton.jit
def anything(x, value):
    tl.store(x, 1.0)
values = [1, 2, 16, 17, True, False, None, Count(1), Count(16), Real(2.5), 2.5, np.int32(16),
          np.int64(16), np.float32(1.5), np.bool_(True), (1, 2), (16, 2), (1.0, 2), Pair(1, 2),
          Pair(2, 16), [1, 2], 0, -1, 2**31, 2**63, -2**63, "text",
          null, whole, null.to(torch.float64), torch.empty(0, dtype=torch.bool),
          Own(), torch.empty(0, device="meta"), torch.empty(0).conj(),
          torch.empty(0, dtype=torch.complex64).conj(), torch.empty(0).to_sparse(),
          torch.nn.Parameter(null), Pointer(0), Pointer(16), Pointer(8), tl.constexpr(4),
          tl.float32, plain, Hostile(), Hostile, np.zeros(0), float("nan"), float("inf"), (), ((),),
          TensorDescriptor(torch.empty(256), [16, 16], [16, 1], [16, 16])]
def number(kernel, value):
    try:
        return id(kernel(null, value))
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:60]}"
import warnings
warnings.simplefilter("ignore")
results = []
for order in (values, values[::-1]):
    mine, theirs = JITFunction(anything.fn), JITFunction(anything.fn)
    for _ in range(2):
        a = [number(mine[(1,)], value) for value in order]
        b = [number(base(theirs, (1,)), value) for value in order]
        results.append([[x if isinstance(x, str) else a.index(x) for x in a],
                        [x if isinstance(x, str) else b.index(x) for x in b]])
report(results)
"""
    )
    for ours, base in session.report:
        assert ours == base


def test_endless_recursion_is_an_exception(launching: Callable[..., Any]) -> None:
    """A grid function or a hook that launches the same kernel again, also on a small stack."""
    session = launching(
        KERNELS
        + """
import threading
first()
def again(meta):
    return plain[again](null, 1000, 2.5, 16)
answers = [outcome(lambda: plain[again](null, 1000, 2.5, 16))[0]]
def hook(metadata):
    plain[(1,)](null, 1000, 2.5, 16)
knobs.runtime.launch_enter_hook.add(hook)
answers.append(outcome(lambda: plain[(1,)](null, 1000, 2.5, 16))[0])
knobs.runtime.launch_enter_hook.remove(hook)
threading.stack_size(2 * 1024 * 1024)
worker = threading.Thread(target=lambda: answers.append(
    outcome(lambda: plain[again](null, 1000, 2.5, 16))[0]))
worker.start(); worker.join()
report(answers)
"""
    )
    assert session.report == ["RecursionError"] * 3


def test_many_kinds_of_calls_while_forgetting(launching: Callable[..., Any]) -> None:
    """More kinds of calls than are remembered, with code that runs when they are dropped."""
    session = launching(
        KERNELS
        + """
import weakref
@triton.jit
def constant(x, n, VALUE: tl.constexpr):
    tl.store(x, n)
first()
one = constant[(1,)](whole, 5, 1)
cache = constant.device_caches[0]
import copy, random
random.seed(1)
runs = []
def again():
    runs.append(1)
    constant[(1,)](whole, 5, random.randrange(9000))
    if len(runs) % 1000 == 0:
        gc.collect()
def compile_fast(self, key, *args, **kwargs):
    twin = copy.copy(one)
    weakref.finalize(twin, again)
    self.device_caches[0][0][key] = twin
    return twin
JITFunction._do_compile = compile_fast
for value in range(4500):
    constant[(1,)](whole, 5, value)
    if value % 500 == 0:
        cache[0].clear()
report(len(runs) > 10)
""",
    )
    assert session.report is True


def test_threads_launch_the_same_kernel_first(launching: Callable[..., Any]) -> None:
    """Many threads meet at the first launch; caches are cleared meanwhile."""
    session = launching(
        KERNELS
        + """
import threading
sys.setswitchinterval(1e-6)
barrier = threading.Barrier(9)
failures = []
def work(number):
    barrier.wait()
    try:
        for turn in range(150):
            n = 16 * (turn % 3) + number % 2
            kernel = plain[(1 + number,)](null, n + 1000, 2.5, 16, num_warps=4)
            assert kernel.metadata.num_warps == 4
    except BaseException as error:
        failures.append(repr(error))
threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
for thread in threads:
    thread.start()
barrier.wait()
for _ in range(20):
    for cache in list(plain.device_caches.values()):
        cache[0].clear()
    gc.collect()
for thread in threads:
    thread.join()
report(failures)
"""
    )
    assert session.report == []
    assert len(session.launches()) == 8 * 150


def test_forked_child_is_told(launching: Callable[..., Any]) -> None:
    """A kernel that the parent launched is known in the child, and cannot be launched there."""
    session = launching(
        KERNELS
        + """
import os, pickle
first()
call = lambda: plain[(1,)](null, 1000, 2.5, 16)
compiled_kernel = call()
reader, writer = os.pipe()
if os.fork() == 0:
    direct = compiled_kernel[(1, 1, 1)]
    results = [outcome(call)[0], outcome(lambda: direct(null, 1000, 2.5, 16))[0],
               outcome(lambda: plain[(1,)](null, 3, 2.5, 16))[0]]
    if os.fork() == 0:
        os.write(writer, pickle.dumps(results + [outcome(call)[0]]))
        os._exit(0)
    os.wait()
    os._exit(0)
os.wait()
call()
report(pickle.loads(os.read(reader, 10000)))
"""
    )
    assert session.report == ["ForkedDriverError"] * 4
    assert len(session.launches()) == 3


def test_other_driver_and_async_compilation(launching: Callable[..., Any]) -> None:
    """The active driver is asked at every call, and a kernel still being compiled is waited for."""
    session = launching(
        KERNELS
        + """
from concurrent.futures import ThreadPoolExecutor
first()
real = driver.active
class Other:
    asked = 0
    def __getattr__(self, name):
        return getattr(real, name)
    def get_current_device(self):
        Other.asked += 1
        return real.get_current_device()
    def get_current_stream(self, device):
        return 0x77
driver.set_active(Other())
results = []
results.append(outcome(lambda: plain[(1,)](null, 1000, 2.5, 16)))
driver.reset_active()
results.append(Other.asked > 0)
with triton.AsyncCompileMode(ThreadPoolExecutor(1)):
    kernels = [defaults[(1,)](whole) for _ in range(3)]
kernels += [defaults[(1,)](whole) for _ in range(2)]
results.append(len({id(kernel) for kernel in kernels}))
results.append([type(kernel).__name__ for kernel in kernels])
report(results)
"""
    )
    assert session.report[1] is True
    assert session.report[2:] == [1, ["CompiledKernel"] * 5]


def test_wrappers_and_warmup(launching: Callable[..., Any]) -> None:
    session = launching(
        KERNELS
        + """
first()
@triton.autotune([triton.Config({"BLOCK": 16}, num_warps=4), triton.Config({"BLOCK": 32})],
                 key=["n"], do_bench=lambda call, quantiles=None: (call(), [1.0, 1.0, 1.0])[1])
@triton.heuristics({"EVEN": lambda args: args["n"] % 2 == 0})
@triton.jit
def tuned(x, n, EVEN: tl.constexpr, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), n + EVEN)
a = tuned[lambda meta: (meta["BLOCK"],)](whole, 6)
b = tuned[lambda meta: (meta["BLOCK"],)](whole, 7)
c = tuned[lambda meta: (meta["BLOCK"],)](whole, 8)
compiled.clear()
warm = plain.warmup(torch.float32, 5, 1.0, 64, grid=(1,))
count = len(compiled)
same = plain[(1,)](null, 5, 1.0, 64)
report([a is b, a is c, count, len(compiled), same is warm])
"""
    )
    assert session.report == [False, True, 1, 1, True]


def test_options_and_settings(launching: Callable[..., Any]) -> None:
    """Each setting that Triton compiles anew for, and keywords in another order."""
    session = launching(
        KERNELS
        + """
first()
base = triton.runtime.jit.KernelInterface.__getitem__
theirs = JITFunction(plain.fn)
mine = JITFunction(plain.fn)
def pair(**options):
    def number(kernel):
        try:
            return id(kernel(null, 1000, 2.5, 16, **options))
        except Exception as error:
            return type(error).__name__
    return number(mine[(1,)]), number(base(theirs, (1,)))
a, b = [], []
def both(**options):
    x, y = pair(**options)
    a.append(x)
    b.append(y)
for _ in range(2):
    both()
    both(num_warps=4)
    both(num_warps=4, num_stages=2)
    both(num_stages=2, num_warps=4)
    both(num_warps=4.0)
    both(num_warps=True)
    both(debug=True)
    both(debug=1)
    both(debug=0)
    both(debug=None)
    both(debug="yes")
    knobs.runtime.debug = True
    both()
    both(debug=False)
    knobs.runtime.debug = False
    both()
    mine.debug = theirs.debug = True
    both()
    mine.debug = theirs.debug = None
    knobs.compilation.instrumentation_mode = "consan"
    both(debug=False)
    knobs.compilation.instrumentation_mode = ""
    both(extern_libs=())
    both(extern_libs={})
    both(warp_size=32)
    both(arch="sm80")
    both(instrumentation_mode="other")
    both(stream=5)
    both(device=0)
    both(enable_fp_fusion=0)
    both(enable_fp_fusion=False)
    both(ptx_options="")
report([[x if isinstance(x, str) else a.index(x) for x in a],
        [x if isinstance(x, str) else b.index(x) for x in b]])
"""
    )
    ours, base = session.report
    assert ours == base


def test_names_that_are_no_plain_text(launching: Callable[..., Any]) -> None:
    """Keywords given as instances of a subclass of str bind as those of Python's own calls."""
    session = launching(
        KERNELS
        + """
class Name(str):
    pass
first()
answers = []
for _ in range(2):
    for options in ({Name("n"): 5}, {Name("num_warps"): 8}, {"num_" + "warps"[:]: 8},
                    {"\\ud800": 1}):
        args = (null, 5, 1.0, 16) if "n" not in options else (null,)
        more = {"f": 1.0, "BLOCK": 16} if "n" in options else {}
        answers.append([outcome(lambda: plain[(1,)](*args, **options, **more))[0],
                        outcome(lambda: plain.run(*args, grid=(1,), warmup=False,
                                                  **options, **more))[0]])
report(answers)
"""
    )
    for ours, base in session.report:
        assert ours == base


@pytest.mark.parametrize("way", ["first launch", "later launch", "autotuner"])
def test_an_integer_of_no_type_is_named(launching: Callable[..., Any], way: str) -> None:
    """The base's specializer does not say which argument it was; this tree does, everywhere."""
    session = launching(
        KERNELS
        + """
way = sys.argv[1]
@triton.jit
def anything(x, value, pair):
    tl.store(x, 1.0)
kernel = anything
if way == "later launch":
    first()
if way == "autotuner":
    kernel = triton.autotune([triton.Config({}), triton.Config({}, num_warps=8)], key=[])(anything)
texts = []
for value, pair in ((2**64, (1, 2)), (-2**63 - 1, (1, 2)), (1, (2, 2**70))):
    try:
        kernel[(1,)](null, value, pair)
        texts.append("launched")
    except OverflowError as error:
        texts.append(str(error))
report(texts)
""",
        arguments=(way,),
    )
    first, second, third = session.report
    assert first.startswith("argument 'value'")
    assert second.startswith("argument 'value'")
    assert third.startswith("argument 'pair[1]'")
