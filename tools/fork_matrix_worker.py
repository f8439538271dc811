"""One row of the fork matrix, played out: a process comes to be in the way the row
says, the driver is initialized by whom and when it says, and then the questions are
asked of the installed Triton.

Runs under the interpreter that is measured, so it needs nothing but Python and that
Triton, and uses only Triton's public interface. It judges nothing; fork_matrix.py
does. Each question leaves two lines in the results file, before and after, so that a
hang or a crash is seen by the second one missing.

    python fork_matrix_worker.py ROW.json
"""

# Triton is not typed throughout.
# mypy: allow-untyped-calls

from __future__ import annotations

import concurrent.futures
import ctypes
import functools
import hashlib
import importlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

Row = dict[str, Any]

_HERE = Path(__file__).resolve().parent
_SIMULATOR = _HERE.parent / "third_party" / "ppu" / "simulator"


def _from_simulator(name: str) -> ModuleType:
    """A module of flagtree_simulator that works on a real driver too."""
    if str(_SIMULATOR) not in sys.path:
        sys.path.append(str(_SIMULATOR))
    return importlib.import_module(f"flagtree_simulator.{name}")


def driver_calls() -> ModuleType:
    """The calls of a driver, and the ways to fork."""
    return _from_simulator("driver")


def initialization() -> ModuleType:
    """The ways to initialize a driver."""
    return _from_simulator("initialization")


# --- Initialization ---------------------------------------------------------------


def initialize(row: Row) -> None:
    """Initializes the driver in this process and thread, as the row says."""
    initialization().initialize(row["by"], row["device"])


def management_library() -> tuple[ctypes.CDLL, str] | None:
    """NVML or HGML and the prefix of its calls; None where there is neither."""
    for name, prefix in (("libnvidia-ml.so.1", "nvml"), ("libhgml.so", "hgml")):
        try:
            return ctypes.CDLL(name), prefix
        except OSError:
            continue
    return None


def use_management(library: ctypes.CDLL, prefix: str, ended: threading.Event) -> None:
    """Stays inside the management library, but for moments, until the event is set."""
    while not ended.is_set():
        library[f"{prefix}Init_v2"]()
        library[f"{prefix}Shutdown"]()


def import_tree() -> None:
    import triton  # noqa: F401


# --- The questions ----------------------------------------------------------------


def active() -> Any:
    import triton

    return triton.runtime.driver.active


def ask_import() -> Any:
    import triton
    import triton.language

    return triton.__version__


def ask_is_active() -> Any:
    from triton.backends import backends

    return sorted(name for name, backend in backends.items() if backend.driver.is_active())


def ask_device() -> Any:
    return active().get_current_device()


def ask_torch_device() -> Any:
    return str(active().get_active_torch_device())


def ask_target() -> Any:
    target = active().get_current_target()
    return [target.backend, target.arch, target.warp_size]


def ask_hint_backend() -> Any:
    from triton.compiler import hint_manager

    return hint_manager.hint_get_flagtree_backend()


def compiled(kernel_name: str, target: tuple[str, int, int] | None) -> Any:
    import fork_matrix_kernels as kernels
    import triton

    chosen = None
    if target is not None:
        from triton.backends.compiler import GPUTarget

        chosen = GPUTarget(*target)
    kernel = triton.compile(kernels.source(getattr(kernels, kernel_name)), target=chosen)
    binary = kernel.asm["cubin"]
    return [kernel.metadata.target.arch, hashlib.sha256(binary).hexdigest()]


def ask_compile_explicit() -> Any:
    return compiled("add", ("cuda", 80, 32))


def ask_compile_active() -> Any:
    return compiled("scale", None)


def ask_autotuner() -> Any:
    import fork_matrix_kernels as kernels

    tuner = kernels.tuned()
    return [len(tuner.configs), tuner.arg_names]


def ask_jit() -> Any:
    import ast

    import fork_matrix_kernels as kernels

    parsed = kernels.add.parse()
    loads = ast.unparse(parsed).count("tl.load")
    return [type(parsed).__name__, loads, bool(kernels.add.cache_key)]


QUESTIONS: dict[str, Callable[[], Any]] = {
    "import": ask_import,
    "is_active": ask_is_active,
    "device": ask_device,
    "torch_device": ask_torch_device,
    "target": ask_target,
    "hint": ask_hint_backend,
    "compile_80": ask_compile_explicit,
    "compile": ask_compile_active,
    "autotuner": ask_autotuner,
    "jit": ask_jit,
}


# --- Asking -----------------------------------------------------------------------


