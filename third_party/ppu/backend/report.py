"""What `python -m triton.backends.ppu` gathers: one nested dict per part of the tree.

Gathering asks and never initializes: it goes through the resolver, reads files and environment, and
starts `ppu-llc --version` and `ptxas --version`. Each part stands for itself, so that one that
fails shows its error and the others are still there. The optional actions that do use the device
are in selftest.py; how the report is printed is in __main__.py.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import sys
from collections.abc import Callable
from typing import Any

from triton.backends.ppu import chips, knobs, toolchain

# The capability to look at a tool chain for where no device tells one: the first PPU's.
ASSUMED_CAPABILITY = 80

Part = dict[str, Any]


def gather() -> dict[str, Part]:
    """All parts of the report, by name, and `problems`: what keeps the tree from its job here."""
    parts: dict[str, Callable[[], Part]] = {
        "tree": tree,
        "process": process,
        "forks": forks,
        "driver": driver,
        "devices": devices,
        "toolchain": tool_chain,
        "cache": cache,
        "knobs": knobs_set,
        "torch": torch,
    }
    report: dict[str, Part] = {}
    for name, make in parts.items():
        try:
            report[name] = make()
        except Exception as error:  # a report that ends at the first fault helps nobody
            report[name] = {"error": f"{type(error).__name__}: {error}"}
    return report


def problems(report: dict[str, Part]) -> list[str]:
    """What in a gathered report keeps the tree from compiling and launching in this process."""
    found = [f"{name}: {part['error']}" for name, part in report.items() if "error" in part]
    tree_part = report["tree"]
    if tree_part.get("backend") not in (None, "ppu"):
        found.append(f"tree: built for the backend {tree_part['backend']!r}, not 'ppu'")
    if report["driver"].get("present") is False:
        found.append(f"driver: {report['driver']['explanation']}")
    if report["process"].get("state") == "ForkedAfterInit":
        found.append(
            "process: forked after the driver was initialized, so it cannot use the device"
        )
    if report["cache"].get("writable") is False:
        found.append(f"cache: {report['cache']['directory']} cannot be written")
    unknown = report["devices"].get("unknown")
    if unknown:
        found.append(f"devices: {unknown}")
    return found


def tree() -> Part:
    """Versions of the tree and of the base, and where both are."""
    import triton
    from triton import _flagtree_backend
    from triton.backends import backends
    from triton.backends.ppu import _native

    try:
        version = importlib.metadata.version("flagtree")
    except importlib.metadata.PackageNotFoundError:
        version = "not installed as a distribution"
    return {
        "version": version,
        "base": triton.__version__,
        "path": os.path.dirname(os.path.abspath(triton.__file__)),
        "backend": _flagtree_backend.FLAGTREE_BACKEND,
        "backends": list(backends),
        "extension": getattr(_native._module, "__file__", _native._module.__name__),
        "python": platform.python_version(),
        "platform": platform.platform(),
    }


def process() -> Part:
    """The state of this process, the device it would use, and how both are known."""
    from triton.backends.ppu._native import device

    state = device.state()
    answer = device.driver_answer()
    how = {
        "Absent": "no driver library or no visible device",
        "Uninitialized": "the driver is not mapped, or says it is not initialized",
        "Initialized": "the driver answers",
        "ForkedAfterInit": "noted before the fork",
    }
    ordinal, source = device.ordinal()
    return {
        "pid": os.getpid(),
        "state": state,
        "known_by": how[state],
        "driver_answer": f"{answer} ({device.result_text(answer)[0]})",
        "device": ordinal,
        "device_source": source,
    }


def forks() -> Part:
    """What is known of forks between this process and the one that initialized the driver."""
    from triton.backends.ppu._native import device

    return {
        "forked_after_initialization": bool(device.forked_after_init()),
        "initialized_by": device.initializer() or None,
        "parent": os.getppid(),
        "warning": knobs.active().fork_warning,
    }


def driver() -> Part:
    """The driver library: what is mapped, or what would be, and whether a device is behind it."""
    from triton.backends.ppu._native import device

    presence = device.presence()
    mapped = device.library()
    return {
        "present": bool(presence["present"]),
        "library": presence["driver"] or None,
        "mapped": mapped,
        "seen_by": presence["source"],
        "explanation": presence["explanation"],
    }


def devices() -> Part:
    """The visible devices and their compute capability, without the driver if need be."""
    from triton.backends.ppu._native import device

    count = device.device_count()
    listed = []
    unknown = ""
    for ordinal in range(max(count, 0)):
        capability = device.capability(ordinal)
        entry: Part = {"ordinal": ordinal, "capability": None, "known_by": capability["source"]}
        if capability["major"]:
            number = capability["major"] * 10 + capability["minor"]
            entry["capability"] = f"{capability['major']}.{capability['minor']}"
            entry["chip"] = chips.of(number).name
        else:
            entry["unknown"] = f"{capability['reason']}: {capability['detail']}"
            unknown = unknown or (
                "compute capabilities cannot be told before the driver is initialized "
                f"({capability['reason']})"
            )
        listed.append(entry)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    result: Part = {"count": count, "CUDA_VISIBLE_DEVICES": visible, "devices": listed}
    if unknown:
        result["unknown"] = unknown
    return result


def target_capability() -> tuple[int, str]:
    """The capability to compile for in this process, and where it comes from."""
    from triton.backends.ppu.driver import PPUDriver

    try:
        return int(PPUDriver().get_current_target().arch), "the current device"
    except RuntimeError:
        return ASSUMED_CAPABILITY, "assumed, as no device tells one"


def tool_chain() -> Part:
    """Which tool chain is used, why, where it was looked for, and the versions of its tools."""
    from triton.backends.nvidia import compiler as nvidia_compiler
    from triton.backends.ppu import sdk_compiler

    capability, source = target_capability()
    result: Part = {"capability": f"{capability / 10:.1f}", "capability_source": source}
    choice = toolchain.choose(capability, chips.served_by_sdk(capability))
    result |= {"kind": choice.kind, "reason": choice.reason, "looked": list(choice.looked)}
    if choice.sdk is not None:
        result |= {
            "version": str(choice.sdk.version),
            "dialect": choice.sdk.version.dialect,
            "says": choice.sdk.version.text,
            "ppu-llc": choice.sdk.llc.path,
            "llvm-irformatter": choice.sdk.formatter.path,
            "vendor_passes": sdk_compiler.vendor_passes() is not None,
        }
    else:
        get_ptxas: Any = nvidia_compiler.get_ptxas
        tool = get_ptxas(capability)
        result |= {"ptxas": tool.path, "version": tool.version}
    return result


def cache() -> Part:
    """The kernel cache: where it is, whether it can be written, how many entries it has."""
    import triton.knobs

    directory = triton.knobs.cache.dir
    existing = directory
    while existing and not os.path.lexists(existing):
        existing = os.path.dirname(existing)
    entries = 0
    if os.path.isdir(directory):
        with os.scandir(directory) as scan:
            entries = sum(entry.is_dir() for entry in scan)
    manager: Any = triton.knobs.cache.manager_class
    return {
        "directory": directory,
        "exists": os.path.isdir(directory),
        "writable": os.path.isdir(existing or ".")
        and os.access(existing or ".", os.W_OK | os.X_OK),
        "entries": entries,
        "manager": manager.__name__ if manager else "FileCacheManager",
    }


def knobs_set() -> Part:
    """Every knob of Triton and of this tree that is set, by its environment variable."""
    import triton.knobs

    names = {
        descriptor.key
        for group in vars(triton.knobs).values()
        if isinstance(group, triton.knobs.base_knobs)
        for descriptor in group.knob_descriptors.values()
    }
    names |= {descriptor.key for descriptor in knobs.active().knob_descriptors.values()}
    more = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "LD_LIBRARY_PATH", "LD_PRELOAD")
    return {name: os.environ[name] for name in sorted({*names, *more}) if name in os.environ}


def torch() -> Part:
    """PyTorch's version and where it is; it is not imported for this."""
    spec = importlib.util.find_spec("torch")
    if spec is None:
        return {"installed": False}
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        version = "unknown"
    module = sys.modules.get("torch")
    cuda = getattr(getattr(module, "version", None), "cuda", None)
    return {
        "installed": True,
        "version": version,
        "path": os.path.dirname(spec.origin or ""),
        "imported": module is not None,
        "cuda": cuda,
    }
