"""The call log loses and mixes nothing, and faults come as ordered."""

import os
import signal
import subprocess
import sys
import time

import pytest

PRELUDE = """
import sys, os, threading, signal
from flagtree_simulator.driver import Driver, run_forked
d = Driver()
"""


def test_the_log_holds_pid_thread_time_call_and_result(simulator, run_python):
    sim = simulator()
    before = time.monotonic_ns()
    done = run_python(
        PRELUDE + "d.device_get(5); d.init(); d.device_get(5); print(os.getpid())",
        sim.environment(),
    )
    calls = sim.calls()
    assert [(call.name, call.result) for call in calls] == [
        ("cuDeviceGet", 3),
        ("cuInit", 0),
        ("cuDeviceGet", 101),
    ]
    assert {call.pid for call in calls} == {int(done.stdout)} == {call.tid for call in calls}
    times = [call.time for call in calls]
    assert before < times[0] < times[1] < times[2] < time.monotonic_ns()
    assert sim.calls("cuInit") == [calls[1]]
    sim.clear_log()
    assert sim.calls() == []


def test_nothing_is_logged_without_the_variable(simulator, run_python):
    sim = simulator()
    env = sim.environment()
    del env["FLAGTREE_SIM_LOG"]
    run_python(PRELUDE + "d.init()", env)
    assert not sim.log_path.exists()


def test_lines_of_many_threads_and_processes_stay_whole(simulator, run_python):
    sim = simulator()
    run_python(
        PRELUDE
        + """
def work():
    for _ in range(200):
        d.device_get()
def process():
    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads: t.start()
    for t in threads: t.join()
pids = []
for _ in range(3):
    pid = os.fork()
    if not pid:
        process()
        os._exit(0)
    pids.append(pid)
process()
for pid in pids:
    assert os.waitpid(pid, 0)[1] == 0
""",
        sim.environment(),
    )
    calls = sim.calls()
    assert len(calls) == 4 * 4 * 200
    assert len({call.pid for call in calls}) == 4
    assert len({call.tid for call in calls}) == 16


def test_a_process_may_close_its_descriptors_and_call_from_a_signal_handler(simulator, run_python):
    sim = simulator()
    run_python(
        PRELUDE
        + """
signal.signal(signal.SIGALRM, lambda *_: d.device_get())
os.closerange(3, 64)
assert os.listdir("/proc/self/fd").count("4") == 0
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
for _ in range(2000):
    d.count()
signal.setitimer(signal.ITIMER_REAL, 0)
""",
        sim.environment(),
    )
    assert len(sim.calls("cuDeviceGetCount")) == 2000
    assert len(sim.calls("cuDeviceGet")) >= 1


@pytest.mark.parametrize(
    ("occurrence", "expected"),
    [
        ("first", "x....."),
        (3, "..x..."),
        ((2, 4), ".xxx.."),
        ("5-", "....xx"),
        ("every", "xxxxxx"),
        ("every:2", ".x.x.x"),
        ("random:1:7", "xxxxxx"),
        ("random:0:7", "......"),
    ],
)
def test_occurrences(simulator, run_python, occurrence, expected):
    sim = simulator()
    sim.fault("cuDeviceGet", occurrence, result=999)
    done = run_python(
        PRELUDE + "d.init(); print(''.join('x' if d.device_get() else '.' for _ in range(6)))",
        sim.environment(),
    )
    assert done.stdout.strip() == expected
    assert [call.result == 999 for call in sim.calls("cuDeviceGet")] == [
        mark == "x" for mark in expected
    ]


def test_random_faults_are_drawn_anew_for_each_seed_only(simulator, run_python):
    def drawn(seed):
        sim = simulator()
        sim.fault("cuDeviceGet", f"random:0.5:{seed}", result=999)
        code = PRELUDE + "d.init(); print(''.join(str(d.device_get()) for _ in range(64)))"
        return run_python(code, sim.environment()).stdout

    one, again, other = drawn(1), drawn(1), drawn(2)
    assert one == again != other
    assert 10 < one.count("999") < 54


def test_a_failed_call_has_not_been_done(simulator, run_python):
    sim = simulator()
    sim.fault("cuInit", "first", result=802)
    done = run_python(
        PRELUDE + "print(d.init(), d.device_get(), d.init(), d.device_get())",
        sim.environment(),
    )
    assert done.stdout.split() == ["802", "3", "0", "0"]


def test_the_first_order_that_applies_is_taken_and_prefixes_match(simulator, run_python):
    sim = simulator()
    sim.fault("cuDeviceGetCount", 1, result=46)
    sim.fault("cuDevice*", result=804)
    done = run_python(
        PRELUDE + "print(d.init(), d.count()[0], d.count()[0], d.device_get())",
        sim.environment(),
    )
    assert done.stdout.split() == ["0", "46", "804", "804"]


