"""Backfill that cannot delay (EASY): later jobs that start where a pool drains for another.

A later job starts on free slots there if one of these holds:

- it ends before the expected moment, by its bound (lifecycle/hours/runtimes.py);
- it takes only what the drained-for job leaves over;
- the drained-for job may evict it then, and no protection is in the way.

The expected moment is when the drained-for job fits at the latest: what runs there has ended by
its bound, and what the job may evict is evicted. What has no bound is taken to stay. While anything
there has none, no moment is named, and no job passes by its own bound.

A job that passes never makes a moment later: it has ended by then, or takes what was left over, or
counts as evicted. Quotas decide who may be evicted then, not fair shares: these change with what
others ask for.

See docs/policy-decisions.md#backfill-where-a-pool-drains.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from slotq_core.model.demand import NOTHING, Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.policy.lifecycle.hours.runtimes import ends_by, eviction_takes, start_takes
from slotq_core.policy.order import outranks
from slotq_core.policy.state.candidates import longest_protection
from slotq_core.policy.state.eligibility import Eligibility
from slotq_core.policy.state.plan_state import PlanState
from slotq_core.policy.state.pool_room import PoolRoom

STARTS_AWAY = 2
"""At least so many starts away is the moment at which a job that passes may be evicted again."""

NEVER = 1 << 62
"""Later than any moment (ms)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    """When a drained-for job fits at the latest, and what then remains."""

    at: int | None
    """In ms; None: not known."""
    named: bool
    """Whether all that holds slots there has a bound, so that the moment is a promise."""
    left_over: Demand
    """What the job leaves over then; nothing if the moment is not known."""
    evicts: tuple[bool, ...]
    """Whom the job may evict then: jobs of other projects (True), lower ranks of its own (False).
    No eviction takes both, so a known moment has at most one."""


