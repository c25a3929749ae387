"""What is at stake where jobs that hold slots might be stopped (DESIGN 5.1, 5.4).

"Never evicted: a non-preemptible job; one inside its pool's, project's or own `min_runtime` (a
job's own is capped by its pool's `max_min_runtime`, default 0); one already stopping." Nor one
whose create SageMaker has not answered: it may be under way, and a stop could overtake it.
"Evicting one evicts the gang": jobs that are evicted together are one `Stake`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.pools import Pool
from slotq_core.policy.order import Rank, rank

Place = tuple[Job, str]
"""A job that holds slots, and the pool that it holds them in."""

Order = tuple[Rank, int, int, int, str, str]
"""A place among candidates for an eviction."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Candidate:
    """A candidate for an eviction: one job, or all that runs of a gang, in whatever pools."""

    name: str
    """The job's, or the gang's."""
    gang: bool
    places: tuple[Place, ...]
    rank: Rank
    """ "A gang's rank is its lowest member's, its entry its last member's"."""
    entry_time: int
    unsaved: int
    """Milliseconds of work that stopping it now may cost: of a gang, its worst member's."""
    lost: int
    """The same times the slots that did it, over all of its jobs."""
    slots: int
    """In all its pools."""

    @property
    def jobs(self) -> tuple[Job, ...]:
        return tuple(job for job, _ in self.places)

    @property
    def project(self) -> str:
        return self.places[0][0].project

    @property
    def pools(self) -> frozenset[str]:
        return frozenset(pool for _, pool in self.places)

    def frees(self, pool: str) -> Demand:
        """What stopping it brings to that pool."""
        return self.frees_in(frozenset({pool}))

    def frees_in(self, pools: frozenset[str]) -> Demand:
        """What stopping it brings to those pools together."""
        held = [job.demand for job, pool in self.places if pool in pools]
        return held[0] if len(held) == 1 else sum(held, Demand())

    @property
    def order(self) -> Order:
        """The order in which candidates are taken: "lowest rank, then least time since the last
        reported checkpoint (else since the attempt's start), then larger, then later entry, then
        name"."""
        first = self.places[0][0].name
        return (self.rank, self.unsaved, -self.slots, -self.entry_time, self.name, first)


def alone(job: Job, pool: str, now: int) -> Candidate:
    """A job as a candidate by itself, as most are: so this is quicker than `stake_of`."""
    cost = unsaved(job, now)
    return Candidate(
        name=job.name,
        gang=False,
        places=((job, pool),),
        rank=rank(job),
        entry_time=job.entry_time,
        unsaved=cost,
        lost=cost * job.demand.slots,
        slots=job.demand.slots,
    )


def candidate_of(
    places: Iterable[Place], name: str, now: int, *, gang: bool = False, ranked: Iterable[Job] = ()
) -> Candidate:
    """Those jobs as one candidate. `ranked`: who counts for its rank and entry besides."""
    ordered = tuple(sorted(places, key=lambda place: (place[0].name, place[1])))
    jobs = [job for job, _ in ordered]
    members = [*jobs, *ranked]
    return Candidate(
        name=name,
        gang=gang,
        places=ordered,
        rank=min(rank(job) for job in members),
        entry_time=max(job.entry_time for job in members),
        unsaved=max(unsaved(job, now) for job in jobs),
        lost=sum(job.demand.slots * unsaved(job, now) for job in jobs),
        slots=sum(job.demand.slots for job in jobs),
    )


def may_be_stopped(job: Job) -> bool:
    """As far as the job itself goes; a `min_runtime` depends on its pool, too."""
    return job.evictable and is_settled(job)


def is_settled(job: Job) -> bool:
    return job.state is not JobState.STARTING or (job.attempt is not None and job.attempt.created)


def is_safe_once_started(job: Job, pool: Pool, project_min: int) -> bool:
    """Whether a `min_runtime` will protect one that was given its slots in this very plan, and that
    nothing protects yet."""
    return job.attempt is None and _protection(job, pool, project_min) > 0


def protection(job: Job, pool: Pool, project_min: int, now: int) -> tuple[bool, int | None]:
    """Whether its `min_runtime` keeps a job that holds slots, and until when; None while it has not
    begun to run at all."""
    length = _protection(job, pool, project_min)
    if job.attempt is None or not length:
        return False, None
    if job.attempt.running_since is None:
        return True, None
    until = job.attempt.running_since + length
    return now < until, until


def unsaved(job: Job, now: int) -> int:
    """Milliseconds of work that stopping the job now may cost."""
    if job.attempt is None:
        return 0
    since = job.attempt.checkpoint_at or job.attempt.running_since
    return 0 if since is None else max(0, now - since)


def _protection(job: Job, pool: Pool, project_min: int) -> int:
    return max(pool.min_runtime, project_min, min(job.min_runtime, pool.max_min_runtime))
