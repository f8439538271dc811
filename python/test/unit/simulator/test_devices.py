"""Which devices a simulated process sees, what they say about themselves, and that
the management library knows them without initializing the driver."""

import json

import pytest

PRELUDE = """
import ctypes, json, sys
from flagtree_simulator.driver import Driver
abi = sys.argv[1]
d = Driver(abi)

def visible():
    result = d.init()
    if result:
        return result
    return [bus(i) for i in range(d.count()[1])]

def bus(i):
    text = ctypes.create_string_buffer(64)
    assert d.call("DeviceGetPCIBusId", text, 64, i) == 0
    return int(text.value.decode().split(":")[1], 16) - 0x10

def attribute(i, number):
    value = ctypes.c_int(-1)
    assert d.call("DeviceGetAttribute", ctypes.byref(value), number, i) == 0
    return value.value

def uuid(i, call="DeviceGetUuid"):
    raw = (ctypes.c_ubyte * 16)()
    assert d.call(call, raw, i) == 0
    return bytes(raw).hex()
"""

MANAGEMENT = """
n = ctypes.CDLL("libnvidia-ml.so.1" if abi == "cu" else "libhgml.so")
prefix, chip = ("nvml", "Cuda") if abi == "cu" else ("hgml", "Hggc")
def m(name, *arguments):
    return getattr(n, prefix + name)(*arguments)
def handle(i):
    h = ctypes.c_void_p()
    assert m("DeviceGetHandleByIndex_v2", i, ctypes.byref(h)) == 0
    return h
"""


def seen(simulator, run_python, visible, order=None, **machine):
    sim = simulator(**machine)
    env = sim.environment()
    if visible is not None:
        env["CUDA_VISIBLE_DEVICES"] = visible.format(
            *(sim.uuid(i) for i in range(sim.devices)), mig=sim.uuid(1, 1)
        )
    if order:
        env["CUDA_DEVICE_ORDER"] = order
    code = PRELUDE + "print(json.dumps(visible()))"
    return json.loads(run_python(code, env, arguments=("cu",)).stdout)


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, [0, 1, 2, 3]),
        ("0", [0]),
        ("2,0,3", [2, 0, 3]),
        (" 2 , 0", [2, 0]),
        ("", 100),
        ("-1", 100),
        ("none", 100),
        ("NoDevFiles", 100),
        ("1,-1,2", [1]),
        ("1,9,2", [1]),
        ("9,1", 100),
        ("1,,2", [1]),
        ("1x,2gpu", [1, 2]),
        ("0,1,0", 100),
        ("{1}", [1]),
        ("{2},{0}", [2, 0]),
        ("{3:.14}", [3]),
        ("GPU-f1a9", 100),
        ("{0},{0}", 100),
        ("{0},GPU-00000000,{1}", [0]),
        ("{0},1", [0]),
        ("1,{0}", [1]),
        ("{0},MIG-f1a9", [0]),
    ],
)
def test_visible_devices(simulator, run_python, visible, expected):
    assert seen(simulator, run_python, visible, devices=4) == expected


def test_one_device_is_named_by_the_prefix_that_all_share(simulator, run_python):
    assert seen(simulator, run_python, "GPU-f1a9", devices=1) == [0]


@pytest.mark.parametrize(
    ("order", "visible", "expected"),
    [
        (None, None, [1, 3, 0, 2]),
        ("FASTEST_FIRST", "0,2", [1, 0]),
        ("PCI_BUS_ID", None, [0, 1, 2, 3]),
        ("PCI_BUS_ID", "1,0", [1, 0]),
    ],
)
def test_device_order(simulator, run_python, order, visible, expected):
    capability = [(8, 0), (9, 0), (8, 0), (8, 9)]
    machine = {"devices": 4, "capability": capability}
    assert seen(simulator, run_python, visible, order, **machine) == expected


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, [1]),  # the MIG instance, and nothing beside it
        ("{mig}", [1]),
        ("MIG-{1}/1/0", [1]),
        ("{mig},{mig}", 100),
        ("0,2", [0, 2]),
        ("0,1", [1]),
        ("MIG-00000000", 100),
    ],
)
def test_mig(simulator, run_python, visible, expected):
    assert seen(simulator, run_python, visible, devices=3, mig=(0, 2, 0)) == expected


