"""One turn of a gang: the steps of a single job's turn, for all its members at once or not at all.

Each step is tried on the working sheets themselves and taken back where too few members fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from itertools import product

from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job
from slotq_core.policy.actions.reclaim import Taken, deserved_of
from slotq_core.policy.plan import Evict
from slotq_core.policy.state.candidates import Place
from slotq_core.policy.state.gangs import Gang
from slotq_core.policy.state.limits_as_resources import Bounded
from slotq_core.policy.state.matching import assign
from slotq_core.policy.state.pool_room import PoolRoom
from slotq_core.policy.turn.blocked import gang_blocked
from slotq_core.policy.turn.walk import Walk

Step = Callable[[Job, Sequence[PoolRoom]], bool]
"""Tries to give one member its slots in one of these rooms."""

Left = Callable[[Job, PoolRoom], Demand]
"""What is left for a member in a room."""

Rooms = dict[str, list[PoolRoom]]
"""By member, those that it may use."""

Target = dict[str, str]
"""By member, the pool in which it is served best."""


class GangTurn:
    """A gang's members, in the order in which they are served, and the rooms that each may use."""

    def __init__(self, *, walk: Walk, gang: Gang) -> None:
        self._walk, self._gang = walk, gang
        self._orders = gang.orders()
        self._jobs = self._orders[0]
        self._rooms = {
            job.name: [room for room in walk.rooms_of(job) if room.admits(job)]
            for job in self._jobs
        }
        self._pools: AbstractSet[str] = frozenset()
        """While a step is tried: where all of it has to be."""
        self._to_come: dict[str, Place] = {}
        """While a step is tried: who is still to be served, and where."""
        self._taken: list[Taken] = []
        """While a reclaim is tried: what is taken for whom."""
        self._spare: set[str] = set()
        """What is not reclaimed, for its project deserves it once others are gone."""

    def take_turn(self) -> bool:
        """False: it is blocked, all of it."""
        for job in self._jobs:
            self._walk.take_its_claim(job)
        with self._walk.accounts.together(self._jobs) as self._to_come:
            return self._served()

    def _served(self) -> bool:
        if self._start_or_wait():
            return True
        before = self._walk.mark()
        served = self._reclaimed() or self._whole(self._preempt)
        if served and self._evict_for(served):
            return True
        if served:  # It takes only what others were given in this plan: they never had it.
            taken_back = self._walk.losses.taken_back
            self._walk.back_to(before)
            for victim, pool in taken_back:
                self._walk.take_back(victim, pool)
            if self._start_or_wait():
                return True
        return gang_blocked(self._walk, self._gang, self._jobs, self._may_be_whole)

    def _reclaimed(self) -> list[str]:
        """Whom a reclaim served; asked without what is safe once it has started, too, as one job's
        is (reclaim.py)."""
        self._spare.clear()
        served = self._fair_to_all()
        if not served and not self._spare.issuperset(safe := self._walk.protected_after_start()):
            self._spare |= safe
            served = self._fair_to_all()
        return served

    def _fair_to_all(self) -> list[str]:
        """Whom a reclaim served in which each victim is fair with all the others gone, and not only
        with those of the members before."""
        before = self._walk.mark()
        while served := self._whole(self._reclaim):
            deserved = deserved_of(self._taken, self._walk.accounts)
            if deserved is None:
                return served
            self._walk.back_to(before)
            self._spare.add(deserved.name)
        return []

    def _start_or_wait(self) -> bool:
        """As many as fit start at once; or else enough of it wait for slots that come free."""
        return bool(self._whole(self._start, only_free=True) or self._whole(self._hold))

    def _evict_for(self, served: Sequence[str]) -> bool:
        """One decision of what its members evict, with a claim for each. False: nobody who really
        runs is evicted."""
        walk = self._walk
        decided = (walk.decisions.get(name) for name in served)
        evictions = [each for each in decided if isinstance(each, Evict)]
        if not evictions:
            return False
        for each in evictions:
            del walk.decisions[each.beneficiary.name]
        first, *rest = [(walk.waiting[name], walk.claim_of(name)) for name in served]
        walk.decisions[first[0].name] = Evict(
            beneficiary=first[0],
            claim=first[1],
            victims=tuple(victim for each in evictions for victim in each.victims),
            along=tuple(rest),
        )
        return True

    def _whole(self, step: Step, *, only_free: bool = False) -> list[str]:
        """Whom the step served, where they are enough of it: of those who start at once all that
        fit, else no more than have to be. Else nobody, and nothing has changed."""
        for jobs, pools in product(self._orders, self._gang.allowed_pools()):
            self._pools, rooms = pools, _among(pools, self._rooms)
            target = self._target(jobs, rooms, self._left_now if only_free else self._left_in_all)
            owed = {job.name: job.claim.pool for job in jobs if job.claim}
            # Where others are stopped there may be more room than what is best now is told by; and
            # where it is owed enough, what is best now is but a good guess.
            further = owed if only_free else {}
            for best in [target, further] if target and (owed or not only_free) else [target]:
                served = self._try(step, jobs, rooms, best, only_free=only_free)
                if served:
                    return served
        return []

    def _try(
        self, step: Step, jobs: Sequence[Job], rooms: Rooms, target: Target, *, only_free: bool
    ) -> list[str]:
        mark = self._walk.mark()
        self._taken.clear()
        served: list[str] = []
        for place, job in enumerate(jobs):
            usable = _chosen(rooms, target, job)
            if self._gang.enough(served):
                if not only_free:
                    break
                usable = self._within_share(job, usable)
            self._expect(jobs[place + 1 :], [*served, job.name], rooms, target)
            if step(job, usable):
                served.append(job.name)
        if not self._gang.enough(served):
            self._walk.back_to(mark)
            return []
        return served

    def _expect(
        self, behind: Sequence[Job], served: Sequence[str], rooms: Rooms, target: Target
    ) -> None:
        """Who of those behind is still to come for it to be enough, and in which pool."""
        self._to_come.clear()
        for job in behind:
            usable = _chosen(rooms, target, job)
            if usable and not self._gang.enough([*served, *self._to_come]):
                self._to_come[job.name] = job, usable[0].pool.name

    def _within_share(self, job: Job, rooms: Sequence[PoolRoom]) -> list[PoolRoom]:
        """Where one that need not be there does not bring the gang's project beyond its share: then
        all of the gang could be reclaimed for it."""
        beyond = self._walk.accounts.beyond_shares
        return [room for room in rooms if not beyond(job, room.pool.name)]

    def _target(self, jobs: Sequence[Job], rooms: Rooms, left_in: Left) -> Target:
        """In which pool each is served best, so that as many as possible are."""
        users = self._walk.accounts.users
        bounded = Bounded(jobs, users, users.left)
        left = {}
        for job in jobs:
            for room in rooms[job.name]:
                name = room.pool.name
                bound = self._walk.accounts.left_by_limits(job, name, left_in(job, room))
                left[name] = bound + bounded.left(name)
        counted = [bounded.counted(job) for job in jobs]
        pools = {name: [each.pool.name for each in usable] for name, usable in rooms.items()}
        return assign(counted, pools, left)

    def _left_in_all(self, job: Job, room: PoolRoom) -> Demand:
        return room.left(job, self._walk.entitled)

    def _left_now(self, job: Job, room: PoolRoom) -> Demand:
        left = self._left_in_all(job, room)
        return Demand({name: min(left[name], room.free[name]) for name in {*left, *room.free}})

    def _may_be_whole(self) -> bool:
        """Whether its pools could hold enough of it, within its limits, if nobody else was there.
        (Pools may have shrunk since it came, and smaller members been cancelled.)"""
        usable = {job.name: self._walk.rooms_of(job) for job in self._jobs}
        return any(
            self._gang.enough(self._target(jobs, _among(pools, usable), _size))
            for jobs, pools in product(self._orders, self._gang.allowed_pools())
        )

    # The steps, for one member.

    def _within(self, job: Job, rooms: Sequence[PoolRoom]) -> list[PoolRoom]:
        return [room for room in rooms if self._walk.within_bounds(job, room)]

    def _start(self, job: Job, rooms: Sequence[PoolRoom]) -> bool:
        return self._walk.start(job, self._within(job, rooms))

    def _hold(self, job: Job, rooms: Sequence[PoolRoom], *, owed: bool = False) -> bool:
        within = self._within(job, rooms)
        may_be = [room for room in self._walk.rooms_of(job) if room.pool.name in self._pools]
        return self._walk.wait_for_coming(job, may_be, within, owed=owed)

    def _reclaim(self, job: Job, rooms: Sequence[PoolRoom]) -> bool:
        """ "The gate is asked" with all of the gang counted: one of it alone might be within its
        project's share and the whole of it not, and then be reclaimed in turn."""
        if self._hold(job, rooms, owed=True):
            return True
        surely = [room for room in rooms if room.may_evict_for(job)]
        within, along = self._within(job, surely), self._to_come.values()
        found = self._walk.reclaim_along(job, within, along, self._spare)
        if found:
            pool = found.room.pool.name
            self._taken += [(job, pool, victim) for victim in found.victims]
        return self._walk.evict(job, found)

    def _preempt(self, job: Job, rooms: Sequence[PoolRoom]) -> bool:
        return self._hold(job, rooms, owed=True) or self._walk.preempt(job, rooms)


def _size(_: Job, room: PoolRoom) -> Demand:
    return room.size


def _among(pools: AbstractSet[str], rooms: Rooms) -> Rooms:
    """Of the rooms those of these pools."""
    return {
        name: [room for room in usable if room.pool.name in pools] for name, usable in rooms.items()
    }


def _chosen(rooms: Rooms, target: Target, job: Job) -> list[PoolRoom]:
    """The room in which the member is served best; any, where none was found for it."""
    best = target.get(job.name)
    return [room for room in rooms[job.name] if best is None or room.pool.name == best]
