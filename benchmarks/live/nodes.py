"""How soon jobs begin on a node of the emulator. Run by `make bench`, on Linux.

One instance of eight GPUs that are not there, and jobs of a few lines as real processes. All times
are those of the scripts' own clock, from the submission or the other script's last line to the
script's first line. They depend on the machine and on what else runs there, and have no bound.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from math import ceil
from pathlib import Path

import slotq_training
from benchmarks.live import emulator
from slotq import QueueClient
from slotq.demo.environment import with_variables
from slotq.local import state

MANY, FEW = 100, 40
"""Starts that are timed, and preemptions."""
SHORT = 3
"""Of each, with --short."""
PATIENCE = 120.0
TYPE, GPUS = "ml.p5.48xlarge", 8
_OPTIONS = ("--pool", f"main=1@{TYPE};nodes=keep:3600;suspend_grace=5", "--gpus", str(GPUS))

_NOTES = """
import os, sys, time
def note(name, moment=time.time()):
    with open(sys.argv[1] + name + ".new", "w") as file:
        file.write(repr(moment))
    os.rename(sys.argv[1] + name + ".new", sys.argv[1] + name)
"""
_SCRIPTS = {
    "begins": _NOTES + "note('begins')",
    "works": _NOTES + "note('begins'); time.sleep(1); note('ends', time.time())",
    "releases": f"""{_NOTES}
import slotq_training as slotq
note("begins" + str(slotq.attempt()))
while not slotq.should_suspend():
    time.sleep(0.02)
slotq.suspend()
""",
}

Figures = Mapping[str, Mapping[str, float]]
"""By what was timed: how often, and of its seconds the median, the 95th percentile, the most."""


def measure(*, short: bool = False) -> Figures | None:
    """None where no node can run."""
    if not sys.platform.startswith("linux"):
        print("nodes: not measured, for their agent needs Linux")
        return None
    many, few = (SHORT, SHORT) if short else (MANY, FEW)
    with tempfile.TemporaryDirectory(prefix="slotq-bench-") as folder:
        Path(folder).chmod(0o755)
        with emulator.started(folder, *_OPTIONS):
            variables = state.variables(state.running())
            with with_variables(variables, instead_of=("AWS_",)):
                return _timed(_Jobs(Path(folder)), many, few)


def _timed(jobs: _Jobs, many: int, few: int) -> Figures:
    jobs.submit("warms", "begins", gpus=1)
    jobs.moment("warms", "begins")
    figures = {"submission → first line": _figure(_starts(jobs, many))}
    figures["end of one job → first line of the next"] = _figure(_turns(jobs, many))
    figures["submission → first line, by preemption"] = _figure(_preemptions(jobs, few))
    return figures


class _Jobs:
    """Submits scripts to the pool and reads the moments that they note."""

    def __init__(self, folder: Path) -> None:
        self._notes, self._scripts = folder / "notes", folder / "scripts"
        self._notes.mkdir()
        self._notes.chmod(0o777)  # Jobs have users of their own where this is root.
        self._scripts.mkdir()
        shutil.copy(slotq_training.__file__, self._scripts)
        for name, text in _SCRIPTS.items():
            (self._scripts / f"{name}.py").write_text(text)
        self._bucket = state.running().endpoint.bucket
        self._queue = QueueClient()

    def submit(self, name: str, script: str, *, gpus: int, priority: int = 0) -> float:
        """Submit a script. Returns the moment before."""
        command = ["python3", f"{self._scripts}/{script}.py", f"{self._notes}/{name}-"]
        request = {
            "TrainingJobName": name,
            "AlgorithmSpecification": {
                "TrainingImage": "image",
                "TrainingInputMode": "File",
                "ContainerEntrypoint": command,
            },
            "RoleArn": "arn:aws:iam::123456789012:role/trainer",
            "OutputDataConfig": {"S3OutputPath": f"s3://{self._bucket}/out"},
            "CheckpointConfig": {"S3Uri": f"s3://{self._bucket}/checkpoints/{name}"},
            "ResourceConfig": {"InstanceType": TYPE, "InstanceCount": 1, "VolumeSizeInGB": 1},
            "StoppingCondition": {"MaxRuntimeInSeconds": 36_000},
            "Tags": [
                {"Key": "slotq:gpus", "Value": str(gpus)},
                {"Key": "priority", "Value": str(priority)},
            ],
        }
        began = time.time()
        self._queue.submit(request)
        return began

    def moment(self, name: str, what: str) -> float:
        """Wait for a script's note, without a call of AWS. Raises SystemExit."""
        note, end = self._notes / f"{name}-{what}", time.monotonic() + PATIENCE
        while not note.exists():
            if time.monotonic() > end:
                job = self._queue.jobs.view(name)
                raise SystemExit(f"{name} has not noted '{what}' in {PATIENCE:g} s: {job}")
            time.sleep(0.01)
        return float(note.read_text())


def _starts(jobs: _Jobs, count: int) -> Iterator[float]:
    """One job of one GPU after the other."""
    for number in range(count):
        began = jobs.submit(f"starts-{number}", "begins", gpus=1)
        yield jobs.moment(f"starts-{number}", "begins") - began


def _turns(jobs: _Jobs, count: int) -> Iterator[float]:
    """Jobs that take the whole node and wait for each other."""
    names = [f"turns-{number}" for number in range(count + 1)]
    for name in names:
        jobs.submit(name, "works", gpus=GPUS)
    ran = [(jobs.moment(name, "begins"), jobs.moment(name, "ends")) for name in names]
    for (_, ends), (begins, _) in pairwise(sorted(ran)):
        yield begins - ends


def _preemptions(jobs: _Jobs, count: int) -> Iterator[float]:
    """Higher jobs that take the whole node from one that releases it and comes back."""
    jobs.submit("releases", "releases", gpus=GPUS)
    for number in range(1, count + 1):
        jobs.moment("releases", f"begins{number}")
        began = jobs.submit(f"higher-{number}", "begins", gpus=GPUS, priority=5)
        yield jobs.moment(f"higher-{number}", "begins") - began


def _figure(seconds: Iterable[float]) -> Mapping[str, float]:
    """The number of values, their median, 95th percentile (nearest rank) and maximum."""
    ordered = sorted(seconds)
    ranks = {"p50": 0.5, "p95": 0.95, "most": 1.0}
    found = {name: ordered[ceil(part * len(ordered)) - 1] for name, part in ranks.items()}
    return {"n": len(ordered), **{name: round(value, 2) for name, value in found.items()}}
