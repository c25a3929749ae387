"""The whole policy on one screen: plan(snapshot, now) -> Plan. Pure; DESIGN section 5.

    1 settle    back-offs whose time has come end; starts that got no instances in time are given
                up; classes end; the rest is for the next plan          -> retry.py, demote.py
    2 order     between projects the most deprived first, asked anew after each decision; within
                one rank, then entry time, then name              -> turns.py, order.py, shares.py
    3 walk      each job in that order, before the next one is looked at:
                  a  starts on free slots, in the first of its pools that has room -> fit.py
                  b  waits for slots that are coming free, and holds them          -> fit.py
                  c  reclaims from projects above their share, and claims          -> reclaim.py
                  d  preempts strictly lower rank in its project, and claims       -> preempt.py
                  e  after `reserve_after`, makes one of its pools drain           -> reserve.py
                within its project's quota and limit                               -> accounts.py
                a pool that backs off, is being probed, paused or drained takes part in none of it
    4 net       what was given in this plan and is taken back in it was never given
    5 explain   whoever was looked at and waits gets a typed reason               -> explain.py

One look at each line is enough: when its first job is blocked, so are those behind it (lines.py).
One way down the order is enough, too: a decision gives those ahead nothing that they could not have
had. Only a claim that is given up does: there the walk ends, and the next plan begins anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slotq_core.model import Claim, Job, Snapshot
from slotq_core.policy import explain
from slotq_core.policy.accounts import Accounts
from slotq_core.policy.demote import demoted, demotes_at
from slotq_core.policy.fit import PoolRoom, rooms_of
from slotq_core.policy.order import position
from slotq_core.policy.plan import (
    Decision,
    Demote,
    DropClaim,
    EndBackoff,
    Evict,
    GiveUp,
    Plan,
    Start,
)
from slotq_core.policy.preempt import Preemption, outranks
from slotq_core.policy.reclaim import may_take, reclaim
from slotq_core.policy.reserve import due_at, pool_to_drain
from slotq_core.policy.retry import gives_up_at
from slotq_core.policy.turns import Turns
from slotq_core.policy.victims import Eviction
from slotq_core.reasons import Reason


def plan(snapshot: Snapshot, now: int) -> Plan:
    """What to do now, and why the rest waits. The same snapshot always gives the same plan."""
    settled = tuple(_settle(snapshot, now))
    if settled:
        return Plan(decisions=settled, wake_at=now)
    walk = _Walk(snapshot, now)
    turns = Turns(snapshot.waiting, walk.accounts)
    while not walk.over and (job := turns.next()):
        if not walk.visit(job):
            turns.block(job)
    return walk.plan()


def _settle(snapshot: Snapshot, now: int) -> Iterator[Decision]:
    for job in sorted(snapshot.due, key=position):
        if job.not_before is not None and job.not_before <= now:
            yield EndBackoff(job=job)
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
        self._rooms = rooms_of(snapshot, sorted(snapshot.waiting, key=position), now)
        self.accounts = Accounts(snapshot)
        self._preemption = Preemption(
            everywhere=self._rooms, accounts=self.accounts, entitled=self._entitled, now=now
        )
        self._decisions: dict[str, Decision] = {}
        """By the job that each is for, in the order in which they were taken."""
        self._reasons: dict[str, Reason] = {}
        self.over = False
        """A claim was given up: what was passed so far may fit now."""
        pools = {pool.name: pool for pool in snapshot.pools}
        timers = [job.not_before for job in snapshot.due]
        timers += [gives_up_at(job, pools) for job in snapshot.active]
        classes = {each.name: each for each in snapshot.classes}
        timers += [demotes_at(job, classes) for job in snapshot.active]
        self._wake_at = min((at for at in timers if at is not None), default=None)

    def plan(self) -> Plan:
        return Plan(
            decisions=tuple(self._decisions.values()),
            reasons=self._reasons,
            wake_at=self._wake_at,
        )

    def visit(self, job: Job) -> bool:
        """Take the job's turn. False: it is blocked, and so is all of its line behind it."""
        rooms = [self._rooms[name] for name in job.pools if name in self._rooms]
        able = [room for room in rooms if not room.unwell and not room.closed_to(job)]
        for room in rooms:
            room.claims.pop(job.name, None)
        if job.claim:
            self.accounts.give_back(job, job.claim.pool)
        within = [room for room in able if self._within_bounds(job, room)]
        return (
            self._start(job, within)
            or self._wait_for_coming(job, rooms, within)
            or self._reclaim(job, within)
            or self._preempt(job, able)
            or self._blocked(job, rooms, within)
        )

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
                room.give(job)
                self.accounts.take(job, room.pool.name)
                self._decisions[job.name] = Start(job=job, pool=room.pool.name)
                self.over = job.claim is not None and job.claim.pool != room.pool.name
                return True
        return False

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

    def _hold(self, job: Job, room: PoolRoom) -> None:
        """Everyone behind counts its slots as held."""
        self._reasons[job.name] = explain.coming(job, room)
        room.hold(job)
        self.accounts.take(job, room.pool.name)

    def _reclaim(self, job: Job, rooms: Sequence[PoolRoom]) -> bool:
        return self._evict(job, reclaim(job, rooms, self.accounts, self._entitled, self._now))

    def _preempt(self, job: Job, rooms: Sequence[PoolRoom]) -> bool:
        rooms = [room for room in rooms if self.accounts.quotas_allow(job, room.pool.name)]
        return self._evict(job, self._preemption.find(job, rooms))

    def _evict(self, job: Job, found: Eviction | None) -> bool:
        if found is None:
            return False
        victims = [victim for victim in found.victims if self._take_back(victim)]
        if not victims:
            return self._start(job, [found.room])
        claim = Claim(pool=found.room.pool.name, amount=job.demand, since=self._now)
        self._decisions[job.name] = Evict(beneficiary=job, victims=tuple(victims), claim=claim)
        self._hold(job, found.room)
        return True

    def _take_back(self, victim: Job) -> bool:
        """Whether it really runs: one that was only given its slots in this plan never had them."""
        given = self._decisions.pop(victim.name, None)
        pool = given.pool if isinstance(given, Start) else victim.attempt and victim.attempt.pool
        assert pool
        self._rooms[pool].evict(victim)
        if isinstance(given, Start):
            self.accounts.give_back(victim, pool)
            self._reasons[victim.name] = explain.taken_back(victim, self._rooms[pool])
            return False
        self.accounts.evict(victim, pool)
        return True

    def _blocked(self, job: Job, rooms: Sequence[PoolRoom], within: Sequence[PoolRoom]) -> bool:
        """Always False. Explains, and drains a pool where the job has waited long enough ("a job
        kept back by a quota or limit drains nothing")."""
        if job.claim:
            self._drop_claim(job)
        large = [room for room in rooms if job.demand.within(room.size)]
        self._wake(job, rooms)
        if not large:
            self._reasons[job.name] = explain.too_small(job, rooms)
            return False
        entitled = self._entitled
        drain = pool_to_drain(job, (r for r in large if r in within), entitled, self._now)
        if drain:
            self._reasons[job.name] = explain.reserved(job, drain)
            drain.drains_for = job.name
        else:
            books = self.accounts
            self._reasons[job.name] = explain.blocked(job, large, books, entitled)
        return False

    def _drop_claim(self, job: Job) -> None:
        self._decisions[job.name] = DropClaim(job=job)
        self.over = True

    def _wake(self, job: Job, rooms: Sequence[PoolRoom]) -> None:
        """The moments at which time alone may change something for the job."""
        moments = [due_at(job, room) for room in rooms]
        moments += [room.pool.health.not_before for room in rooms]
        moments += [room.pool.health.learned_until for room in rooms]
        moments += [room.probed_until for room in rooms]
        moments += explain.protections_end(job, rooms)
        self._wake_at = min(
            (at for at in [*moments, self._wake_at] if at is not None and at > self._now),
            default=None,
        )
