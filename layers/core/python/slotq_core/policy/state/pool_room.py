"""The capacity of each pool during one plan: free, coming free, and held.

free = capacity − foreign − everything starting, running or stopping. Capacity is freed by a
terminal status, never by `stopping`. Slots already coming free are counted, in the policy's
order. Everyone counts claims as held.

See docs/policy-decisions.md#claims-and-coming-slots.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slotq_core.model.demand import NOTHING, Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.pools import Pool, PoolState, WarmSlot
from slotq_core.model.reasons.outlook import TimeCause
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.lifecycle.missing_rights import RightsThere
from slotq_core.policy.lifecycle.pool_health import backs_off, probe, probes_until
from slotq_core.policy.order import Position, position
from slotq_core.policy.state.claims import Claims, Entitlement, kept
from slotq_core.policy.state.journal import Journal
from slotq_core.policy.state.pool_jobs import PoolJobs
from slotq_core.policy.state.running_jobs import RunningJobs

if TYPE_CHECKING:  # Most queues have neither, and no cold start should pay for them.
    from slotq_core.policy.lifecycle.hours.closing import Closing
    from slotq_core.policy.state.warm_room import WarmRoom


@dataclass(frozen=True, kw_only=True, slots=True)
class Drain:
    """The job that a pool drains for, and its gang. No later job is admitted there."""

    job: str
    project: str
    place: Position
    """The place of the job, or of its gang, in the order of its project."""
    gang: str = ""
    beyond_share: bool = False
    """Whether the job would bring its project beyond its fair share. The drain then holds back no
    job of another project that stays within its own fair share."""

    @property
    def held_back(self) -> str:
        """The project that alone is held back whatever its share; empty: every project is."""
        return self.project if self.beyond_share else ""


def _held(active: Sequence[Job], warm: WarmRoom | None) -> tuple[Demand, Demand]:
    """What is not free, and the part of it that comes free."""
    used = Demand.total([job.demand for job in active])
    coming = Demand.total([job.demand for job in active if job.state is JobState.STOPPING])
    return (used, coming) if warm is None else (used + warm.held, coming + warm.coming)


class PoolRoom:
    """One pool during one plan. Amounts exclude the slots given to earlier jobs."""

    def __init__(
        self,
        pool: Pool,
        *,
        active: Sequence[Job],
        claimants: Iterable[Job],
        running: RunningJobs,
        entitled: Entitlement,
        now: int,
        journal: Journal,
        warm: WarmRoom | None = None,
    ) -> None:
        """`active`, `claimants` and `warm`: of this pool. `running`: of all pools. `now`: in ms."""
        used, self.coming = _held(active, warm)
        self.warm = warm
        self._running, self._journal = running, journal
        self.pool, self.size = pool, pool.size(now)
        self.jobs: PoolJobs = running.pools[pool.name]
        self.free = self.size - used
        """Capacity not given; negative if the pool shrank below its use."""
        self.both = self.free + self.coming
        """Free plus coming capacity; most jobs are turned away by this amount."""
        self.free_now = self.free
        """The free capacity before the plan gave any, for reasons."""
        self.claims = Claims(pool.name, claimants, entitled, journal)
        self.awaiting: list[Job] = []
        """The jobs that wait here for slots, free or coming."""
        for job in self.claims.values():
            self._change(free=NOTHING - kept(job))
        self.holder = ""
        """The first job for which free slots are held."""
        self.drain: Drain | None = None
        self.rests = backs_off(pool, now)
        """Whether the pool backs off after a capacity error: no start here, and no eviction."""
        prober = probe(pool, active, now)
        self.probe = prober.name if prober else ""
        self.probed_until = probes_until(prober) if prober else None
        """The one job that may start, to test whether capacity is back, and until when (ms)."""
        self.rights = RightsThere(pool, active, now)
        self.closing = _closing(pool, active, now)
        """What the pool's hours and reservations keep out; None: it has neither."""
        times = {
            TimeCause.POOL_BACKOFF: pool.health.not_before,
            TimeCause.LEARNED_LIMIT: pool.health.learned_until,
            TimeCause.PROBE: self.probed_until,
        }
        self.times = [(cause, at) for cause, at in times.items() if at is not None]
        """Times (ms) that matter to every job that waits for the pool."""
        delays = pool.reserve_after is not None or pool.time_slice is not None
        self.timed = bool(delays or self.times or self.jobs.protections or self.rights)
        """Whether time alone may change anything here."""

    def left(self, job: Job) -> Demand:
        """Free and coming capacity, less what is owed to others whose claims the job may not take
        over. "Claims are served in the policy's order": a claimant sees no other claim here."""
        if not self.claims or (job.claim and job.claim.pool == self.pool.name):
            return self.both
        return self.both - self.claims.owed_to_others(job)

    def fits_now(self, job: Job) -> bool:
        return job.demand.within(self.free) and job.demand.within(self.left(job))

    def fits_soon(self, job: Job) -> bool:
        """Whether the job fits into free and coming slots without another eviction."""
        return job.demand.within(self.both) and job.demand.within(self.left(job))

    def missing(self, job: Job) -> Demand:
        """The shortfall of the job: the amounts that others would have to give."""
        left = self.left(job)
        return Demand({name: max(0, amount - left[name]) for name, amount in job.demand.items()})

    @property
    def unavailable(self) -> bool:
        if self.closing is not None and self.closing.is_shut:
            return True
        return self.rests or bool(self.probe) or self.pool.state is not PoolState.ACTIVE

    def waits_for_release(self, job: Job) -> bool:
        """Whether warm instances are being released for the job. Until they are gone, it takes no
        others, which would have to be released, too."""
        return self.warm is not None and job.name in self.warm.released_for

    def give(self, job: Job) -> None:
        """Give the job its slots, which later jobs then lack."""
        if self.warm is not None:
            self.warm.give(job)
        self._change(free=NOTHING - job.demand)
        self._running.add(job, self.pool.name)
        self.expect_start(job)
        self.rights.give(job)
        self._journal.record(self.rights.take_back, job)
        if self.closing is not None:
            self.closing.give(job)
            self._journal.record(self.closing.take_back, job)

    def expect_start(self, job: Job) -> None:
        """The job starts in this plan, or by a claim in the next one at this moment. After a
        capacity error it is the probe, and nothing else starts or evicts here."""
        if self.pool.health.errors:
            self._journal.set(self, "probe", job.name)

    def hold(self, job: Job) -> None:
        """Hold the job's demand against later jobs: free capacity first, then coming slots."""
        # It waits for what is being released for it in any case.
        owed = self.warm.released_for.get(job.name, NOTHING) if self.warm else NOTHING
        taken = Demand(
            {
                name: max(0, min(amount - owed[name], self.free[name]))
                for name, amount in job.demand.items()
            }
        )
        if taken and not self.holder:
            self._journal.set(self, "holder", job.name)
        self._journal.append(self.awaiting, job)
        self._change(free=NOTHING - taken, coming=taken - job.demand)

    def take_claim(self, job: Job) -> None:
        """Free the slots of the job's claim."""
        if self.claims.remove(job):
            self._change(free=kept(job))

    def take_in(self, job: Job) -> None:
        """Enter the claim of a job that moves here. It holds the room from now on."""
        self.claims.add(job)
        self._change(free=NOTHING - kept(job))

    def room_for_moves(self) -> Demand:
        """The capacity for moves: free now, at most what all claims leave."""
        both = self.both - self.claims.owed()
        return Demand({name: min(self.free[name], both[name]) for name in {*self.free, *both}})

    def evict(self, victim: Job) -> None:
        """Evict the victim. Its slots come free later, or at once if only this plan gave them."""
        was_placed = victim.name in self.jobs.placed
        self._running.remove(victim, self.pool.name)
        if was_placed:
            if self.warm is not None:
                self.warm.give(victim, -1)
            self._change(free=victim.demand)
            if self.closing is not None:
                self.closing.take_back(victim)
                self._journal.record(self.closing.give, victim)
        else:
            self._change(coming=victim.demand)

    def keep_for_node(self, demand: Demand) -> None:
        """Note that a node without jobs gets one: its instance comes free no more."""
        self._change(coming=NOTHING - demand)

    def protect(self, job: Job) -> None:
        """Evict the job no more in this plan."""
        if self.jobs.has(job):
            self._running.remove(job, self.pool.name)

    def _change(self, *, free: Demand = NOTHING, coming: Demand = NOTHING) -> None:
        """Add to the amounts."""
        self._journal.record(PoolRoom._restore, self, self.free, self.coming, self.both)
        self.free, self.coming = self.free + free, self.coming + coming
        self.both = self.both + free + coming

    def _restore(self, free: Demand, coming: Demand, both: Demand) -> None:
        self.free, self.coming, self.both = free, coming, both