class Backfill:
    """Answers whether a job may start where a pool drains for another. Changes nothing."""

    def __init__(self, state: PlanState, eligible: Eligibility) -> None:
        self._state, self._eligible = state, eligible
        self._known: dict[tuple[str, str], tuple[tuple[Demand, ...], Expected]] = {}
        """By pool and drained-for job, the last answer, with the amounts that it rests on."""

    def lets_pass(self, job: Job, room: PoolRoom) -> bool:
        """Whether the job, which fits now, delays the drained-for job by a start here in no way.
        Limits in which both count are asked after the start (`Steps.backfill`)."""
        drain = room.drain
        if drain is None or drain.gang or job.group in self._state.gangs or job.claim is not None:
            return False
        if room.pool.is_timed or room.unavailable or room.rights.keeps_out(job):
            return False
        if room.waits_for_release(job) or not self._eligible.within_bounds(job, room):
            return False
        ahead = self._state.waiting[drain.job]
        if self._might_take_quota(job, ahead, room):
            return False
        expected = self._expected_by(room)
        return (
            self._ends_before(expected, job, room)
            or job.demand.within(expected.left_over)
            or self._is_evicted_then(expected, job, ahead, room)
        )

    def promise(self, room: PoolRoom) -> int | None:
        """By when (ms) the drained-for job has its slots, if nothing ahead of it takes them; None:
        that is not known. The last evictions for it may take as long as a stop."""
        if room.drain is None or room.drain.gang or room.pool.is_timed:
            return None
        expected = self._expected_by(room)
        named = expected.named and expected.at is not None
        return expected.at + eviction_takes(room.pool) if named and expected.at else None

    def expected_at(self, job: Job, room: PoolRoom) -> int:
        """The moment (ms) if the room drained for the job; `NEVER`: not known."""
        at = self._expected(job, room).at
        return NEVER if at is None else at

    def _expected_by(self, room: PoolRoom) -> Expected:
        """The moment of the job that the room drains for."""
        assert room.drain is not None
        job = self._state.waiting[room.drain.job]
        expected = self._expected(job, room)
        if room.drain.beyond_share:  # Other projects start jobs there within their shares.
            return _unknown(expected.evicts)
        return expected

    def _expected(self, job: Job, room: PoolRoom) -> Expected:
        chain = self._state.accounts.of(job, room.pool.name)
        rests_on = (room.both, *(account.used for account in chain))
        key = room.pool.name, job.name
        known, found = self._known.get(key, (None, None))
        if found is None or known != rests_on:
            found = self._compute(job, room)
            self._known[key] = rests_on, found
        return found

    def _compute(self, job: Job, room: PoolRoom) -> Expected:
        evicts = tuple(
            kind for kind in (False, True) if self._within_quota(job, room, from_others=kind)
        )
        pool = room.pool
        # These keep slots beyond the end of a job, or give them to another before.
        keeps = pool.nodes or room.warm or pool.time_slice is not None
        if not (keeps or any(self._might_take_quota(other, job, room) for other in self._semi)):
            moments = (self._moment(job, room, from_others=kind) for kind in evicts or (None,))
            known = [moment for moment in moments if moment.at is not None]
            if known:
                return min(known, key=lambda moment: moment.at or 0)
        return _unknown(evicts)

    def _moment(self, job: Job, room: PoolRoom, *, from_others: bool | None) -> Expected:
        """The moment if the job evicts those jobs then; None: none."""
        now, left = self._state.now, room.left(job)
        named = not room.awaiting and left == room.both
        ends: list[tuple[int, Demand]] = []
        for other in self._holders(room):
            end = ends_by(other, room.pool, now)
            named = named and end is not None
            if other.state is JobState.STOPPING:
                left = left - other.demand
            elif from_others is not None and self._evicts(
                job, other, room, from_others=from_others
            ):
                end = min(NEVER if end is None else end, self._protected_until(other, room))
            if end is not None:
                ends.append((end, other.demand))
        at = now
        for end, demand in sorted(ends, key=lambda one: one[0]):
            if end > at and job.demand.within(left):
                break
            at, left = max(at, end), left + demand
        fits = job.demand.within(left)
        return Expected(
            at=at if fits else None,
            named=named and at > now,  # Else something unknown keeps the job waiting.
            left_over=left - job.demand if fits else NOTHING,
            evicts=() if from_others is None else (from_others,),
        )

    def _ends_before(self, expected: Expected, job: Job, room: PoolRoom) -> bool:
        if not expected.named or expected.at is None:
            return False
        end = ends_by(job, room.pool, self._state.now)
        return end is not None and end <= expected.at

    def _is_evicted_then(self, expected: Expected, job: Job, ahead: Job, room: PoolRoom) -> bool:
        start = start_takes(room.pool)
        started = self._eligible.classed(job, room.pool.name) or job
        protected = longest_protection(started, room.pool, self._state.running.minimum(job.project))
        if expected.at is None:
            if protected:
                return False
        elif expected.at < self._state.now + max(STARTS_AWAY * start, start + protected):
            return False
        return any(self._evicts(ahead, started, room, from_others=kind) for kind in expected.evicts)

    @cached_property
    def _semi(self) -> Sequence[Job]:
        """The active jobs that are protected while they are within a quota."""
        return [job for job in self._state.snapshot.active if _is_semi(job)]

    def _might_take_quota(self, job: Job, ahead: Job, room: PoolRoom) -> bool:
        """Whether the other job might come within the quota that binds the drained-for job, once
        others have ended."""
        if not _is_semi(job) or self._state.may_evict(ahead):
            return False
        mine = self._state.accounts.of(ahead, room.pool.name)
        pool = job.attempt.pool if job.attempt else room.pool.name
        theirs = self._state.accounts.of(job, pool)
        return any(account is other for account in mine for other in theirs)

    def _holders(self, room: PoolRoom) -> Iterator[Job]:
        """The jobs that hold slots of the room, stopping ones too."""
        yield from room.jobs.everyone()
        for job in self._state.snapshot.active:
            pool = job.attempt.pool if job.attempt else ""
            if job.state is JobState.STOPPING and pool == room.pool.name:
                yield job

    def _evicts(self, job: Job, other: Job, room: PoolRoom, *, from_others: bool) -> bool:
        """Whether the drained-for job, within its quota, may evict the other once no protection is
        in the way, whatever ends until then. A job of another project has to be beyond its
        project's quota by itself; one of its own must not come within the quota."""
        if not self._state.may_evict(other) or other.group in self._state.gangs:
            return False
        if not from_others:
            return other.always_evictable and outranks(job, other)
        mine = self._state.accounts.of(job, room.pool.name)
        theirs = self._state.accounts.of(other, room.pool.name)
        if other.project == job.project or not (mine and theirs):
            return False
        parting = theirs[0 if mine[-1] is theirs[-1] else -1]
        return all(
            other.demand.exceeds(account.quota, account.resources, NOTHING)
            for account in (theirs[0], parting)
        )

    def _within_quota(self, job: Job, room: PoolRoom, *, from_others: bool) -> bool:
        """Whether the job's project, once the job fits, is within its quotas with it: part of what
        the project holds there has ended by then, or is evicted. Without projects there is no
        quota."""
        chain = self._state.accounts.of(job, room.pool.name)
        if not chain or self._state.accounts.shared is not None:
            return not (chain or from_others)
        own, missing = [*room.jobs.running(job.project)], room.missing(job)
        others = _held(other for other in room.jobs.everyone() if other.project != job.project)
        below = NOTHING if from_others else _held(other for other in own if outranks(job, other))
        gone = {}
        for name in job.demand:
            least = missing[name] - others[name]
            if least > 0:  # Jobs end whole.
                least = max(least, min((other.demand[name] for other in own), default=0))
            gone[name] = max(0, least, below[name])
        return all(account.in_quota(job.demand - Demand(gone)) for account in chain)

    def _protected_until(self, other: Job, room: PoolRoom) -> int:
        """From when (ms) no `min_runtime` protects the job, which holds slots."""
        until, _ = room.jobs.protections.get(other.name, (self._state.now, None))
        if until is not None and other.name not in room.jobs.safe:
            return until
        since = other.attempt.admitted_at if other.attempt else self._state.now
        protected = longest_protection(other, room.pool, self._state.running.minimum(other.project))
        return since + start_takes(room.pool) + protected


def _unknown(evicts: tuple[bool, ...]) -> Expected:
    return Expected(at=None, named=False, left_over=NOTHING, evicts=evicts)


def _held(jobs: Iterable[Job]) -> Demand:
    return Demand.total([job.demand for job in jobs])


def _is_semi(job: Job) -> bool:
    return job.evictable and not job.always_evictable
