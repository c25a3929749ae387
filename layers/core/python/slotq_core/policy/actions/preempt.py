"""Step 3e, preempt: stop jobs of strictly lower rank of the same project.

Evict only when the beneficiary then fits whole. A job kept back by its project's limit or its
user's may preempt lower ranks that count in the same limit. Against a limit of its project, the
job may preempt in other pools too. A job that brings its project beyond fair share must evict
enough of the project to offset the excess (`Shares.beyond`).

See docs/policy-decisions.md#victims.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter, methodcaller

from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job
from slotq_core.policy.actions.victim_search import better
from slotq_core.policy.actions.victims import (
    Eviction,
    Shortfall,
    Shortfalls,
    least_harm,
    one_by_one,
)
from slotq_core.policy.order import Rank, rank
from slotq_core.policy.state.candidates import Candidate
from slotq_core.policy.state.plan_state import PlanState
from slotq_core.policy.state.pool_room import PoolRoom
from slotq_core.policy.state.user_limits import NO_CLASS


@dataclass(frozen=True, kw_only=True, slots=True)
class Preemption:
    """The search for victims of lower rank."""

    state: PlanState

    def find(self, job: Job, rooms: Sequence[PoolRoom]) -> Eviction | None:
        """The least harmful preemption that lets the job start in one of these rooms, or None."""
        if not any(self._may_gain(job, room) for room in rooms):
            return None
        options = [(room, self._candidates(job, room)) for room in rooms]
        base = min((candidates[0].rank for _, candidates in options if candidates), default=(0, 0))
        users = self.state.accounts.users
        found = [
            self._in_pool(job, room, candidates, base, missing)
            for room, candidates in options
            for missing in users.missing(job, room.pool.name).items()
        ]
        return least_harm(found, base)

    def _may_gain(self, job: Job, room: PoolRoom) -> bool:
        """A quick bound: whether the job fits if every lower rank of its project left the room.
        Only jobs of the same user give to the user's limit."""
        if not job.demand.within(room.both + room.jobs.below(rank(job), job.project)):
            return False
        return NO_CLASS in self.state.accounts.users.missing(job, room.pool.name) or any(
            other.person == job.person
            for candidate in _outranked(job, room)
            for other in candidate.jobs
        )

    def _in_pool(
        self,
        job: Job,
        room: PoolRoom,
        candidates: Sequence[Candidate],
        base: Rank,
        missing: tuple[str, Demand],
    ) -> Eviction | None:
        """The victims in one room. `missing`: a class of the job, and its user's shortfall
        there."""
        if not candidates:
            return None
        found: list[Shortfall] = []
        for shortfall in self._shortfalls(job, room, missing):
            if not shortfall.can_be_met_by(candidates):
                return None
            found.append(shortfall)
        shortfalls = Shortfalls(*found)
        chosen = one_by_one(candidates, shortfalls)
        if chosen is None:
            return None
        return Eviction(room=room, victims=better(chosen, candidates, shortfalls, base))

    def _shortfalls(
        self, job: Job, room: PoolRoom, missing: tuple[str, Demand]
    ) -> Iterator[Shortfall]:
        """The amounts that victims must give; the one that is most often unattainable comes
        first."""
        name, state, users = room.pool.name, self.state, self.state.accounts.users
        counted, (of_class, slots) = partial(state.accounts.scopes.counted, pool=name), missing
        yield Shortfall(
            slots, lambda candidate: users.gives(candidate.jobs, of_class, job.person, name)
        )
        yield Shortfall(state.shares.beyond(job, name), counted)
        yield Shortfall(state.limits.over(job, name), counted)
        if (own := state.accounts.on_nodes.limits) is not None:
            yield Shortfall(state.limits.over_own(job, name), partial(own.gives, pool=name))
        yield Shortfall(room.missing(job), methodcaller("frees", name))

    def _candidates(self, job: Job, room: PoolRoom) -> list[Candidate]:
        """Candidates of lower rank, in eviction order. Other pools count only if a limit of the
        project or its department keeps the job back."""
        limits, name = self.state.limits, room.pool.name
        bound = limits.over(job, name) or (
            self.state.accounts.on_nodes.limits is not None and limits.over_own(job, name)
        )
        if not bound:
            return list(_outranked(job, room))
        rooms = [room, *self.state.limits.sharing(room, self.state.rooms.values())]
        found = dict.fromkeys(candidate for room in rooms for candidate in _outranked(job, room))
        return sorted(found, key=attrgetter("order"))


def _outranked(job: Job, room: PoolRoom) -> Iterable[Candidate]:
    for other in room.jobs.candidates(job.project):
        if other.rank >= rank(job):
            return  # Candidates come in the order of their ranks, lowest first.
        yield other
