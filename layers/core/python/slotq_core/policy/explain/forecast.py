"""The outlook of one waiting job, made on request.

It is made at the turn of the job, or of a job of its line ahead of it: the state then shows what
the jobs ahead leave. It decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.reasons import SlotsComing, outlook
from slotq_core.model.reasons.outlook import Outlook, Spared
from slotq_core.policy.actions.action_rules import Rules
from slotq_core.policy.actions.reclaim import past_use_waits
from slotq_core.policy.explain import waiting as explain
from slotq_core.policy.explain.timers import known_times
from slotq_core.policy.lifecycle.missing_rights import takes_only_free_slots
from slotq_core.policy.lines import Line, by_user
from slotq_core.policy.order import entered, rank
from slotq_core.policy.state.candidates import is_settled, stays_for_its_user
from slotq_core.policy.state.groups.job_parts import part_name, whole_name
from slotq_core.policy.state.may_evict import MayEvict
from slotq_core.policy.state.plan_state import PlanState
from slotq_core.policy.state.pool_room import PoolRoom
from slotq_core.policy.state.quotas.account import Account
from slotq_core.policy.state.quotas.gate import Taking, may_reclaim, may_take

if TYPE_CHECKING:
    from slotq_core.policy.state.nodes.node_index import NodeIndex

Cause = tuple[type[Spared], tuple[tuple[str, Any], ...]]
"""Why a job is spared, with the numbers of the reason."""


class Question:
    """The job to forecast, with its outlook so far. Without a job, does nothing."""

    def __init__(self, job: Job | None, state: PlanState, rules: Rules) -> None:
        self._state, self._rules = state, rules
        self._by_user = by_user(state.snapshot)
        self._names: set[str] = set()
        self._pools = job.pools if job else ()
        self._line: Line | None = None
        self._stored_line: Line | None = None
        self._seen: dict[str, Outlook] = {}
        """The latest outlook by pool: later turns are closer to the job's own."""
        self._gang: tuple[Job, ...] = ()
        """The waiting members of the job's gang, if the gang has to start as a whole."""
        if job is not None:
            self._names = {job.name, *(part_name(job.name, pool) for pool, _ in job.parts)}
            if not (job.claim or job.parts or job.group in state.gangs):
                self._line = Line.of(job, by_user=self._by_user)
                self._stored_line = Line.of(job)._replace(role="")

    def concerns(self, job: Job) -> bool:
        """Whether the job to forecast may be in this job's line, as stored. Roles do not count."""
        return self._stored_line == Line.of(job)._replace(role="")

    def look(self, job: Job) -> None:
        """Record the outlook at the turn of this job, or of its gang."""
        if not self._names:
            return
        gang, journal = self._state.gangs.get(job.group), self._state.journal
        together = gang.waiting if gang and not gang.runs else ()
        jobs = gang.in_service_order if gang and together else [job]
        about = list(filter(self._is_about, jobs))
        before = journal.checkpoint()
        for member in jobs if about else ():  # As in its turn, or its own claim would count twice.
            self._state.take_own_claim(member)
        for member in about:
            self._gang = together
            self._look(member, self._state.rooms_of(member))
        journal.rollback(before)

    def _look(self, job: Job, rooms: Sequence[PoolRoom]) -> None:
        served = self._served_in(job, rooms)
        kept = self._state.concurrency.keeps_back(job) is not None
        for room in rooms:
            seen = _in_pool(self._state, self._rules, job, room)
            refused = takes_only_free_slots(job, room.pool.name, self._state.now)
            shut = room.unavailable or room.rights.missing(job) or refused
            if served or kept or shut:  # The plan looks for no victims.
                seen = replace(seen, spared=())
            if kept or (served and not (room in served and room.unavailable)):
                seen = replace(seen, times=())  # The job waits for something without a known time.
            self._seen[room.pool.name] = seen

    def _served_in(self, job: Job, rooms: Sequence[PoolRoom]) -> list[PoolRoom]:
        """Rooms where free and coming slots are enough: the job waits only for them. The pool of
        the job's claim comes before all others, even if unavailable."""
        eligible = self._rules.eligible
        nodes = self._state.nodes
        if nodes is not None and job.gpus:
            from slotq_core.policy.explain.node_outlook import waits_for_a_node

            there = [room for room in rooms if waits_for_a_node(nodes, job, room.pool.name)]
            if there:
                return there
        soon = [room for room in rooms if room.fits_soon(job)]
        claimed = [room for room in soon if job.claim and room.pool.name == job.claim.pool]
        gang = self._state.gangs.get(job.group)
        if claimed or (gang and not gang.runs):  # For a gang, `answer` decides.
            return claimed
        able = eligible.admitting(job, soon)
        return [room for room in able if eligible.within_bounds(job, room)]

    def answer(self) -> Outlook | None:
        """The outlook; None if the job's turn did not come."""
        seen = [self._seen[name] for name in self._pools if name in self._seen]
        if not seen:
            return None
        reasons = (self._state.decided.reasons.get(job.name) for job in self._gang)
        if any(isinstance(why, SlotsComing) for why in reasons):
            seen = [replace(view, spared=(), times=()) for view in seen]
        times = (time for view in seen for time in view.times)
        return Outlook(
            rooms=tuple(room for view in seen for room in view.rooms),
            spared=tuple(spared for view in seen for spared in view.spared),
            reserved=tuple(kept for view in seen for kept in view.reserved),
        ).with_times(*times)

    def _is_about(self, job: Job) -> bool:
        if job.name in self._names:
            return True
        if self._line is None or job.claim:
            return False
        return Line.of(job, by_user=self._by_user) == self._line


