#!/usr/bin/env python3
"""The fork matrix: does a Triton answer right in every kind of process?

A row is a way in which a process comes to be, with who initialized the driver and
when. A column is something that is asked of Triton there. A cell is right when the
answer is right, when asking has initialized nothing, and when a child forked after it
can still initialize the driver if it could before. docs/fork-matrix.md states the right
answers and why.

    tools/fork_matrix.py --driver simulator              # the Triton of this interpreter
    tools/fork_matrix.py --driver real --path DIR        # one installed into DIR
    tools/fork_matrix.py --driver simulator --python EXE # one of another interpreter

The last line is ``N of M cells right``; the exit status is 0 only if all are.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "third_party" / "ppu" / "simulator"))

from flagtree_simulator import Call, Simulator  # noqa: E402

QUESTIONS = {
    "import": "import triton and its language",
    "is_active": "which backends' drivers say that they are active",
    "device": "driver.active.get_current_device()",
    "torch_device": "driver.active.get_active_torch_device()",
    "target": "driver.active.get_current_target()",
    "hint": "hint_manager.hint_get_flagtree_backend()",
    "compile_80": 'triton.compile for GPUTarget("cuda", 80, 32)',
    "compile": "triton.compile for the active target",
    "autotuner": "make an autotuner",
    "jit": "decorate a kernel, parse it, make its cache key",
}

# What a question may not call: everything that initializes, makes or chooses a
# context, or uses the device. The rest of the driver's calls only read.
FORBIDDEN = ("Init", "Ctx", "DevicePrimaryCtx", "Module", "Launch", "Mem", "Stream", "Event")
READING = (
    "CtxGetCurrent",
    "CtxGetDevice",
    "CtxGetLimit",
    "CtxGetStreamPriorityRange",
    "DevicePrimaryCtxGetState",
    "MemGetInfo_v2",
    "StreamGetCtx",
    "StreamGetDevice",
    "StreamQuery",
)

FORKING = ("os.fork", "mp fork", "pool manager", "fork of a fork", "fork from a thread")
FORKING_IN_C = ("C fork", "raw clone")
STARTING_ANEW = ("mp forkserver", "mp spawn", "subprocess")
# Where cuda.core initializes: it makes a context current by the same calls as "context" and loads
# the driver in a way of its own, so the plain ways show what there is to see.
OF_CUDA_CORE = ("fresh", "os.fork", "mp fork", "pool manager")


@dataclasses.dataclass(frozen=True)
class Row:
    """One kind of process.

    Attributes:
        way: how it came to be.
        by: who initialized the driver: nobody, cuInit, context, torch, cuda.core;
            management: nobody, but a thread of the parent is inside that library.
        when: never; before it came to be; while its parent forked; after, in itself;
            between a parent and itself (fork of a fork), or between two askings (fresh).
        imported: where the tree was imported first: parent or child.
        asked: whether the parent asked for the device before it forked.
        preload: the fork server's main module imports, and initializes if by says so.
        no_device: no device is visible.
    """

    way: str
    by: str = "nobody"
    when: str = "never"
    imported: str = "parent"
    asked: bool = False
    preload: bool = False
    no_device: bool = False

    @property
    def label(self) -> str:
        notes = [self.way]
        if self.preload:
            notes.append("initializing main" if self.by != "nobody" else "importing main")
        if self.no_device:
            notes.append("no device visible")
        else:
            notes.append(self.by if self.by == "nobody" else f"{self.by} {self.when}")
        if self.way in FORKING + FORKING_IN_C and self.imported == "child":
            notes.append("tree imported in the child")
        if self.asked:
            notes.append("parent had asked")
        return ", ".join(notes)

    @property
    def is_initialized(self) -> bool | None:
        """Whether the driver is live in the process or was in an ancestor that forked
        into it, so that a further child cannot initialize; None: it may be either."""
        if self.by == "management":
            return False
        if self.when == "while":
            return None
        if self.when == "before" and not self.preload:
            return self.way not in STARTING_ANEW
        return self.by != "nobody"

    @property
    def ordinal_is_the_contexts(self) -> bool:
        """Whether the right ordinal is that of the initializer's context, not 0."""
        if self.by in ("nobody", "cuInit") or not self.is_initialized:
            return False
        if self.when == "before" and self.way in FORKING:
            return self.imported == "parent"
        if self.when == "before" and self.way in FORKING_IN_C:
            return self.asked
        return True


