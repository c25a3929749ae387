"""Step 3c, consolidate: move running jobs to another pool.

Where allowed: preemptible jobs move to another pool that they accept and that has room for all of
them at once. `Pool.consolidate` allows this for the jobs that run in the pool. A job that moves is
evicted and at once gets a claim in the destination pool. Each round lets one more job start, so
jobs cannot move in circles. Jobs of any rank move; gangs and starting jobs stay. A job that got its
slots in this plan changes pools without an eviction.

A job moves jobs of other projects only where, with it, its own project and department stay within
their fair shares; its own project's jobs may always move.

See docs/policy-decisions.md#consolidation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from operator import attrgetter, methodcaller

from slotq_core.model.demand import NOTHING, Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.projects import EVERYWHERE
from slotq_core.policy.actions.victims import Eviction, Shortfall, Shortfalls, one_by_one
from slotq_core.policy.order import same_user_and_rank
from slotq_core.policy.state.candidates import Candidate
from slotq_core.policy.state.plan_state import PlanState
from slotq_core.policy.state.pool_room import PoolRoom
from slotq_core.policy.state.quotas.gate import may_move_others

MOST = 16
"""Most jobs to move for one beneficiary. One transaction has to hold all the moves."""

Found = tuple[Eviction, Mapping[str, str]]
"""The jobs that move out of a room, and each one's destination pool by job name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Moves:
    """The jobs that move out of a room, each with its destination."""

    room: PoolRoom
    to: tuple[tuple[Job, PoolRoom], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Consolidation:
    """The search for moves."""

    state: PlanState

    def find(self, job: Job, rooms: Sequence[PoolRoom], *, same_user: bool = False) -> Moves | None:
        """The least harmful moves that let the job start in one of these rooms, or None.
        `same_user`: as if jobs of the same user and rank moved for each other."""
        able = [room for room in rooms if room.pool.consolidate]
        found = [option for room in able if (option := self._of(job, room, same_user=same_user))]
        if not found:
            return None
        ranks = [victim.rank for eviction, _ in found for victim in eviction.victims]
        base = min(ranks, default=(0, 0))
        eviction, target = min(found, key=lambda option: option[0].harm(base))
        moving = [victim.jobs[0] for victim in eviction.victims]
        to = tuple((victim, self.state.rooms[target[victim.name]]) for victim in moving)
        return Moves(room=eviction.room, to=to)

    def _of(self, job: Job, room: PoolRoom, *, same_user: bool) -> Found | None:
        """The moves out of this room."""
        for projects in self._movable_projects(job, room):
            candidates = self._candidates(job, room, projects, same_user=same_user)
            found = self._among(job, room, candidates)
            if found and self._may_move(job, found):
                return found
        return None

    def _movable_projects(self, job: Job, room: PoolRoom) -> Iterator[AbstractSet[str]]:
        """The sets of projects to try, the largest first. Moves to a pool with quotas of its own
        may bring the job's project or department within its share here."""
        accounts, pool = self.state.accounts, room.pool.name
        mine, book, shared = accounts.of(job, pool), accounts.book(pool), accounts.shared
        asked = job.demand if shared is None else shared.of(job, pool)
        everyone = room.jobs.projects() | {job.project}
        within_share = not book or may_move_others(asked, mine)
        by_pool = accounts.scopes.of(pool) != EVERYWHERE
        if within_share or by_pool:
            yield everyone
        if not within_share:
            if by_pool and mine:
                yield {name for name in everyone if name in book and book[name][-1] is mine[-1]}
            yield {job.project}

    def _may_move(self, job: Job, found: Found) -> bool:
        """Whether the job may move these jobs."""
        eviction, target = found
        accounts, here = self.state.accounts, eviction.room.pool.name
        shared = accounts.shared
        running = [victim.jobs[0] for victim in eviction.victims if victim.jobs[0].attempt]
        if all(moving.project == job.project for moving in running) or not accounts.book(here):
            return True
        leaving: dict[str, Demand] = {}
        for moving in running:
            if not accounts.scopes.same(here, target[moving.name]):
                for account in accounts.of(moving, here):
                    held = moving.demand if shared is None else shared.of(moving, here)
                    leaving[account.key] = leaving.get(account.key, NOTHING) + held
        asked = job.demand if shared is None else shared.of(job, here)
        return may_move_others(asked, accounts.of(job, here), leaving)

    def _among(self, job: Job, room: PoolRoom, candidates: Iterable[Candidate]) -> Found | None:
        """The moves of some of the candidates that let the job start in the room."""
        name = room.pool.name
        missing = room.missing(job)
        shortfalls = Shortfalls(Shortfall(missing=missing, gives=methodcaller("frees", name)))
        target: dict[str, str] = {}
        chosen = one_by_one(self._movable(candidates, room, target), shortfalls)
        if chosen is None or len(chosen) > MOST:
            return None
        return Eviction(room=room, victims=chosen), target

    def _movable(
        self, candidates: Iterable[Candidate], room: PoolRoom, target: dict[str, str]
    ) -> Iterator[Candidate]:
        """Candidates that fit into another pool together with all candidates before them. Fills
        `target`: the destination pool by job name."""
        here = room.pool.name
        left: dict[str, Demand] = {}
        bound: set[tuple[str, str]] = set()
        for candidate in candidates:
            moving = candidate.jobs[0]
            for name in moving.pools:
                other = self.state.rooms.get(name)
                if other is None or other is room or not self._takes_in(moving, room, other):
                    continue
                there = left.setdefault(name, other.room_for_moves())
                limits = {(limit, name) for limit in self.state.limits.bound_by(moving, here, name)}
                if moving.demand.within(there) and not limits & bound:
                    bound |= limits  # At most one of the moves newly counts in each limit.
                    left[name] = there - moving.demand
                    target[moving.name] = name
                    yield candidate
                    break

    def _candidates(
        self, job: Job, room: PoolRoom, projects: AbstractSet[str], *, same_user: bool
    ) -> Iterable[Candidate]:
        """Candidates in eviction order: running jobs of these projects, and jobs of any project
        that got their slots in this plan. No running job moves for a job of the same project, user
        and rank (except with `same_user`), or if its project is beyond a hard budget: such a job
        could not start again."""
        candidates = [
            candidate
            for project in room.jobs.projects()
            for candidate in room.jobs.candidates(project)
        ]
        for candidate in sorted(candidates, key=attrgetter("order")):
            moving = candidate.jobs[0]
            runs = moving.state is JobState.RUNNING
            runs = runs and (same_user or not same_user_and_rank(job, moving))
            runs = runs and moving.project in projects - self.state.budgets.hard
            in_gang = candidate.gang or candidate.joined
            if (runs or moving.name in room.jobs.placed) and not in_gang:
                yield candidate

    def _takes_in(self, moving: Job, room: PoolRoom, other: PoolRoom) -> bool:
        """Whether the moving job may start in the other pool, whatever is free there. A pool where
        a quota refused the job would refuse it again."""
        if other.pool.name in moving.refused_in:
            return False
        if other.unavailable or other.drain or other.rights.missing(moving):
            return False
        if other.closing and other.closing.keeps_out([moving], moving.demand.slots):
            return False
        return self.state.limits.allow_move(moving, room.pool.name, other.pool.name)