def _in_pool(state: PlanState, rules: Rules, job: Job, room: PoolRoom) -> Outlook:
    missing = room.missing(job)
    known = known_times(job, entered(job, state.precedence.yields), room, rules.slices)
    if room.closing is not None:
        at, reserved = room.closing.next_chance(job)
        cause = outlook.TimeCause.RESERVATION if reserved else outlook.TimeCause.HOURS
        known.append((cause, at))
    times = {(cause, at) for cause, at in known if at is not None and at > state.now}
    return Outlook(
        rooms=(_room(state, job, room, missing),),
        spared=tuple(_spared(state, rules, job, room, missing)),
        reserved=tuple(_reserved(state, job, room)),
        times=tuple(
            outlook.KnownTime(at=at, cause=cause, pool=room.pool.name) for cause, at in times
        ),
    )


def _room(state: PlanState, job: Job, room: PoolRoom, missing: Demand) -> outlook.Room:
    own = _own_nodes(state, job, room)
    if own is not None and (_node_claim(job, room) or not room.fits_soon(job)):
        from slotq_core.policy.explain.node_outlook import room_on_nodes

        return room_on_nodes(own, job, room.pool.name)
    resource = explain.short(job, room.free_now)
    return outlook.Room(
        pool=room.pool.name,
        needed=job.demand[resource],
        free=max(0, room.free_now[resource]),
        coming=max(0, room.coming[resource]),
        missing=missing[resource],
        resource=resource,
    )


def _reserved(state: PlanState, job: Job, room: PoolRoom) -> Iterator[outlook.Reservation]:
    """Reservations in the room: the job's own claim, jobs ahead, other claims, then a drain."""
    name = room.pool.name
    mine = [job] if job.claim and job.claim.pool == name else []
    if state.nodes is not None and _node_claim(job, room):
        from slotq_core.policy.explain.node_outlook import kept_on_node

        yield from kept_on_node(state.nodes, job)
        mine = []
    others = (claim for claim in room.claims.values() if claim.name != job.name)
    for other in (*mine, *room.awaiting, *others):
        claim = other.claim if other.claim and other.claim.pool == name else None
        kind: type[outlook.Reservation] = outlook.HeldAhead
        if claim:
            kind = outlook.KeptForAMove if claim.moved else outlook.Owed
        yield _kept(kind, other, name)
    drains = state.waiting.get(room.drain.job) if room.drain else None
    if room.drain and drains is not None:
        yield outlook.Drains(
            pool=name,
            job=whole_name(drains.name),
            project=drains.project,
            slots=drains.demand.slots,
            held_back=room.drain.held_back,
        )


