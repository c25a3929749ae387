"""Measurements of CPU time of this process, so other programs have little effect."""

from __future__ import annotations

import csv
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from time import process_time

from benchmarks.worlds import NOW
from slotq.simulate import Record, Scenario, simulate
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.cycle import plan
from slotq_core.policy.lifecycle.apply import steps
from slotq_core.policy.lines import Line, by_user

TRACE_SLOTS = 256
QUEUES = 8
"""The number of projects in the simulation that uses no trace."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    seconds: float
    about: str
    """The size of the work, in words."""


def plan_figure(snapshot: Snapshot, runs: int) -> Figure:
    """Time a plan: the least of so many runs."""
    seconds = _least(lambda: plan(snapshot, NOW), runs)
    planned = plan(snapshot, NOW)
    claims = sum(job.claim is not None for job in snapshot.waiting)
    about = (
        f"{len(snapshot.waiting)} jobs in {_lines(snapshot)} lines, {len(snapshot.active)} active, "
    )
    about += f"{claims} claims, {len(planned.decisions)} decisions"
    return Figure(seconds=seconds, about=about)


def carried_out(snapshot: Snapshot) -> Snapshot:
    """The queue once the plan's decisions have been carried out: pools full of claims."""
    jobs = {job.name: job for job in (*snapshot.active, *snapshot.waiting)}
    pools = {pool.name: pool for pool in snapshot.pools}
    for decision in plan(snapshot, NOW).decisions:
        jobs |= {after.name: after for _, after in steps(decision, pools, NOW)}
    return replace(
        snapshot,
        active=tuple(job for job in jobs.values() if job.active),
        waiting=tuple(job for job in jobs.values() if job.waits),
    )


def simulation_figure(jobs: int) -> Figure:
    """Simulate a pool at about nine tenths of its capacity, so that a queue forms and drains."""
    rng = random.Random(jobs)
    specs: list[dict[str, object]] = [
        {
            "name": f"job-{i:05d}",
            "project": f"queue-{rng.randrange(QUEUES)}",
            "priority": rng.randrange(3),
            "slots": rng.choice((1, 1, 1, 2, 4)),
            "submit_at": i * 60,
            "runtime": rng.randrange(60, 7_200),
        }
        for i in range(jobs)
    ]
    return _simulated(specs, slots=120)


def trace_figure(path: Path) -> Figure:
    with path.open(newline="") as file:
        specs: list[dict[str, object]] = [
            {
                "name": row["job"],
                "project": row["project"],
                "submit_at": float(row["submit_s"]),
                "runtime": float(row["runtime_s"]),
                "slots": int(row["slots"]),
            }
            for row in csv.DictReader(file)
        ]
    return _simulated(specs, slots=TRACE_SLOTS)


def _simulated(jobs: list[dict[str, object]], slots: int) -> Figure:
    projects = sorted({str(job["project"]) for job in jobs})
    scenario = Scenario.model_validate(
        {
            "pools": [{"name": "gpus", "capacity": slots}],
            "projects": [{"name": name, "quota": slots // len(projects)} for name in projects],
            "jobs": jobs,
        }
    )
    records: list[Record] = []
    seconds = _least(lambda: records.append(simulate(scenario)), 1)
    about = f"{len(jobs)} jobs of {len(projects)} projects on {slots} slots, "
    return Figure(seconds=seconds, about=f"{about}{len(records[0].events)} events")


def _least(run: Callable[[], object], runs: int) -> float:
    return min(_seconds(run) for _ in range(runs))


def _seconds(run: Callable[[], object]) -> float:
    began = process_time()
    run()
    return process_time() - began


def _lines(snapshot: Snapshot) -> int:
    apart = by_user(snapshot)
    return len({Line.of(job, by_user=apart) for job in snapshot.waiting})
