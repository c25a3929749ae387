"""One turn of a gang: each step serves enough of its members, or is rolled back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from itertools import product
from typing import TYPE_CHECKING

from slotq_core.model.demand import NOTHING, Demand
from slotq_core.model.jobs import Job
from slotq_core.policy.plan import Evict
from slotq_core.policy.state.candidates import Candidate, Place
from slotq_core.policy.state.groups.concurrency import Bounded
from slotq_core.policy.state.groups.gangs import LiveGang
from slotq_core.policy.state.groups.matching import NodeBins, assign
from slotq_core.policy.state.pool_room import PoolRoom
from slotq_core.policy.state.quotas.account import Chain
from slotq_core.policy.state.quotas.gate import Taken, deserved_of
from slotq_core.policy.turn.blocked import gang_blocked
from slotq_core.policy.turn.prospects import gang_has_prospects
from slotq_core.policy.turn.steps import Steps

if TYPE_CHECKING:  # Most queues have no nodes, and no cold start should pay for them.
    from slotq_core.policy.turn.gang_on_nodes import GangOnNodes
    from slotq_core.policy.turn.node_turn import NodeTurn

Step = Callable[[Job, Sequence[PoolRoom]], bool]
"""Tries to give one member its slots in one of these rooms."""

Left = Callable[[Job, PoolRoom], Demand]
"""The capacity left for a member in a room."""

Rooms = dict[str, list[PoolRoom]]
"""By member, the rooms that the member may use."""

Target = dict[str, str]
"""By member, the best pool for the member."""


def take_turn(steps: Steps, gang: LiveGang) -> bool:
    """Serve the gang. Return False if the whole gang is blocked."""
    for job in gang.in_service_order if gang.representative.claim else ():
        steps.state.take_own_claim(job)
    if gang_has_prospects(gang, steps.state) and GangTurn(steps, gang).served():
        return True
    return gang_blocked(steps, gang, lambda: GangTurn(steps, gang).may_be_whole())


class GangTurn:
    """The turn of one gang."""

    def __init__(self, steps: Steps, gang: LiveGang) -> None:
        self._steps, self._state, self._rules = steps, steps.state, steps.rules
        self._gang = gang
        self._orders = gang.orders()
        self._rooms = {
            job.name: self._rules.eligible.admitting(job, self._state.rooms_of(job))
            for job in gang.in_service_order
        }
        self._pools: AbstractSet[str] = frozenset()
        """The pools allowed for the whole gang in the current step."""
        self._to_come: dict[str, Place] = {}
        self._taken: list[Taken] = []
        """The victims of the current reclaim, each with its beneficiary and pool."""
        self._spare: set[str] = set()
        """The names of candidates that the reclaim must spare."""
        self._once_started = False
        """Whether the reclaim takes its candidates in the order of the next plan."""
        self._on_nodes = _on_nodes(steps, gang)

    def served(self) -> bool:
        """Serve the gang. Return False and change nothing if no step can."""
        with self._state.shares.together(self._gang.in_service_order) as self._to_come:
            return self._served()

    def _served(self) -> bool:
        if self._start_or_wait():
            return True
        before = self._state.journal.checkpoint()
        served = self._reclaimed() or self._on_reserved() or self._whole(self._preempt)
        if served and self._evict_for(served):
            return True
        if served:  # All victims got their slots in this plan: take the slots back, then start.
            lost = list(self._state.lost)
            self._state.journal.rollback(before)
            self._state.evict((loss.job, loss.pool) for loss in lost)
            if self._start_or_wait():
                return True
            self._state.journal.rollback(before)
        return False

    def _reclaimed(self) -> list[str]:
        """Reclaim for the gang. Return who is served. If that fails, try again and spare the
        candidates that a `min_runtime` will protect, then in the order of the next plan, as for a
        single job (actions/reclaim.py)."""
        self._spare.clear()
        self._once_started = False
        safe = self._state.running.protected_after_start()
        served = self._fair_to_all()
        if not served and not self._spare.issuperset(safe):
            self._spare |= safe
            served = self._fair_to_all()
        if not served and any(room.jobs.placed for rooms in self._rooms.values() for room in rooms):
            self._spare, self._once_started = safe, True
            served = self._fair_to_all()
        return served

    def _on_reserved(self) -> list[str]:
        """Take back slots that are reserved for the gang's project. Return who is served."""
        return self._whole(self._take_reserved) if self._state.reservations is not None else []

    def _fair_to_all(self) -> list[str]:
        """Reclaim only what no project deserves once all victims are gone. Return who is served.

        A step checks a victim with those of earlier members gone. If its project deserves it with
        the later ones gone too, it is spared, and the reclaim starts again.
        """
        before = self._state.journal.checkpoint()
        while served := self._whole(self._reclaim):
            deserved = deserved_of(self._taken, self._state.accounts) or self._brought_back()
            if deserved is None:
                return served
            self._state.journal.rollback(before)
            self._spare.add(deserved.name)
        return []

    def _brought_back(self) -> Candidate | None:
        """A victim whose project would take slots of the gang at once, or None: the gang's project
        is above its quota, and a waiting job of the victim's project is within its own, accepts a
        pool of the gang, and has no room there beside it. As for a single job
        (actions/reclaim.py), in all pools of the gang."""
        accounts, shared = self._state.accounts, self._state.accounts.shared
        for job, pool, victim in reversed(self._taken):
            theirs = accounts.book(pool)[victim.project]
            if accounts.of(job, pool)[0].in_quota(NOTHING) or theirs[0].over_quota():
                continue
            back = self._state.waits(victim.project)
            in_quota = (
                waiting
                for waiting in back
                if theirs[0].in_quota(
                    waiting.demand if shared is None else shared.of(waiting, pool)
                )
            )
            if any(self._crowds_out(waiting, theirs) for waiting in in_quota):
                return victim
        gangs = (victim for _, _, victim in reversed(self._taken) if victim.gang)
        return next((victim for victim in gangs if any(map(self._loses, victim.places))), None)

    def _loses(self, place: Place) -> bool:
        """Whether a member of an evicted gang would take its place again: it is within the quota of
        its project there, and this gang, which is above its own, leaves it no room."""
        member, pool = place
        held_in, accounts, room = self._state.held_in, self._state.accounts, self._state.rooms[pool]
        mine = next((job for job in self._gang.waiting if held_in.get(job.name) == pool), None)
        if mine is None or accounts.of(mine, pool)[0].in_quota(NOTHING):
            return False
        shared = accounts.shared
        counted = member.demand if shared is None else shared.of(member, pool)
        return accounts.of(member, pool)[0].in_quota(counted) and not room.fits_soon(member)

    def _crowds_out(self, waiting: Job, theirs: Chain) -> bool:
        """Whether the job has no room beside the gang in one of the gang's pools, of this quota."""
        held_in = self._state.held_in
        mine = {held_in[job.name] for job in self._gang.waiting if job.name in held_in}
        return any(
            room.pool.name in mine
            and self._state.accounts.of(waiting, room.pool.name) is theirs
            and not room.fits_soon(waiting)
            for room in self._state.rooms_of(waiting)
        )

    def _start_or_wait(self) -> bool:
        """Start all members that fit now, or else hold coming slots for enough members."""
        if self._whole(self._start, only_free=True):
            return True
        before = self._state.journal.checkpoint()
        served = self._whole(self._hold)
        if not (served and self._on_nodes):
            return bool(served)
        if target := self._on_nodes.held_in(served):  # A start there was not tried yet.
            self._state.journal.rollback(before)
            rooms = _among(self._pools, self._rooms)
            if any(
                self._try(self._start, jobs, rooms, target, only_free=True) for jobs in self._orders
            ):
                return True
            served = self._whole(self._hold)
        self._on_nodes.start_nodes(served)
        return True

    def _evict_for(self, served: Sequence[str]) -> bool:
        """Merge the members' evictions into one decision with a claim for each. Return False if no
        victim really runs."""
        state = self._state
        decided = (state.decided.decisions.get(name) for name in served)
        evictions = [decision for decision in decided if isinstance(decision, Evict)]
        if not evictions:
            return False
        for eviction in evictions:
            state.decided.undecide(eviction.beneficiary.name)
        claim_of = self._on_nodes.claim_of if self._on_nodes else state.claim_of
        claims = [(state.waiting[name], claim_of(name)) for name in served]
        first, *rest = [(job, claim) for job, claim in claims if claim is not None]
        victims = tuple(victim for eviction in evictions for victim in eviction.victims)
        whole = Evict(beneficiary=first[0], claim=first[1], victims=victims, along=tuple(rest))
        state.decided.decide(first[0].name, whole)
        return True

    def _whole(self, step: Step, *, only_free: bool = False) -> list[str]:
        """Try the step with each order and each set of pools. Return the members served: with
        `only_free` all that fit, else no more than needed. If they are too few, change nothing."""
        for jobs, pools in product(self._orders, self._gang.allowed_pools()):
            self._pools, rooms = pools, _among(pools, self._rooms)
            bins = self._on_nodes.bins(only_free=only_free) if self._on_nodes else None
            left_in = self._left_now if only_free else self._left_in_all
            target = self._target(jobs, rooms, left_in, bins)
            owed = {job.name: job.claim.pool for job in jobs if job.claim}
            # The target counts only the room of this moment, and it is a heuristic. The second try
            # of a start uses the claimed pools; that of another step leaves the pools open.
            further = owed if only_free else {}
            for best in [target, further] if target and (owed or not only_free) else [target]:
                served = self._try(step, jobs, rooms, best, only_free=only_free)
                if served:
                    return served
        return []

    def _try(
        self, step: Step, jobs: Sequence[Job], rooms: Rooms, target: Target, *, only_free: bool
    ) -> list[str]:
        before = self._state.journal.checkpoint()
        self._taken.clear()
        served: list[str] = []
        for place, job in enumerate(jobs):
            usable = _chosen(rooms, target, job)
            beyond = self._gang.enough(served)
            if beyond and not only_free:
                break
            self._expect(jobs[place + 1 :], [*served, job.name], rooms, target)
            if self._serve_beyond(step, job, usable) if beyond else step(job, usable):
                served.append(job.name)
        if not self._gang.enough(served):
            self._state.journal.rollback(before)
            return []
        return served

    def _expect(
        self, behind: Sequence[Job], served: Sequence[str], rooms: Rooms, target: Target
    ) -> None:
        """Record the members still needed to complete the gang, each with its pool."""
        self._to_come.clear()
        for job in behind:
            usable = _chosen(rooms, target, job)
            if self._on_nodes and self._on_nodes.shares_node(job, usable):
                usable = []  # It adds no instance to those of its project.
            if usable and not self._gang.enough([*served, *self._to_come]):
                self._to_come[job.name] = job, usable[0].pool.name

    def _serve_beyond(self, step: Step, job: Job, rooms: Sequence[PoolRoom]) -> bool:
        """Serve a member that the gang does not need: within the project's share, so that the gang
        cannot be reclaimed because of that member. One of an elastic gang may always be evicted,
        and so may go beyond share and quota."""
        if self._state.beyond_core is None or not self._gang.group.elastic:
            beyond = self._state.shares.beyond
            return step(job, [room for room in rooms if not beyond(job, room.pool.name)])
        before = self._state.journal.checkpoint()
        self._state.journal.add(self._state.beyond_core, job.name)
        if step(job, rooms):
            return True
        self._state.journal.rollback(before)
        return False

    def _target(
        self, jobs: Sequence[Job], rooms: Rooms, left_in: Left, bins: NodeBins | None = None
    ) -> Target:
        """The pool for each member that serves as many members as possible."""
        users = self._state.accounts.users
        bounded = Bounded(jobs, users, users.left)
        left = {}
        for job in jobs:
            for room in rooms[job.name]:
                name = room.pool.name
                bound = self._state.limits.left(job, name, left_in(job, room))
                left[name] = bound + bounded.left(name)
        counted = [bounded.counted(job) for job in jobs]
        pools = {name: [room.pool.name for room in usable] for name, usable in rooms.items()}
        return assign(counted, pools, left, bins)

    def _left_in_all(self, job: Job, room: PoolRoom) -> Demand:
        return room.left(job)

    def _left_now(self, job: Job, room: PoolRoom) -> Demand:
        left = self._left_in_all(job, room)
        return Demand({name: min(left[name], room.free[name]) for name in {*left, *room.free}})

    def may_be_whole(self) -> bool:
        """Whether the empty pools, within the gang's limits, could hold enough members. They may
        have shrunk since the gang came."""
        usable = {job.name: self._state.rooms_of(job) for job in self._gang.in_service_order}
        bins = self._on_nodes.empty_bins if self._on_nodes else _no_bins
        return any(
            self._gang.enough(self._target(jobs, _among(pools, usable), _size, bins()))
            for jobs, pools in product(self._orders, self._gang.allowed_pools())
        )

    # The steps, for one member.

    def _within(self, job: Job, rooms: Sequence[PoolRoom]) -> list[PoolRoom]:
        return [room for room in rooms if self._rules.eligible.within_bounds(job, room)]

    def _start(self, job: Job, rooms: Sequence[PoolRoom]) -> bool:
        if on_nodes := self._turn_of(job, rooms):
            return on_nodes.starts()
        return self._steps.start(job, self._within(job, rooms))

    def _hold(self, job: Job, rooms: Sequence[PoolRoom], *, owed: bool = False) -> bool:
        may_be = [room for room in self._state.rooms_of(job) if room.pool.name in self._pools]
        if self._on_nodes and (on_nodes := self._turn_of(job, rooms, may_be)):
            return on_nodes.waits(self._on_nodes.beside(), owed=owed)
        within = self._within(job, rooms)
        return self._steps.wait_for_coming(job, may_be, within, owed=owed)

    def _reclaim(self, job: Job, rooms: Sequence[PoolRoom]) -> bool:
        """Reclaim for one member, with the members still to come counted: one alone may be within
        its project's share while the whole gang, which would then be reclaimed in turn, is not."""
        if self._hold(job, rooms, owed=True):
            return True
        within = self._within(job, self._steps.with_rights(job, rooms))
        before = self._state.journal.checkpoint()
        for other, pool in self._to_come.values():
            self._state.accounts.take(other, pool)
        find = self._rules.reclaims.find
        found = find(job, within, self._spare, once_started=self._once_started)
        self._state.journal.rollback(before)
        if found:
            self._taken += [(job, found.room.pool.name, victim) for victim in found.victims]
        return self._steps.evict(job, found) and self._begins(job, rooms)

    def _take_reserved(self, job: Job, rooms: Sequence[PoolRoom]) -> bool:
        if self._hold(job, rooms, owed=True):
            return True
        within = self._within(job, self._steps.with_rights(job, rooms))
        return self._steps.take_reserved(job, within)

    def _preempt(self, job: Job, rooms: Sequence[PoolRoom]) -> bool:
        if self._hold(job, rooms, owed=True):
            return True
        if (on_nodes := self._turn_of(job, rooms)) and on_nodes.preempts_on_node():
            return True
        return self._steps.preempt(job, rooms) and self._begins(job, rooms)

    def _begins(self, job: Job, rooms: Sequence[PoolRoom]) -> bool:
        """Enter the node that the instance of a member becomes."""
        on_nodes = self._turn_of(job, rooms)
        return on_nodes.begins() if on_nodes else True

    def _turn_of(
        self, job: Job, rooms: Sequence[PoolRoom], claimable: Sequence[PoolRoom] | None = None
    ) -> NodeTurn | None:
        """The steps of a member that takes GPUs of nodes; None for any other."""
        if not self._on_nodes or not job.gpus:
            return None
        return self._on_nodes.turn_of(job, rooms, claimable)


def _on_nodes(steps: Steps, gang: LiveGang) -> GangOnNodes | None:
    """The steps of members on nodes; None: there are no nodes."""
    if not steps.state.nodes:
        return None
    from slotq_core.policy.turn.gang_on_nodes import GangOnNodes

    return GangOnNodes(steps, gang)


def _no_bins() -> None:
    return None


def _size(_: Job, room: PoolRoom) -> Demand:
    return room.size


def _among(pools: AbstractSet[str], rooms: Rooms) -> Rooms:
    """The rooms that belong to these pools."""
    return {
        name: [room for room in usable if room.pool.name in pools] for name, usable in rooms.items()
    }


def _chosen(rooms: Rooms, target: Target, job: Job) -> list[PoolRoom]:
    """The member's room in its best pool; all its rooms if it has no best pool."""
    best = target.get(job.name)
    return [room for room in rooms[job.name] if best is None or room.pool.name == best]
