"""How long jobs wait in four kinds of teams, with the settings that docs/share-a-cluster.md
recommends to each and without: three random worlds of each kind, the same with all settings.

A start takes four minutes, a stop 30 s. A wait is all that a job waits, also after evictions.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean
from typing import Any

from benchmarks.schedules import percentile
from slotq.simulate import Scenario, simulate
from slotq.simulate.run.record import Record

SEEDS = (1, 2, 3)
_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_STARTS = {"name": "p", "start_seconds": 240, "stop_seconds": 30, "release_seconds": 60}
_WAITING = {"pending", "preempted"}

Document = dict[str, Any]
Figures = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """A kind of team: its worlds, and the sections of the configuration that are compared."""

    slots: int
    jobs: Callable[[random.Random], Iterator[Document]]
    """Jobs, each named by whose it is and a number."""
    projects: Sequence[str] = ()
    settings: Mapping[str, Document]


def measure() -> Mapping[str, Mapping[str, Figures]]:
    """By kind of team and settings, the hours that jobs wait, by whose they are."""
    return {
        name: {said: _figures(name, kind, changed) for said, changed in kind.settings.items()}
        for name, kind in KINDS.items()
    }


def _figures(name: str, kind: Kind, changed: Document) -> Figures:
    waits: dict[str, list[float]] = {}
    evictions = 0
    for seed in SEEDS:
        rolls = random.Random(f"teams/{name}/{seed}")  # A world, no secret. # nosec B311
        jobs = [{**job, "name": f"{job['name']}-{n}"} for n, job in enumerate(kind.jobs(rolls))]
        projects = [{"name": project, "quota": 2} for project in kind.projects]
        pool = {**_STARTS, "capacity": kind.slots, **changed.get("pool", {})}
        rest = {key: value for key, value in changed.items() if key != "pool"}
        document = {"pools": [pool], "projects": projects, "jobs": jobs, **rest}
        record = simulate(Scenario.model_validate(document))
        for job in jobs:
            whose = job["name"].rpartition("-")[0]
            waits.setdefault(whose, []).append(_waited(record, job["name"]))
            evictions += len(record.evicted(job["name"]))
    hours = {
        whose: {"mean": round(mean(all_), 2), "p95": round(percentile(sorted(all_), 95), 2)}
        for whose, all_ in sorted(waits.items())
    }
    return {"hours": hours, "evictions": evictions}


def _waited(record: Record, job: str) -> float:
    """How long the job has waited in all (hours)."""
    states = [*record.states[job], (record.end, "")]
    waits = (then - at for (at, state), (then, _) in pairwise(states) if state in _WAITING)
    return sum(waits) / 1000 / _HOUR


def _runtime(rolls: random.Random, middle: int, least: int, most: int) -> int:
    return int(min(most, max(least, middle * rolls.lognormvariate(0, 0.9))))


def _experiments(rolls: random.Random) -> Iterator[Document]:
    """Five people's short runs, a quarter of them urgent."""
    for _ in range(230):
        urgent = rolls.random() < 0.25
        yield {
            "name": "urgent" if urgent else "ordinary",
            "user": f"u{rolls.randrange(5)}",
            "priority": int(urgent),
            "runtime": _runtime(rolls, 12 * _MINUTE, 2 * _MINUTE, 2 * _HOUR),
            "submit_at": rolls.randrange(10 * _HOUR),
        }


def _large_beside_small(rolls: random.Random) -> Iterator[Document]:
    """Two days of small jobs that fill the pool, and three trainings that need 12 of 16 slots."""
    for _ in range(280):
        runtime = _runtime(rolls, 82 * _MINUTE, 5 * _MINUTE, 12 * _HOUR)
        yield {
            "name": "small",
            "slots": rolls.choice((1, 1, 2)),
            "runtime": runtime,
            "max_runtime": 2 * runtime,
            "submit_at": rolls.randrange(2 * _DAY),
        }
    for number in range(3):
        at = (8 + 16 * number) * _HOUR
        yield {
            "name": "large",
            "slots": 12,
            "runtime": 6 * _HOUR,
            "max_runtime": 8 * _HOUR,
            "submit_at": at,
        }


def _deadlines(rolls: random.Random) -> Iterator[Document]:
    """A fortnight: one team is always busy, one in the second week, one on four days."""
    busy = {"always": range(14), "second-week": range(7, 14), "four-days": (3, 4, 10, 11)}
    for team, days in busy.items():
        for day in range(14):
            for _ in range(36 if day in days else 3):
                yield {
                    "name": team,
                    "project": team,
                    "slots": rolls.choice((1, 2)),
                    "runtime": _runtime(rolls, 2 * _HOUR, 10 * _MINUTE, 12 * _HOUR),
                    "submit_at": day * _DAY + rolls.randrange(_DAY),
                }


def _many_people(rolls: random.Random) -> Iterator[Document]:
    """One person submits half of all jobs in the first two hours, seven others during the day."""
    for _ in range(240):
        one = rolls.random() < 0.5
        yield {
            "name": "one" if one else "others",
            "user": "one" if one else f"u{rolls.randrange(7)}",
            "runtime": _runtime(rolls, 67 * _MINUTE, 5 * _MINUTE, 8 * _HOUR),
            "submit_at": rolls.randrange(2 * _HOUR if one else _DAY),
        }


KINDS: Mapping[str, Kind] = {
    "experiments": Kind(
        slots=8,
        jobs=_experiments,
        settings={"none": {}, "`keep_warm: 30m`": {"pool": {"keep_warm": 30 * _MINUTE}}},
    ),
    "large beside small": Kind(
        slots=16,
        jobs=_large_beside_small,
        settings={
            "none": {},
            "`reserve_after: 1h`": {"pool": {"reserve_after": _HOUR}},
        },
    ),
    "deadlines": Kind(
        slots=12,
        jobs=_deadlines,
        projects=("always", "second-week", "four-days"),
        settings={"quotas": {}, "and `half_life: 7d`": {"fair_share": {"half_life": "7d"}}},
    ),
    "many people": Kind(
        slots=8,
        jobs=_many_people,
        settings={
            "none": {},
            "`time_slice: 1h`": {"pool": {"time_slice": _HOUR}},
            "`of: users`, `half_life: 1d`": {"fair_share": {"half_life": "1d", "of": "users"}},
        },
    ),
}
