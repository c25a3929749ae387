"""Two forecasts as figures by project: what becomes of its jobs, without the change and with it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

from slotq.simulate.run.record import RecordedEvent
from slotq.simulate.whatif.answer import WorldRow, WorldView
from slotq.simulate.whatif.costs import held_slots
from slotq.simulate.whatif.forecast import Forecast
from slotq_core.model.jobs import WAITING_OR_BACKING_OFF

_COUNTED = {
    "start": "starts",
    "evict": "evictions",
    "yield": "evictions",
    "suspend": "evictions",
    "complete": "completions",
}
"""The figure that an event counts in."""


def worlds(before: Forecast, after: Forecast) -> list[WorldRow]:
    """A row for each project with jobs, in the order of names."""
    without, with_change = _worlds(before), _worlds(after)
    none = WorldView()
    return [
        WorldRow(
            project=project,
            before=without.get(project, none),
            after=with_change.get(project, none),
        )
        for project in sorted({*without, *with_change})
    ]


def _worlds(of: Forecast) -> dict[str, WorldView]:
    project_of = {job.name: job.project for job in of.queue.jobs}
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for event in _within(of):
        if event.event in _COUNTED and event.job in project_of:
            counts[project_of[event.job]][_COUNTED[event.event]] += 1
    waits: defaultdict[str, list[int]] = defaultdict(list)
    for name, project in project_of.items():
        waits[project].append(_waited(of, name))
    held: Counter[str] = Counter()
    pools = {pool.name: pool for pool in of.queue.pools}
    for run in of.record.runs:
        until = of.until if run.until is None else min(run.until, of.until)
        lasted = max(0, until - max(run.since, of.queue.at))
        for _, slots in held_slots(of.queue.job(run.job), run.pool, pools):
            held[project_of[run.job]] += round(slots * lasted)
    return {
        project: WorldView(
            **counts[project],
            slot_hours=round(held[project] / 3_600_000, 2),
            wait_seconds=round(sum(waited) / len(waited) / 1000),
        )
        for project, waited in waits.items()
    }


def _within(of: Forecast) -> Iterator[RecordedEvent]:
    """The events of the time looked at."""
    return (event for event in of.record.events if of.queue.at <= event.t <= of.until)


def _waited(of: Forecast, name: str) -> int:
    """How long (ms) the job waits within the time looked at."""
    states = [*of.record.states[name], (of.until, "")]
    return sum(
        max(0, min(until, of.until) - max(since, of.queue.at))
        for (since, state), (until, _) in pairwise(states)
        if state in WAITING_OR_BACKING_OFF
    )