def probe(row: Row) -> list[Any]:
    """What reading calls say about this process: [initialized, context, primaries].

    The library is not loaded for it: where it is not mapped, nobody initialized.
    """
    try:
        library = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        return [3, None, None]
    ordinal, context = ctypes.c_int(), ctypes.c_void_p()
    result = library.cuDeviceGet(ctypes.byref(ordinal), 0)
    if result:
        return [result, None, None]
    library.cuCtxGetCurrent(ctypes.byref(context))
    primaries = []
    for device in range(row["devices"]):
        flags, is_active = ctypes.c_uint(), ctypes.c_int()
        library.cuDevicePrimaryCtxGetState(device, ctypes.byref(flags), ctypes.byref(is_active))
        primaries.append(is_active.value)
    return [0, context.value, primaries]


def child_can_initialize(row: Row) -> int | str:
    """What cuInit answers in a child forked now; "hang" or "crash" where it does not."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            signal.setitimer(signal.ITIMER_REAL, row["limit"])
            os.write(writing, str(driver_calls().Driver().init()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = pipe.read()
    _, status = os.waitpid(pid, 0)
    if answer:
        return int(answer)
    return "hang" if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM else "crash"


def write_line(row: Row, **line: Any) -> None:
    line |= {"pid": os.getpid(), "time": time.monotonic_ns()}
    descriptor = os.open(row["results"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, (json.dumps(line) + "\n").encode())
    os.close(descriptor)


def ask(row: Row, question: str) -> bool:
    """Asks one question; False when asking changed the state of the process."""
    before = probe(row)
    # The signal's default action ends the process even where it hangs in C.
    signal.setitimer(signal.ITIMER_REAL, row["limit"])
    write_line(row, event="ask", question=question)
    answer, error = None, None
    try:
        answer = QUESTIONS[question]()
    except BaseException as raised:
        error = [type(raised).__name__, str(raised), getattr(raised, "name", None)]
    ended = time.monotonic_ns()
    signal.setitimer(signal.ITIMER_REAL, 0)
    after = probe(row)
    child = child_can_initialize(row) if row["fork_check"] == "each" else None
    write_line(
        row,
        event="answered",
        question=question,
        answer=answer,
        error=error,
        before=before,
        after=after,
        child=child,
        ended=ended,
    )
    return before == after


def ask_all(row: Row) -> None:
    """Asks the row's questions; ends early when one has changed the process."""
    for question in row["questions"]:
        if not ask(row, question):
            return
    if row["fork_check"] == "end":
        write_line(row, event="child", child=child_can_initialize(row))


def arrive(row: Row) -> int:
    """What the process that is asked does at its start."""
    if row["when"] == "after":
        if row["imported"] == "parent":
            import_tree()
        initialize(row)
    ask_all(row)
    return 0


# --- The ways a process comes to be -----------------------------------------------


def prepare(row: Row) -> None:
    """What the parent does before the process comes to be."""
    if row["imported"] == "parent":
        import_tree()
    if row["when"] == "before":
        initialize(row)
    if row["asked"]:
        ask_device()


def begin_meanwhile(row: Row) -> Callable[[], None]:
    """Begins in another thread what happens while the process forks, if anything does,
    and comes back while it happens. Answers a function that waits for its end.

    Everything is imported and loaded before: a module that a thread imports while its
    process forks can never be imported in the child, and that is not what is asked.
    """
    if row["when"] != "while":
        return lambda: None
    ended, begun = threading.Event(), threading.Event()
    body: Callable[[], None] = functools.partial(initialize, row)
    if row["by"] == "management":
        found = management_library()
        assert found is not None, "fork_matrix.py plays this only where there is one"
        body = functools.partial(use_management, *found, ended)
    else:
        driver_calls().Driver()
        initialization()
    if row["by"] == "torch":
        import torch  # noqa: F401

    def begin() -> None:
        begun.set()
        body()

    thread = threading.Thread(target=begin, daemon=True)
    thread.start()
    begun.wait()
    time.sleep(0.02)

    def finish() -> None:
        ended.set()
        thread.join()

    return finish


def exit_status(pid: int) -> int:
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def start_child(how: str, body: Callable[[], int]) -> int:
    """Forks; the child runs the body and ends with its status. Returns the child's pid."""
    pid = int(driver_calls().fork(how))
    if pid:
        return pid
    status = 1
    try:
        status = body()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status & 0x7F)


def fork_and_arrive(row: Row, how: str) -> int:
    return start_child(how, functools.partial(arrive, row))


