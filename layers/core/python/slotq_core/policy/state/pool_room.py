"""What is free, what is coming free, and for whom it is held (DESIGN 5.1).

"free = capacity − foreign − everything starting, running or stopping. Capacity is freed by a
terminal status, never by `stopping`." "Slots already coming free are counted, in the policy's
order." "Everyone counts claims as held."

`PoolRoom` is the working sheet of one plan for one pool: as the walk goes down the order it takes
out what those ahead were given, so that whoever comes next sees what is left for it.
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
    """One pool during one plan. Amounts of the jobs already walked are gone from it."""

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
        """`active` and `claimants`: of this pool. `holders`: of all pools."""
        used = Demand.total(job.demand for job in active)
        stopping = (job.demand for job in active if job.state is JobState.STOPPING)
        self._holders = holders
        self.pool = pool
        self.placed: set[str] = set()
        """Those given slots in this plan: to take these back evicts nobody."""
        self.size = pool.size(now)
        self.free = self.size - used
        """What nobody ahead has been given; negative where the pool shrank below its use."""
        self.coming = Demand.total(stopping)
        self.both = self.free + self.coming
        """Kept, because most who ask are told at once that it is too little."""
        self.free_now = self.free
        """What is free before anybody is given anything: for reasons."""
        self.claims = Claims(pool.name, claimants)
        """Claimants of this pool that the walk has not reached."""
        self.awaiting: list[Job] = []
        """Those walked already that wait for slots here, free or coming."""
        for job in self.claims.values():
            self._keep_from_all(kept(job))
        self.holder = ""
        """The first job that free slots are held for."""
        self.drains_for = self.drains_gang = ""
        """The job that this pool drains for, and its gang: nothing behind it is admitted here."""
        self.rests = backs_off(pool, now)
        """Backs off after a capacity error: nothing starts here, and nothing is evicted."""
        self.probe, self.probed_until = _probing(pool, active, now)
        """The one job that tries whether capacity is back; nothing else starts meanwhile."""
        self.rights = RightsThere(pool, active, now)
        delays = (pool.reserve_after, pool.time_slice)
        moments = (self.probed_until, pool.health.not_before, *delays)
        self.timed = bool(self.protections or pool.health.learned_until or self.rights) or any(
            at is not None for at in moments
        )
        """Whether time alone may change anything here."""

    def running(self, project: str) -> Iterable[Job]:
        """The project's starting and running jobs, and those given slots in this plan."""
        return self._holders.running(self.pool.name, project)

    def everyone(self) -> Iterable[Job]:
        """Of all projects."""
        return self._holders.everyone(self.pool.name)

    def held_below(self, rank: Rank, project: str) -> Demand:
        """What the project's jobs of a lower rank hold here, evictable or not."""
        return self._holders.held_below(rank, self.pool.name, project)

    def candidates(self, project: str) -> Sequence[Candidate]:
        """What of the project may be stopped here, in the order in which it is taken."""
        return self._holders.candidates(self.pool.name, project)

    def lowest(self, project: str) -> Rank | None:
        """The lowest rank of these; None: there are none."""
        return self._holders.lowest(self.pool.name, project)

    def may_give(self) -> KeysView[str]:
        """The projects that have candidates here."""
        return self._holders.may_give(self.pool.name)

    def protected_after_start(self) -> set[str]:
        """Of all pools, the candidates that are none any more once this plan is carried out."""
        return self._holders.protected_after_start()

    @property
    def protections(self) -> Sequence[Protection]:
        """Those inside a `min_runtime`, and until when, the first to end first."""
        return self._holders.protections(self.pool.name)

    def left(self, job: Job, entitled: Entitled) -> Demand:
        """Free and coming together, less what is owed to others.

        A claim counts for everyone but a job entitled to evict its holder, and claimants ahead of
        it ("claims are served in the policy's order").
        """
        if not self.claims or (job.claim and job.claim.pool == self.pool.name):
            return self.both
        return self.both - self.claims.owed_to_others(job, entitled)

    def fits_now(self, job: Job, entitled: Entitled) -> bool:
        return job.demand.within(self.free) and job.demand.within(self.left(job, entitled))

    def fits_soon(self, job: Job, entitled: Entitled) -> bool:
        """Whether the job fits with what is coming free, without any further eviction."""
        return job.demand.within(self.both) and job.demand.within(self.left(job, entitled))

    def missing(self, job: Job, entitled: Entitled) -> Demand:
        """What others would have to give for the job to fit."""
        left = self.left(job, entitled)
        return Demand({name: max(0, amount - left[name]) for name, amount in job.demand.items()})

    def closed_to(self, job: Job) -> bool:
        """Drains for a job ahead of this one; an earlier claim is served all the same."""
        if self.drains_for in {"", job.name} or (job.group and job.group == self.drains_gang):
            return False
        return job.name not in self.claims

    @property
    def unavailable(self) -> bool:
        return self.rests or bool(self.probe) or self.pool.state is not PoolState.ACTIVE

    def admits(self, job: Job) -> bool:
        """Whether anything of that kind may start here, whatever room there is."""
        return not (self.unavailable or self.closed_to(job) or self.rights.keeps_out(job))

    def may_evict_for(self, job: Job) -> bool:
        """Nothing is stopped for a job that might not start even then."""
        return self.rights.missing(job) is None

    def was_given(self, job: Job) -> bool:
        """Whether the job has its slots here only since this plan."""
        return job.name in self.placed

    def give(self, job: Job) -> None:
        """A job starts: its slots are used up for those behind."""
        self.free = self.free - job.demand
        self.both = self.both - job.demand
        self.placed.add(job.name)
        self._holders.add(job, self.pool.name)
        if self.pool.health.errors:
            self.probe = job.name
        self.rights.give(job)

    def hold(self, job: Job) -> None:
        """Keep what the job needs from those behind: the free part first, the rest as it comes."""
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
        """It is its turn: what it is owed here is its own to use."""
        if self.claims.remove(job):
            self._keep_from_all(NOTHING - kept(job))

    def take_in(self, job: Job) -> None:
        """A job moves here: it has its room from now on."""
        self.claims.add(job)
        self._keep_from_all(kept(job))

    def room_for_moves(self) -> Demand:
        """What is free now, less all that is owed."""
        both = self.both - self.claims.owed()
        return Demand({name: min(self.free[name], both[name]) for name in {*self.free, *both}})

    def evict(self, victim: Job) -> None:
        """What it held is coming free; at once, where it was only given it in this plan."""
        self._holders.remove(victim, self.pool.name)
        if self.was_given(victim):
            self.placed.remove(victim.name)
            self.free = self.free + victim.demand
        else:
            self.coming = self.coming + victim.demand
        self.both = self.both + victim.demand

    def state(self) -> _State:
        """What the walk has changed, to go back to, but for who runs here (running_jobs.py)."""
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
    """A fresh sheet for every pool."""
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
