"""What slotq_training.py costs a training script while nothing is asked: CPU time."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count
from typing import Any

CALLS = 100_000
ROUNDS = 5


def measure() -> Any:
    """Nanoseconds, the least of some rounds, in a fresh process: of each call, and of the thread in
    each second of a training that reports."""
    with tempfile.TemporaryDirectory() as folder:
        found = subprocess.run(
            [sys.executable, "-m", "benchmarks.training_script"],
            env=os.environ | {"SLOTQ_CHECKPOINT_DIR": folder, "TMPDIR": folder},
            stdout=subprocess.PIPE,
            check=True,
        )
    return {what: {"ns": ns} for what, ns in json.loads(found.stdout).items()}


def main() -> None:
    import slotq_training as slotq

    slotq.should_suspend()  # Starts the thread.
    steps = count()
    calls: dict[str, Callable[[], Any]] = {
        "an empty function": lambda: None,
        "should_suspend()": slotq.should_suspend,
        "report(step, of=n)": lambda: slotq.report(next(steps), of=CALLS),
        "report(step, of=n, loss=x)": lambda: slotq.report(next(steps), of=CALLS, loss=0.5),
    }
    found = {what: _least(call) for what, call in calls.items()}
    found["the thread, each second"] = _thread(slotq.report)
    print(json.dumps({what: round(ns) for what, ns in found.items()}))


def _least(call: Callable[[], Any]) -> float:
    gc.freeze()
    rounds = []
    for _ in range(ROUNDS):
        began = time.thread_time_ns()
        for _ in range(CALLS):
            call()
        rounds.append(time.thread_time_ns() - began)
    return min(rounds) / CALLS


def _thread(report: Callable[[int], None]) -> float:
    """The process does nothing else meanwhile, so its CPU time is the thread's."""
    rounds = []
    for step in range(ROUNDS):
        began = time.process_time_ns()
        report(step)
        time.sleep(1.0)
        rounds.append(time.process_time_ns() - began)
    return min(rounds)


if __name__ == "__main__":
    main()
