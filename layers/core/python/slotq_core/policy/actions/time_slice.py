"""Step 3f, time slices: past its pool's time slice a running job yields.

Past it a running job yields, in that pool and project, to an equal-rank job of another user who
holds fewer slots of that rank there. The user whose job yielded counts, for all that user's waiting
jobs of that rank, as having entered just after that moment; among them the entry time decides. So
three users take turns. A job that would lose its work (no checkpoint) does not yield to a slice.
Jobs that name no user share one user for slices.

A job of the user who holds most yields first, then the one that has run longest. A user who has
just yielded leaves the running jobs one more slice: of two jobs whose slices end together, the one
that yields would else get the other's slots at once. A user counts as holding more only by slots
past their slice: an older job would else yield for a slot just gained.

See docs/policy-decisions.md#time-slices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import methodcaller

from slotq_core.model.demand import NOTHING, Demand
from slotq_core.model.jobs import Job
from slotq_core.policy.actions.victims import Eviction, Shortfall, Shortfalls, least_harm, spared
from slotq_core.policy.order import last_yield, rank
from slotq_core.policy.state.candidates import Candidate
from slotq_core.policy.state.plan_state import PlanState
from slotq_core.policy.state.pool_room import PoolRoom


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeSlices:
    """The search for jobs that yield. A gang neither yields nor takes a turn."""

    state: PlanState

    def find(
        self, job: Job, rooms: Sequence[PoolRoom], drains: Mapping[str, Job]
    ) -> Eviction | None:
        """The least harmful set of jobs that yield so that this one can start, or None.

        `drains`: by pool, the job ahead that the pool drains for. Only jobs of that job's project,
        rank and user yield there, and they free the whole demand: the rest belongs to the drain.
        """
        found = [self._in_pool(job, room, drains.get(room.pool.name)) for room in rooms]
        return least_harm(found, rank(job))

    def yielding(self, job: Job, room: PoolRoom) -> dict[str, int]:
        """Jobs that will yield to the job later, by name, with the time (ms)."""
        ends = self.ends_to_come(job, room)
        return {other.name: end for other, end in ends if self.yields(other, job)}

    def ends_to_come(self, job: Job, room: PoolRoom) -> list[tuple[Job, int]]:
        """Jobs of users who hold more, each with the end (ms) of its slice and `min_runtime`, if
        that is still to come."""
        if room.pool.time_slice is None or job.group in self.state.gangs:
            return []
        own, now = rank(job), self.state.now
        ends = [
            (other, end)
            for other in room.jobs.running(job.project)
            if rank(other) == own and (end := self._protected_until(job, other, room)) > now
        ]
        if not ends:  # Counting the slots held costs more.
            return []
        held = slots_held(room, job)
        return [(other, end) for other, end in ends if held[other.person] > held[job.person]]

    def over(self, job: Job, room: PoolRoom) -> list[Candidate]:
        """Candidates whose slice is over and that may yield to the job now."""
        found, own = [], rank(job)
        for candidate in room.jobs.candidates(job.project):
            other = candidate.places[0][0]
            if candidate.rank == own and self.yields(other, job):
                end = self.slice_ends(job, other, room)
                if end is not None and end <= self.state.now:
                    found.append(candidate)
        return found

    def of_same_user(self, job: Job, room: PoolRoom) -> Demand:
        """The slots of the job's own user here in jobs that would yield to another user's job."""
        if room.pool.time_slice is None or not job.person or job.group in self.state.gangs:
            return NOTHING
        held = [other for other in room.jobs.running(job.project) if self._may_yield(other, job)]
        return Demand.total([other.demand for other in held if other.person == job.person])

    def _in_pool(self, job: Job, room: PoolRoom, drains: Job | None) -> Eviction | None:
        name = room.pool.name
        options = [
            candidate
            for candidate in self.over(job, room)
            if drains is None
            or (_alike(candidate.jobs[0], drains) and candidate.jobs[0].person == drains.person)
        ]
        if not options or self.state.accounts.users.admits_in(job, name) is None:
            return None
        mine, held = slots_held(room, job)[job.person], self._held_for_a_slice(job, room)
        missing = room.missing(job) if drains is None else job.demand
        counted = partial(self.state.accounts.scopes.counted, pool=name)
        must_give = [
            Shortfall(missing=missing, gives=methodcaller("frees", name)),
            Shortfall(missing=self.state.limits.over(job, name), gives=counted),
            Shortfall(missing=self.state.shares.beyond(job, name), gives=counted),
        ]
        if (own := self.state.accounts.on_nodes.limits) is not None:
            over = self.state.limits.over_own(job, name)
            must_give.append(Shortfall(missing=over, gives=partial(own.gives, pool=name)))
        shortfalls = Shortfalls(*must_give)
        chosen: list[Candidate] = []
        while not shortfalls.met_by(chosen):
            options = [candidate for candidate in options if held[candidate.jobs[0].person] > mine]
            if not options:
                return None
            first = min(options, key=lambda candidate: turn_order(held, candidate))
            options.remove(first)
            chosen.append(first)
            held[first.jobs[0].person] -= first.slots
        return Eviction(room=room, victims=spared(chosen, shortfalls)) if chosen else None

    def _held_for_a_slice(self, job: Job, room: PoolRoom) -> Counter[str]:
        """Slots past their slice by user, for the job's project and rank in this pool."""
        held: Counter[str] = Counter()
        for other in room.jobs.running(job.project):
            end = self.slice_ends(job, other, room)
            if rank(other) == rank(job) and end is not None and end <= self.state.now:
                held[other.person] += other.demand.slots
        return held

    def _protected_until(self, job: Job, other: Job, room: PoolRoom) -> int:
        """When (ms) the later of the other job's slice and `min_runtime` ends; 0: never."""
        end = self.slice_ends(job, other, room)
        protection, _ = room.jobs.protections.get(other.name, (end, other))
        return max(end, protection) if end and protection else 0

    def slice_ends(self, job: Job, other: Job, room: PoolRoom) -> int | None:
        """When (ms) the other job's slice ends towards this job; None: it has none. It begins at
        the other job's start, or when this job's user last yielded, if later."""
        since = other.attempt.running_since if other.attempt else None
        if since is None or room.pool.time_slice is None:
            return None
        yields = self.state.precedence.yields
        yielded = last_yield(job.project, job.person, rank(job), yields) if yields else None
        return max(since, yielded or since) + room.pool.time_slice

    def yields(self, other: Job, job: Job) -> bool:
        """Whether the running job can ever yield to this one."""
        return self._may_yield(other, job) and other.person != job.person

    def _may_yield(self, other: Job, job: Job) -> bool:
        """As `yields`, for any two users."""
        if not _alike(other, job):
            return False
        stoppable = self.state.may_evict(other) and other.group not in self.state.gangs
        return stoppable and other.checkpoints


def slots_held(room: PoolRoom, job: Job) -> Counter[str]:
    """Slots held, claimed or awaited in this pool, by user, for the job's project and rank."""
    held: Counter[str] = Counter()
    own = rank(job)
    for other in (*room.jobs.running(job.project), *room.claims.values(), *room.awaiting):
        if other.project == job.project and rank(other) == own:
            held[other.person] += other.demand.slots
    return held


def _alike(other: Job, job: Job) -> bool:
    """Whether the two jobs may take turns if their users differ: same project and rank."""
    return other.project == job.project and rank(other) == rank(job)


def turn_order(held: Counter[str], candidate: Candidate) -> tuple[object, ...]:
    """The sort key of candidates whose slice is over, the first to yield first."""
    attempt = candidate.jobs[0].attempt
    assert attempt is not None
    return (-held[candidate.jobs[0].person], attempt.running_since, candidate.order)
