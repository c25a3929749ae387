"""A trace's jobs on nodes of eight GPUs, beside what no schedule can use more, and whole machines.

Each job's slots are GPUs. Jobs of other sizes than 1, 2, 4 and 8, and those submitted after `DAYS`,
are left out. As parts, a job of one GPU asks for a part of 0.1 to 1.0, drawn from a fixed seed.
There are as many machines as the jobs would use on average until the last submission if none
waited: so in busy hours jobs wait. The bound is, at each moment, the GPUs that running and waiting
jobs ask for, at most all GPUs. `use` is the share of it that runs, up to the last submission.
Whole: each job takes a machine, first fit.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil
from pathlib import Path
from statistics import fmean
from time import process_time
from typing import Any

from benchmarks.schedules import TraceJob, first_fit, percentile, read
from slotq.simulate import Record, Scenario, simulate
from slotq_core.gpu_amounts import MOST_PART, WHOLE
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.plan import Move, Plan

GPUS = 8
SIZES = frozenset({1, 2, 4, 8})
DAYS = 20
"""How long jobs are submitted. 20 of Philly's 125 days take 100 s of CPU; more take more a day."""
START_SECONDS = 300
STOP_SECONDS = 10

Figures = dict[str, float]


@dataclass
class Watched:
    """What the plans of a run show."""

    moves: int = 0
    """How often a job made others move."""
    moved: int = 0
    """How many jobs moved."""
    machine_seconds: float = 0.0
    nodes: int = 0
    at: int = 0

    def __call__(self, snapshot: Snapshot, planned: Plan, now: int) -> None:
        self.machine_seconds += self.nodes * (now - self.at) / 1000
        self.nodes, self.at = len(snapshot.nodes), now
        for decision in planned.decisions:
            if isinstance(decision, Move):
                self.moves += 1
                self.moved += len(decision.moved)


def measure(path: Path) -> dict[str, Figures]:
    jobs = [job for job in read(path) if job.slots in SIZES and job.submit < DAYS * 86_400]
    rng = random.Random(36)
    wholes = [float(job.slots) for job in jobs]
    parts = [_part(rng) if job.slots == 1 else float(job.slots) for job in jobs]
    found = {
        "GPUs of nodes, moves": on_nodes(jobs, wholes, consolidate=True),
        "GPUs of nodes, no moves": on_nodes(jobs, wholes, consolidate=False),
        "parts of GPUs, moves": on_nodes(jobs, parts, consolidate=True),
        "parts of GPUs, no moves": on_nodes(jobs, parts, consolidate=False),
    }
    for name, gpus in (("GPUs of nodes", wholes), ("parts of GPUs", parts)):
        wait = found[f"{name}, moves"]["wait_mean_hours"]
        found[f"whole machines, as many as for {name}"] = whole(jobs, needed(jobs, gpus))
        found[f"whole machines, waits as with {name}"] = whole(jobs, least_whole(jobs, wait))
    return found


def _part(rng: random.Random) -> float:
    """A part that a job may ask for, or a whole GPU."""
    part = rng.randint(10, 100) / 100
    return part if part <= MOST_PART / WHOLE else 1.0


def needed(jobs: Sequence[TraceJob], gpus: Sequence[float]) -> int:
    """The machines that the jobs would use on average until the last submission if none waited."""
    last = jobs[-1].submit
    used = sum(
        amount * min(job.runtime, last - job.submit) for job, amount in zip(jobs, gpus, strict=True)
    )
    return ceil(used / (last - jobs[0].submit) / GPUS)


