"""The simulator answers what a real driver was measured to answer, in each kind of
process: the table of docs/simulator.md, row by row."""

import pytest

# cuDriverGetVersion, cuDeviceGet(0), cuDeviceGet(99), cuDeviceGetCount,
# cuCtxGetCurrent, cuCtxGetDevice.
FRESH = [0, 3, 3, 3, 3, 3]
INITIALIZED = [0, 0, 101, 0, 0, 201]
WITH_CONTEXT = [0, 0, 101, 0, 0, 0]

PRELUDE = """
import ctypes, json, sys, threading
from flagtree_simulator.driver import Driver, run_forked
d = Driver(sys.argv[1])

def answers():
    version = ctypes.c_int(-1)
    return [
        d.call("DriverGetVersion", ctypes.byref(version)), d.device_get(0), d.device_get(99),
        d.count()[0], d.context_current()[0], d.context_device()[0],
    ]

def say(*values):
    print(json.dumps(values), flush=True)
"""


@pytest.fixture(params=["cu", "hg"])
def rows(request, simulator, run_python):
    """Runs code after PRELUDE and reads what it said."""
    import json

    def run(code, **kwargs):
        sim = simulator(abi=request.param, **kwargs)
        done = run_python(PRELUDE + code, sim.environment(), arguments=(request.param,))
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


def test_fresh_then_initialized(rows):
    said = rows("""
say(answers()); say(d.init()); say(answers(), d.context_current()[1]); say(d.init())
d.use(0)
say(answers(), d.context_current()[1] != 0)
""")
    assert said == [[FRESH], [0], [INITIALIZED, 0], [0], [WITH_CONTEXT, True]]


@pytest.mark.parametrize("how", ["python", "c", "clone"])
def test_forked_from_a_fresh_process(rows, how):
    said = rows(f"""
def child():
    say(answers()); say(d.init()); say(answers())
status = run_forked(child, {how!r})
say(status, answers(), d.init())
""")
    assert said == [[FRESH], [0], [INITIALIZED], [0, FRESH, 0]]


@pytest.mark.parametrize("how", ["python", "c", "clone"])
@pytest.mark.parametrize("context", [False, True])
def test_forked_after_initialization_can_never_initialize(rows, how, context):
    said = rows(f"""
d.init()
if {context}:
    d.use(0)
def child():
    say(answers()); say(d.init()); say(answers()); say(d.init())
say(run_forked(child, {how!r}), answers())
""")
    assert said == [[FRESH], [3], [FRESH], [3], [0, WITH_CONTEXT if context else INITIALIZED]]


def test_forks_of_forks(rows):
    said = rows("""
def grandchild():
    say("after the child's initialization", d.device_get(), d.init())
def child():
    say("clean child", d.device_get(), run_forked(lambda: say("clean", d.init())))
    say(d.init(), run_forked(grandchild))
run_forked(child)
d.init()
def poisoned():
    run_forked(lambda: say("poisoned", d.device_get(), d.init()))
run_forked(poisoned)
""")
    assert said == [
        ["clean", 0],
        ["clean child", 3, 0],
        ["after the child's initialization", 3, 3],
        [0, 0],
        ["poisoned", 3, 3],
    ]


def test_the_current_context_is_the_threads_own(rows):
    said = rows(
        """
d.init()
d.use(1)
seen = []
def other():
    seen.append(d.context_device())
    d.use(2)
    seen.append(d.context_device())
thread = threading.Thread(target=other)
thread.start(); thread.join()
say(seen, d.context_device())
""",
        devices=3,
    )
    assert said == [[[[201, -1], [0, 2]], [0, 1]]]


def test_no_device_and_flags(rows):
    said = rows("say(d.init(), d.device_get(), d.count()[0]); say(d.call('Init', 1))", devices=0)
    assert said == [[100, 3, 3], [1]]


def test_a_stub_library_answers_34_to_everything(rows):
    said = rows("say(d.init(), answers())", stub=True)
    assert said == [[34, [34] * 6]]


def test_a_forked_child_counts_from_its_own_start(simulator, run_python):
    sim = simulator()
    sim.fault("cuDeviceGet", occurrence=2, result=999)
    done = run_python(
        PRELUDE + "say([d.device_get() for _ in range(3)]);"
        "run_forked(lambda: say([d.device_get() for _ in range(3)]))",
        sim.environment(),
        arguments=("cu",),
    )
    assert done.stdout.splitlines() == ["[[3, 999, 3]]"] * 2
