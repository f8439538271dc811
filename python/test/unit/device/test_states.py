"""What the resolver answers in each kind of process, and that answering initializes nothing."""

from __future__ import annotations

import pytest

TARGET_80 = "GPUTarget(backend='cuda', arch=80, warp_size=32)"


def initializations(machine, pid=None):
    return [call for call in machine.calls(pid=pid) if call.name in ("cuInit", "hgInit")]


@pytest.mark.parametrize("abi", ["cu", "hg"])
def test_fresh_process(simulator, scripted, abi):
    machine = simulator(devices=2, abi=abi)
    found = scripted(machine, "report(facts())")
    assert found["state"] == "Uninitialized"
    assert found["active"]
    assert found["ordinal"] == [0, "default"]
    assert found["target"] == TARGET_80
    assert not found["torch"]
    # Not even the driver library was mapped: all calls are the management library's.
    assert {call.name[:4] for call in machine.calls()} <= {"nvml", "hgml"}


def test_fresh_process_without_management_library(simulator, scripted):
    machine = simulator(management=False)
    found = scripted(
        machine,
        """
        answer = [ppu.process_state(), ppu.PPUDriver.is_active()]
        try:
            triton.runtime.driver.active.get_current_target()
        except RuntimeError as error:
            answer.append(str(error))
        os.environ["TRITON_OVERRIDE_ARCH"] = "sm89"
        answer.append(str(triton.runtime.driver.active.get_current_target()))
        report(answer)
        """,
    )
    state, active, error, override = found
    assert (state, active) == ("Uninitialized", True)
    assert "TRITON_OVERRIDE_ARCH" in error and "GPUTarget" in error
    assert "libnvidia-ml.so.1" in error
    assert override == TARGET_80.replace("80", "89")
    assert machine.calls() == []


def test_initialized_by_anybody(simulator, scripted):
    # Case 5: ctypes initializes, torch is untouched.
    machine = simulator(devices=2)
    before, parent, child = scripted(
        machine,
        """
        before = facts()
        live()
        report([before, facts(), in_child(facts)])
        """,
    )
    assert before["state"] == "Uninitialized"
    assert parent["state"] == "Initialized"
    assert parent["initializer"] == parent["pid"]
    assert child["state"] == "ForkedAfterInit"
    assert child["initializer"] == parent["pid"]
    assert child["active"] and child["target"] == TARGET_80
    assert not child["torch"]
    assert [call.pid for call in initializations(machine)] == [parent["pid"]]


@pytest.mark.parametrize("context", [None, 1])
def test_is_active_in_a_forked_child(simulator, scripted, context):
    # Case 2: a bare cuInit, or a context, then a fork.
    machine = simulator(devices=2)
    found = scripted(machine, f"live({context}); report(in_child(ppu.PPUDriver.is_active))")
    assert found is True


def test_asking_leaves_forked_children_usable(simulator, scripted):
    # Case 3: everything is asked, then a child does real work.
    machine = simulator()
    pid, before, used, after = scripted(
        machine,
        """
        before = facts()
        triton.runtime.driver.active.get_current_device()
        used = in_child(lambda: (ppu.require_usable(), ppu.process_state())[1])
        report([os.getpid(), before, used, ppu.process_state()])
        """,
    )
    assert before["state"] == "Uninitialized"
    assert used == "Initialized"
    assert after == "Uninitialized"
    assert initializations(machine, pid) == []


@pytest.mark.parametrize("how", ["os.fork", "libc.fork", "raw_clone"])
def test_children_however_they_are_made(simulator, scripted, how):
    machine = simulator(devices=3)
    parent, child, grandchild = scripted(
        machine,
        f"""
        import ctypes
        libc = ctypes.CDLL(None)
        raw_clone = lambda: libc.syscall(56, 17, 0, 0, 0, 0)  # x86-64: clone, SIGCHLD
        live(2)
        parent = facts()
        report([parent, *in_child(lambda: [facts(), in_child(facts, {how})], {how})])
        """,
    )
    assert parent["ordinal"] == [2, "context"]
    for found in (child, grandchild):
        assert found["state"] == "ForkedAfterInit"
        assert found["ordinal"] == [2, "fork note"]
        assert found["initializer"] == parent["pid"]
        assert found["target"] == TARGET_80
        assert initializations(machine, found["pid"]) == []


def test_a_fork_without_a_note_is_proven_by_use(simulator, scripted):
    # Rule 8: a C-level fork of a process that initialized since anybody asked.
    machine = simulator()
    before, error, after = scripted(
        machine,
        """
        import ctypes, warnings
        warnings.simplefilter("ignore")
        live()
        def child():
            before = ppu.process_state()
            try:
                ppu.require_usable()
            except errors.ForkedDriverError as found:
                error = str(found)
            return [before, error, ppu.process_state()]
        report(in_child(child, ctypes.CDLL(None).fork))
        """,
    )
    assert before == "Uninitialized"
    assert "an ancestor" in error and "NOT_INITIALIZED" in error
    assert after == "ForkedAfterInit"


