"""The capacity of each pool during one plan: what is free, coming free, and held (DESIGN 5.1).

"free = capacity − foreign − everything starting, running or stopping. Capacity is freed by a
terminal status, never by `stopping`." "Slots already coming free are counted, in the policy's
order." "Everyone counts claims as held."

`PoolRoom` is the working state of one pool. It takes out what earlier jobs get, so that each job
sees what is left.
"""

from __future__ import annotations

from collections.abc import Iterable, KeysView, Sequence

from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.pools import Pool, PoolState
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.lifecycle.missing_rights import RightsThere
from slotq_core.policy.lifecycle.pool_health import backs_off, probe, probes_until
from slotq_core.policy.order import Rank, position
from slotq_core.policy.state.candidates import Candidate
from slotq_core.policy.state.claims import Claims, Entitled, kept
from slotq_core.policy.state.running_jobs import Protection, RunningJobs

NOTHING = Demand()

_State = tuple[Demand, Demand, list[Job], set[str], dict[str, Job], str, str, dict[str, str]]


class PoolRoom:
    """One pool during one plan. Amounts exclude what earlier jobs have been given."""

    __slots__ = (
        "_holders",
        "awaiting",
        "both",
        "claims",
        "coming",
        "drains_for",
        "drains_gang",
        "free",
        "free_now",
        "holder",
        "placed",
        "pool",
        "probe",
        "probed_until",
        "rests",
        "rights",
        "size",
        "timed",
    )

    def __init__(
        self,
        pool: Pool,
        *,
        active: Sequence[Job],
        claimants: Iterable[Job],
        holders: RunningJobs,
        now: int,
    ) -> None:
        """`active` and `claimants`: of this pool. `holders`: of all pools. `now`: in ms."""
        used = Demand.total(job.demand for job in active)
        stopping = (job.demand for job in active if job.state is JobState.STOPPING)
        self._holders = holders
        self.pool = pool
        self.placed: set[str] = set()
        """The jobs given slots in this plan. Taking these slots back evicts nobody."""
        self.size = pool.size(now)
        self.free = self.size - used
        """Capacity not given to an earlier job; negative where the pool shrank below its use."""
        self.coming = Demand.total(stopping)
        self.both = self.free + self.coming
        """Free plus coming capacity, kept because most jobs are turned away by this amount."""
        self.free_now = self.free
        """The free capacity before the plan gave any, for reasons."""
        self.claims = Claims(pool.name, claimants)
        """The claimants of this pool without a turn so far."""
        self.awaiting: list[Job] = []
        """The jobs that wait here for slots, free or coming."""
        for job in self.claims.values():
            self._keep_from_all(kept(job))
        self.holder = ""
        """The first job for which free slots are held."""
        self.drains_for = self.drains_gang = ""
        """The job that this pool drains for, and its gang. No later job is admitted here."""
        self.rests = backs_off(pool, now)
        """Whether the pool backs off after a capacity error: no start here, and no eviction."""
        self.probe, self.probed_until = _probing(pool, active, now)
        """The one job that tests whether capacity is back, and until when (ms); no other job
        starts."""
        self.rights = RightsThere(pool, active, now)
        delays = (pool.reserve_after, pool.time_slice)
        moments = (self.probed_until, pool.health.not_before, *delays)
        self.timed = bool(self.protections or pool.health.learned_until or self.rights) or any(
            at is not None for at in moments
        )
        """Whether the mere passing of time may change anything here."""

    def running(self, project: str) -> Iterable[Job]:
        """The project's starting and running jobs, and those given slots in this plan."""
        return self._holders.running(self.pool.name, project)

    def everyone(self) -> Iterable[Job]:
        """The jobs of all projects."""
        return self._holders.everyone(self.pool.name)

    def held_below(self, rank: Rank, project: str) -> Demand:
        """What the project's jobs of a lower rank hold here, evictable or not."""
        return self._holders.held_below(rank, self.pool.name, project)

    def candidates(self, project: str) -> Sequence[Candidate]:
        """The project's candidates here, in the order of eviction."""
        return self._holders.candidates(self.pool.name, project)

    def lowest(self, project: str) -> Rank | None:
        """The lowest rank of the project's candidates here; None if there are none."""
        return self._holders.lowest(self.pool.name, project)

    def may_give(self) -> KeysView[str]:
        """The projects that have candidates here."""
        return self._holders.may_give(self.pool.name)

    def protected_after_start(self) -> set[str]:
        """The candidates of all pools that a `min_runtime` will protect after this plan."""
        return self._holders.protected_after_start()

    @property
    def protections(self) -> Sequence[Protection]:
        """The jobs inside a `min_runtime`, with the end of each (ms), the first to end first."""
        return self._holders.protections(self.pool.name)

    def left(self, job: Job, entitled: Entitled) -> Demand:
        """Free and coming capacity, less what is owed to other jobs.

        A claim counts for every job except one that may take the claim over. A job with a claim in
        this pool sees no other claim: "claims are served in the policy's order", so the rest come
        later.
        """
        if not self.claims or (job.claim and job.claim.pool == self.pool.name):
            return self.both
        return self.both - self.claims.owed_to_others(job, entitled)

    def fits_now(self, job: Job, entitled: Entitled) -> bool:
        return job.demand.within(self.free) and job.demand.within(self.left(job, entitled))

    def fits_soon(self, job: Job, entitled: Entitled) -> bool:
        """Whether the job fits into free and coming slots without another eviction."""
        return job.demand.within(self.both) and job.demand.within(self.left(job, entitled))

    def missing(self, job: Job, entitled: Entitled) -> Demand:
        """What others would have to give for the job to fit."""
        left = self.left(job, entitled)
        return Demand({name: max(0, amount - left[name]) for name, amount in job.demand.items()})

    def closed_to(self, job: Job) -> bool:
        """Whether the pool drains for an earlier job. A job with a claim here is served all the
        same."""
        if self.drains_for in {"", job.name} or (job.group and job.group == self.drains_gang):
            return False
        return job.name not in self.claims

    @property
    def unavailable(self) -> bool:
        return self.rests or bool(self.probe) or self.pool.state is not PoolState.ACTIVE

    def admits(self, job: Job) -> bool:
        """Whether such a job may start here at all, whatever room there is."""
        return not (self.unavailable or self.closed_to(job) or self.rights.keeps_out(job))

    def may_evict_for(self, job: Job) -> bool:
        """Whether the job has the rights to start here. Without them nothing is evicted for it."""
        return self.rights.missing(job) is None

    def was_given(self, job: Job) -> bool:
        """Whether this plan gave the job its slots here."""
        return job.name in self.placed

    def give(self, job: Job) -> None:
        """Give the job its slots, which later jobs then lack."""
        self.free = self.free - job.demand
        self.both = self.both - job.demand
        self.placed.add(job.name)
        self._holders.add(job, self.pool.name)
        if self.pool.health.errors:
            self.probe = job.name
        self.rights.give(job)

    def hold(self, job: Job) -> None:
        """Hold the job's demand against later jobs: free capacity first, then coming slots."""
        taken = Demand(
            {name: max(0, min(amount, self.free[name])) for name, amount in job.demand.items()}
        )
        if taken and not self.holder:
            self.holder = job.name
        self.awaiting.append(job)
        self.free = self.free - taken
        self.coming = self.coming - (job.demand - taken)
        self.both = self.both - job.demand

    def take_claim(self, job: Job) -> None:
        """Free the capacity that the job's claim keeps, so that the job's own turn can use it."""
        if self.claims.remove(job):
            self._keep_from_all(NOTHING - kept(job))

    def take_in(self, job: Job) -> None:
        """Enter the claim of a job that moves here. It holds the room from now on."""
        self.claims.add(job)
        self._keep_from_all(kept(job))

    def room_for_moves(self) -> Demand:
        """The capacity for moves: free now, and at most what free and coming slots leave after all
        claims."""
        both = self.both - self.claims.owed()
        return Demand({name: min(self.free[name], both[name]) for name in {*self.free, *both}})

    def evict(self, victim: Job) -> None:
        """Evict the victim. Its slots come free later, or at once if only this plan gave them."""
        self._holders.remove(victim, self.pool.name)
        if self.was_given(victim):
            self.placed.remove(victim.name)
            self.free = self.free + victim.demand
        else:
            self.coming = self.coming + victim.demand
        self.both = self.both + victim.demand

    def state(self) -> _State:
        """A checkpoint for `back_to`, without the running jobs (running_jobs.py has its own)."""
        return (
            self.free,
            self.coming,
            list(self.awaiting),
            set(self.placed),
            self.claims.state(),
            self.holder,
            self.probe,
            self.rights.state(),
        )

    def back_to(self, state: _State) -> None:
        self.free, self.coming, awaiting, placed, claims, self.holder, self.probe, tries = state
        self.awaiting, self.placed = list(awaiting), set(placed)
        self.claims.back_to(claims)
        self.rights.back_to(tries)
        self.both = self.free + self.coming

    def _keep_from_all(self, amount: Demand) -> None:
        self.free = self.free - amount
        self.both = self.both - amount


def _probing(pool: Pool, active: Sequence[Job], now: int) -> tuple[str, int | None]:
    job = probe(pool, active, now)
    return (job.name, probes_until(job)) if job else ("", None)


def rooms_of(snapshot: Snapshot, holders: RunningJobs, now: int) -> dict[str, PoolRoom]:
    """A new working state for every pool."""
    active: dict[str, list[Job]] = {pool.name: [] for pool in snapshot.pools}
    claimants: dict[str, list[Job]] = {pool.name: [] for pool in snapshot.pools}
    for job in snapshot.active:
        if job.attempt and job.attempt.pool in active:
            active[job.attempt.pool].append(job)
    owed = [job for job in (*snapshot.active, *snapshot.waiting) if job.claim]
    for job in sorted(owed, key=position):
        if job.claim and job.claim.pool in claimants:
            claimants[job.claim.pool].append(job)
    return {
        pool.name: PoolRoom(
            pool,
            active=active[pool.name],
            claimants=claimants[pool.name],
            holders=holders,
            now=now,
        )
        for pool in snapshot.pools
    }
