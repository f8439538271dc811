"""Asking for the device and forking, measured beside torch's way in one run.

What it prints, each number the median over fresh processes:

- nanoseconds per call of ``get_active_torch_device()`` in a process that holds a context and in a
  child forked from it, beside ``torch.device("cuda", torch.cuda.current_device())``;
- microseconds that the tree's fork hook adds to one ``os.fork()`` of that process, timed while it
  forks, beside a hook that asks torch's way, and ``os.fork()`` itself for scale.

    python benchmarks/resolver.py [--json] [--rounds N]

Runs on a CUDA GPU or a PPU where torch sees one. Elsewhere it runs on the simulated driver, and
says so: there torch has no device to ask, and the driver's own calls cost what the simulator's do.

Exit status: 0 measured; 1 a process failed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
import timeit
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[1]
SIMULATOR = CHECKOUT / "third_party" / "ppu" / "simulator"

CALLS = 20_000
REPEATS = 20
# Forks in which one hook is timed: enough for a 99th percentile.
FORKS = 300
# From docs/resolver.md: what was set out to be reached.
CALL_TARGET_NS, FORK_TARGET_US = 100, 2
# The slowest seen is under 20 s: a process that takes longer hangs.
TIMEOUT = 180

Hook = Callable[[], object]


def nanoseconds(function: Callable[[], object]) -> float:
    """The median time of one call, in nanoseconds."""
    timer = timeit.Timer("function()", globals={"function": function})
    return 1e9 * statistics.median(timer.repeat(repeat=REPEATS, number=CALLS)) / CALLS


def in_child(function: Callable[[], Any]) -> Any:
    """What a function answers in a forked child."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.write(write, json.dumps(function()).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0:
        raise RuntimeError("the forked child failed")
    return json.loads(text)


@contextlib.contextmanager
def hooks_withheld() -> Iterator[list[tuple[str, Hook]]]:
    """Keeps what the tree registers meanwhile to run in a forking parent from running at forks.

    Yields:
        The list that those hooks are put into, each with the moment it is for.  They are registered
        at the end, all others at once.
    """
    register = os.register_at_fork
    withheld: list[tuple[str, Hook]] = []

    def register_others(**hooks: Any) -> None:
        for moment in ("before", "after_in_parent"):
            if str(getattr(hooks.get(moment), "__module__", None)).startswith("triton."):
                withheld.append((moment, hooks.pop(moment)))
        if hooks:
            register(**hooks)

    os.register_at_fork = register_others
    yield withheld
    os.register_at_fork = register
    for moment, hook in withheld:
        register(**{moment: hook})


def time_forks(hooks: Mapping[str, Hook | None]) -> dict[str, list[int]]:
    """Forks again and again; before each fork one of the hooks runs, and they take turns.

    After a fork memory is slow to reach at first.  A hook that ran after another would be spared
    what the other has reached already, so no two run before the same fork.  Nothing runs for None:
    that is what two readings of the clock take.

    Returns:
        By hook, the nanoseconds it took in each of its forks; under "fork", those of ``os.fork()``.
    """
    times: dict[str, list[int]] = {name: [] for name in (*hooks, "fork")}
    turns = [*hooks.items()] * FORKS
    now = time.perf_counter_ns

    def before() -> None:
        if not turns:  # A fork made later: the hook cannot be taken back.
            return
        name, hook = turns.pop()
        if hook is None:
            start = now()
            end = now()
        else:
            start = now()
            hook()
            end = now()
        times[name].append(end - start)

    os.register_at_fork(before=before)
    while turns:
        start = now()
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        times["fork"].append(now() - start)
        os.waitpid(pid, 0)
    return times


def forking(ours: list[tuple[str, Hook]], torchs: Hook | None) -> dict[str, float]:
    """What the tree's hooks add to one ``os.fork()``, and what asking torch's way would.

    Both in microseconds, without what two readings of the clock take.
    """
    if len(ours) != 1:  # Several would each have to be timed, and added up.
        raise RuntimeError(f"the tree registers {len(ours)} hooks that run in a forking parent")
    hooks: dict[str, Hook | None] = {"hook": ours[0][1], "nothing": None}
    if torchs:
        hooks["torch"] = torchs
    times = time_forks(hooks)
    reading = statistics.median(times.pop("nothing"))
    result = {
        "fork_us": statistics.median(times.pop("fork")) / 1000,
        "reading_in_fork_us": reading / 1000,
    }
    for name, values in times.items():
        result[f"{name}_in_fork_us"] = (statistics.median(values) - reading) / 1000
        percentile = statistics.quantiles(values, n=100)[98]
        result[f"{name}_in_fork_p99_us"] = (percentile - reading) / 1000
    return result


def hold_context(simulated: bool) -> None:
    """Makes a context current: torch's own on a device, a bare one on the simulator."""
    if simulated:
        from flagtree_simulator.driver import Driver

        driver = Driver()
        if driver.init() != 0:
            raise RuntimeError("the simulated driver does not initialize")
        driver.use(0)
    else:
        import torch

        torch.zeros(1, device="cuda")