def on_nodes(jobs: Sequence[TraceJob], gpus: Sequence[float], *, consolidate: bool) -> Figures:
    """What SlotQ reaches with these GPUs for each job."""
    began, machines = process_time(), needed(jobs, gpus)
    pool = {
        "name": "p",
        "capacity": machines,
        "stop_seconds": STOP_SECONDS,
        "consolidate": consolidate,
        "nodes": {"gpus": GPUS, "keep": 600, "start_seconds": START_SECONDS},
    }
    scenario = Scenario.model_validate({"pools": [pool], "jobs": [*_specs(jobs, gpus)]})
    watched = Watched()
    record = simulate(scenario, watched)
    asked = {job.name: amount for job, amount in zip(jobs, gpus, strict=True)}
    runs = {job.name: [*_runs(record, job.name)] for job in jobs}
    waits = sorted(runs[job.name][0][0] - job.submit for job in jobs)
    evictions = sum(len(spans) - 1 for spans in runs.values())
    return {
        "machines": machines,
        "use": _use(jobs, asked, runs, machines),
        "wait_mean_hours": round(fmean(waits) / 3600, 2),
        "wait_p95_hours": round(percentile(waits, 95) / 3600, 2),
        "machine_hours": round(watched.machine_seconds / 3600),
        "consolidations": watched.moves,
        "moved": watched.moved,
        "evictions": evictions,
        "paused_gpu_hours": round(_paused(asked, runs) / 3600, 1),
        "stopped_gpu_hours": round(_stopped(asked, runs) / 3600),
        "cpu_seconds": round(process_time() - began, 1),
    }


def whole(jobs: Sequence[TraceJob], machines: int) -> Figures:
    """The same jobs with a machine each: first fit."""
    alone = [replace(job, slots=1) for job in jobs]
    outcome = first_fit(alone, machines)
    assert outcome.wait_mean is not None and outcome.wait_p95 is not None
    return {
        "machines": machines,
        "wait_mean_hours": round(outcome.wait_mean / 3600, 2),
        "wait_p95_hours": round(outcome.wait_p95 / 3600, 2),
        "machine_hours": round(sum(job.runtime for job in jobs) / 3600),
    }


def least_whole(jobs: Sequence[TraceJob], wait_mean_hours: float) -> int:
    """The least number of whole machines with which the jobs wait no longer on average."""
    least, most = 1, len(jobs)
    while least < most:
        machines = (least + most) // 2
        if whole(jobs, machines)["wait_mean_hours"] <= wait_mean_hours:
            most = machines
        else:
            least = machines + 1
    return least


def _specs(jobs: Sequence[TraceJob], gpus: Sequence[float]) -> Iterator[dict[str, Any]]:
    for job, amount in zip(jobs, gpus, strict=True):
        asked = int(amount) if amount >= 1 else amount
        yield {"name": job.name, "submit_at": job.submit, "runtime": job.runtime, "gpus": asked}


def _runs(record: Record, name: str) -> Iterator[tuple[float, float]]:
    """From when until when (s) the job ran: its attempts."""
    begun = None
    for at, state in record.states[name]:
        if state in {"starting", "running"}:
            begun = at if begun is None else begun
        elif begun is not None:
            yield begun / 1000, at / 1000
            begun = None


def _paused(asked: dict[str, float], runs: dict[str, list[tuple[float, float]]]) -> float:
    """The GPU-seconds for which jobs that had run waited."""
    return sum(
        asked[name] * (again - ended)
        for name, spans in runs.items()
        for (_, ended), (again, _) in pairwise(spans)
    )


def _stopped(asked: dict[str, float], runs: dict[str, list[tuple[float, float]]]) -> float:
    """The GPU-seconds of the attempts that were stopped: a script that saves nothing loses them."""
    return sum(
        asked[name] * (ended - begun) for name, spans in runs.items() for begun, ended in spans[:-1]
    )


def _use(
    jobs: Sequence[TraceJob],
    asked: dict[str, float],
    runs: dict[str, list[tuple[float, float]]],
    machines: int,
) -> float:
    """The GPU-seconds that ran, of those that jobs asked for and that the machines have."""
    until = jobs[-1].submit
    events: list[tuple[float, float, float]] = []
    for job in jobs:
        amount = asked[job.name]
        events += [(job.submit, amount, 0.0), (runs[job.name][-1][1], -amount, 0.0)]
        for begun, ended in runs[job.name]:
            events += [(begun, 0.0, amount), (ended, 0.0, -amount)]
    demand = busy = possible = used = 0.0
    last = 0.0
    for at, more, begins in sorted(events):
        upto = min(at, until)
        used += busy * max(0.0, upto - last)
        possible += min(demand, machines * GPUS) * max(0.0, upto - last)
        last, demand, busy = max(last, upto), demand + more, busy + begins
    return round(used / possible, 4)