def _node_claim(job: Job, room: PoolRoom) -> bool:
    """Whether the job has a claim to GPUs of a node in the room."""
    return job.claim is not None and job.claim.pool == room.pool.name and bool(job.claim.node)


def _kept(kind: type[outlook.Reservation], holder: Job, pool: str) -> outlook.Reservation:
    return kind(
        pool=pool,
        job=whole_name(holder.name),
        project=holder.project,
        slots=holder.demand.slots,
    )


def _spared(
    state: PlanState, rules: Rules, job: Job, room: PoolRoom, missing: Demand
) -> Iterator[Spared]:
    """The jobs that hold slots in the room, by cause; the largest number of slots first."""
    causes, nodes = _causes(state, rules, job, room, missing), state.nodes
    own = _own_nodes(state, job, room)
    on_nodes: Iterable[Spared] = ()
    if own is not None and nodes is not None:
        from slotq_core.policy.explain.node_outlook import spared_on_nodes

        ours = {
            shown.name
            for at in own.rooms.values()
            if (shown := nodes.stand_ins.of((at.pool, at.name)))
        }
        causes = (cause for cause in causes if cause[0].name not in ours)
        another = partial(_in_another, state, job, room=room, missing=missing)
        in_another = None if job.group in state.gangs else another
        on_nodes = _by_cause(state, room, spared_on_nodes(nodes, job, room, own, in_another))
    found = (*_by_cause(state, room, causes), *on_nodes)
    named = (spared for spared in found if spared.jobs)  # A node without jobs is free for all.
    yield from sorted(named, key=lambda spared: (-spared.slots, spared.code, spared.jobs))


def _by_cause(
    state: PlanState, room: PoolRoom, causes: Iterable[tuple[Job, Cause, int | None]]
) -> Iterator[Spared]:
    groups: dict[Cause, list[Job]] = {}
    until: dict[Cause, int | None] = {}
    for other, cause, ends in causes:
        groups.setdefault(cause, []).append(other)
        known = [at for at in (until.get(cause), ends) if at is not None]
        until[cause] = min(known, default=None)
    for cause, jobs in groups.items():
        yield _group(state, room, cause, jobs, until[cause])


def _own_nodes(state: PlanState, job: Job, room: PoolRoom) -> NodeIndex | None:
    if state.nodes is None or not job.gpus:
        return None
    from slotq_core.policy.explain.node_outlook import own_nodes

    return own_nodes(state.nodes, job, room.pool.name)


def _group(
    state: PlanState, room: PoolRoom, cause: Cause, jobs: Sequence[Job], until: int | None
) -> Spared:
    kind, numbers = cause
    nodes = state.nodes
    held_by = (
        name for job in jobs for name in (nodes.stand_ins.names(job) if nodes else (job.name,))
    )
    names = sorted({*map(whole_name, held_by)})
    gpus = sum(job.gpus for job in jobs if job.attempt and job.attempt.node)
    timed: dict[str, Any] = (
        {"until": until} if kind in {outlook.InMinRuntime, outlook.SliceNotOver} else {}
    )
    return kind(
        pool=room.pool.name,
        jobs=tuple(names[: outlook.NAMED]),
        count=len(names),
        slots=0 if gpus else sum(job.demand.slots for job in jobs),
        gpus=gpus,
        **dict(numbers),
        **timed,
    )


