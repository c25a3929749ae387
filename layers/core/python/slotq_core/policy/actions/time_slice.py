"""Step 3f, turns: past its pool's time slice a running job yields (DESIGN 5.3).

"Past it a running job yields, in that pool and project, to an equal-rank job of another user who
holds fewer slots of that rank there. The user whose job yielded counts, for all that user's waiting
jobs of that rank, as having entered just after that moment; among them the entry time decides. So
three users take turns. A job that would lose its work (no checkpoint) does not yield to a slice.
Jobs that name no user share one user for slices."

Between several that could yield: one of the user who holds most, then the one that has run longest,
then as in any eviction. Who has just yielded lets those who run have one more slice: else, of two
jobs whose slices end together, the one that yields would be given the other's slots at once. And a
user holds more only by what it has held for a slice: else it would lose at once, with an older job
of its own, the slot that it has just been given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from slotq_core.model.attempts import StopCause
from slotq_core.model.jobs import Job
from slotq_core.model.users import Yielded
from slotq_core.policy.actions.victims import Eviction, Shortfall, Shortfalls, least_harm, spared
from slotq_core.policy.order import Yields, rank
from slotq_core.policy.state.candidates import Candidate
from slotq_core.policy.state.claims import Entitled
from slotq_core.policy.state.pool_room import PoolRoom
from slotq_core.policy.state.quotas.accounts import Accounts


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeSlices:
    """What a turn looks at: the books, who may take whose claim, who yielded last, the moment."""

    accounts: Accounts
    entitled: Entitled
    gangs: Collection[str]
    """A gang neither yields nor takes a turn: its slots come and go together."""
    yields: Yields
    now: int

    def find(
        self, job: Job, rooms: Sequence[PoolRoom], drains: Mapping[str, Job]
    ) -> Eviction | None:
        """The least harmful set of jobs that yield so that this one can start.

        `drains`: by pool, the job that it drains for, where that comes first. There a turn is taken
        from that job's own user only, and with none of the free slots: nothing that the drain could
        have had.
        """
        found = [
            self._in_pool(job, room, drains.get(room.pool.name))
            for room in rooms
            if room.pool.time_slice is not None
        ]
        return least_harm(found, rank(job))

    def ends(self, job: Job, rooms: Iterable[PoolRoom]) -> Iterator[int]:
        """The moments at which time alone may give the job its turn in these rooms."""
        return (end for room in rooms for _, end in self._ends(job, room))

    def first_end(self, job: Job, room: PoolRoom) -> int | None:
        """When the first slice is over of those that would yield to the job."""
        return min(self.yielding(job, room).values(), default=None)

    def yielding(self, job: Job, room: PoolRoom) -> dict[str, int]:
        """Those that will yield to the job, by name, and when."""
        ends = ((other, end) for other, end in self._ends(job, room) if self._yields(other, job))
        return {other.name: end for other, end in ends if end > self.now}

    def _ends(self, job: Job, room: PoolRoom) -> Iterator[tuple[Job, int]]:
        """Of those whose users hold more: when each is past its slice and its `min_runtime`."""
        if room.pool.time_slice is None or job.group in self.gangs:
            return
        held = slots_held(room, job)
        mine = held[job.submitter]
        protected = {other.name: until for until, other in room.protections}
        for other in room.running(job.project):
            end = self._slice_ends(job, other, room)
            protection = protected.get(other.name, end)
            if _vies(other, job) and held[other.submitter] > mine and end and protection:
                yield other, max(end, protection)

    def _in_pool(self, job: Job, room: PoolRoom, drains: Job | None) -> Eviction | None:
        name = room.pool.name
        if self.accounts.users.admits_in(job, name) is None:
            return None
        options = [
            each for each in self._over(job, room) if drains is None or _is_like(drains, each)
        ]
        if not options:
            return None
        mine, held = slots_held(room, job)[job.submitter], self._held_for_a_slice(job, room)
        missing = room.missing(job, self.entitled) if drains is None else job.demand
        shortfalls = Shortfalls(
            Shortfall(missing=missing, gives=lambda candidate: candidate.frees(name)),
            Shortfall(
                missing=self.accounts.over_limits(job, name),
                gives=lambda candidate: self.accounts.counted(candidate, name),
            ),
            Shortfall(
                missing=self.accounts.beyond_shares(job, name),
                gives=lambda candidate: self.accounts.counted(candidate, name),
            ),
        )
        chosen: list[Candidate] = []
        while not shortfalls.met_by(chosen):
            options = [each for each in options if held[each.jobs[0].submitter] > mine]
            if not options:
                return None
            first = min(options, key=lambda each: _order(held, each))
            options.remove(first)
            chosen.append(first)
            held[first.jobs[0].submitter] -= first.slots
        return Eviction(room=room, victims=spared(chosen, shortfalls)) if chosen else None

    def _over(self, job: Job, room: PoolRoom) -> list[Candidate]:
        """What could yield to the job now: its slice is over."""
        found = []
        for candidate in room.candidates(job.project):
            other = candidate.jobs[0]
            end = self._slice_ends(job, other, room)
            if end is not None and end <= self.now and self._yields(other, job):
                found.append(candidate)
        return found

    def _held_for_a_slice(self, job: Job, room: PoolRoom) -> Counter[str]:
        """By user, the slots of the job's project and rank there that are past their slice."""
        held: Counter[str] = Counter()
        for other in room.running(job.project):
            end = self._slice_ends(job, other, room)
            if rank(other) == rank(job) and end is not None and end <= self.now:
                held[other.submitter] += other.demand.slots
        return held

    def _slice_ends(self, job: Job, other: Job, room: PoolRoom) -> int | None:
        """From its start on, or from the moment at which the job's own user yielded."""
        since = other.attempt.running_since if other.attempt else None
        if since is None or room.pool.time_slice is None:
            return None
        yielded = self.yields.get((job.submitter, rank(job)), since)
        return max(since, yielded) + room.pool.time_slice

    def _yields(self, other: Job, job: Job) -> bool:
        """Whether the running job is one that would ever yield to this one."""
        able = other.evictable and other.checkpoints and other.group not in self.gangs
        return able and _vies(other, job)


