"""The figures of a run. docs/simulate.md says what each means to a user."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from slotq.simulate.run.record import REFUSED, Record
from slotq.simulate.run.timeline import holdings, horizon, spans
from slotq.simulate.scenario.scenario import Scenario

_WAITING = {"pending", "preempted", "backoff"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """The figures of some jobs of a run. Times in seconds."""

    jobs: int
    """The jobs that the queue accepted and those that ran at the start."""
    wait_mean: float
    """The mean of each job's total wait: before the first start, and after evictions."""
    wait_p95: float
    """The 95th percentile: the shortest wait that 95 of 100 did not exceed."""
    evictions: int
    slot_seconds: float
    """Slots held times seconds held."""
    slot_seconds_lost: float
    """The part of `slot_seconds` lost to evictions, by attempts without a checkpoint."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Metrics:
    """The figures of a run from 0 to its horizon (`timeline.horizon`)."""

    utilisation: float
    """Slot-seconds held by jobs and not lost to evictions, as a fraction of those available
    (`timeline.Span.room`): 0 to 1."""
    wait_mean: float
    wait_p95: float
    evictions: int
    slot_seconds_lost: float
    by_project: dict[str, Figures]
    """The figures by project name. The empty name: no project."""
    by_priority: dict[str, Figures]
    """The figures by the submission's priority as a number, highest first."""


def metrics(scenario: Scenario, record: Record) -> Metrics:
    sheet = _Sheet(scenario, record)
    specs = [spec for spec in scenario.jobs if spec.name in sheet.waited]
    projects: dict[str, list[str]] = {project.name: [] for project in scenario.projects}
    priorities: dict[int, list[str]] = defaultdict(list)
    for spec in specs:
        projects.setdefault(spec.project or "", []).append(spec.name)
        priorities[scenario.priority_of(spec)].append(spec.name)
    everyone = sheet.figures(spec.name for spec in specs)
    return Metrics(
        utilisation=_utilisation(scenario, record, sheet),
        wait_mean=everyone.wait_mean,
        wait_p95=everyone.wait_p95,
        evictions=everyone.evictions,
        slot_seconds_lost=everyone.slot_seconds_lost,
        by_project={name: sheet.figures(names) for name, names in projects.items()},
        by_priority={
            str(priority): sheet.figures(priorities[priority])
            for priority in sorted(priorities, reverse=True)
        },
    )


class _Sheet:
    """The time that each job has waited, held and lost (ms)."""

    def __init__(self, scenario: Scenario, record: Record) -> None:
        self.end = horizon(scenario, record)
        self._record = record
        self.waited = {
            name: _waited(states, self.end)
            for name, states in record.states.items()
            if states[-1][1] != REFUSED
        }
        self.held: dict[str, int] = defaultdict(int)
        for held in holdings(scenario, record, self.end):
            self.held[held.job.name] += held.slots * (held.until - held.since)
        self.lost: dict[str, int] = defaultdict(int)
        self.lost_since_start = 0
        """The part of what all jobs lost that they held from 0 on."""
        specs = {spec.name: spec for spec in scenario.jobs}
        for run in record.runs:
            spec = specs[run.job]
            if run.outcome == "preempted" and run.until is not None and not spec.checkpoint:
                self.lost[run.job] += spec.needed.slots * (run.until - run.since)
                self.lost_since_start += spec.needed.slots * (run.until - max(0, run.since))

    def figures(self, names: Iterable[str]) -> Figures:
        every = list(names)
        waits = sorted(self.waited[name] / 1000 for name in every)
        return Figures(
            jobs=len(every),
            wait_mean=round(fmean(waits), 3) if waits else 0.0,
            wait_p95=waits[-(-95 * len(waits) // 100) - 1] if waits else 0.0,
            evictions=sum(self._record.evictions(name) for name in every),
            slot_seconds=sum(self.held[name] for name in every) / 1000,
            slot_seconds_lost=sum(self.lost[name] for name in every) / 1000,
        )


def _waited(states: list[tuple[int, str]], end: int) -> int:
    changes = [*states, (end, "")]
    return sum(
        max(0, min(until, end) - since)
        for (since, state), (until, _) in pairwise(changes)
        if state in _WAITING
    )


def _utilisation(scenario: Scenario, record: Record, sheet: _Sheet) -> float:
    every = [span for pool in spans(scenario, record, sheet.end).values() for span in pool]
    room = sum(span.room * (span.until - span.since) for span in every)
    used = sum(span.used * (span.until - span.since) for span in every) - sheet.lost_since_start
    return round(used / room, 4) if room else 0.0
