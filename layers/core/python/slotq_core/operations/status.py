"""The queue as people see it: every job's place, and why it waits, computed when someone asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from slotq_core.model.attempts import Attempt
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import WAITING_STATES, Job, JobState
from slotq_core.model.limits import CallerLimits, CallerUse
from slotq_core.model.outlook import KnownTime, Outlook, TimeCause
from slotq_core.model.pools import Pool
from slotq_core.model.reasons import (
    BackingOff,
    BehindInLine,
    NextPass,
    Reason,
    TriesAgain,
    WaitsForJobs,
)
from slotq_core.model.snapshot import Snapshot
from slotq_core.model.users import Yielded
from slotq_core.policy.cycle import plan
from slotq_core.policy.lifecycle.start_attempts import NOT_SCHEDULED
from slotq_core.policy.order import Position, last_yields, position
from slotq_core.policy.plan import Plan, Start
from slotq_core.ports import Configuration


@dataclass(frozen=True, kw_only=True, slots=True)
class Status:
    """A job with what the queue knows about its waiting."""

    job: Job
    place: int | None = None
    """1 is next, among the waiting jobs that share a pool with it; None where it does not wait."""
    reason: Reason | None = None
    outlook: Outlook | None = None
    """What could be evicted for it, what is reserved, the times known; None where nobody asked for
    this one job, or where its turn does not come."""
    attempts: tuple[Attempt, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolStatus:
    """A pool with what the queue uses of it."""

    pool: Pool
    size: Demand
    """What the queue may use of it now."""
    used: Demand


@dataclass(frozen=True, kw_only=True, slots=True)
class LimitsStatus:
    """The limits, and one caller among them."""

    stand: Configuration
    caller: str
    counted_as: str
    """Under which name; another than the caller's where a rule counts several together."""
    own: CallerLimits
    """What counts for this caller."""
    use: CallerUse


MOST_LISTED = 1000
"""As many jobs as one answer has room for."""

MOST_LOOKED_AT = 10_000
"""Among how many those are looked for that somebody wants to see: the store can read them in the
time that an answer may take."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """Which jobs somebody wants to see. What is left out says nothing."""

    project: str | None = None
    submitter: str = ""
    """The ARN of who submitted it, or what stands in it between two slashes: a user's name."""
    pool: str = ""
    """Where it runs or, while it does not, may run."""
    since: int | None = None
    """It entered then or later (ms)."""
    until: int | None = None
    """It entered then or before (ms)."""

    @property
    def looks_at(self) -> int:
        return MOST_LISTED if self == ANY_JOB else MOST_LOOKED_AT

    def has(self, job: Job) -> bool:
        entered = job.entry_time
        return (
            self.project in {None, job.project}
            and (not self.submitter or self.submitter in {job.submitter, *_parts(job.submitter)})
            and (not self.pool or self.pool in _pools(job))
            and (self.since is None or entered >= self.since)
            and (self.until is None or entered <= self.until)
        )


ANY_JOB = Wanted()


def _parts(arn: str) -> list[str]:
    return arn.split("/")[1:]


def _pools(job: Job) -> tuple[str, ...]:
    return (job.attempt.pool,) if job.attempt else job.pools


def why(job: Job, planned: Plan, place: int | None) -> Reason | None:
    """Why the job waits; None if it does not. `planned`: a plan that could look at it."""
    if job.state is JobState.BACKOFF and job.not_before is not None:
        if job.cause == NOT_SCHEDULED:
            tried = job.schedule_attempts
            return TriesAgain(until=job.not_before, attempts=tried, cause=job.message)
        return BackingOff(until=job.not_before, cause=job.message)
    if job.state in WAITING_STATES and job.after:
        return WaitsForJobs(jobs=job.after)
    if not job.waits:
        return None
    if job.name in planned.reasons:
        return planned.reasons[job.name]
    for decision in planned.decisions:
        if isinstance(decision, Start) and decision.job.name == job.name:
            return NextPass(pool=decision.pool)
    return BehindInLine(ahead=(place or 1) - 1)


def looked_into(job: Job, snapshot: Snapshot, place: int | None, now: int) -> Status:
    """All that there is to say of why the job waits. `snapshot`: the heads of the lines will do."""
    planned = plan(snapshot, now, asked=job)
    outlook = planned.outlook
    if job.state is JobState.BACKOFF and job.not_before is not None:
        outlook = Outlook(times=(KnownTime(at=job.not_before, cause=TimeCause.BACKOFF),))
    return Status(job=job, place=place, reason=why(job, planned, place), outlook=outlook)


def places(waiting: Iterable[Job], yields: Iterable[Yielded] = ()) -> Mapping[str, int]:
    """The place of each waiting job, by name."""
    ahead: Counter[tuple[str, ...]] = Counter()
    found = {}
    last = last_yields(yields)
    for job in sorted(waiting, key=lambda job: position(job, last)):
        mine = set(job.pools)
        found[job.name] = 1 + sum(n for pools, n in ahead.items() if mine.intersection(pools))
        ahead[job.pools] += 1
    return found


def statuses(jobs: Iterable[Job], everything: Snapshot, now: int) -> list[Status]:
    """These jobs in the order of the queue: what holds slots, what waits by its order, what waits
    for a time, what has ended, the latest first."""
    planned = plan(everything, now)
    place = places(everything.waiting, everything.yields)
    shown = [
        Status(job=job, place=place.get(job.name), reason=why(job, planned, place.get(job.name)))
        for job in jobs
    ]
    return sorted(shown, key=_as_listed)


def _as_listed(status: Status) -> tuple[int, Position]:
    job = status.job
    if job.active:
        return 0, position(job)
    if job.waits:
        return 1, position(job)
    if not job.terminal:
        return 2, position(job)
    return 3, (-job.changed_at, 0, 0, False, 0, job.name)