def all_rows(initializers: tuple[str, ...], has_management: bool) -> list[Row]:
    """Every row; ``initializers`` are the ways to initialize that there are here."""
    everywhere = [by for by in initializers if by != "cuda.core"]
    rows = [Row("fresh")]
    for by in everywhere:
        rows += [Row("fresh", by, when) for when in ("before", "after", "between")]
    for way in FORKING + FORKING_IN_C:
        rows += [Row(way), Row(way, imported="child")]
        if has_management:
            rows.append(Row(way, "management", "while"))
        for by in everywhere:
            rows += [Row(way, by, when) for when in ("before", "while", "after")]
            rows.append(Row(way, by, "before", imported="child"))
            if way == "fork of a fork":
                rows.append(Row(way, by, "between"))
            if way in FORKING_IN_C:
                rows.append(Row(way, by, "before", asked=True))
    rows.append(Row("mp forkserver", preload=True))
    rows += [Row("mp forkserver", by, "before", preload=True) for by in everywhere]
    for way in STARTING_ANEW:
        rows.append(Row(way))
        rows += [Row(way, by, when) for by in everywhere for when in ("before", "after")]
    if "cuda.core" in initializers:
        rows += [
            Row(way, "cuda.core", when) for way in OF_CUDA_CORE for when in ("before", "after")
        ]
    for way in ("fresh", "os.fork", "mp fork", "mp spawn", "subprocess"):
        rows.append(Row(way, no_device=True))
    return rows


@dataclasses.dataclass
class Cell:
    """What came of one question in one row.

    Attributes:
        verdict: right, wrong or "not applicable".
        mark: one letter for the table.
        why: what was wrong; empty where nothing was.
    """

    verdict: str
    mark: str
    why: str = ""


RIGHT = Cell("right", ".")
MARKS = {
    ".": "right",
    "-": "not applicable",
    "A": "a wrong answer",
    "E": "an error instead of an answer",
    "I": "asking initialized the driver or changed the context",
    "F": "a child forked afterwards can no longer initialize",
    "H": "no answer within the time limit",
    "C": "the process crashed",
    "X": "the process did not come to be",
    "T": "not asked: --time was over",
}


@dataclasses.dataclass
class Machine:
    """The driver the matrix runs on, and what the right answers are on it."""

    driver: str
    devices: int
    capabilities: list[tuple[int, int]]
    initializers: tuple[str, ...]
    has_management: bool

    def arch(self, ordinal: int) -> int:
        major, minor = self.capabilities[ordinal]
        return major * 10 + minor


@dataclasses.dataclass
class Triton:
    """The Triton that is measured, as it is where no driver is in reach.

    Attributes:
        backend: name of the backend that compiles for GPUTarget("cuda", ...).
        hint_backend: the backend it was built for, where it has a hint manager.
        binaries: by kernel and architecture, the binary's hash; empty where it
            cannot compile without a driver.
    """

    version: str
    location: str
    backend: str | None
    hint_backend: str | None
    has_torch: bool
    binaries: dict[str, dict[str, str]]


LOOK_AT_DRIVER = """
import ctypes, json
import fork_matrix_worker
def look():
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return str(error)
    count, value = ctypes.c_int(), ctypes.c_int()
    result = cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count))
    if result:
        return f"the driver answers {result}"
    capabilities = []
    for device in range(count.value):
        pair = []
        for attribute in (75, 76):
            cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
            pair.append(value.value)
        capabilities.append(pair)
    try:
        import torch
        has_cuda = torch.version.cuda is not None and torch.cuda.is_available()
    except ImportError:
        has_cuda = False
    has_management = fork_matrix_worker.management_library() is not None
    return {"capabilities": capabilities, "torch": has_cuda, "management": has_management}
print(json.dumps(look()))
"""

LOOK_FOR_CUDA_CORE = """
import json
import fork_matrix_worker as worker
print(json.dumps(worker.initialization().has_cuda_core()))
"""