def test_threads_fork_with_their_own_devices(simulator, scripted):
    machine = simulator(devices=4)
    found = scripted(
        machine,
        """
        import threading
        live(0)
        answers = {}
        def work(ordinal):
            Driver().use(ordinal)
            answers[ordinal] = [in_child(lambda: device.ordinal()) for _ in range(5)]
        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        report(answers)
        """,
    )
    assert found == {str(n): [[n, "fork note"]] * 5 for n in range(4)}


def test_both_drivers_mapped(simulator, scripted):
    machine = simulator(abi="both")
    found = scripted(machine, "Driver('hg'); Driver('cu').init(); report(device.library()['abi'])")
    assert found == "cu"


def test_capabilities_of_unlike_devices(simulator, scripted):
    machine = simulator(devices=2, capability=[(8, 0), (8, 9)])
    script = """
        def ask():
            try:
                return list(triton.runtime.driver.active.get_device_capability(1))
            except RuntimeError as error:
                return str(error)
        before = ask()
        live()
        report([before, ask(), in_child(ask)])
    """
    before, after, child = scripted(machine, script)
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in before
    assert after == child
    before, after, child = scripted(machine, script, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
    assert before == after == child == [8, 9]


@pytest.mark.parametrize("value", ["0", "1,0", "", "-1", "7", "1,1", "0,9,1", "0,-1", " 1"])
def test_visible_devices_as_the_driver_counts_them(simulator, scripted, value):
    machine = simulator(devices=2)
    mine, drivers = scripted(
        machine,
        """
        before = device.device_count()
        other = Driver()
        report([before, other.count()[1] if other.init() == 0 else 0])
        """,
        {"CUDA_VISIBLE_DEVICES": value},
    )
    assert mine == drivers


def test_visible_devices_by_uuid(simulator, scripted):
    machine = simulator(devices=2, capability=[(8, 0), (8, 9)])
    for value, count in [(machine.uuid(1), 1), (machine.uuid(1)[:9], 1), ("GPU-nonsense", 0)]:
        found = scripted(
            machine,
            "report([device.device_count(), device.capability(0)['minor']])",
            {"CUDA_VISIBLE_DEVICES": value},
        )
        assert found[0] == count, value
        assert found[1] == (9 if count else 0), value


def test_wsl_and_renumbered_nodes(simulator, scripted):
    machine = simulator(devices=1, abi="hg", minors=[5], management=False)
    assert scripted(machine, "report(device.device_count())") == 1


@pytest.mark.parametrize("call", ["cuDeviceGet", "cuCtxGetDevice", "cuDeviceGetCount"])
@pytest.mark.parametrize("live", [False, True])
def test_a_driver_that_answers_errors(simulator, scripted, call, live):
    # Each code in turn, with right answers in between: an error is typed or named, the next
    # question is answered right.
    codes = [1, 3, 4, 34, 46, 100, 101, 201, 802, 803, 804, 999]
    machine = simulator(devices=2)
    for number, code in enumerate(codes):
        machine.fault(call, 3 + 4 * number, result=code)
    found = scripted(
        machine,
        f"""
        other = Driver()
        if {live}:
            other.init()
            other.use(1)
        wrong, named = [], set()
        for _ in range(100):
            state, ordinal = ppu.process_state(), None
            try:
                ordinal = device.get_current_device()
            except errors.DriverError as error:
                named.add(error.code)
                assert error.call == "CtxGetDevice" and str(error.code) in str(error)
            device.capability(1), device.device_count()
            if state not in ("Uninitialized", "Initialized", "Absent"):
                wrong.append(state)
            if {live} and state != "Initialized":
                wrong.append(state)
            # 201 is the driver's way to say that there is no context.
            if {live} and ordinal not in (None, 1, 0):
                wrong.append(ordinal)
        report([wrong, sorted(named), facts()["state"], device.get_current_device()])
        """,
    )
    wrong, named, state, ordinal = found
    assert wrong == []
    if call == "cuCtxGetDevice":
        expected = set(codes) - {201} - (set() if live else {3, 34, 100})
        assert set(named) == expected
    assert state == ("Initialized" if live else "Uninitialized")
    assert ordinal == (1 if live else 0)
    assert len(initializations(machine)) == live


def test_a_stub_library_is_absent(simulator, scripted):
    machine = simulator(stub=True)
    state, error = scripted(
        machine,
        """
        Driver()
        try:
            ppu.require_usable()
        except errors.DriverLibraryError as found:
            report([ppu.process_state(), str(found)])
        """,
    )
    assert state == "Absent"
    assert "stub" in error
