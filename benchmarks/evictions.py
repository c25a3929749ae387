"""What evictions cost where each start takes four minutes: five random worlds of twelve hours, with
several projects, ranks and sizes, in which jobs arrive faster than they end.

Compared: victims by their work alone, as where no start is known; by the work and one start; and
with `min_runtime: auto` in addition. Useful time is what slots do for jobs: no start, and no work
that an eviction loses.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from benchmarks.schedules import percentile
from slotq.simulate import Scenario, simulate
from slotq.simulate.run.record import Record, Run
from slotq_core.model.pools import HEALTHY
from slotq_core.model.snapshot import Snapshot

START_SECONDS = 240
SEEDS = range(1, 6)
_HOUR = 3_600_000
_UNTIL = 12 * _HOUR
_SOON = 180_000
"""An eviction within three minutes (ms) of running."""

Figures = Mapping[str, Any]


class Unlearned(Scenario):
    """A scenario whose queue does not know how long starts take."""

    def configuration(self) -> Snapshot:
        known = super().configuration()
        return replace(known, pools=tuple(replace(pool, health=HEALTHY) for pool in known.pools))


def measure() -> Mapping[str, Figures]:
    return {
        "by the work alone": _figures(Unlearned, min_runtime=0),
        "by the work and a start": _figures(Scenario, min_runtime=0),
        "the same, `min_runtime: auto`": _figures(Scenario, min_runtime="auto"),
    }


def world(seed: int, min_runtime: int | str) -> dict[str, Any]:
    """A world as a scenario's document."""
    rolls = random.Random(f"evictions/{seed}")  # A world, no secret. # nosec B311
    capacity, names = rolls.choice([8, 12, 16]), ["a", "b", "c"]
    jobs = [
        {
            "name": f"j{number}",
            "project": rolls.choice(names),
            "user": f"u{rolls.randrange(4)}",
            "priority": rolls.choice([0, 0, 0, 1, 2]),
            "slots": rolls.choice([1, 1, 1, 2, 4]),
            "runtime": int(min(4 * 3600, max(120, rolls.lognormvariate(7.2, 1)))),
            "checkpoint": rolls.random() < 0.9,
            "submit_at": rolls.randrange(_UNTIL // 1000),
        }
        for number in range(12 * capacity)
    ]
    pool = {
        "name": "p",
        "capacity": capacity,
        "start_seconds": START_SECONDS,
        "stop_seconds": 30,
        "min_runtime": min_runtime,
    }
    quota = capacity // 4
    projects = [
        {"name": name, "quota": quota * (place + 1) // 2} for place, name in enumerate(names)
    ]
    return {"pools": [pool], "projects": projects, "jobs": jobs}


def _figures(kind: type[Scenario], *, min_runtime: int | str) -> Figures:
    useful = room = 0.0
    counts: Counter[str] = Counter()
    waits: dict[int, list[float]] = {}
    often = 0
    for seed in SEEDS:
        scenario = kind.model_validate(world(seed, min_runtime))
        record = simulate(scenario)
        room += scenario.pools[0].capacity.slots * _UNTIL
        useful += sum(_useful(scenario, record))
        for run in record.runs:
            counts += _counted(run)
        often = max([often, *(_most_in_an_hour(record.evicted(job.name)) for job in scenario.jobs)])
        for job in scenario.jobs:
            rank = scenario.priority_of(job)
            waits.setdefault(rank, []).append(_waited(record, job.name))
    evictions = counts["evictions"]
    return {
        "useful": round(useful / room, 4),
        "starts": counts["starts"],
        "evictions": evictions,
        "starting_percent": round(100 * counts["starting"] / max(1, evictions)),
        "soon_percent": round(100 * counts["soon"] / max(1, evictions)),
        "most_in_an_hour": often,
        **{
            f"wait_{rank}_p95_hours": round(percentile(sorted(waits[rank]), 95) / _HOUR, 2)
            for rank in sorted(waits, reverse=True)
        },
    }


def _useful(scenario: Scenario, record: Record) -> Iterator[int]:
    """The slot-milliseconds of each attempt that stay, until the twelve hours are over."""
    specs = {job.name: job for job in scenario.jobs}
    for run in record.runs:
        spec = specs[run.job]
        until = min(_UNTIL, run.until if run.until is not None else record.end)
        if spec.checkpoint or run.outcome != "preempted":
            yield spec.needed.slots * max(0, until - run.since - START_SECONDS * 1000)


def _counted(run: Run) -> Counter[str]:
    counts = Counter({"starts": 1})
    if run.outcome == "preempted" and run.stopping is not None:
        ran = run.stopping - run.since - START_SECONDS * 1000
        counts += Counter({"evictions": 1, "starting": int(ran < 0), "soon": int(0 <= ran < _SOON)})
    return counts


def _most_in_an_hour(evicted: list[int]) -> int:
    return max((sum(at <= other < at + _HOUR for other in evicted) for at in evicted), default=0)


def _waited(record: Record, job: str) -> float:
    """How long the job has waited in all (ms)."""
    states = [*record.states[job], (record.end, "")]
    return sum(
        then - at
        for (at, state), (then, _) in pairwise(states)
        if state in {"pending", "preempted"}
    )
