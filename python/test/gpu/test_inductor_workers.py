"""Inductor compiles in worker processes after this process initialized CUDA - and works.

The product's main job on a real device. Each configuration runs
`inductor_models.py` in a fresh process with fresh caches; the tests then read its
report case by case, together with the log of who compiled what. The last tests
put the call back that broke FlagTree (`torch.cuda.current_device()` in the hint
path) and demand that the very same suite fails with the very same error, which
proves that the suite tests what it claims to.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.gpu

HERE = Path(__file__).resolve().parent

# Environment of each configuration beyond fresh caches. "default" sets nothing: the
# default number of compile threads, the default start method, and Inductor's static
# launcher, which is on by default.
CONFIGURATIONS: dict[str, dict[str, str]] = {
    "default": {},
    "fork": {"TORCHINDUCTOR_WORKER_START": "fork"},
    "spawn": {"TORCHINDUCTOR_WORKER_START": "spawn"},
    "static_launcher_off": {
        "TORCHINDUCTOR_USE_STATIC_CUDA_LAUNCHER": "0",
        "TORCHINDUCTOR_USE_STATIC_TRITON_LAUNCHER": "0",
    },
}

POISONED = "poisoned"
REINITIALIZATION = "Cannot re-initialize CUDA in forked subprocess"


def start(folder: Path, extra: dict[str, str], paths: list[Path]) -> subprocess.Popen[str]:
    """Starts the models in a fresh process whose caches are all inside `folder`."""
    environment = dict(os.environ)
    for name in ("TORCHINDUCTOR_COMPILE_THREADS", "TORCHINDUCTOR_WORKER_START"):
        environment.pop(name, None)
    environment |= {
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "FLAGTREE_TEST_COMPILE_LOG": str(folder / "compilations.jsonl"),
        **extra,
    }
    search = [str(path) for path in paths]
    if environment.get("PYTHONPATH"):
        search.append(environment["PYTHONPATH"])
    environment["PYTHONPATH"] = os.pathsep.join(search)
    with open(folder / "output.txt", "w") as output:
        return subprocess.Popen(
            [sys.executable, str(HERE / "inductor_models.py"), str(folder / "report.json")],
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
        )


@pytest.fixture(scope="session")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Runs all configurations side by side and returns their reports."""
    pending = [(name, extra, [HERE / "worker_probe"]) for name, extra in CONFIGURATIONS.items()]
    pending.append((POISONED, {}, [HERE / "poisoned_hint_path"]))
    found: dict[str, dict[str, Any]] = {}
    running: list[tuple[str, Path, subprocess.Popen[str]]] = []
    for name, extra, paths in pending:
        folder = tmp_path_factory.mktemp(name)
        running.append((name, folder, start(folder, extra, paths)))
    for name, folder, process in running:
        process.wait(timeout=900)
        report_path = folder / "report.json"
        if not report_path.exists():
            text = (folder / "output.txt").read_text()
            found[name] = {"crashed": text[-4000:], "cases": {}}
            continue
        report = json.loads(report_path.read_text())
        log = folder / "compilations.jsonl"
        lines = log.read_text().splitlines() if log.exists() else []
        report["compilations"] = [json.loads(line) for line in lines]
        report["pid"] = process.pid
        report["output"] = (folder / "output.txt").read_text()
        found[name] = report
    results = os.environ.get("FLAGTREE_TEST_RESULTS")
    if results:
        Path(results).write_text(json.dumps(found, indent=1))
    return found


def case_names() -> list[str]:
    """Names of the cases without importing torch while pytest collects."""
    models = ("gated_mlp", "attention", "conv_norm", "classifier", "rms_norm_rotary", "embedding")
    names = [
        f"{model}-{dtype}-{way}"
        for model in (*models, "recurrent")
        for dtype in ("float32", "float16", "bfloat16")
        for way in ("forward", "forward_backward")
    ]
    return [*names, "max_autotune", "recompilation"]


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
@pytest.mark.parametrize("case", case_names())
def test_case_matches_eager(
    reports: dict[str, dict[str, Any]], configuration: str, case: str
) -> None:
    report = reports[configuration]
    assert "crashed" not in report, report["crashed"]
    result = report["cases"][case]
    assert result["passed"], result["message"]


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_workers_compiled(reports: dict[str, dict[str, Any]], configuration: str) -> None:
    """Most kernels were compiled in more than one process, none of them the parent."""
    report = reports[configuration]
    assert report["backends"] == ["ppu"]
    by_workers = [c for c in report["compilations"] if c["pid"] != report["pid"]]
    assert len(by_workers) > len(report["compilations"]) // 2
    assert len({c["pid"] for c in by_workers}) > 1


def test_static_launcher_is_tried_on_and_off(reports: dict[str, dict[str, Any]]) -> None:
    assert reports["default"]["static_launcher"] is not False
    assert reports["static_launcher_off"]["static_launcher"] is False


@pytest.mark.parametrize("configuration", ["default", "fork"])
def test_workers_knew_that_they_were_forked(
    reports: dict[str, dict[str, Any]], configuration: str
) -> None:
    """The suite exercises the hard case: workers forked from an initialized process."""
    report = reports[configuration]
    states = {c["state"] for c in report["compilations"] if c["pid"] != report["pid"]}
    assert "ForkedAfterInit" in states
    assert "Initialized" not in states


def test_the_old_hint_path_fails(reports: dict[str, dict[str, Any]]) -> None:
    """With torch.cuda.current_device() back in the hint path the suite fails as FlagTree did."""
    report = reports[POISONED]
    failed = [c for c in report["cases"].values() if not c["passed"]]
    assert len(failed) > len(report["cases"]) // 2
    assert all(REINITIALIZATION in c["message"] for c in failed)
