"""``Simulator``: one simulated machine, as a directory and a set of variables.

The directory holds the libraries that the machine has (links), its device nodes,
and the call log. docs/simulator.md describes the variables.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from flagtree_simulator._log import Call, read_log

Capability = tuple[int, int]

_CHECKOUT = Path(__file__).resolve().parents[4]
_DRIVER = {"cu": "libcuda.so.1", "hg": "libhggc.so"}
_MANAGEMENT = {"cu": "libnvidia-ml.so.1", "hg": "libhgml.so"}
_NODE = {"cu": "nvidia{}", "hg": "alixpu_ppu{}"}

# What in the caller's own environment would change which device is met.
_DROPPED = (
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "FLAGTREE_DEVICE_ROOT",
    "FLAGTREE_FORK_WARNING",
    "FLAGTREE_PPU_DEVICE",
    "PPU_HOME",
    "PPU_SDK",
    "TRITON_LIBCUDA_PATH",
    "TRITON_PPU_LIBCUDA_PATH",
)


def find_library_dir() -> Path:
    """The directory of the simulated libraries.

    ``FLAGTREE_SIM_LIBRARY_DIR`` if set, else the most recently built
    ``build/*/lib`` of this checkout, but for builds with a sanitizer, which an
    ordinary Python cannot load.

    Raises:
        FileNotFoundError: there is none; the message says how to build it.
    """
    given = os.environ.get("FLAGTREE_SIM_LIBRARY_DIR")
    if given:
        directory = Path(given)
        if not (directory / _DRIVER["cu"]).exists():
            raise FileNotFoundError(f"FLAGTREE_SIM_LIBRARY_DIR={given} holds no {_DRIVER['cu']}")
        return directory.resolve()
    built = [
        path
        for path in _CHECKOUT.glob("build/*/lib")
        if (path / _DRIVER["cu"]).exists() and not _is_sanitized(path.parent)
    ]
    if not built:
        raise FileNotFoundError(
            f"no simulated driver under {_CHECKOUT}/build/*/lib; build the CMake target "
            "flagtree_sim_cuda (and _hggc, _nvml, _hgml), or set FLAGTREE_SIM_LIBRARY_DIR"
        )
    return max(built, key=lambda path: (path / _DRIVER["cu"]).stat().st_mtime)


def _is_sanitized(build: Path) -> bool:
    cache = build / "CMakeCache.txt"
    lines = cache.read_text().splitlines() if cache.exists() else []
    values = [line.partition("=")[2] for line in lines if line.startswith("FLAGTREE_SANITIZER:")]
    return any(values)


