"""Other ways to schedule a trace, beside SlotQ's: first in, first out; first fit; and a bound that
no schedule can beat.

One pool of slots. A job needs all its slots at once from its start to its end. Times in seconds.
"""

from __future__ import annotations

import csv
import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceJob:
    name: str
    project: str
    submit: float
    runtime: float
    slots: int

    @property
    def work(self) -> float:
        """Slot-seconds."""
        return self.slots * self.runtime


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What a schedule reaches. None: not known."""

    utilisation: float
    """Slot-seconds of work that lasted, as a fraction of those there were until the last end."""
    wait_mean: float | None
    wait_p95: float | None
    makespan: float
    """From the first submission to the last end."""
    evictions: int = 0
    lost: float = 0.0
    """Slot-seconds of work that had to be done again."""


def read(path: Path) -> list[TraceJob]:
    """The jobs of a table as for `slotq simulate --trace`, in the order of submission."""
    with path.open(newline="") as file:
        jobs = [
            TraceJob(
                name=row["job"],
                project=row["project"],
                submit=float(row["submit_s"]),
                runtime=float(row["runtime_s"]),
                slots=int(row["slots"]),
            )
            for row in csv.DictReader(file)
        ]
    return sorted(jobs, key=lambda job: job.submit)


def fifo(jobs: Sequence[TraceJob], slots: int) -> Outcome:
    """Start jobs strictly in the order of submission: nobody passes a job that does not fit."""
    return _outcome(jobs, _starts(jobs, slots, passing=False), slots)


def first_fit(jobs: Sequence[TraceJob], slots: int) -> Outcome:
    """Start whatever fits, in the order of submission: no slot is free that any job could use."""
    return _outcome(jobs, _starts(jobs, slots, passing=True), slots)


def _starts(jobs: Sequence[TraceJob], slots: int, *, passing: bool) -> dict[str, float]:
    """When each job starts."""
    starts: dict[str, float] = {}
    ends: list[tuple[float, int]] = []
    waiting: list[TraceJob] = []
    arriving, free = iter(jobs), slots
    coming = next(arriving, None)
    while coming or waiting:
        at = min(coming.submit if coming else float("inf"), ends[0][0] if ends else float("inf"))
        while ends and ends[0][0] <= at:
            free += heapq.heappop(ends)[1]
        while coming and coming.submit <= at:
            waiting.append(coming)
            coming = next(arriving, None)
        left: list[TraceJob] = []
        for job in waiting:
            if job.slots > free or (left and not passing):
                left.append(job)
                continue
            starts[job.name], free = at, free - job.slots
            heapq.heappush(ends, (at + job.runtime, job.slots))
        waiting = left
    return starts


def _outcome(jobs: Sequence[TraceJob], starts: Mapping[str, float], slots: int) -> Outcome:
    begin = jobs[0].submit
    makespan = max(starts[job.name] + job.runtime for job in jobs) - begin
    waits = sorted(starts[job.name] - job.submit for job in jobs)
    return Outcome(
        utilisation=sum(job.work for job in jobs) / (slots * makespan),
        wait_mean=fmean(waits),
        wait_p95=percentile(waits, 95),
        makespan=makespan,
    )


def bound(jobs: Sequence[TraceJob], slots: int) -> Outcome:
    """What no schedule can beat: one machine as fast as all slots, which any part of any job can
    use, does no less work by any moment; and no job ends before its own runtime."""
    now = jobs[0].submit
    for job in jobs:
        now = max(now, job.submit) + job.work / slots
    begin = jobs[0].submit
    makespan = max(now, *(job.submit + job.runtime for job in jobs)) - begin
    return Outcome(
        utilisation=sum(job.work for job in jobs) / (slots * makespan),
        wait_mean=None,
        wait_p95=None,
        makespan=makespan,
    )


def percentile(ordered: Sequence[float], percent: int) -> float:
    """The least value that so many percent of the values do not exceed."""
    return ordered[-(-percent * len(ordered) // 100) - 1]
