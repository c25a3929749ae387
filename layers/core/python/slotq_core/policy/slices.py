"""Step 3e, turns: past its pool's time slice a running job yields (DESIGN 5.3).

"Past it a running job yields, in that pool and project, to an equal-rank job of another user who
holds fewer slots of that rank there. The user whose job yielded counts, for all that user's waiting
jobs of that rank, as having entered just after that moment; among them the entry time decides. So
three users take turns. A job that would lose its work (no checkpoint) does not yield to a slice.
Jobs that name no user share one user for slices."

Between several that could yield: one of the user who holds most, then the one that has run longest,
then as in any eviction. Who has just yielded lets those who run have one more slice: else, of two
jobs whose slices end together, the one that yields would be given the other's slots at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from slotq_core.model import Demand, Job, StopCause, Yielded
from slotq_core.policy.accounts import Accounts
from slotq_core.policy.fit import Entitled, PoolRoom
from slotq_core.policy.order import Yields, rank
from slotq_core.policy.stakes import by_order
from slotq_core.policy.victims import Eviction, freed, least_harm, spared


@dataclass(frozen=True, kw_only=True, slots=True)
class Slices:
    """What a turn looks at: the books, who may take whose claim, who yielded last, the moment."""

    accounts: Accounts
    entitled: Entitled
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
        return least_harm([eviction for eviction in found if eviction], self.now)

    def ends(self, job: Job, rooms: Iterable[PoolRoom]) -> Iterator[int]:
        """When those that run in these rooms come to yield to the job, if they do at all."""
        for room in rooms:
            if room.pool.time_slice is None:
                continue
            held = slots_held(room, job)
            for other in room.running:
                end = self._slice_ends(job, other, room)
                protection = room.protected.get(other.name, end)
                if _opposite(job, other) and _more(held, other, job) and end and protection:
                    yield max(end, protection)

    def first_end(self, job: Job, room: PoolRoom) -> int | None:
        """The first of these moments that is yet to come."""
        return min((end for end in self.ends(job, [room]) if end > self.now), default=None)

    def _in_pool(self, job: Job, room: PoolRoom, drains: Job | None) -> Eviction | None:
        left = room.left(job, self.entitled) if drains is None else Demand()
        options = [
            each
            for each in room.candidates()
            if self._is_over(job, each, room) and (drains is None or _is_like(drains, each))
        ]
        held = slots_held(room, job) if options else Counter[str]()
        chosen: list[Job] = []

        def enough(victims: Sequence[Job]) -> bool:
            fits = job.demand.within(left + freed(victims))
            return fits and self.accounts.limits_allow(job, room.pool.name, without=victims)

        while not enough(chosen):
            options = [each for each in options if _more(held, each, job)]
            if not options:
                return None
            first = min(options, key=lambda each: self._order(held, each))
            options.remove(first)
            chosen.append(first)
            held[first.submitter] -= first.demand.slots
        return Eviction(room=room, victims=spared(chosen, enough)) if chosen else None

    def _is_over(self, job: Job, other: Job, room: PoolRoom) -> bool:
        end = self._slice_ends(job, other, room)
        return _opposite(job, other) and end is not None and end <= self.now

    def _slice_ends(self, job: Job, other: Job, room: PoolRoom) -> int | None:
        """From its start on, or from the moment at which the job's own user yielded."""
        since = other.attempt.running_since if other.attempt else None
        if since is None or room.pool.time_slice is None:
            return None
        yielded = self.yields.get((job.submitter, rank(job)), since)
        return max(since, yielded) + room.pool.time_slice

    def _order(self, held: Counter[str], other: Job) -> tuple[object, ...]:
        assert other.attempt is not None
        return (-held[other.submitter], other.attempt.running_since, by_order(other, self.now))


def slots_held(room: PoolRoom, job: Job) -> Counter[str]:
    """By user, the slots of the job's project and rank there: held, or owed to those who wait."""
    held: Counter[str] = Counter()
    for other in (*room.running, *room.claims.values(), *room.awaiting):
        if other.project == job.project and rank(other) == rank(job):
            held[other.submitter] += other.demand.slots
    return held


def after_yield(
    yields: Iterable[Yielded], before: Job | None, after: Job, now: int
) -> tuple[Yielded, ...]:
    """What is known of who yielded, after one change of a job."""
    if before is None or not _yields(after) or _yields(before):
        return tuple(yields)
    this = Yielded(
        user=before.submitter, workload=before.workload, priority=before.priority, at=now
    )
    return (*(each for each in yields if _key(each) != _key(this)), this)


def _yields(job: Job) -> bool:
    stop = job.attempt.stop if job.attempt else None
    return stop is not None and stop.cause is StopCause.YIELDED


def _key(each: Yielded) -> tuple[str, str, int]:
    return (each.user, each.workload, each.priority)


def _opposite(job: Job, other: Job) -> bool:
    """Whether the running job is one that would ever yield to this one."""
    alike = other.project == job.project and rank(other) == rank(job)
    return alike and other.submitter != job.submitter and other.evictable and other.checkpoints


def _is_like(drains: Job, other: Job) -> bool:
    """Whether the running job is of the same project, rank and user, and so never yields to it."""
    alike = other.project == drains.project and rank(other) == rank(drains)
    return alike and other.submitter == drains.submitter


def _more(held: Counter[str], other: Job, job: Job) -> bool:
    return held[other.submitter] > held[job.submitter]