def test_a_mig_instance_has_its_own_identity(simulator, run_python):
    sim = simulator(devices=2, mig=(0, 2))
    env = sim.environment() | {"CUDA_VISIBLE_DEVICES": sim.uuid(1, 1)}
    code = PRELUDE + "d.init(); print(uuid(0), uuid(0, 'DeviceGetUuid_v2'))"
    whole, instance = run_python(code, env, arguments=("cu",)).stdout.split()
    assert whole == sim.uuid(1).replace("-", "")[3:]
    assert instance == sim.uuid(1, 1).replace("-", "")[3:]


@pytest.mark.parametrize("abi", ["cu", "hg"])
def test_what_a_device_says_about_itself(simulator, run_python, abi):
    sim = simulator(devices=2, capability=[(9, 0), (8, 6)], abi=abi, name="A chip", memory_mib=1024)
    done = run_python(
        PRELUDE
        + """
d.init()
name = ctypes.create_string_buffer(32)
total = ctypes.c_size_t()
for i in range(2):
    assert d.call("DeviceGetName", name, 32, i) == 0
    assert d.call("DeviceTotalMem_v2", ctypes.byref(total), i) == 0
    print(json.dumps([name.value.decode(), total.value, attribute(i, 75), attribute(i, 76),
        attribute(i, 10), attribute(i, 97), attribute(i, 120), uuid(i)]))
""",
        sim.environment(),
        arguments=(abi,),
    )
    first, second = (json.loads(line) for line in done.stdout.splitlines())
    assert first == ["A chip", 1 << 30, 9, 0, 32, 232448, 1, sim.uuid(0).replace("-", "")[3:]]
    assert second == ["A chip", 1 << 30, 8, 6, 32, 101376, 0, sim.uuid(1).replace("-", "")[3:]]


@pytest.mark.parametrize("abi", ["cu", "hg"])
def test_management(simulator, run_python, abi):
    sim = simulator(devices=2, capability=[(8, 0), (8, 9)], abi=abi, minors=(5, 7))
    done = run_python(
        PRELUDE
        + MANAGEMENT
        + """
count = ctypes.c_uint(99)
assert m("DeviceGetCount_v2", ctypes.byref(count)) == 1
assert m("Init_v2") == 0 and m("DeviceGetCount_v2", ctypes.byref(count)) == 0
for i in range(count.value):
    h = handle(i)
    uuid_text, name = ctypes.create_string_buffer(96), ctypes.create_string_buffer(96)
    major, minor, number = ctypes.c_int(), ctypes.c_int(), ctypes.c_uint()
    assert m("DeviceGetUUID", h, uuid_text, 96) == 0
    assert m("DeviceGetUUID", h, uuid_text, 10) == 7
    assert m("DeviceGetName", h, name, 96) == 0
    assert m(f"DeviceGet{chip}ComputeCapability", h, ctypes.byref(major),
             ctypes.byref(minor)) == 0
    assert m("DeviceGetMinorNumber", h, ctypes.byref(number)) == 0
    pci = (ctypes.c_ubyte * 68)()
    assert m("DeviceGetPciInfo_v3", h, pci) == 0
    print(json.dumps([uuid_text.value.decode(), major.value, minor.value, number.value,
        bytes(pci[36:]).rstrip(b"\\0").decode()]))
assert m("DeviceGetHandleByIndex_v2", 2, ctypes.byref(ctypes.c_void_p())) == 2
assert m("DeviceGetName", ctypes.c_void_p(8), name, 96) == 2
assert m("Shutdown") == 0 and m("DeviceGetCount_v2", ctypes.byref(count)) == 1
print(json.dumps(d.device_get()))
""",
        sim.environment() | {"CUDA_VISIBLE_DEVICES": "1"},
        arguments=(abi,),
    )
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        [sim.uuid(0), 8, 0, 5, "00000000:10:00.0"],
        [sim.uuid(1), 8, 9, 7, "00000000:11:00.0"],
        3,
    ]
    assert sim.calls("cuInit") == sim.calls("hgInit") == []