def test_a_delay_comes_before_the_call(simulator, run_python):
    sim = simulator()
    sim.fault("cuDeviceGet", "first", delay=1)
    sim.fault("cuDeviceGet", 2, delay=0.5, result=999)
    done = run_python(
        PRELUDE
        + """
import time
d.init()
for _ in range(3):
    start = time.monotonic()
    print(d.device_get(), time.monotonic() - start)
""",
        sim.environment(),
    )
    rows = [line.split() for line in done.stdout.splitlines()]
    assert [row[0] for row in rows] == ["0", "999", "0"]
    assert float(rows[0][1]) >= 1
    assert float(rows[1][1]) >= 0.5
    assert float(rows[2][1]) < 0.5


@pytest.mark.parametrize(("crash", "number"), [("segv", signal.SIGSEGV), ("abort", signal.SIGABRT)])
def test_a_crash_ends_the_process_and_is_logged(simulator, run_python, crash, number):
    sim = simulator()
    sim.fault("cuDeviceGetCount", crash=crash)
    done = run_python(PRELUDE + "d.init(); d.count()", sim.environment(), check=False)
    assert done.returncode == -number
    assert sim.calls()[-1].result == crash


def test_a_hang_lasts_and_is_logged(simulator):
    sim = simulator()
    sim.fault("cuInit", hang=True)
    code = "import ctypes; ctypes.CDLL('libcuda.so.1').cuInit(0); print('came back')"
    command = [sys.executable, "-c", code]
    process = subprocess.Popen(command, env=sim.environment(), stdout=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 60
        while not sim.calls() and time.monotonic() < deadline:
            time.sleep(0.01)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
    finally:
        process.kill()
        output, _ = process.communicate()
    assert [call.result for call in sim.calls()] == ["hang"]
    assert output == b""


def test_an_asynchronous_error_is_met_by_calls_that_wait_and_stays(simulator, run_python):
    sim = simulator()
    sim.fault("cuCtxGetDevice", "first", later=700)
    done = run_python(
        PRELUDE
        + """
d.init(); d.use(0)
sync = lambda: d.call("CtxSynchronize")
print(sync(), d.context_device()[0], sync(), d.context_device()[0], sync())
""",
        sim.environment(),
    )
    assert done.stdout.split() == ["0", "0", "700", "0", "700"]


@pytest.mark.parametrize(
    "orders",
    [
        "cuDeviceGet=999",
        "cuDeviceGet@sometimes=999",
        "cuDeviceGet@0=999",
        "cuDeviceGet@4-2=999",
        "cuDeviceGet@first=",
        "cuDeviceGet@first=explode",
        "cuDeviceGet@random:2:1=999",
        "cuDeviceGett@first=999",
    ],
)
def test_orders_that_cannot_be_understood_end_the_process(simulator, run_python, orders):
    env = simulator().environment() | {"FLAGTREE_SIM_FAULTS": orders}
    done = run_python(PRELUDE, env, check=False)
    assert done.returncode == -signal.SIGABRT
    assert "flagtree simulator" in done.stderr
    assert orders in done.stderr


def test_orders_for_the_other_libraries_are_theirs(simulator, run_python):
    env = simulator().environment() | {
        "FLAGTREE_SIM_FAULTS": "nvmlInit_v2@first=9; hgInit@first=1 ;hgmlInit_v2@first=1;"
    }
    done = run_python(
        PRELUDE + "import ctypes; n = ctypes.CDLL('libnvidia-ml.so.1')\n"
        "print(d.init(), n.nvmlInit_v2(), n.nvmlInit_v2())",
        env,
    )
    assert done.stdout.split() == ["0", "9", "0"]


def test_a_fault_that_does_nothing_is_refused(simulator):
    with pytest.raises(ValueError, match="does nothing"):
        simulator().fault("cuInit")


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("FLAGTREE_SIM_DEVICES", "many"),
        ("FLAGTREE_SIM_DEVICES", "65"),
        ("FLAGTREE_SIM_CAPABILITY", "80"),
        ("FLAGTREE_SIM_STUB", "yes"),
        ("FLAGTREE_SIM_MEMORY", "1GiB"),
        ("FLAGTREE_SIM_MIG", "8"),
    ],
)
def test_a_configuration_that_cannot_be_understood_ends_the_process(
    simulator, run_python, variable, value
):
    done = run_python(PRELUDE, simulator().environment() | {variable: value}, check=False)
    assert done.returncode == -signal.SIGABRT
    assert variable in done.stderr
    assert value in done.stderr


def test_an_unwritable_log_ends_the_process(simulator, run_python, tmp_path):
    env = simulator().environment() | {"FLAGTREE_SIM_LOG": str(tmp_path / "absent" / "log")}
    done = run_python(PRELUDE + "d.init()", env, check=False)
    assert done.returncode == -signal.SIGABRT
    assert os.fspath(tmp_path / "absent" / "log") in done.stderr
