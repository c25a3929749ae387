"""The figures of a run, and the capacity and use of its pools over time, for figures and plots.

docs/simulate.md says what each figure means to a user.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from slotq.simulate.run.record import REFUSED, Record
from slotq.simulate.scenario.scenario import Scenario
from slotq.simulate.scenario.sections import JobSpec
from slotq_core.gpu_amounts import WHOLE
from slotq_core.lifecycle import copied
from slotq_core.model.capacity.schedule import next_change, slots_at
from slotq_core.model.demand import Demand
from slotq_core.model.pools import Pool, PoolState
from slotq_core.storage.scheduled import scheduled

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
        self.held: dict[str, float] = defaultdict(int)
        for held in holdings(scenario, record, self.end):
            self.held[held.job.name] += held.slots * (held.until - held.since)
        self.lost: dict[str, float] = defaultdict(int)
        self.lost_since_start: float = 0
        """The part of all jobs' losses that they held from 0 on."""
        specs = {spec.name: spec for spec in scenario.jobs}
        for run in record.runs:
            spec = specs[run.job]
            if run.outcome == "preempted" and run.until is not None and not spec.checkpoint:
                slots = spec.needed.slots * _part(scenario, spec, run.pool)
                self.lost[run.job] += slots * (run.until - run.since)
                self.lost_since_start += slots * (run.until - max(0, run.since))

    def figures(self, names: Iterable[str]) -> Figures:
        every = list(names)
        waits = sorted(self.waited[name] / 1000 for name in every)
        return Figures(
            jobs=len(every),
            wait_mean=round(fmean(waits), 3) if waits else 0.0,
            wait_p95=waits[-(-95 * len(waits) // 100) - 1] if waits else 0.0,
            evictions=sum(self._record.evictions(name) for name in every),
            slot_seconds=round(sum(self.held[name] for name in every) / 1000, 3),
            slot_seconds_lost=round(sum(self.lost[name] for name in every) / 1000, 3),
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """A span of time without a change in a pool. Milliseconds and slots."""

    since: int
    until: int
    capacity: int
    foreign: int
    used: float
    state: PoolState

    @property
    def room(self) -> float:
        """The slots available: the capacity less foreign use, or none in a drained pool. If jobs
        use more than that in a pool that shrank or was drained, the slots in use."""
        offered = 0 if self.state is PoolState.DRAINED else self.capacity - self.foreign
        return max(offered, self.used)


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """Slots that a job holds for a time (ms); on a node, its part of one."""

    job: JobSpec
    pool: str
    slots: float
    since: int
    until: int


def horizon(scenario: Scenario, record: Record) -> int:
    """The end of the figures' time: `until` if the run had not ended before, else the last
    event."""
    ended = all(states[-1][1] in _ENDED for states in record.states.values())
    alive = not ended or len(record.states) < len(scenario.jobs)
    return scenario.until if scenario.until is not None and alive else record.last


_ENDED = {"completed", "failed", "cancelled", "stopped", "refused"}


def holdings(scenario: Scenario, record: Record, end: int) -> Iterator[Held]:
    """The slots held between 0 and the end, in the order of the starts."""
    specs = {spec.name: spec for spec in scenario.jobs}
    for run in record.runs:
        until = end if run.until is None else min(run.until, end)
        if until > max(0, run.since):
            job, since = specs[run.job], max(0, run.since)
            for pool, held in job.held_in(run.pool).items():
                slots = held.slots * _part(scenario, job, pool)
                yield Held(job=job, pool=pool, slots=slots, since=since, until=until)


def _part(scenario: Scenario, job: JobSpec, pool: str) -> float:
    """The part of its slot that a job has on a node; 1 for whole instances."""
    kept = next((found.nodes for found in scenario.pools if found.name == pool), None)
    return job.gpus / (WHOLE * kept.gpus) if job.gpus and kept else 1


def spans(scenario: Scenario, record: Record, end: int) -> dict[str, list[Span]]:
    """The spans of each pool from 0 to the end, without a gap."""
    steps: dict[str, list[tuple[int, float]]] = {name: [] for name in scenario.pool_names}
    for held in holdings(scenario, record, end):
        steps[held.pool] += [(held.since, held.slots), (held.until, -held.slots)]
    changes: dict[str, list[tuple[int, Pool]]] = {name: [] for name in scenario.pool_names}
    now = {pool.name: pool for pool in scenario.configuration().pools}
    for t, name, change in scenario.changes():
        now[name] = change.applied(now[name])
        changes[name].append((t, now[name]))
    return {
        pool.name: list(
            _spans(
                pool, sorted(steps[pool.name]), [*_in_its_hours(pool, changes[pool.name], end)], end
            )
        )
        for pool in scenario.configuration().pools
    }


def _in_its_hours(
    pool: Pool, changes: list[tuple[int, Pool]], end: int
) -> Iterator[tuple[int, Pool]]:
    """The pool whenever its settings change, or its hours offer another number of slots: with as
    many slots as it offers then."""
    versions = [(0, pool), *changes]
    for (since, version), (until, _) in pairwise([*versions, (end, pool)]):
        moment: int | None = since
        while moment is not None and moment < until:
            (known,) = scheduled([version], moment)
            offered = slots_at(known.schedule, moment, of=version.capacity.slots)
            yield moment, copied(version, capacity=Demand({**version.capacity, "slots": offered}))
            following = next_change(known.schedule, moment)
            moment = following.at if following else None


def _spans(
    pool: Pool, steps: list[tuple[int, float]], changes: list[tuple[int, Pool]], end: int
) -> Iterator[Span]:
    moments = sorted({0, end, *(t for t, _ in steps), *(t for t, _ in changes if t < end)})
    used: float = 0
    step, change = 0, 0
    for since, until in pairwise(moments):
        while step < len(steps) and steps[step][0] <= since:
            used = round(used + steps[step][1], 6)
            step += 1
        while change < len(changes) and changes[change][0] <= since:
            pool = changes[change][1]
            change += 1
        yield Span(
            since=since,
            until=until,
            capacity=pool.capacity.slots,
            foreign=pool.foreign.slots,
            used=used,
            state=pool.state,
        )