def test_management_of_mig(simulator, run_python):
    sim = simulator(devices=2, mig=(0, 2))
    done = run_python(
        PRELUDE
        + MANAGEMENT
        + """
m("Init_v2")
for i in range(2):
    current, pending, most = ctypes.c_uint(), ctypes.c_uint(), ctypes.c_uint()
    h = handle(i)
    assert m("DeviceGetMigMode", h, ctypes.byref(current), ctypes.byref(pending)) == 0
    assert m("DeviceGetMaxMigDeviceCount", h, ctypes.byref(most)) == 0
    found = []
    for j in range(most.value):
        instance, text = ctypes.c_void_p(), ctypes.create_string_buffer(96)
        if m("DeviceGetMigDeviceHandleByIndex", h, j, ctypes.byref(instance)) == 0:
            assert m("DeviceGetUUID", instance, text, 96) == 0
            found.append(text.value.decode())
    print(json.dumps([current.value, found]))
""",
        sim.environment(),
        arguments=("cu",),
    )
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        [0, []],
        [1, [sim.uuid(1, 0), sim.uuid(1, 1)]],
    ]


def test_a_machine_without_management_library_or_nodes(simulator, run_python):
    sim = simulator(management=False, nodes=False)
    done = run_python(
        "import ctypes; ctypes.CDLL('libnvidia-ml.so.1')", sim.environment(), check=False
    )
    assert done.returncode == 1
    assert list((sim.device_root / "dev").iterdir()) == []


def test_device_nodes_have_the_numbers_asked_for(simulator):
    sim = simulator(devices=2, abi="both", minors=(5, 12))
    assert {node.name for node in (sim.device_root / "dev").iterdir()} == {
        "nvidia5",
        "nvidia12",
        "alixpu_ppu5",
        "alixpu_ppu12",
    }
    assert sim.environment()["FLAGTREE_DEVICE_ROOT"] == str(sim.device_root)


def test_entry_points_are_found_by_version(simulator, run_python):
    sim = simulator(driver_version=12000)
    done = run_python(
        PRELUDE
        + """
def find(symbol, version):
    address, status = ctypes.c_void_p(), ctypes.c_int(-1)
    result = d.call("GetProcAddress_v2", symbol, ctypes.byref(address), version,
                    ctypes.c_uint64(0), ctypes.byref(status))
    names = [name for name in ("cuDeviceGetUuid", "cuDeviceGetUuid_v2", "cuTensorMapEncodeTiled")
             if ctypes.cast(getattr(d.library, name), ctypes.c_void_p).value == address.value]
    return [result, status.value, names]
for symbol, version in [(b"cuDeviceGetUuid", 13000), (b"cuDeviceGetUuid", 11000),
                        (b"cuTensorMapEncodeTiled", 13000), (b"cuTensorMapEncodeTiled", 11080),
                        (b"cuStreamGetDevice", 13000), (b"cuNoSuchCall", 13000)]:
    print(json.dumps(find(symbol, version)))
""",
        sim.environment(),
        arguments=("cu",),
    )
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        [0, 0, ["cuDeviceGetUuid_v2"]],
        [0, 0, ["cuDeviceGetUuid"]],
        [0, 0, ["cuTensorMapEncodeTiled"]],
        [500, 2, []],
        [500, 2, []],
        [500, 1, []],
    ]


def test_an_unknown_abi_is_refused(simulator):
    with pytest.raises(ValueError, match="known are"):
        simulator(abi="rocm")