LOOK_AT_TRITON = """
import importlib.util, json, sys
import fork_matrix_worker as worker
import triton
from triton.backends import backends
from triton.backends.compiler import GPUTarget
binaries = {{"add": {{}}, "scale": {{}}}}
for kernel in binaries:
    for arch in {architectures}:
        try:
            binaries[kernel][arch] = worker.compiled(kernel, ("cuda", arch, 32))[1]
        except Exception as error:
            print(f"no reference for {{kernel}} on {{arch}}: {{error!r}}", file=sys.stderr)
names = [name for name in backends
         if backends[name].compiler.supports_target(GPUTarget("cuda", 80, 32))]
hint_backend = None
if importlib.util.find_spec("triton.compiler.hint_manager"):
    from triton._flagtree_backend import FLAGTREE_BACKEND as hint_backend
print(json.dumps({{
    "version": triton.__version__,
    "location": triton.__path__[0],
    "backend": names[0] if len(names) == 1 else None,
    "hint_backend": hint_backend,
    "has_torch": importlib.util.find_spec("torch") is not None,
    "binaries": binaries,
}}))
"""


class Matrix:
    """Plays the rows and judges the cells."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.temporary = tempfile.TemporaryDirectory(prefix="fork-matrix-")
        self.root = Path(self.temporary.name)
        self.deadline = time.monotonic() + self.options.time
        self.machine = self.look_at_machine()
        self.triton = self.look_at_triton()

    # --- What there is ------------------------------------------------------------

    def environment(self, work: Path) -> dict[str, str]:
        """The environment of a process that is measured, without a driver chosen."""
        result = dict(os.environ)
        for name in ("CUDA_VISIBLE_DEVICES", "FLAGTREE_PPU_DEVICE", "TRITON_OVERRIDE_ARCH"):
            result.pop(name, None)
        inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        path = [self.options.path, HERE, *filter(None, inherited)]
        # Absolute, as the rows are played in other directories.
        result["PYTHONPATH"] = os.pathsep.join(os.path.abspath(part) for part in path if part)
        result["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        # numpy's OpenBLAS waits for its threads before each fork, and a raw clone has none
        # of them: os.fork() in it hangs, whatever is imported besides numpy.
        result["OPENBLAS_NUM_THREADS"] = "1"
        result["TRITON_CACHE_DIR"] = str(work / "cache")
        result["TRITON_HOME"] = result["HOME"] = str(work)
        # The matrix judges answers; a child that only asks must not warn anyway.
        result["PYTHONWARNINGS"] = "ignore::DeprecationWarning"
        return result

    def run_in(self, code: str, env: dict[str, str]) -> Any:
        """Runs code in the measured interpreter; reads the JSON it prints last."""
        command = [self.options.python, "-c", code]
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=300, check=False
        )
        if done.returncode:
            raise SystemExit(f"fork_matrix: {self.options.python} cannot do this:\n{done.stderr}")
        return json.loads(done.stdout.splitlines()[-1])

    def look_at_machine(self) -> Machine:
        env = self.environment(self.root)
        cuda_core = ("cuda.core",) if self.run_in(LOOK_FOR_CUDA_CORE, env) else ()
        if self.options.driver == "simulator":
            initializers = ("cuInit", "context", *cuda_core)
            return Machine("simulator", 2, [(8, 0), (9, 0)], initializers, True)
        found = self.run_in(LOOK_AT_DRIVER, env)
        if isinstance(found, str):
            raise SystemExit(f"fork_matrix: --driver real: {found}")
        capabilities = [(major, minor) for major, minor in found["capabilities"]]
        torch = ("torch",) if found["torch"] else ()
        initializers = ("cuInit", "context", *torch, *cuda_core)
        return Machine("real", len(capabilities), capabilities, initializers, found["management"])

    def look_at_triton(self) -> Triton:
        work = self.root / "reference"
        work.mkdir()
        env = self.environment(work) | {"CUDA_VISIBLE_DEVICES": ""}
        architectures = sorted({80, *(self.machine.arch(i) for i in range(self.machine.devices))})
        return Triton(**self.run_in(LOOK_AT_TRITON.format(architectures=architectures), env))

    # --- Playing a row ------------------------------------------------------------

    def play(self, row: Row, index: int) -> dict[str, Cell]:
        """All cells of a row, in as few processes as the answers allow."""
        cells: dict[str, Cell] = {}
        attempt = 0
        one_by_one = False
        while remaining := [question for question in QUESTIONS if question not in cells]:
            if time.monotonic() >= self.deadline:
                cells |= {question: Cell("wrong", "T", "not asked") for question in remaining}
                break
            work = self.root / f"row{index}.{attempt}"
            work.mkdir()
            attempt += 1
            asked = remaining[:1] if one_by_one else remaining
            judged = self.play_once(row, asked, work, one_by_one)
            if time.monotonic() >= self.deadline:
                continue  # it may have been cut short, so what it left says nothing
            if judged is None and not one_by_one:
                one_by_one = True
            elif not judged:
                trouble = (work / "output").read_text().strip()[-2000:]
                why = f"the process did not come to be: {trouble}"
                cells |= {question: Cell("wrong", "X", why) for question in asked}
            else:
                cells |= judged
        return {question: cells[question] for question in QUESTIONS}

    def play_once(
        self, row: Row, questions: list[str], work: Path, one_by_one: bool
    ) -> dict[str, Cell] | None:
        """Asks questions in one playing of the row; judges what came of it.

        Returns the cells that are decided, or None: it takes asking one by one.
        """
        env = self.environment(work)
        simulator = None
        if self.machine.driver == "simulator":
            simulator = Simulator(
                devices=self.machine.devices, capability=self.machine.capabilities, root=work
            )
            if row.when == "while":
                simulator.fault("cuInit", "first", delay=0.06)
                simulator.fault("nvmlInit_v2", "every", delay=0.06)
            env = simulator.environment(env)
        if row.no_device:
            env["CUDA_VISIBLE_DEVICES"] = ""
        # On a real driver initializing takes long, so that one child at the end has to
        # do, unless that fails. A driver forked while it initializes promises nothing,
        # so a real one is then not asked at all.
        fork_check = "each"
        if not simulator:
            unsure = row.is_initialized is None
            fork_check = "none" if unsure else "each" if one_by_one else "end"
        spec = dataclasses.asdict(row) | {
            "device": self.machine.devices - 1,
            "devices": self.machine.devices,
            "questions": questions,
            "results": str(work / "results"),
            "limit": self.options.limit,
            "fork_check": fork_check,
        }
        if row.preload:
            preload = {"import": True, "by": row.by, "device": spec["device"]}
            env["FLAGTREE_MATRIX_PRELOAD"] = json.dumps(preload)
        (work / "row.json").write_text(json.dumps(spec))
        started = time.monotonic()
        limit = 60 + self.options.limit * (len(questions) + 1)
        self.run_worker(work, env, max(0.1, min(limit, self.deadline - started)))
        if self.options.verbose:
            print(f"{time.monotonic() - started:6.1f} s  {row.label}", file=sys.stderr)
        lines = []
        if (work / "results").exists():
            lines = [json.loads(line) for line in (work / "results").read_text().splitlines()]
        return self.judge(row, lines, simulator.calls() if simulator else [], one_by_one)

    def run_worker(self, work: Path, env: dict[str, str], limit: float) -> None:
        """Runs the worker in a process group of its own, which dies with it."""
        command = [self.options.python, str(HERE / "fork_matrix_worker.py"), str(work / "row.json")]
        with (work / "output").open("w") as output:
            process = subprocess.Popen(
                command,
                env=env,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=work,
                start_new_session=True,
            )
            try:
                process.wait(limit)
            except subprocess.TimeoutExpired:
                output.write(f"\nstopped after {limit} s")
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    # --- Judging ------------------------------------------------------------------

    def judge(
        self, row: Row, lines: list[dict[str, Any]], calls: list[Call], one_by_one: bool
    ) -> dict[str, Cell] | None:
        """The cells that this playing decides, as play_once() returns them."""
        cells: dict[str, Cell] = {}
        answered = {line["question"]: line for line in lines if line["event"] == "answered"}
        asked = [line for line in lines if line["event"] == "ask"]
        unanswered = [line for line in asked if line["question"] not in answered]
        if len(unanswered) > 1 and not one_by_one:
            return None  # a pool ends all its workers when one of them ends
        final = [line["child"] for line in lines if line["event"] == "child"]
        if final and not self.child_is_right(row, final[0]) and not one_by_one:
            return None
        changed: set[int] = set()  # processes that a question has changed
        for line in asked:
            if line["pid"] in changed:
                continue
            question = line["question"]
            if line in unanswered:
                limit = self.options.limit
                hung = time.monotonic_ns() - line["time"] >= 0.95e9 * limit
                cells[question] = (
                    Cell("wrong", "H", f"no answer within {limit} s")
                    if hung
                    else Cell("wrong", "C", "the process crashed while it was asked")
                )
                continue
            cell = self.judge_answer(row, question, answered[question])
            side_effect = self.judge_side_effect(row, line, answered[question], calls)
            if side_effect:
                changed.add(line["pid"])
            cells[question] = side_effect or cell
        return cells

    def judge_side_effect(
        self, row: Row, asked: dict[str, Any], answered: dict[str, Any], calls: list[Call]
    ) -> Cell | None:
        # What failed has initialized nothing, nor has cuInit where it was initialized.
        was_initialized = answered["before"][0] == 0
        forbidden = [
            call.name
            for call in calls
            if call.pid == asked["pid"]
            and call.result == 0
            and not (was_initialized and call.name[2:] == "Init")
            and asked["time"] <= call.time <= answered["ended"]
            and call.name[2:].startswith(FORBIDDEN)
            and call.name[:2] in ("cu", "hg")
            and call.name[2:] not in READING
        ]
        if forbidden:
            return Cell("wrong", "I", "asking called " + ", ".join(forbidden))
        if answered["before"] != answered["after"]:
            change = f"{answered['before']} before, {answered['after']} after"
            return Cell("wrong", "I", f"asking changed the driver's state: {change}")
        child = answered["child"]
        if child is not None and not self.child_is_right(row, child):
            return Cell("wrong", "F", f"cuInit in a child forked afterwards: {child}")
        return None

    def child_is_right(self, row: Row, child: int | str) -> bool:
        if row.no_device:
            return child == 100
        if row.is_initialized is None:
            return child in (0, 3)
        return child == (3 if row.is_initialized else 0)

    def judge_answer(self, row: Row, question: str, line: dict[str, Any]) -> Cell:
        answer, error = line["answer"], line["error"]
        if question == "hint" and self.triton.hint_backend is None:
            return Cell("not applicable", "-", "lacks a hint manager")
        if question == "torch_device" and not self.triton.has_torch:
            return Cell("not applicable", "-", "PyTorch is not installed")
        if row.no_device and question in ("target", "compile", "device", "torch_device"):
            return self.judge_without_device(question, answer, error)
        if error:
            return Cell("wrong", "E", f"{error[0]}: {error[1]}")
        expected = self.expected(row, question, line["before"])
        if answer != expected:
            return Cell("wrong", "A", f"answered {answer!r}, right is {expected!r}")
        return RIGHT

    def judge_without_device(self, question: str, answer: Any, error: Any) -> Cell:
        """With no device visible: an error that names that as the cause. Which device
        would be current may also be answered, by the default."""
        if error:
            text = error[1].lower()
            if "device" in text and ("visible" in text or "no device" in text):
                return RIGHT
            return Cell("wrong", "E", f"does not say that no device is visible: {error[1]}")
        if answer == {"device": 0, "torch_device": "cuda:0"}.get(question, object()):
            return RIGHT
        return Cell("wrong", "A", f"answered {answer!r} though no device is visible")

    def expected(self, row: Row, question: str, before: list[Any]) -> Any:
        # A driver that missed a raw clone still tells the context's device.
        result, context, _ = before
        tells_context = result == 0 and context is not None
        ordinal = self.machine.devices - 1 if row.ordinal_is_the_contexts or tells_context else 0
        arch = self.machine.arch(ordinal)
        return {
            "import": self.triton.version,
            "is_active": [] if row.no_device else [self.triton.backend],
            "device": ordinal,
            "torch_device": f"cuda:{ordinal}",
            "target": ["cuda", arch, 32],
            "hint": self.triton.hint_backend,
            "compile_80": [80, self.triton.binaries["add"].get("80")],
            "compile": [arch, self.triton.binaries["scale"].get(str(arch))],
            "autotuner": [2, ["x", "y", "n", "BLOCK"]],
            "jit": ["Module", 2, True],
        }[question]


# --- The table --------------------------------------------------------------------


def table(rows: list[Row], results: list[dict[str, Cell]]) -> str:
    """The cells' marks by row and column, and what each mark means."""
    width = max(len(row.label) for row in rows)
    header = " ".join(question.rjust(len(question)) for question in QUESTIONS)
    lines = [f"{'':{width}} {header}"]
    for row, cells in zip(rows, results, strict=True):
        marks = (cells[question].mark.center(len(question)) for question in QUESTIONS)
        lines.append(f"{row.label:{width}} {' '.join(marks)}".rstrip())
    used = {cell.mark for cells in results for cell in cells.values()}
    lines += ["", *(f"{mark} {text}" for mark, text in MARKS.items() if mark in used)]
    return "\n".join(lines)


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--driver", choices=("simulator", "real"), default="simulator")
    parser.add_argument("--python", default=sys.executable, metavar="EXE", help="interpreter")
    parser.add_argument("--path", type=Path, metavar="DIR", help="where Triton is installed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all cells to FILE")
    parser.add_argument("--rows", metavar="TEXT", help="only rows whose label holds TEXT")
    parser.add_argument("--list", action="store_true", help="list rows and columns; ask nothing")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="rows at once")
    parser.add_argument(
        "--limit", type=float, default=60, metavar="SECONDS", help="time for one question"
    )
    parser.add_argument(
        "--time",
        type=float,
        default=float("inf"),
        metavar="SECONDS",
        help="after this, what was not asked counts as not right",
    )
    parser.add_argument("--wrong", action="store_true", help="say what is wrong in each wrong cell")
    parser.add_argument("--verbose", action="store_true", help="tell each row's duration")
    options = parser.parse_args()
    if options.path is not None:
        options.path = options.path.resolve()
        if not (options.path / "triton").is_dir():
            parser.error(f"--path {options.path} holds no triton")
    return options


