"""The whole policy on one screen: plan(snapshot, now) -> Plan. Pure; DESIGN section 5.

    1 settle    back-offs whose time has come end, and starts that got no instances in time are
                given up; what waits then is seen in the next plan                -> retry.py
    2 order     rank, then entry time, then name                                  -> order.py
    3 walk      each job in that order, before the next one is looked at:
                  a  starts on free slots, in the first of its pools that has room -> fit.py
                  b  waits for slots that are coming free, and holds them          -> fit.py
                  c  evicts jobs of strictly lower rank, and claims their slots    -> preempt.py
                  d  after `reserve_after`, makes one of its pools drain           -> reserve.py
                a pool that backs off, or is being probed, takes part in none of it -> health.py
    4 net       what the walk gave to a job it holds against all behind it, so nothing that is
                admitted here could be evicted here again
    5 explain   whoever was looked at and waits gets a typed reason               -> explain.py

One look at each line is enough: when its first job is blocked, so are those behind it (lines.py).
One way down the order is enough, too: with one project the order does not change as jobs are
admitted, and an eviction frees nothing that a job ahead could not have evicted itself. Only a
claim that is given up frees something for those ahead: there the walk ends, and the next plan
begins anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slotq_core.model import Claim, Job, Snapshot
from slotq_core.policy import explain
from slotq_core.policy.fit import PoolRoom, rooms_of
from slotq_core.policy.lines import Line
from slotq_core.policy.order import position
from slotq_core.policy.plan import Decision, DropClaim, EndBackoff, Evict, GiveUp, Plan, Start
from slotq_core.policy.preempt import best_eviction, may_evict
from slotq_core.policy.reserve import due_at, pool_to_drain
from slotq_core.policy.retry import gives_up_at
from slotq_core.reasons import Reason


def plan(snapshot: Snapshot, now: int) -> Plan:
    """What to do now, and why the rest waits. The same snapshot always gives the same plan."""
    settled = tuple(_settle(snapshot, now))
    if settled:
        return Plan(decisions=settled, wake_at=now)
    ordered = sorted(snapshot.waiting, key=position)
    walk = _Walk(snapshot, ordered, now)
    blocked: set[Line] = set()
    for job in ordered:
        line = Line.of(job)
        if line in blocked and job.claim is None:
            continue
        if not walk.visit(job) and job.claim is None:
            blocked.add(line)
        if walk.over:
            break
    return walk.plan()


def _settle(snapshot: Snapshot, now: int) -> Iterator[EndBackoff | GiveUp]:
    for job in sorted(snapshot.due, key=position):
        if job.not_before is not None and job.not_before <= now:
            yield EndBackoff(job=job)
    pools = {pool.name: pool for pool in snapshot.pools}
    for job in sorted(snapshot.active, key=position):
        at = gives_up_at(job, pools)
        if at is not None and at <= now:
            yield GiveUp(job=job)


class _Walk:
    """Step 3. `visit` is called once for each job, in order."""

    def __init__(self, snapshot: Snapshot, ordered: Sequence[Job], now: int) -> None:
        self._now = now
        self._rooms = rooms_of(snapshot, ordered, now)
        self._decisions: list[Decision] = []
        self._reasons: dict[str, Reason] = {}
        self.over = False
        """A claim was given up: what was passed so far may fit now."""
        pools = {pool.name: pool for pool in snapshot.pools}
        timers = [job.not_before for job in snapshot.due]
        timers += [gives_up_at(job, pools) for job in snapshot.active]
        self._wake_at = min((at for at in timers if at is not None), default=None)

    def plan(self) -> Plan:
        return Plan(decisions=tuple(self._decisions), reasons=self._reasons, wake_at=self._wake_at)

    def visit(self, job: Job) -> bool:
        """Take the job's turn. False: it is blocked, and so is all of its line behind it."""
        rooms = [self._rooms[name] for name in job.pools if name in self._rooms]
        able = [room for room in rooms if not room.unwell and not room.closed_to(job)]
        for room in rooms:
            room.claims.pop(job.name, None)
        return (
            self._start(job, able)
            or self._wait_for_coming(job, rooms, able)
            or self._evict(job, able)
            or self._blocked(job, rooms, able)
        )

    def _start(self, job: Job, rooms: list[PoolRoom]) -> bool:
        for room in rooms:
            if room.fits_now(job, may_evict):
                room.give(job)
                self._decisions.append(Start(job=job, pool=room.pool.name))
                self.over = job.claim is not None and job.claim.pool != room.pool.name
                return True
        return False

    def _wait_for_coming(self, job: Job, rooms: list[PoolRoom], able: list[PoolRoom]) -> bool:
        """The pool of its claim first, then its own order: a claim is not given up for less, nor
        because the pool is unwell for a while."""
        claimed = [room for room in rooms if job.claim and room.pool.name == job.claim.pool]
        for room in (*claimed, *able):
            if room.fits_soon(job, may_evict):
                if job.claim and room not in claimed:
                    self._drop_claim(job)
                self._reasons[job.name] = explain.coming(job, room)
                room.hold(job)
                self._wake(job, claimed)
                return True
        return False

    def _evict(self, job: Job, rooms: list[PoolRoom]) -> bool:
        found = best_eviction(job, rooms, self._now)
        if found is None:
            return False
        found.room.evict(found.victims)
        claim = Claim(pool=found.room.pool.name, amount=job.demand, since=self._now)
        self._decisions.append(Evict(beneficiary=job, victims=found.victims, claim=claim))
        self._reasons[job.name] = explain.coming(job, found.room)
        found.room.hold(job)
        return True

    def _blocked(self, job: Job, rooms: list[PoolRoom], able: list[PoolRoom]) -> bool:
        """Always False. Explains, and drains a pool where the job has waited long enough."""
        if job.claim:
            self._drop_claim(job)
        large = [room for room in rooms if job.demand.within(room.size)]
        self._wake(job, rooms)
        if not large:
            self._reasons[job.name] = explain.too_small(job, rooms)
            return False
        drain = pool_to_drain(job, (room for room in large if room in able), self._now)
        if drain:
            self._reasons[job.name] = explain.reserved(job, drain)
            drain.drains_for = job.name
        else:
            self._reasons[job.name] = explain.blocked(job, large, self._now)
        return False

    def _drop_claim(self, job: Job) -> None:
        self._decisions.append(DropClaim(job=job))
        self.over = True

    def _wake(self, job: Job, rooms: list[PoolRoom]) -> None:
        """The moments at which time alone may change something for the job."""
        moments = [due_at(job, room) for room in rooms]
        moments += [room.pool.health.not_before for room in rooms]
        moments += [room.pool.health.learned_until for room in rooms]
        moments += explain.protections_end(job, rooms, self._now)
        self._wake_at = min(
            (at for at in [*moments, self._wake_at] if at is not None and at > self._now),
            default=None,
        )