def by_fork(row: Row, how: str) -> int:
    prepare(row)
    if how != "python":
        # A fork in C copies another thread's request for the interpreter's lock, too, and the
        # child would wait for that thread: nobody is to ask for it meanwhile.
        sys.setswitchinterval(60)
    finish = begin_meanwhile(row)
    status = exit_status(fork_and_arrive(row, how))
    finish()
    return status


def fresh(row: Row) -> int:
    if row["when"] == "before":  # before the tree is imported
        initialize(row)
    elif row["when"] == "between":  # asked once, unscored, before it is initialized
        for question in ("is_active", "device", "target"):
            try:
                QUESTIONS[question]()
            except Exception as error:
                print(f"before initialization, {question}: {error!r}", file=sys.stderr)
        initialize(row)
    return arrive(row)


def by_thread(row: Row) -> int:
    """The thread that forks has its own current device; the main thread another."""
    prepare(row | {"device": 0} if row["by"] == "context" else row)
    statuses: list[int] = []

    def fork_here() -> None:
        if row["when"] == "before":
            initialize(row)
        finish = begin_meanwhile(row)
        if row["asked"]:
            ask_device()
        statuses.append(exit_status(fork_and_arrive(row, "python")))
        finish()

    thread = threading.Thread(target=fork_here)
    thread.start()
    thread.join()
    return statuses[0]


def fork_of_fork(row: Row) -> int:
    prepare(row)

    def child() -> int:
        if row["when"] == "between":
            initialize(row)
        finish = begin_meanwhile(row)
        status = exit_status(fork_and_arrive(row, "python"))
        finish()
        return status

    return exit_status(start_child("python", child))


def by_multiprocessing(row: Row, method: str) -> int | None:
    if not row["preload"]:
        prepare(row)
    context: Any = multiprocessing.get_context(method)
    if method == "forkserver":
        context.set_forkserver_preload(["fork_matrix_worker"] if row["preload"] else [])
    finish = begin_meanwhile(row)
    process = context.Process(target=arrive, args=(row,))
    process.start()
    process.join()
    finish()
    exitcode: int | None = process.exitcode
    return exitcode


def initialize_worker(row: Row) -> None:
    if row["when"] == "after":
        initialize(row)


def pool(row: Row) -> int:
    """A manager process, itself a child, that forks a pool of workers."""
    if not row.get("is_manager"):
        return run_again(row | {"is_manager": True})
    prepare(row)
    finish = begin_meanwhile(row)
    with concurrent.futures.ProcessPoolExecutor(
        max_workers=2,
        mp_context=multiprocessing.get_context("fork"),
        initializer=initialize_worker,
        initargs=(row,),
    ) as executor:
        for future in [executor.submit(ask, row, question) for question in row["questions"]]:
            if not future.result():
                break
        if row["fork_check"] == "end":
            answer = executor.submit(child_can_initialize, row).result()
            write_line(row, event="child", child=answer)
    finish()
    return 0


def run_again(row: Row) -> int:
    """Runs this file in a fresh interpreter on another row."""
    path = Path(row["results"]).with_suffix(".child.json")
    path.write_text(json.dumps(row))
    return subprocess.run([sys.executable, __file__, str(path)], check=False).returncode


def by_subprocess(row: Row) -> int:
    prepare(row)
    return run_again(row | {"way": "fresh", "when": "after" if row["when"] == "after" else "never"})


WAYS: dict[str, Callable[[Row], int | None]] = {
    "fresh": fresh,
    "os.fork": lambda row: by_fork(row, "python"),
    "C fork": lambda row: by_fork(row, "c"),
    "raw clone": lambda row: by_fork(row, "clone"),
    "fork from a thread": by_thread,
    "fork of a fork": fork_of_fork,
    "mp fork": lambda row: by_multiprocessing(row, "fork"),
    "mp forkserver": lambda row: by_multiprocessing(row, "forkserver"),
    "mp spawn": lambda row: by_multiprocessing(row, "spawn"),
    "pool manager": pool,
    "subprocess": by_subprocess,
}


def main() -> None:
    row = json.loads(Path(sys.argv[1]).read_text())
    status = WAYS[row["way"]](row)
    write_line(row, event="end", status=status)


# A fork server imports this file before it forks, as it would a main module that
# initializes at its top level.
if __name__ == "fork_matrix_worker" and os.environ.get("FLAGTREE_MATRIX_PRELOAD"):
    _preload = json.loads(os.environ["FLAGTREE_MATRIX_PRELOAD"])
    if _preload["import"]:
        import_tree()
    if _preload["by"] != "nobody":
        initialize(_preload)

if __name__ == "__main__":
    main()
