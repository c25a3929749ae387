"""What the emulator costs on a laptop: CPU seconds of the emulator, and of the commands that call
it. Run by `make bench`, on Linux.

The figures are those of real processes: `slotq local start`, and `slotq` as a user runs it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from slotq.demo.environment import with_variables
from slotq.local import state

JOBS, WATCHERS, LOOKED = 1000, 10, 30.0
"""Jobs submitted; commands that watch them, and for how long (s)."""
_SLOTQ = (sys.executable, "-m", "slotq.cli")
_ONE_BY_ONE = f"""
import json, sys
from slotq import QueueClient
queue, request = QueueClient(), json.loads(sys.argv[1])
for number in range({JOBS}):
    queue.submit({{**request, "TrainingJobName": f"one-{{number}}"}})
"""

Figures = Mapping[str, Mapping[str, float]]
"""By what was done: CPU seconds of the emulator and of those that called it."""


def measure() -> Figures | None:
    """None where a process's CPU time cannot be read."""
    if not Path("/proc/self/stat").exists():
        print("emulator: not measured, for this machine has no /proc")
        return None
    with (
        tempfile.TemporaryDirectory(prefix="slotq-bench-") as folder,
        started(folder, "--pool", "main=2") as pid,
    ):
        sweep = ("submit", "--name", "sweep", "--array", f"1-{JOBS}", "--", "sleep", "9999")
        (Path(folder) / "code").mkdir()
        with with_variables(state.variables(state.running()), instead_of=("AWS_",)):
            return {
                "start": {"emulator": _cpu(pid)},
                f"an array of {JOBS:,}": _costs(pid, *_SLOTQ, *sweep, folder=f"{folder}/code"),
                "ls of it, the first": _costs(pid, *_SLOTQ, "ls"),
                "ls of it, later": _costs(pid, *_SLOTQ, "ls"),
                f"{WATCHERS} watchers of it, a minute": _watched(pid),
                f"{JOBS:,} jobs one by one": _costs(
                    pid, sys.executable, "-c", _ONE_BY_ONE, json.dumps(_request())
                ),
            }


@contextmanager
def started(folder: str, *options: str) -> Iterator[int]:
    """An emulator with its state in the folder. Yields its process's number."""
    with with_variables({"SLOTQ_LOCAL_DIR": folder}, instead_of=("AWS_", "SLOTQ_")):
        command = [*_SLOTQ, "local", "start", "--port", "0", "--detach", *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        try:
            yield state.running().pid
        finally:
            subprocess.run([*_SLOTQ, "local", "stop"], check=True, stdout=subprocess.DEVNULL)


def _costs(pid: int, *command: str, folder: str = ".") -> Mapping[str, float]:
    before = _cpu(pid)
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command[:6]} ended with {process.returncode}")
    client = used.ru_utime + used.ru_stime
    time.sleep(2)  # The pass that it has asked for counts, too.
    return {"emulator": round(_cpu(pid) - before, 2), "client": round(client, 2)}


def _watched(pid: int) -> Mapping[str, float]:
    """While nothing changes, once each has had its first answer."""
    command = [*_SLOTQ, "ls", "--watch"]
    watchers = [
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(WATCHERS)
    ]
    try:
        time.sleep(LOOKED)
        before = _cpu(pid), _sum(watchers)
        time.sleep(LOOKED)
        spent = _cpu(pid) - before[0], _sum(watchers) - before[1]
    finally:
        for watcher in watchers:
            watcher.terminate()
            watcher.wait()
    emulator, clients = (round(seconds * 60 / LOOKED, 2) for seconds in spent)
    return {"emulator": emulator, "client": clients}


def _sum(processes: Sequence[subprocess.Popen[bytes]]) -> float:
    return sum(_cpu(process.pid) for process in processes)


def _cpu(pid: int) -> float:
    """CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return round((int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), 2)


def _request() -> Mapping[str, object]:
    return {
        "AlgorithmSpecification": {"TrainingImage": "image", "TrainingInputMode": "File"},
        "RoleArn": "arn:aws:iam::123456789012:role/trainer",
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
        "ResourceConfig": {
            "InstanceType": "ml.m5.large",
            "InstanceCount": 1,
            "VolumeSizeInGB": 1,
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
    }