def _closing(pool: Pool, active: Sequence[Job], now: int) -> Closing | None:
    if not (pool.schedule or pool.reservations):
        return None
    from slotq_core.policy.lifecycle.hours.closing import Closing

    return Closing(pool, active, now)


def rooms_of(
    snapshot: Snapshot, running: RunningJobs, entitled: Entitlement, now: int, journal: Journal
) -> dict[str, PoolRoom]:
    """A new working state for every pool."""
    active: dict[str, list[Job]] = {pool.name: [] for pool in snapshot.pools}
    claimants: dict[str, list[Job]] = {pool.name: [] for pool in snapshot.pools}
    warm = _warm_rooms(snapshot, now, journal) if snapshot.warm else {}
    for job in snapshot.active:
        if job.attempt and job.attempt.pool in active:
            active[job.attempt.pool].append(job)
    jobs = (*snapshot.active, *snapshot.waiting)
    owed = [job for job in jobs if job.claim and not job.claim.node]
    for job in sorted(owed, key=position):
        if job.claim and job.claim.pool in claimants:
            claimants[job.claim.pool].append(job)
    return {
        pool.name: PoolRoom(
            pool,
            active=active[pool.name],
            claimants=claimants[pool.name],
            running=running,
            entitled=entitled,
            now=now,
            journal=journal,
            warm=warm.get(pool.name),
        )
        for pool in snapshot.pools
    }


def _warm_rooms(snapshot: Snapshot, now: int, journal: Journal) -> dict[str, WarmRoom]:
    # Most queues have no warm instances, and no cold start should pay for them.
    from slotq_core.policy.state.warm_room import WarmRoom

    slots: dict[str, list[WarmSlot]] = {}
    for slot in snapshot.warm:
        slots.setdefault(slot.pool, []).append(slot)
    return {
        pool.name: WarmRoom(pool, slots[pool.name], now, journal)
        for pool in snapshot.pools
        if pool.name in slots
    }
