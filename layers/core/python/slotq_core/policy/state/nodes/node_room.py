"""The GPUs of one node during one plan: free, coming free, claimed and held, each in hundredths.

A part of a GPU lies on one GPU: of those with room the one with least left. A job with whole GPUs
takes GPUs of which no other job has a part. What is held or claimed is bound to its GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import add, sub

from slotq_core.gpu_amounts import WHOLE, Gpus
from slotq_core.model.demand import NOTHING
from slotq_core.model.jobs import Claim, Job, JobState
from slotq_core.model.nodes import MOST_JOBS, Node, NodeState
from slotq_core.policy.order import Rank, outranks, rank
from slotq_core.policy.state.candidates import Candidate, unsaved
from slotq_core.policy.state.journal import Journal
from slotq_core.policy.state.may_evict import BY_SETTING, MayEvict
from slotq_core.policy.state.nodes.entrance import Entrance
from slotq_core.policy.state.nodes.node_jobs import Occupied

_ADMITTING = (NodeState.STARTING, NodeState.READY)

ByGpu = tuple[Gpus, ...]
"""An amount of each GPU, by index."""


class NodeRoom:
    """One node, or one that this plan starts. Amounts exclude the GPUs given to earlier jobs."""

    def __init__(
        self,
        name: str,
        pool: str,
        tenant: str,
        *,
        gpus: int,
        journal: Journal,
        node: Node | None = None,
        may_evict: MayEvict = BY_SETTING,
    ) -> None:
        """`node`: None if this plan starts the node, or waits for an instance for it."""
        self.name, self.pool, self.tenant, self.gpus = name, pool, tenant, gpus
        self.node, self._journal, self._may_evict = node, journal, may_evict
        self.ready = node is not None and node.state is NodeState.READY
        self.empty = True
        """Whether no job holds, claims or waits for a GPU here."""
        self.fixed = False
        """Whether a job that cannot be evicted counts here."""
        self.entrance = Entrance(one_person=node is not None and node.one_person)
        self.closed = False
        """Whether no job starts here in this plan: an eviction ends the node."""
        self.has_instance = False
        """Whether an instance is free now for this node, which a gang waits for."""
        self.starts = False
        """Whether the plan starts this node for a gang."""
        self.free: ByGpu = (WHOLE,) * gpus
        """What is not given and not held for a job; what claimants are owed counts as free."""
        self.coming: ByGpu = (0,) * gpus
        """What stopping jobs have that is not held for a job."""
        self.places, self.places_coming = MOST_JOBS, 0
        """How many more jobs the node takes: now, and when stopping jobs have stopped."""
        self.claims: dict[str, Job] = {}
        """The claimants without a turn so far."""
        self.kept: dict[str, Job] = {}
        """Those that move here. Their GPUs are kept for them: no other job may take them over."""
        self.bound: dict[str, tuple[int, ...]] = {}
        """By claimant, and by job that this plan holds GPUs for, its GPUs."""
        self.candidates: Sequence[Candidate] = ()
        """The jobs that may be evicted, in the order of eviction."""

    def take_in(self, found: Occupied, candidates: Sequence[Candidate]) -> None:
        """Enter the jobs that held GPUs before this plan, and the claims."""
        free, coming = [*self.free], [*self.coming]
        for job in found.jobs:
            stops = job.state is JobState.STOPPING
            self.places_coming += stops
            for index, amount in job.attempt.gpus_held.items() if job.attempt else ():
                if index < self.gpus:
                    free[index] -= amount
                    coming[index] += amount if stops else 0
        self.free, self.coming = tuple(free), tuple(coming)
        self.places -= len(found.jobs)
        self.empty = found.empty
        self.fixed = not all(map(self._may_evict, (*found.running, *found.claimants)))
        self.closed = found.ends or found.node.state not in _ADMITTING
        if self.entrance.one_person:
            self.entrance.persons = frozenset(job.person for job in found.jobs)
            self.entrance.person = found.person
        for job in found.claimants:
            ids = self._owed_to(job)
            if ids and job.claim and job.claim.moved:
                self.keep(job, ids)
            else:
                self.bound[job.name] = ids
                self.claims[job.name] = job
        self.candidates = candidates

    def _owed_to(self, job: Job) -> tuple[int, ...]:
        """The GPUs of a claim. One that is older than these indexes gets the first that fit."""
        ids = job.claim.gpu_ids if job.claim else ()
        if ids:
            return ids if max(ids) < self.gpus else ()
        return self._best(job, self._both, self._both)

    @property
    def _both(self) -> ByGpu:
        """What is free or comes free and is owed to nobody."""
        both = tuple(map(add, self.free, self.coming))
        return tuple(map(sub, both, self._owed(self.claims.values()))) if self.claims else both

    @property
    def open_now(self) -> ByGpu:
        """What a job without a right to claims may have now, of each GPU; empty: nothing."""
        if self.closed or not self.ready or self.places <= len(self.claims):
            return ()
        return tuple(map(min, self.free, self._both))

    @property
    def open_soon(self) -> ByGpu:
        """What such a job may have now, or when stopping jobs have stopped and the node is
        ready."""
        if self.closed or self.places + self.places_coming <= len(self.claims):
            return ()
        return self._both

    def left(self, job: Job, *, now: bool = False) -> Gpus:
        """How much of what is free, or with what comes free, the job could use, without the claims
        of others that the job may not take over: whole GPUs, or the largest part of one."""
        room = self.open_to(job) if self._admits(job, now=now) else ()
        if now:
            room = tuple(map(min, self.free, room))
        if job.gpus % WHOLE:
            return max(0, *room) if room else 0
        return WHOLE * room.count(WHOLE)

    def missing(self, job: Job) -> ByGpu:
        """What the job's part, or a whole GPU, lacks on each GPU; 0 or less: nothing."""
        needed = job.gpus % WHOLE or WHOLE
        return tuple(needed - amount for amount in self.open_to(job))

    def lacks_place(self, job: Job) -> bool:
        """Whether the node has too many jobs for one more."""
        return self.places + self.places_coming <= len(self._barred(job))

    def fitting(self, job: Job, *, now: bool) -> tuple[int, ...]:
        """The GPUs that the job would get; empty: they are not free now, or soon."""
        if not self._admits(job, now=now):
            return ()
        barred = self._barred(job)
        places = self.places if now else self.places + self.places_coming
        if places <= len(barred):
            return ()
        room = self.open_to(job)
        if now:
            room = tuple(map(min, self.free, room))
        return self._best(job, room, self._both)

    def _best(self, job: Job, room: ByGpu, unclaimed: ByGpu) -> tuple[int, ...]:
        """The GPUs for the job among those with this room: of a part the one with least left, of
        whole ones the first; those before all others whose claims stay. Empty: too few."""
        part = job.gpus % WHOLE
        if part:
            able = [
                (left < part, left, index)
                for index, (amount, left) in enumerate(zip(room, unclaimed, strict=True))
                if amount >= part
            ]
            return (min(able)[2],) if able else ()
        order = [
            (left < WHOLE, -free, index)
            for index, (amount, left, free) in enumerate(
                zip(room, unclaimed, self.free, strict=True)
            )
            if amount >= WHOLE
        ]
        needed = job.gpus // WHOLE
        if len(order) < needed:
            return ()
        return tuple(sorted(index for *_, index in sorted(order)[:needed]))

    def may_claim(self, job: Job, *, now: bool) -> bool:
        """Whether the GPUs of the job's claim are free: now, or soon."""
        ids, part = self.bound.get(job.name, ()), job.gpus % WHOLE or WHOLE
        if not ids or not self._admits(job, now=now):
            return False
        room = self.open_to(job)
        if now:
            if self.places <= 0:
                return False
            room = tuple(map(min, self.free, room))
        return all(room[index] >= part for index in ids)

    def open_to(self, job: Job) -> ByGpu:
        """What the job may have of each GPU, now or soon. Negative if others are owed more than
        that."""
        both = tuple(map(add, self.free, self.coming))
        barred = self._barred(job)
        return tuple(map(sub, both, self._owed(barred))) if barred else both

    def _barred(self, job: Job) -> list[Job]:
        """The claimants whose claims the job may not take over."""
        if not self.claims:
            return []
        return [
            other
            for other in self.claims.values()
            if other.name != job.name and not (outranks(job, other) and self._may_evict(other))
        ]

    def _admits(self, job: Job, *, now: bool) -> bool:
        ready = self.ready or not now
        return ready and not self.closed and self.entrance.may_enter(job, now=now)

    def give(self, job: Job) -> tuple[int, ...]:
        """Give the job its GPUs: those of its claim, else those that fit. Return their indexes."""
        ids = self.bound.get(job.name) or self.fitting(job, now=True)
        assert ids, job.name
        part = job.gpus % WHOLE or WHOLE
        self.entrance.belong_to(job, self._journal)
        self._change(free=dict.fromkeys(ids, -part), places=-1)
        return ids

    def hold(self, job: Job) -> None:
        """Hold the job's GPUs against later jobs: what is free first, then what comes free."""
        ids = self.bound.get(job.name) or self.fitting(job, now=False)
        assert ids, job.name
        part = job.gpus % WHOLE or WHOLE
        free = {index: min(part, max(0, self.free[index])) for index in ids}
        place = 1 if self.places > 0 else 0
        self.entrance.belong_to(job, self._journal)
        self._change(
            free={index: -amount for index, amount in free.items()},
            coming={index: amount - part for index, amount in free.items()},
            places=-place,
            places_coming=place - 1,
        )
        self._journal.put(self.bound, job.name, ids)

    def take_claim(self, job: Job) -> None:
        """Free the GPUs of the job's claim, for the job's own turn."""
        if job.name in self.claims:
            self._journal.drop(self.claims, job.name)
        elif job.name in self.kept:
            self._journal.drop(self.kept, job.name)
            part = job.gpus % WHOLE or WHOLE
            self._change(free=dict.fromkeys(self.bound[job.name], part), places=1)

    def keep(self, job: Job, ids: tuple[int, ...]) -> None:
        """Keep these GPUs for a job that moves here."""
        self.entrance.belong_to(job, self._journal)
        self._journal.put(self.kept, job.name, job)
        self._journal.put(self.bound, job.name, ids)
        self._change(free=dict.fromkeys(ids, -(job.gpus % WHOLE or WHOLE)), places=-1)

    def evict(self, victims: Iterable[Candidate], *, spared: bool = False) -> None:
        """Evict these candidates. Their GPUs come free later. `spared`: they only are no candidates
        any more."""
        gone = [*victims]
        kept = [candidate for candidate in self.candidates if candidate not in gone]
        self._journal.set(self, "candidates", kept)
        if spared:
            return
        coming: dict[int, Gpus] = {}
        for victim in gone:
            for index, amount in held_by(victim).items():
                coming[index] = coming.get(index, 0) + amount
        self._change(coming=coming, places_coming=sum(len(victim.places) for victim in gone))

    def gives(self, job: Job) -> list[Candidate]:
        """The candidates of lower rank that may be evicted for the job, in order."""
        own = rank(job)
        return [
            candidate
            for candidate in self.candidates
            if candidate.rank < own and candidate.project == job.project
        ]

    def _change(
        self,
        *,
        free: dict[int, Gpus] | None = None,
        coming: dict[int, Gpus] | None = None,
        places: int = 0,
        places_coming: int = 0,
    ) -> None:
        before = self.free, self.coming, self.places, self.places_coming
        self._journal.record(NodeRoom._restore, self, *before)
        self.free, self.coming = _plus(self.free, free), _plus(self.coming, coming)
        self.places += places
        self.places_coming += places_coming

    def _restore(self, free: ByGpu, coming: ByGpu, places: int, places_coming: int) -> None:
        self.free, self.coming = free, coming
        self.places, self.places_coming = places, places_coming

    def _owed(self, jobs: Iterable[Job]) -> ByGpu:
        owed = [0] * self.gpus
        for job in jobs:
            for index in self.bound.get(job.name, ()):
                owed[index] += job.gpus % WHOLE or WHOLE
        return tuple(owed)


