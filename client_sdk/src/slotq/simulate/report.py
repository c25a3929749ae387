"""Expectations that do not hold, and the figures of a run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from slotq.simulate.record import Event, Record
from slotq.simulate.scenario import Scenario
from slotq.simulate.sections import Expectation, JobSpec

_WAITING = {"pending", "preempted", "backoff"}
_HOLDING = {"starting", "running", "stopping"}


def differences(scenario: Scenario, record: Record) -> list[str]:
    """Which of the scenario's expectations do not hold, a line each."""
    return [
        line for expected in scenario.expect for line in _differences(scenario, expected, record)
    ]


def _differences(scenario: Scenario, expected: Expectation, record: Record) -> Iterator[str]:
    at = record.end if expected.at == "end" else expected.at
    when = "at the end" if expected.at == "end" else f"at {at / 1000:g} s"
    for name, state in expected.states.items():
        found = record.state_at(name, at)
        if found != state:
            yield f"{when}: {name} is {found}, expected {state}"
    for name, moments in expected.started.items():
        starts = [t for t in record.started(name) if t <= at]
        if starts != moments:
            yield f"{when}: {name} started at {_listed(starts)}, expected {_listed(moments)}"
    for project, slots in expected.running_slots.items():
        running = sum(
            spec.needed.slots
            for spec in scenario.jobs
            if spec.project == project and record.state_at(spec.name, at) in {"starting", "running"}
        )
        if running != slots:
            yield f"{when}: {project} runs {running} slots, expected {slots}"
    for name, count in expected.evictions.items():
        evictions = sum((e.job, e.event) == (name, "evict") and e.t <= at for e in record.events)
        if evictions != count:
            yield f"{when}: {name} was evicted {evictions} times, expected {count}"


def _listed(moments: Iterable[int]) -> str:
    return "[" + ", ".join(f"{t / 1000:g}" for t in moments) + "]"


def unequal(policy: Record, live: Record) -> list[str]:
    """Where the live run's events differ from the policy's own; the first difference says enough.

    What happens at one and the same moment may come in any order.
    """
    for one, other in zip(_ordered(policy), _ordered(live), strict=False):
        if one != other:
            return [f"live differs: expected {one.as_json()}, found {other.as_json()}"]
    if len(policy.events) != len(live.events):
        return [f"live differs: {len(live.events)} events, expected {len(policy.events)}"]
    return []


def _ordered(record: Record) -> list[Event]:
    return sorted(record.events, key=lambda e: (e.t, e.job, e.event, e.pool or "", e.reason))


@dataclass(frozen=True, kw_only=True, slots=True)
class Metrics:
    """Figures of a run. Times in seconds, shares from 0 to 1."""

    utilisation: float
    """Slot-seconds held by jobs, of those that the pools had from 0 to the last event."""
    wait_mean: float
    """Of what each accepted job has waited in all: before its first start and after evictions."""
    wait_p95: float
    evictions: int
    slot_seconds_lost: float
    """Work that evictions cost, of jobs that keep no checkpoint."""
    by_project: dict[str, dict[str, float]]
    by_priority: dict[str, dict[str, float]]


def metrics(scenario: Scenario, record: Record) -> Metrics:
    specs = {spec.name: spec for spec in scenario.jobs}
    waits = {name: _time_in(record, name, _WAITING) for name in record.states}
    held = sum(
        _time_in(record, name, _HOLDING) * specs[name].needed.slots for name in record.states
    )
    room = sum(pool.capacity.slots for pool in scenario.pools) * record.end
    everyone = _group(record, list(waits), waits)
    priorities: dict[str, list[str]] = defaultdict(list)
    for name in waits:
        priorities[str(scenario.priority_of(specs[name]))].append(name)
    return Metrics(
        utilisation=round(held / room, 4) if room else 0.0,
        wait_mean=everyone["wait_mean"],
        wait_p95=everyone["wait_p95"],
        evictions=int(everyone["evictions"]),
        slot_seconds_lost=sum(_lost(record, specs[name]) for name in waits) / 1000,
        by_project={"": everyone},
        by_priority={key: _group(record, group, waits) for key, group in priorities.items()},
    )


def _group(record: Record, group: list[str], waits: dict[str, int]) -> dict[str, float]:
    ordered = sorted(waits[name] / 1000 for name in group)
    return {
        "jobs": len(group),
        "wait_mean": round(fmean(ordered), 3) if ordered else 0.0,
        "wait_p95": ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))] if ordered else 0.0,
        "evictions": sum(record.evictions(name) for name in group),
    }


def _time_in(record: Record, name: str, wanted: set[str]) -> int:
    changes = [*record.states[name], (record.end, "")]
    return sum(
        max(0, until - since) for (since, state), (until, _) in pairwise(changes) if state in wanted
    )


def _lost(record: Record, spec: JobSpec) -> int:
    if spec.checkpoint:
        return 0
    began, lost = 0, 0
    for event in record.events:
        if event.job == spec.name and event.event == "start":
            began = event.t
        elif event.job == spec.name and event.event == "stopped":
            lost += (event.t - began) * spec.needed.slots
    return lost