def slots_held(room: PoolRoom, job: Job) -> Counter[str]:
    """By user, the slots of the job's project and rank there: held, or owed to those who wait."""
    held: Counter[str] = Counter()
    for other in (*room.running(job.project), *room.claims.values(), *room.awaiting):
        if other.project == job.project and rank(other) == rank(job):
            held[other.submitter] += other.demand.slots
    return held


def after_yield(
    yields: Iterable[Yielded], before: Job | None, after: Job, now: int
) -> tuple[Yielded, ...]:
    """What is known of who yielded, after one change of a job."""
    if before is None or not _is_yielding(after) or _is_yielding(before):
        return tuple(yields)
    this = Yielded(
        user=before.submitter, workload=before.workload, priority=before.priority, at=now
    )
    return (*(each for each in yields if _key(each) != _key(this)), this)


def _is_yielding(job: Job) -> bool:
    stop = job.attempt.stop if job.attempt else None
    return stop is not None and stop.cause is StopCause.YIELDED


def _key(each: Yielded) -> tuple[str, str, int]:
    return (each.user, each.workload, each.priority)


def _is_like(drains: Job, candidate: Candidate) -> bool:
    """Whether the running job is of the same project, rank and user, and so never yields to it."""
    other = candidate.jobs[0]
    alike = other.project == drains.project and rank(other) == rank(drains)
    return alike and other.submitter == drains.submitter


def _vies(other: Job, job: Job) -> bool:
    """Whether the two take turns, if slices let them."""
    alike = other.project == job.project and rank(other) == rank(job)
    return alike and other.submitter != job.submitter


def _order(held: Counter[str], candidate: Candidate) -> tuple[object, ...]:
    attempt = candidate.jobs[0].attempt
    assert attempt is not None
    return (-held[candidate.jobs[0].submitter], attempt.running_since, candidate.order)
