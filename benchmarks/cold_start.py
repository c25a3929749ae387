"""The cost of a cold start: import and first client of the handler, against `import boto3` and one
DynamoDB client. Run by `make bench`; alone: `python -m benchmarks.cold_start [--runs N]`.

Starts fresh processes of the Lambda's own Python. The handler comes from the layer as deployed
(layers/core/build_layer.py), the baseline from boto3 as pip installs it, in a separate folder. What
has a bound is counted: the modules that a start imports, and the bytes of the files that it opens
(code and service models), which are the same in each run. For people to read are CPU time (each
round runs all kinds once, so other load affects all kinds alike, and the least of each counts) and,
where valgrind is installed, the processor's instructions.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
WORK = ROOT / ".cache" / "cold-start"
RUNS = 15


@dataclass(frozen=True, slots=True)
class Bound:
    modules: int
    """The most modules that a start imports."""
    read: float
    """The most bytes that it reads, as a multiple of the baseline's."""


MOST: Mapping[str, Bound] = {
    "event": Bound(modules=640, read=1.21),
    "api": Bound(modules=720, read=1.41),
    "notifier": Bound(modules=565, read=1.1),
}

Figures = Mapping[str, Mapping[str, float]]
"""By kind: CPU time (`cpu_ms`) and its `ratio` to the baseline; `modules`, and `read_kb` (1,000
bytes) with its ratio (`read`); in a whole measurement `instructions` (millions)."""

_TIMED = """
import sys, time
sys.path[:0] = {paths}
began = time.process_time()
{work}
print(time.process_time() - began)
{after}
"""
_COUNTED = """
import os, sys
sys.path[:0] = {paths}
opened = []
sys.addaudithook(lambda event, args: opened.append(args[0]) if event == "open" else None)
{work}
files = [each for each in dict.fromkeys(opened) if isinstance(each, str) and os.path.isfile(each)]
print(len(sys.modules), sum(map(os.path.getsize, files)))
{after}
"""
_BASELINE = """
import boto3
boto3.client("dynamodb")
"""
_EVENT = """
import app
app.client("dynamodb")
"""
_API = f"""
{_EVENT}
app.routes()
"""
_NOTIFIER = """
import notifier
notifier.client("dynamodb")
"""
_NOTHING_LEFT = """
before = set(sys.modules)
class Table:
    def __getattr__(self, operation):
        return lambda **request: dict(Items=[], Responses=dict(), Count=0, Attributes=dict())
class Context:
    aws_request_id = "r"
    def get_remaining_time_in_millis(self):
        return 60_000
handles = sys.modules.get("app") or sys.modules["notifier"]
handles.client = lambda service: Table()
import io, contextlib
with contextlib.redirect_stdout(io.StringIO()):
    tick = {"source": "aws.events", "detail-type": "Scheduled Event", "detail": dict()}
    handles.handler(tick, Context())
late = sorted(name for name in set(sys.modules) - before if name.partition(".")[0] == "slotq_core")
assert not late, f"a tick imports more: {late}"
"""
"""Runs after the time is taken: handles a tick, which must import no further slotq_core module."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS, help="rounds (default: %(default)s)")
    figures = measure(parser.parse_args(arguments).runs, instructions=True)
    print(json.dumps(figures))
    return 1 if figures and beyond(figures) else 0


def measure(runs: int = RUNS, *, instructions: bool) -> Figures | None:
    """What each kind costs. `instructions`: count them too, which takes a minute. None without the
    Lambda's own Python."""
    python = _python()
    if not python:
        print("cold start: not measured, the Lambda's own Python is not here (.ci/lambda-python)")
        return None
    function = _function("queue_manager", "QueueManager", python)
    notifier = _function("notifier", "Notifier", python)
    layer, plain = _layer(python), _plain(python)
    kinds = {
        "baseline": (_BASELINE, [plain], ""),
        "event": (_EVENT, [function, layer], _NOTHING_LEFT),
        "api": (_API, [function, layer], ""),
        "notifier": (_NOTIFIER, [notifier, layer], _NOTHING_LEFT),
    }
    counted = {kind: _counts(python, *what) for kind, what in kinds.items()}
    taken: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(runs):
        for kind, what in kinds.items():
            taken[kind].append(_seconds(python, *what))
    executed = {
        kind: {"instructions": round(found / 1e6)}
        for kind, what in kinds.items()
        if instructions and (found := _instructions(python, *what))
    }
    return {
        kind: {
            **executed.get(kind, {}),
            "cpu_ms": round(min(taken[kind]) * 1000, 1),
            "ratio": round(min(taken[kind]) / min(taken["baseline"]), 3),
            "modules": modules,
            "read_kb": round(read / 1000),
            "read": round(read / counted["baseline"][1], 3),
        }
        for kind, (modules, read) in counted.items()
    }