def _causes(
    state: PlanState, rules: Rules, job: Job, room: PoolRoom, missing: Demand
) -> Iterator[tuple[Job, Cause, int | None]]:
    """Why each job that holds slots in the room is not stopped for the job, and until when (ms)."""
    for other in state.snapshot.active:
        here = other.attempt is not None and other.attempt.pool == room.pool.name
        if here and other.state is JobState.STOPPING:
            yield other, (outlook.StopsAlready, ()), None
    protected = {name: until for name, (until, _) in room.jobs.protections.items()}
    stoppable = {
        victim.name
        for project in room.jobs.projects()
        for candidate in room.jobs.candidates(project)
        for victim in candidate.jobs
    }
    yielding = rules.slices.yielding(job, room)
    for other in room.jobs.everyone():
        cause = _of_itself(other, protected, room.jobs.may_evict)
        if cause is None and other.group in state.gangs and other.name not in stoppable:
            cause = outlook.GangStays, (("group", other.group),)
        if cause is not None:
            yield other, cause, protected.get(other.name)
        elif other.project == job.project:
            yield other, *_in_own_project(job, other, room, yielding, missing)
        else:
            yield other, _in_another(state, job, other, room, missing), None


def _of_itself(
    other: Job, protected: Mapping[str, int | None], may_evict: MayEvict
) -> Cause | None:
    """Why the other job may not be stopped for any job at all; None: it may."""
    if not may_evict(other):
        return never_evicted(other)
    if not is_settled(other):
        return outlook.StartUnanswered, ()
    return (outlook.InMinRuntime, ()) if other.name in protected else None


def never_evicted(other: Job) -> Cause:
    """The cause of a job that no plan of this moment evicts."""
    return (outlook.WithinQuota if other.evictable else outlook.NeverEvicted), ()


def _in_own_project(
    job: Job, other: Job, room: PoolRoom, yielding: Mapping[str, int], missing: Demand
) -> tuple[Cause, int | None]:
    """The cause within one project, with the end of a slice (ms)."""
    if rank(other) < rank(job):
        return _no_help(missing), None
    if other.name in yielding:
        return (outlook.SliceNotOver, ()), yielding[other.name]
    if stays_for_its_user(job, other, room.pool):
        return (outlook.OfTheSameUser, ()), None
    return (outlook.NoLowerRank, ()), None


def _in_another(state: PlanState, job: Job, other: Job, room: PoolRoom, missing: Demand) -> Cause:
    """The cause across projects, by the gate of reclaims (gate.py)."""
    mine = state.accounts.of(job, room.pool.name)
    theirs = state.accounts.of(other, room.pool.name)
    if not mine or not theirs:
        return outlook.NoLowerRank, ()
    pool, units = room.pool.name, explain.in_units(state.accounts)
    asked = explain.asked(job, pool, state.accounts)
    if not may_reclaim(asked, mine):
        return outlook.OwnShareUsed, _numbers(mine[0], explain.beyond(mine[0], asked), units)
    taking = Taking(asked, mine)
    if state.snapshot.fair_share and past_use_waits(state, job, other, taking, theirs):
        giver = taking.giver(theirs)
        over, by_weights = giver.resources[0], giver.share_by_weights or giver.share
        numbers = _numbers(giver, over, units)
        return outlook.PastUseWaits, (*numbers, ("by_weights", units(by_weights[over])))
    if may_take(asked, mine, explain.asked(other, pool, state.accounts), theirs):
        return _no_help(missing)
    if taking.is_fair(theirs):  # The department would come beyond its share.
        return outlook.OwnShareUsed, _numbers(mine[-1], explain.beyond(mine[-1], asked), units)
    over = theirs[0].resources[0]
    numbers = _numbers(theirs[0], over, units)
    return outlook.WithinShare, (*numbers, ("quota", units(theirs[0].quota[over])))


def _numbers(
    account: Account, resource: str, units: Callable[[int], float]
) -> tuple[tuple[str, Any], ...]:
    return (
        ("project", account.name),
        ("used", units(account.used[resource])),
        ("share", units(account.share[resource])),
        ("resource", resource),
    )


def _no_help(missing: Demand) -> Cause:
    return outlook.WouldNotHelp, (("missing", missing.slots),)