def claim_to(room: NodeRoom, job: Job, priority_class: str, now: int) -> Claim:
    """The job's claim to the GPUs that the room holds for it. `priority_class`: the class in which
    the job counts."""
    return Claim(
        pool=room.pool,
        node=room.name,
        gpu_ids=room.bound[job.name],
        amount=NOTHING,
        since=now,
        priority_class=priority_class,
    )


def _plus(amounts: ByGpu, more: dict[int, Gpus] | None) -> ByGpu:
    if not more:
        return amounts
    return tuple(amount + more.get(index, 0) for index, amount in enumerate(amounts))


def held_by(candidate: Candidate) -> dict[int, Gpus]:
    """What the candidate's jobs on a node have of its GPUs."""
    held: dict[int, Gpus] = {}
    for job, _ in candidate.places:
        for index, amount in job.attempt.gpus_held.items() if job.attempt else ():
            held[index] = held.get(index, 0) + amount
    return held


def candidate_on(job: Job, pool: str, gpus: int, rank_of: Rank, now: int) -> Candidate:
    """A job on a node as a candidate: it frees its GPUs there, and loses its part of the node's
    time. Its size is in hundredths of a GPU."""
    cost = unsaved(job, now)
    lost = cost * job.gpus // (WHOLE * max(1, gpus))
    return Candidate(
        name=job.name,
        gang=False,
        places=((job, pool),),
        rank=rank_of,
        entry_time=job.entry_time,
        unsaved=cost,
        lost=lost,
        cost=cost,
        slot_cost=lost,
        slots=job.gpus,
    )