def beyond(figures: Figures) -> list[str]:
    """What costs more than it may, in words."""
    found = []
    for kind, most in MOST.items():
        modules, read = figures[kind]["modules"], figures[kind]["read"]
        if modules > most.modules:
            found.append(f"cold start, {kind}: imports {modules} modules, not {most.modules}")
        if read > most.read:
            found.append(f"cold start, {kind}: reads {read} times the baseline, not {most.read}")
    return found


def _python() -> str:
    """The Lambda's own Python. Empty if there is none."""
    find = 'source .ci/lambda-python && echo "$lambda_python"'
    ran = subprocess.run(
        ["bash", "-c", find], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return ran.stdout.strip()


def _function(folder: str, resource: str, python: str) -> Path:
    return _made(folder, ROOT / "functions" / folder, f"build-{resource}", python)


def _layer(python: str) -> Path:
    return _made("layer", ROOT / "layers" / "core", "build-CoreLayer", python) / "python"


def _made(name: str, source: Path, target: str, python: str) -> Path:
    """The output of `sam build` for a folder. Built again after a change in the folder."""
    folder = WORK / name
    files = [path for path in source.rglob("*") if "__pycache__" not in path.parts]
    if not folder.exists() or folder.stat().st_mtime < max(it.stat().st_mtime for it in files):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        make = ["make", "--silent", "-C", str(source), target, f"PYTHON={python}"]
        subprocess.run([*make, f"ARTIFACTS_DIR={folder}"], check=True)
        os.utime(folder)
    return folder


def _plain(python: str) -> Path:
    """boto3 as pip installs it, in the layer's version."""
    folder = WORK / "boto3"
    if not folder.exists():
        constraints = str(ROOT / "constraints/main.txt")
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "-q", f"--target={folder}", "-c", constraints, "boto3"], check=True)
        subprocess.run([python, "-m", "compileall", "-q", str(folder)], check=True)
    return folder


def _seconds(python: str, work: str, paths: Sequence[Path], after: str) -> float:
    """CPU seconds of one start."""
    return float(_started(python, _TIMED, work, paths, after))


def _instructions(python: str, work: str, paths: Sequence[Path], _: str) -> int | None:
    """The instructions of one start. None without valgrind."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        return None
    tool = (valgrind, "--tool=callgrind", "--callgrind-out-file=/dev/null")
    counted = _run([*tool, python], _TIMED, work, paths, "").stderr
    found = re.search(r"Collected : (\d+)", counted)
    return int(found[1]) if found else None


def _counts(python: str, work: str, paths: Sequence[Path], after: str) -> tuple[int, int]:
    """The modules and the bytes of the second start: the first one compiles what is not yet."""
    _started(python, _COUNTED, work, paths, after)
    modules, read = _started(python, _COUNTED, work, paths, after).split()
    return int(modules), int(read)


def _started(python: str, measured: str, work: str, paths: Sequence[Path], after: str) -> str:
    """What a fresh process prints first."""
    first, *_ = _run([python], measured, work, paths, after).stdout.splitlines()
    return first


def _run(
    python: Sequence[str], measured: str, work: str, paths: Sequence[Path], after: str
) -> subprocess.CompletedProcess[str]:
    """A fresh process, as in Lambda: without this machine's packages."""
    code = measured.format(paths=[str(path) for path in paths], work=work, after=after)
    environment = {
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_LAMBDA_FUNCTION_NAME": "slotq-queue-manager",
        "LAMBDA_TASK_ROOT": str(paths[0]),
        "POWERTOOLS_METRICS_NAMESPACE": "SlotQ",
        "SLOTQ_POOLS": "main=2@ml.p4d.24xlarge",
        "SLOTQ_TABLE": "sagemaker-queue",
        "PYTHONHASHSEED": "0",  # Or sets and so instructions would differ from run to run.
        "_X_AMZN_TRACE_ID": f"Root=1-5759e988-{'0' * 24};Parent={'0' * 16};Sampled=1",
    }
    ran = subprocess.run(
        [*python, "-S", "-s", "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )
    if ran.returncode:
        raise SystemExit(ran.stderr)
    return ran


if __name__ == "__main__":
    sys.exit(main())
