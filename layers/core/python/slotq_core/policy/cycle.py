"""The whole policy on one screen: plan(snapshot, now) -> Plan. Pure; DESIGN section 5.

    1 settle    back-offs whose time has come end; starts that got no instances in time are given
                up; classes end; the rest is for the next plan          -> retry.py, demote.py
    2 order     between projects the most deprived first, asked anew after each decision; within
                one rank, then entry time, then name              -> turns.py, order.py, shares.py
    3 walk      each job in that order, before the next one is looked at:
                  a  starts on free slots, in the first of its pools that has room -> fit.py
                  b  waits for slots that are coming free, and holds them          -> fit.py
                  c  moves others to further pools of theirs, where allowed    -> consolidate.py
                  d  reclaims from projects above their share, and claims          -> reclaim.py
                  e  preempts strictly lower rank in its project, and claims       -> preempt.py
                  f  takes its turn where time slices are over, and claims         -> slices.py
                  g  after `reserve_after`, makes one of its pools drain           -> reserve.py
                within its project's quota and limit, and its user's     -> accounts.py, users.py
                in the highest class with room, where it is AUTO        -> classes.py, demote.py
                where only so many may run at once, it may have to wait untried  -> parallel.py
                with scheduler settings, a blocked job is tried again later      -> attempts.py
                a gang: all of its members, or none          -> gang.py, together.py
                a job over several pools: all of its parts, or none                -> parts.py
                a pool that backs off, is being probed, paused or drained takes part in none of it
    4 net       what was given in this plan and is taken back in it was never given
    5 explain   whoever was looked at and waits gets a typed reason               -> explain.py

One look at each line is enough: when its first job is blocked, so are those behind it (lines.py).
One way down the order is enough, too: a decision gives those ahead nothing that they could not have
had. Only a claim that is given up does: there the walk ends, and the next plan begins anew. So it
does at a job whose user has yielded in this plan, for its place is further down now.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from slotq_core.model import Claim, Demand, Job, Snapshot, StopCause
from slotq_core.policy import explain
from slotq_core.policy.accounts import Accounts
from slotq_core.policy.attempts import failed_alike, tried_in_vain
from slotq_core.policy.consolidate import Consolidation
from slotq_core.policy.demote import admitted_in, demoted, demotes_at
from slotq_core.policy.fit import PoolRoom, rooms_of
from slotq_core.policy.gang import Gang, gangs, settled
from slotq_core.policy.holders import Holders
from slotq_core.policy.lines import by_user
from slotq_core.policy.order import Rank, entered, last_yields, position, rank
from slotq_core.policy.parallel import Parallel
from slotq_core.policy.parts import in_parts
from slotq_core.policy.plan import (
    Decision,
    Demote,
    DropClaim,
    EndBackoff,
    Evict,
    GiveUp,
    Move,
    Plan,
    Start,
    TryLater,
)
from slotq_core.policy.preempt import Preemption, outranks
from slotq_core.policy.prospects import has_prospects
from slotq_core.policy.reclaim import may_take, reclaim
from slotq_core.policy.reserve import due_at, pool_to_drain
from slotq_core.policy.retry import backed_off, gives_up_at
from slotq_core.policy.slices import Slices
from slotq_core.policy.stakes import Place
from slotq_core.policy.together import Together, whole
from slotq_core.policy.turns import Turns
from slotq_core.policy.victims import Eviction
from slotq_core.reasons import Reason


@in_parts
def plan(snapshot: Snapshot, now: int) -> Plan:
    """What to do now, and why the rest waits. The same snapshot always gives the same plan."""
    settled = tuple(_settle(snapshot, now))
    if settled:
        return Plan(decisions=settled, wake_at=now)
    walk = _Walk(snapshot, now)
    users_apart = by_user(snapshot)
    turns = Turns(walk.takers(), walk.accounts, yields=walk.yields, by_user=users_apart)
    while not walk.over and (job := turns.next()) and not walk.has_yielded(job):
        if not walk.visit(job):
            turns.block(job)
    return walk.plan()


def _settle(snapshot: Snapshot, now: int) -> Iterator[Decision]:
    for job in sorted(snapshot.due, key=position):
        if backed_off(job, now):
            yield EndBackoff(job=job)
    yield from settled(snapshot)
    pools = {pool.name: pool for pool in snapshot.pools}
    for job in sorted(snapshot.active, key=position):
        at = gives_up_at(job, pools)
        if at is not None and at <= now:
            yield GiveUp(job=job)
    classes = {each.name: each for each in snapshot.classes}
    for job in sorted(snapshot.active, key=position):
        at = demotes_at(job, classes)
        if at is not None and at <= now:
            yield Demote(job=job, after=demoted(job, classes))


class _Walk:
    """Step 3. `visit` is called once for each job, in order."""

    def __init__(self, snapshot: Snapshot, now: int) -> None:
        self._now = now
        self._snapshot = snapshot
        self._parallel = Parallel(snapshot)
        self._gangs = gangs(snapshot)
        self._waiting = {job.name: job for job in snapshot.waiting}
        self._holders = Holders(snapshot, now)
        self._rooms = rooms_of(snapshot, self._holders, now)
        self.accounts = Accounts(snapshot)
        self.yields = last_yields(snapshot.yields)
        self._slices = Slices(
            accounts=self.accounts,
            entitled=self._entitled,
            gangs=self._gangs,
            yields=self.yields,
            now=now,
        )
        self._preemption = Preemption(
            everywhere=self._rooms, accounts=self.accounts, entitled=self._entitled
        )
        self._consolidation = Consolidation(
            everywhere=self._rooms, accounts=self.accounts, entitled=self._entitled
        )
        self._decisions: dict[str, Decision] = {}
        """By the job that each is for, in the order in which they were taken."""
        self._reasons: dict[str, Reason] = {}
        self.over = False
        """A claim was given up: what was passed so far may fit now."""
        self._yielded: set[tuple[str, Rank]] = set()
        """Users, and at which rank a job of theirs has yielded in this plan."""
        self._held_in: dict[str, str] = {}
        """By job, the pool that keeps its slots from those behind it."""
        self._taken_back: list[Place] = []
        """Those that lost what they were given in this plan, since the last mark."""
        pools = {pool.name: pool for pool in snapshot.pools}
        timers = [job.not_before for job in snapshot.due]
        timers += [gives_up_at(job, pools) for job in snapshot.active]
        classes = {each.name: each for each in snapshot.classes}
        timers += [demotes_at(job, classes) for job in snapshot.active]
        self._wake_at = min((at for at in timers if at is not None), default=None)

    def takers(self) -> list[Job]:
        """Who takes a turn: each job that waits, and one for each gang that could start."""
        found = []
        for job in self._waiting.values():
            gang = self._gangs.get(job.group)
            if gang is None or gang.runs:
                found.append(job)
            elif not gang.ready:
                self._reasons[job.name] = explain.incomplete(gang)
        return found + [gang.lead() for gang in self._gangs.values() if gang.ready]

    def plan(self) -> Plan:
        decided = list(whole(self._decisions.values(), self._gangs))
        tried = [each for each in decided if isinstance(each, TryLater)]
        return Plan(
            decisions=(*decided, *failed_alike(tried, self._snapshot, self._now)),
            reasons=self._reasons,
            wake_at=self._wake_at,
        )

    def has_yielded(self, job: Job) -> bool:
        """Whether its user's place at that rank was lost to a turn in this plan."""
        return (job.submitter, rank(job)) in self._yielded

    def visit(self, job: Job) -> bool:
        """Take the job's turn. False: it is blocked, and so is all of its line behind it."""
        gang = self._gangs.get(job.group)
        if kept_back := self._parallel.keeps_back(job):
            whole_gang = gang.waiting if gang and not gang.runs else [job]
            self._reasons |= {each.name: kept_back for each in whole_gang}
            return False
        if gang and not gang.runs:
            return self._visit_gang(gang)
        rooms = self._rooms_of(job)
        able = [room for room in rooms if not room.unwell and not room.closed_to(job)]
        self._take_its_claim(job)
        if not has_prospects(job, rooms, self.accounts):
            return self._blocked(job, rooms, able)
        within = [room for room in able if self._within_bounds(job, room)]
        if job.claim and job.claim.moved and self._where_it_moves(job, rooms, within):
            return True
        return (
            self._start(job, within)
            or self._wait_for_coming(job, rooms, within)
            or (gang is None and self._consolidate(job, within))
            or (gang is None and self._reclaim(job, within))
            or (gang is None and self._preempt(job, able))
            or (gang is None and self._take_turn(job, rooms))
            or self._blocked(job, rooms, able)
        )

    def _visit_gang(self, gang: Gang) -> bool:
        """The same steps for all of its members at once."""
        jobs = gang.standing()
        rooms = {job.name: self._rooms_of(job) for job in jobs}
        able = {
            job.name: [r for r in rooms[job.name] if not r.unwell and not r.closed_to(job)]
            for job in jobs
        }
        for job in jobs:
            self._take_its_claim(job)
        together = Together(walk=self, gang=gang, jobs=jobs, rooms=able)
        if together.start() or together.wait_for_coming():
            return True
        before = self.mark()
        served = together.reclaim() or together.preempt()
        if not served:
            return self._gang_blocked(gang, jobs)
        if not self._join_evictions(served):
            taken_back = self._taken_back
            self.back_to(before)
            for victim, pool in taken_back:
                self._take_back(victim, pool)
            started = together.start() or together.wait_for_coming()
            return bool(started) or self._gang_blocked(gang, jobs)
        return True

    def _join_evictions(self, served: Sequence[str]) -> bool:
        """One decision of what its members evict, with a claim for each. False: nobody who really
        runs is evicted."""
        evictions = [
            each for name in served if isinstance(each := self._decisions.get(name), Evict)
        ]
        if not evictions:
            return False
        for each in evictions:
            del self._decisions[each.beneficiary.name]
        first, *rest = [(self._waiting[name], self._claim_of(name)) for name in served]
        self._decisions[first[0].name] = Evict(
            beneficiary=first[0],
            claim=first[1],
            victims=tuple(victim for each in evictions for victim in each.victims),
            along=tuple(rest),
        )
        return True

    def _claim_of(self, name: str) -> Claim:
        job = self._waiting[name]
        its = self.accounts.users.class_held(job) if job.auto else ""
        pool = self._held_in[name]
        return Claim(pool=pool, amount=job.demand, since=self._now, priority_class=its)

    def _rooms_of(self, job: Job) -> list[PoolRoom]:
        return [self._rooms[name] for name in job.pools if name in self._rooms]

    def _take_its_claim(self, job: Job) -> None:
        """While it is its turn, what it is owed is its own to use."""
        if job.claim:
            for room in self._rooms_of(job):
                room.take_claim(job)
            self.accounts.give_back(job, job.claim.pool)

    def _within_bounds(self, job: Job, room: PoolRoom) -> bool:
        """ "`limit` always holds", and quota binds what cannot be evicted."""
        name = room.pool.name
        return self.accounts.limits_allow(job, name) and self.accounts.quotas_allow(job, name)

    def _entitled(self, job: Job, holder: Job) -> bool:
        """Whether the job could evict this claimant, if that ran where it has its claim."""
        if not holder.evictable or holder.claim is None:
            return False
        pool = holder.claim.pool
        mine, theirs = self.accounts.of(job, pool), self.accounts.of(holder, pool)
        if holder.project == job.project:
            return outranks(job, holder)
        return may_take(job, mine, holder, theirs)

    def _start(self, job: Job, rooms: Sequence[PoolRoom]) -> bool:
        for room in rooms:
            if room.fits_now(job, self._entitled):
                start = self._admission(job, room.pool.name)
                room.give(start.classed or job)
                self._take(job, room)
                self._decisions[job.name] = start
                self.over = job.claim is not None and job.claim.pool != room.pool.name
                return True
        return False

    def _admission(self, job: Job, pool: str) -> Start:
        waiting, users = self._waiting[job.name], self.accounts.users
        its = users.admits_in(waiting, pool) if waiting.auto else None
        if its is None:
            return Start(job=waiting, pool=pool)
        classed = admitted_in(waiting, users.classes[its], users.classes)
        return Start(job=waiting, pool=pool, classed=classed)

    def _wait_for_coming(
        self, job: Job, rooms: Sequence[PoolRoom], within: Sequence[PoolRoom]
    ) -> bool:
        """The pool of its claim first, then its own order: a claim is not given up for less, nor
        because the pool is unwell for a while."""
        claimed = [room for room in rooms if job.claim and room.pool.name == job.claim.pool]
        for room in (*claimed, *within):
            if room.fits_soon(job, self._entitled):
                if job.claim and room not in claimed:
                    self._drop_claim(job)
                self._hold(job, room)
                self._wake(job, claimed)
                return True
        return False

    def _where_it_moves(
        self, job: Job, rooms: Sequence[PoolRoom], within: Sequence[PoolRoom]
    ) -> bool:
        """And nowhere else: back where it was it would take what it moved for."""
        there = [room for room in within if job.claim and room.pool.name == job.claim.pool]
        return self._start(job, there) or self._wait_for_coming(job, rooms, ())

    def _hold(self, job: Job, room: PoolRoom) -> None:
        """Everyone behind counts its slots as held."""
        self._reasons[job.name] = explain.coming(job, room)
        room.hold(job)
        self._held_in[job.name] = room.pool.name
        self._take(job, room)

    def _take(self, job: Job, room: PoolRoom) -> None:
        """It holds its slots for everyone behind; a claimant has been counted from the start."""
        self.accounts.take(job, room.pool.name)
        if not job.claim:
            self._parallel.take(job)

    def _consolidate(self, job: Job, rooms: Sequence[PoolRoom]) -> bool:
        found = self._consolidation.find(job, rooms)
        if found is None:
            return False
        moved = self._consolidation.carry_out(found, self._now)
        self._hold(job, found.room)
        its, claim = self._waiting[job.name], self._claim_of(job.name)
        self._decisions[job.name] = Move(beneficiary=its, moved=moved, claim=claim)
        return True

    def _reclaim(self, job: Job, rooms: Sequence[PoolRoom]) -> bool:
        return self._evict(job, reclaim(job, rooms, self.accounts, self._entitled))

    def _preempt(self, job: Job, rooms: Sequence[PoolRoom]) -> bool:
        rooms = [room for room in rooms if self.accounts.quotas_allow(job, room.pool.name)]
        return self._evict(job, self._preemption.find(job, rooms))

    def _take_turn(self, job: Job, rooms: Sequence[PoolRoom]) -> bool:
        well = [room for room in rooms if not room.unwell]
        rooms = [room for room in well if self.accounts.quotas_allow(job, room.pool.name)]
        drains = {r.pool.name: self._waiting[r.drains_for] for r in rooms if r.closed_to(job)}
        return self._evict(job, self._slices.find(job, rooms, drains), StopCause.YIELDED)

    def _evict(
        self, job: Job, found: Eviction | None, cause: StopCause = StopCause.EVICTED
    ) -> bool:
        if found is None:
            return False
        places = [place for stake in found.victims for place in stake.places]
        victims = [job for job, pool in places if self._take_back(job, pool)]
        gang = self._gangs.get(job.group)
        if not victims and gang is None:
            return self._start(job, [found.room])
        self._hold(job, found.room)
        if victims:
            self._decisions[job.name] = Evict(
                beneficiary=self._waiting[job.name],
                victims=tuple(victims),
                claim=self._claim_of(job.name),
                cause=cause,
            )
            if cause is StopCause.YIELDED:
                self._yielded |= {(victim.submitter, rank(victim)) for victim in victims}
        return True

    def _take_back(self, victim: Job, pool: str) -> bool:
        """Whether it really runs: one that was only given its slots in this plan never had them."""
        self._rooms[pool].evict(victim)
        if isinstance(self._decisions.get(victim.name), Start):
            del self._decisions[victim.name]
            self.accounts.give_back(victim, pool)
            self._parallel.give_back(victim)
            self._taken_back.append((victim, pool))
            self._reasons[victim.name] = explain.taken_back(victim, self._rooms[pool])
            return False
        self.accounts.evict(victim, pool)
        return True

    def _blocked(self, job: Job, rooms: Sequence[PoolRoom], able: Sequence[PoolRoom]) -> bool:
        """Always False. Explains, and drains a pool where the job has waited long enough ("a job
        kept back by a quota or limit drains nothing")."""
        if job.claim:
            self._drop_claim(job)
        large = [room for room in rooms if job.demand.within(room.size)]
        self._wake(job, rooms)
        entitled = self._entitled
        entry = entered(job, self.yields)
        may_drain = (r for r in large if r.timed and r in able and self._within_bounds(job, r))
        drain = pool_to_drain(job, entry, may_drain, entitled, self._now)
        if drain:
            self._reasons[job.name] = explain.reserved(job, drain)
            drain.drains_for = job.name
        elif large:
            books, turn_at = self.accounts, partial(self._slices.first_end, job)
            self._in_vain([job], explain.blocked(job, large, books, entitled, turn_at))
        else:
            self._in_vain([job], explain.too_small(job, rooms))
        return False

    def _gang_blocked(self, gang: Gang, jobs: Sequence[Job]) -> bool:
        """Always False, as `_blocked`: what any of its members lacks drains for all of it."""
        drained = False
        for job in jobs:
            if job.claim:
                self._drop_claim(job)
            rooms = self._rooms_of(job)
            self._wake(job, rooms)
            large = [r for r in rooms if job.demand.within(r.size) and self._within_bounds(job, r)]
            entry = entered(job, self.yields)
            drain = pool_to_drain(job, entry, large, self._entitled, self._now)
            if drain and not drain.drains_for:
                drain.drains_for = job.name
            self._reasons[job.name] = why = explain.gang_blocked(gang, drain)
            drained = drained or drain is not None
        if not drained:
            self._in_vain(jobs, why)
        return False

    def _in_vain(self, jobs: Sequence[Job], why: Reason) -> None:
        """Nothing is promised to them. Where attempts count, one has failed; but not while a claim
        is given up, nor for one that would join its gang."""
        lead, settings = jobs[0], self._snapshot.scheduler
        self._reasons[lead.name] = why
        joins = lead.group in self._gangs and self._gangs[lead.group].runs
        if settings and not joins and not any(job.claim for job in jobs):
            kept = [self._waiting[job.name] for job in jobs]
            self._decisions[lead.name] = tried_in_vain(kept, settings, why, self._now)

    def _drop_claim(self, job: Job) -> None:
        self._decisions[job.name] = DropClaim(job=self._waiting[job.name])
        self.over = True

    # What a gang's turn asks for, member by member (together.py).

    def mark(self) -> Any:
        self._taken_back = []
        rooms = {name: room.state() for name, room in self._rooms.items()}
        books = self._holders.mark(), self.accounts.mark(), self._parallel.state()
        return dict(self._decisions), dict(self._reasons), rooms, books, self.over

    def back_to(self, mark: Any) -> None:
        decisions, reasons, rooms, books, self.over = mark
        self._decisions, self._reasons = dict(decisions), dict(reasons)
        for name, state in rooms.items():
            self._rooms[name].back_to(state)
        holders, accounts, counts = books
        self._holders.back_to(holders)
        self.accounts.back_to(accounts)
        self._parallel.back_to(counts)
        self._taken_back = []

    def start_member(self, job: Job, rooms: Sequence[PoolRoom]) -> bool:
        return self._start(job, [r for r in rooms if self._within_bounds(job, r)])

    def hold_member(self, job: Job, rooms: Sequence[PoolRoom]) -> bool:
        within = [room for room in rooms if self._within_bounds(job, room)]
        return self._wait_for_coming(job, self._rooms_of(job), within)

    def reclaim_member(self, job: Job, rooms: Sequence[PoolRoom]) -> bool:
        within = [room for room in rooms if self._within_bounds(job, room)]
        return self.hold_member(job, rooms) or self._reclaim(job, within)

    def preempt_member(self, job: Job, rooms: Sequence[PoolRoom]) -> bool:
        return self.hold_member(job, rooms) or self._preempt(job, rooms)

    def room_now(self, job: Job, room: PoolRoom) -> Demand:
        left, free = self.room_soon(job, room), room.free
        return Demand({name: min(left[name], free[name]) for name in {*left, *free}})

    def room_soon(self, job: Job, room: PoolRoom) -> Demand:
        return room.left(job, self._entitled)

    def _wake(self, job: Job, rooms: Sequence[PoolRoom]) -> None:
        """The moments at which time alone may change something for the job."""
        rooms = [room for room in rooms if room.timed]
        if not rooms:
            return
        moments = [due_at(entered(job, self.yields), room) for room in rooms]
        moments += [room.pool.health.not_before for room in rooms]
        moments += [room.pool.health.learned_until for room in rooms]
        moments += [room.probed_until for room in rooms]
        moments += [explain.protection_ends(job, room) for room in rooms]
        moments += self._slices.ends(job, rooms)
        self._wake_at = min(
            (at for at in [*moments, self._wake_at] if at is not None and at > self._now),
            default=None,
        )