def work(simulated: bool) -> dict[str, Any]:
    """The measured process."""
    with hooks_withheld() as hooks:
        import torch
        import triton

        def ask_torch() -> object:
            return torch.device("cuda", torch.cuda.current_device())

        hold_context(simulated)
        active: Any = triton.runtime.driver.active
        ask = active.get_active_torch_device
        ask()
        result: dict[str, Any] = forking(hooks, None if simulated else ask_torch)
    result["parent_ns"] = nanoseconds(ask)
    result["child_ns"] = in_child(lambda: nanoseconds(ask))
    result["empty_ns"] = nanoseconds(lambda: None)
    result["torch_object_ns"] = nanoseconds(lambda: torch.device("cuda", 0))
    if not simulated:

        def torch_in_child() -> str:
            try:
                ask_torch()
            except RuntimeError as error:
                return str(error).splitlines()[0]
            return "no error"

        result["torch_ns"] = nanoseconds(ask_torch)
        result["torch_in_child"] = in_child(torch_in_child)
        result["device"] = torch.cuda.get_device_name(0)
        result["devices"] = torch.cuda.device_count()
    return result


def run(simulated: bool, environment: dict[str, str]) -> dict[str, Any]:
    """Starts a measured process; what it found.

    Raises:
        RuntimeError: it failed; the message holds what it wrote.
    """
    command = [sys.executable, __file__, "--worker", str(int(simulated))]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"a measured process ended with {done.returncode}:\n{done.stderr}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def has_device() -> bool:
    """Whether torch sees a device, asked in another process."""
    code = "import torch, sys; sys.exit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def measure(rounds: int) -> dict[str, Any]:
    """Runs everything; the medians and what they are of."""
    simulated = not has_device()
    environment = dict(os.environ)
    machine = None
    if simulated:
        sys.path.insert(0, str(SIMULATOR))
        from flagtree_simulator import Simulator

        machine = Simulator()
        environment = machine.environment()
        environment["FLAGTREE_SIM_LOG"] = ""  # Writing the log is no part of what is measured.
        path = [str(SIMULATOR), environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, path))
    processes = [run(simulated, environment) for _ in range(rounds)]
    result: dict[str, Any] = {"driver": "simulator" if simulated else "real", "rounds": rounds}
    for name, value in processes[0].items():
        values = [each[name] for each in processes]
        result[name] = statistics.median(values) if isinstance(value, float) else value
    if "torch_ns" in result:
        result["ratio_parent"] = result["parent_ns"] / result["torch_ns"]
        result["ratio_child"] = result["child_ns"] / result["torch_ns"]
        result["ratio_fork"] = result["hook_in_fork_us"] / result["torch_in_fork_us"]
    return result


def describe(found: dict[str, Any]) -> str:
    """The result as text."""
    lines = []
    if found["driver"] == "simulator":
        lines.append("SIMULATED DRIVER: no device here. These are not a device's numbers.")
    else:
        lines.append(f"{found['device']}, {found['devices']} visible")
    rows = [
        ("get_active_torch_device(), parent", found["parent_ns"], "ns"),
        ("get_active_torch_device(), forked child", found["child_ns"], "ns"),
        ("an empty lambda", found["empty_ns"], "ns"),
        ('torch.device("cuda", 0)', found["torch_object_ns"], "ns"),
    ]
    if "torch_ns" in found:
        rows.append(('torch.device("cuda", current_device())', found["torch_ns"], "ns"))
    rows += [
        ("what the hook adds to one os.fork()", found["hook_in_fork_us"], "us"),
        ("    99th percentile", found["hook_in_fork_p99_us"], "us"),
    ]
    if "torch_ns" in found:
        rows += [
            ("what asking torch's way would add", found["torch_in_fork_us"], "us"),
            ("    99th percentile", found["torch_in_fork_p99_us"], "us"),
        ]
    rows += [
        ("two readings of the clock, taken off these", found["reading_in_fork_us"], "us"),
        ("os.fork() itself", found["fork_us"], "us"),
    ]
    lines += [f"{name:42} {value:9.1f} {unit}" for name, value, unit in rows]
    if "torch_ns" in found:
        lines.append(
            f"of torch's way: {found['ratio_parent']:.2f} in the parent, "
            f"{found['ratio_child']:.2f} in the child, {found['ratio_fork']:.2f} at a fork"
        )
        lines.append(f"torch's way in a forked child: {found['torch_in_child']}")
    lines.append(f"set out to reach: {CALL_TARGET_NS} ns a call, {FORK_TARGET_US} us a fork")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    parser.add_argument("--rounds", type=int, default=3, help="measured processes (default 3)")
    parser.add_argument("--worker", choices=("0", "1"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        print(json.dumps(work(simulated=arguments.worker == "1")))
        return 0
    if arguments.rounds < 1:
        parser.error(f"--rounds is {arguments.rounds}; it must be 1 or more")
    try:
        found = measure(arguments.rounds)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        print(f"resolver.py: {error}", file=sys.stderr)
        return 1
    print(json.dumps(found, indent=2) if arguments.json else describe(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