class Simulator:
    """A simulated machine.

    Args:
        devices: number of devices, 0 to 64.
        capability: compute capability of every device, or one per device.
        abi: ``"cu"`` (libcuda.so.1), ``"hg"`` (libhggc.so) or ``"both"``.
        management: whether the management library (NVML, HGML) exists too.
        root: directory for libraries, device nodes and log; a new temporary one
            by default, which lives as long as this object.
        library_dir: where the simulated libraries were built; see
            ``find_library_dir``.
        nodes: whether the machine has device nodes.
        minors: number of each device's node; 0, 1, ... by default.
        name: device name; memory_mib: memory of one device in MiB.
        mig: number of MIG instances of each device.
        driver_version: what cuDriverGetVersion says (13000 is 13.0).
        stub: every driver call answers 34, as the toolkit's stub library does.
    """

    def __init__(
        self,
        devices: int = 1,
        capability: Capability | Sequence[Capability] = (8, 0),
        abi: str = "cu",
        management: bool = True,
        root: Path | None = None,
        library_dir: Path | None = None,
        *,
        nodes: bool = True,
        minors: Sequence[int] | None = None,
        name: str | None = None,
        memory_mib: int | None = None,
        mig: Sequence[int] = (),
        driver_version: int | None = None,
        stub: bool = False,
    ) -> None:
        if abi not in ("cu", "hg", "both"):
            raise ValueError(f"abi is {abi!r}; known are 'cu', 'hg' and 'both'")
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if root is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="flagtree-simulator-")
            root = Path(self._temporary.name)
        self.root = root.resolve()
        self.devices = devices
        self.abis = ("cu", "hg") if abi == "both" else (abi,)
        self.log_path = self.root / "calls.log"
        self.library_dir = self.root / "lib"
        self.device_root = self.root / "machine"
        self._orders: list[str] = []
        built = library_dir or find_library_dir()
        self._link_libraries(built, management)
        self._make_nodes(minors if minors is not None else range(devices), nodes)
        self._variables = {"FLAGTREE_SIM_DEVICES": str(devices)}
        self._variables["FLAGTREE_SIM_CAPABILITY"] = ",".join(
            f"{major}.{minor}" for major, minor in _capabilities(capability)
        )
        optional = {
            "FLAGTREE_SIM_MINORS": ",".join(map(str, minors)) if minors is not None else None,
            "FLAGTREE_SIM_NAME": name,
            "FLAGTREE_SIM_MEMORY": memory_mib,
            "FLAGTREE_SIM_MIG": ",".join(map(str, mig)) or None,
            "FLAGTREE_SIM_DRIVER_VERSION": driver_version,
            "FLAGTREE_SIM_STUB": "1" if stub else None,
        }
        self._variables |= {key: str(value) for key, value in optional.items() if value}

    def _link_libraries(self, built: Path, management: bool) -> None:
        self.library_dir.mkdir(parents=True, exist_ok=True)
        for abi in self.abis:
            for file in [_DRIVER[abi]] + ([_MANAGEMENT[abi]] if management else []):
                if not (built / file).exists():
                    raise FileNotFoundError(f"{built} holds no {file}; build the simulator")
                link = self.library_dir / file
                link.unlink(missing_ok=True)
                link.symlink_to(built / file)

    def _make_nodes(self, minors: Sequence[int], exist: bool) -> None:
        dev = self.device_root / "dev"
        dev.mkdir(parents=True, exist_ok=True)
        for minor in minors if exist else ():
            for abi in self.abis:
                (dev / _NODE[abi].format(minor)).touch()

    def environment(self, base: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment for a child process that meets this machine.

        Args:
            base: what to start from; by default this process's environment
                without the variables that choose a device.
        """
        if base is None:
            base = {key: value for key, value in os.environ.items() if key not in _DROPPED}
        result = {key: value for key, value in base.items() if not key.startswith("FLAGTREE_SIM_")}
        path = [str(self.library_dir), *filter(None, [base.get("LD_LIBRARY_PATH")])]
        result["LD_LIBRARY_PATH"] = os.pathsep.join(path)
        result["FLAGTREE_DEVICE_ROOT"] = str(self.device_root)
        result["FLAGTREE_SIM_LOG"] = str(self.log_path)
        result |= self._variables
        if self._orders:
            result["FLAGTREE_SIM_FAULTS"] = ";".join(self._orders)
        return result

    def fault(
        self,
        name: str,
        occurrence: int | str | tuple[int, int] = "every",
        result: int | None = None,
        delay: float | None = None,
        hang: bool = False,
        crash: bool | str = False,
        later: int | None = None,
    ) -> None:
        """Orders a fault, for environments made from now on.

        Args:
            name: call, or the beginning of names followed by ``*``.
            occurrence: which call of a process, counted from 1: a number, a range
                (first, last), or ``"first"``, ``"every"``, ``"every:K"``, ``"N-"``,
                ``"random:PROBABILITY:SEED"``.
            result: what the call answers instead of doing anything.
            delay: seconds that pass first.
            hang: the call never returns.
            crash: True or ``"segv"``, or ``"abort"``.
            later: error that the next waiting call reports, and every one after it.
        """
        actions: list[str] = []
        if delay is not None:
            actions.append(f"delay:{1000 * delay:g}")
        if result is not None:
            actions.append(str(result))
        if later is not None:
            actions.append(f"async:{later}")
        if hang:
            actions.append("hang")
        if crash:
            actions.append("segv" if crash is True else crash)
        if not actions:
            raise ValueError(f"the fault of {name} does nothing: give result, delay, hang or crash")
        when = "{}-{}".format(*occurrence) if isinstance(occurrence, tuple) else str(occurrence)
        self._orders.append(f"{name}@{when}={'+'.join(actions)}")

    def clear_faults(self) -> None:
        """Takes back all orders, for environments made from now on."""
        self._orders.clear()

    def calls(self, name: str | None = None, pid: int | None = None) -> list[Call]:
        """The calls made so far by all processes, oldest first.

        Args:
            name: only this call; pid: only this process.
        """
        return [
            call
            for call in read_log(self.log_path)
            if (name is None or call.name == name) and (pid is None or call.pid == pid)
        ]

    def clear_log(self) -> None:
        """Forgets the calls made so far."""
        self.log_path.unlink(missing_ok=True)

    def uuid(self, device: int, mig: int | None = None) -> str:
        """The identity of a device of the machine, or of one of its MIG instances."""
        seed = device + 1 if mig is None else 1000 + 100 * device + mig
        raw = bytearray()
        for half in (seed, ~seed):
            raw += _mix(half).to_bytes(8, "little")
        raw[:2] = b"\xf1\xa9"
        digits = raw.hex()
        groups = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
        return "-".join(["GPU" if mig is None else "MIG", *groups])


def _capabilities(given: Capability | Sequence[Capability]) -> list[Capability]:
    pairs = [given] if isinstance(given[0], int) else list(given)
    for pair in pairs:
        if not (isinstance(pair, tuple) and len(pair) == 2):
            raise ValueError(f"a capability is a pair like (8, 0), not {pair!r}")
    return pairs  # type: ignore[return-value]


def _mix(value: int) -> int:
    # The same numbers as makeUuid() in Configuration.cpp.
    mask = (1 << 64) - 1
    value = (value + 0x9E3779B97F4A7C15) & mask
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & mask
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & mask
    return value ^ (value >> 31)
