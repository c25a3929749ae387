"""Measurements of this process: its CPU time, and its calls of functions. The calls are the same in
each run and on every machine; the time is for people to read."""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from time import process_time

from benchmarks.worlds import NOW
from slotq.simulate import Record, Scenario, simulate
from slotq.simulate.run.simulated_jobs import SimulatedJobs
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.cycle import plan
from slotq_core.policy.lifecycle.apply import steps
from slotq_core.policy.lines import Line, by_user
from slotq_core.policy.plan import Found, Need

QUEUES = 8
"""The number of projects in the simulation that uses no trace."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    seconds: float
    calls: int | None = None
    """Calls of functions, Python's own included; None where they are not counted."""
    about: str
    """The size of the work, in words."""


def plan_figure(snapshot: Snapshot, runs: int) -> Figure:
    """Time a plan that begins with the first job of each line, as a store gives it: the least of so
    many runs."""
    standing = SimulatedJobs(replace(snapshot, active=(), waiting=()))
    for job in (*snapshot.active, *snapshot.waiting):
        standing.put(job)
    heads = standing.heads(snapshot)
    seconds = _least(lambda: plan(heads, NOW, more=standing.more), runs)
    asked: list[Need] = []

    def more(need: Need) -> Found:
        asked.append(need)
        return standing.more(need)

    planned = plan(heads, NOW, more=more)
    calls = counted_calls(lambda: plan(heads, NOW, more=standing.more))
    claims = sum(job.claim is not None for job in snapshot.waiting)
    about = (
        f"{len(snapshot.waiting)} jobs in {_lines(snapshot)} lines, {len(snapshot.active)} active, "
        f"{claims} claims, {len(planned.decisions)} decisions, asked {len(asked)} times"
    )
    return Figure(seconds=seconds, calls=calls, about=about)


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
    """The least CPU time of so many runs. The collector leaves alone what is there before: a world
    of 100,000 jobs in memory is the benchmark's, not the plan's."""
    gc.collect()
    gc.freeze()
    try:
        return min(_seconds(run) for _ in range(runs))
    finally:
        gc.unfreeze()


def _seconds(run: Callable[[], object]) -> float:
    began = process_time()
    run()
    return process_time() - began


def counted_calls(run: Callable[[], object]) -> int:
    """How many functions this calls, Python's own included."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(before)
    return calls


def _lines(snapshot: Snapshot) -> int:
    apart = by_user(snapshot)
    return len({Line.of(job, by_user=apart) for job in snapshot.waiting})
