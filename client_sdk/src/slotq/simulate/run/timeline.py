"""The capacity and the use of a pool over a run, for figures and plots."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from slotq.simulate.run.record import Record
from slotq.simulate.scenario.scenario import Scenario
from slotq.simulate.scenario.sections import JobSpec
from slotq_core.model.pools import Pool, PoolState


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """A span of time without a change in a pool. Milliseconds and slots."""

    since: int
    until: int
    capacity: int
    foreign: int
    used: int
    state: PoolState

    @property
    def room(self) -> int:
        """The slots available: the capacity less foreign use, or none in a drained pool. If jobs
        use more than that in a pool that shrank or was drained, the slots in use."""
        offered = 0 if self.state is PoolState.DRAINED else self.capacity - self.foreign
        return max(offered, self.used)


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """Slots that a job holds for a time (ms)."""

    job: JobSpec
    pool: str
    slots: int
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
                yield Held(job=job, pool=pool, slots=held.slots, since=since, until=until)


def spans(scenario: Scenario, record: Record, end: int) -> dict[str, list[Span]]:
    """The spans of each pool from 0 to the end, without a gap."""
    steps: dict[str, list[tuple[int, int]]] = {name: [] for name in scenario.pool_names}
    for held in holdings(scenario, record, end):
        steps[held.pool] += [(held.since, held.slots), (held.until, -held.slots)]
    changes: dict[str, list[tuple[int, Pool]]] = {name: [] for name in scenario.pool_names}
    now = {pool.name: pool for pool in scenario.configuration().pools}
    for t, name, change in scenario.changes():
        now[name] = change.applied(now[name])
        changes[name].append((t, now[name]))
    return {
        pool.name: list(_spans(pool, sorted(steps[pool.name]), changes[pool.name], end))
        for pool in scenario.configuration().pools
    }


def _spans(
    pool: Pool, steps: list[tuple[int, int]], changes: list[tuple[int, Pool]], end: int
) -> Iterator[Span]:
    moments = sorted({0, end, *(t for t, _ in steps), *(t for t, _ in changes if t < end)})
    used, step, change = 0, 0, 0
    for since, until in pairwise(moments):
        while step < len(steps) and steps[step][0] <= since:
            used += steps[step][1]
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