def main() -> int:
    options = read_options()
    if options.list:
        for row in all_rows(("cuInit", "context", "torch", "cuda.core"), has_management=True):
            print(row.label)
        for question, text in QUESTIONS.items():
            print(f"{question}: {text}")
        return 0
    matrix = Matrix(options)
    rows = all_rows(matrix.machine.initializers, matrix.machine.has_management)
    rows = [row for row in rows if options.rows is None or options.rows in row.label]
    if not rows:
        raise SystemExit(f"fork_matrix: no row's label holds {options.rows!r}; see --list")
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(matrix.play, rows, range(len(rows))))
    print(f"Triton {matrix.triton.version} in {matrix.triton.location}, {options.driver} driver\n")
    print(table(rows, results))
    cells = [cell for row in results for cell in row.values()]
    if options.wrong:
        print()
        for row, judged in zip(rows, results, strict=True):
            for question, cell in judged.items():
                if cell.verdict == "wrong":
                    print(f"{row.label} / {question}: {cell.why}")
    if options.json:
        write_json(options.json, matrix, rows, results)
    applicable = [cell for cell in cells if cell.verdict != "not applicable"]
    right = sum(cell.verdict == "right" for cell in applicable)
    if len(applicable) < len(cells):
        print(f"\n{len(cells) - len(applicable)} cells are not applicable and not counted")
    print(f"\n{right} of {len(applicable)} cells right")
    return 0 if right == len(applicable) else 1


def write_json(path: Path, matrix: Matrix, rows: list[Row], results: list[dict[str, Cell]]) -> None:
    """Writes everything that was found, for other programs and for the documentation."""
    cells = [
        dataclasses.asdict(row)
        | {"row": row.label, "question": question}
        | dataclasses.asdict(cell)
        for row, judged in zip(rows, results, strict=True)
        for question, cell in judged.items()
    ]
    content = {
        "machine": dataclasses.asdict(matrix.machine),
        "triton": dataclasses.asdict(matrix.triton),
        "cells": cells,
    }
    path.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
