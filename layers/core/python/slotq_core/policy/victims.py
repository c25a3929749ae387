"""Who may be stopped at all, in which order, and what it costs (DESIGN 5.1).

"Candidates one by one: lowest rank, then least time since the last reported checkpoint (else since
the attempt's start), then larger, then later entry, then name; then drop what turns out not to be
needed, last chosen first." Preempt and reclaim (preempt.py, reclaim.py) choose from these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from slotq_core.model import Demand, Job, JobState, Pool
from slotq_core.policy.fit import PoolRoom
from slotq_core.policy.order import Rank, rank


@dataclass(frozen=True, kw_only=True, slots=True)
class Eviction:
    """Victims whose slots, with what is free and coming, are enough."""

    room: PoolRoom
    victims: tuple[Job, ...]

    def harm(self, now: int) -> tuple[tuple[Rank, ...], int, int]:
        """Small is good: "fewer of a higher rank, then less slot-time lost, then fewer victims"."""
        return (
            tuple(sorted((rank(victim) for victim in self.victims), reverse=True)),
            sum(victim.demand.slots * unsaved(victim, now) for victim in self.victims),
            len(self.victims),
        )


def least_harm(found: Sequence[Eviction], now: int) -> Eviction | None:
    """ "Of all the job's pools, the one with the smallest harm"; between equals the first."""
    return min(found, key=lambda eviction: eviction.harm(now), default=None)


def stoppable(job: Job, room: PoolRoom, now: int) -> bool:
    """ "Never evicted: a non-preemptible job; one inside its pool's, project's or own `min_runtime`
    (a job's own is capped by its pool's `max_min_runtime`, default 0); one already stopping."

    Nor one whose create SageMaker has not answered: the create may still be under way, and a stop
    could overtake it.
    """
    return job.evictable and is_settled(job) and not is_protected(job, room, now)


def is_settled(job: Job) -> bool:
    return job.state is not JobState.STARTING or (job.attempt is not None and job.attempt.created)


def is_protected(job: Job, room: PoolRoom, now: int) -> bool:
    if job.attempt is None or not _protection(job, room):
        return False  # Without an attempt it was given its slots in this very plan.
    until = protected_until(job, room)
    return until is None or now < until


def protected_until(job: Job, room: PoolRoom) -> int | None:
    """When a running job's `min_runtime` is over; None while it has not begun to run at all."""
    assert job.attempt is not None
    if job.attempt.running_since is None:
        return None
    return job.attempt.running_since + _protection(job, room)


def unsaved(job: Job, now: int) -> int:
    """Milliseconds of work that stopping the job now may cost."""
    if job.attempt is None:
        return 0
    since = job.attempt.checkpoint_at or job.attempt.running_since
    return 0 if since is None else max(0, now - since)


def by_order(job: Job, now: int) -> tuple[Rank, int, int, int, str]:
    """The order in which candidates are taken."""
    return (rank(job), unsaved(job, now), -job.demand.slots, -job.entry_time, job.name)


def spared(chosen: Sequence[Job], enough: Callable[[Sequence[Job]], bool]) -> tuple[Job, ...]:
    """Without those that turn out not to be needed, the last chosen looked at first."""
    kept = list(chosen)
    for victim in reversed(chosen):
        without = [other for other in kept if other is not victim]
        if enough(without):
            kept = without
    return tuple(kept)


def freed(victims: Sequence[Job]) -> Demand:
    return sum((victim.demand for victim in victims), Demand())


def _protection(job: Job, room: PoolRoom) -> int:
    pool: Pool = room.pool
    own = min(job.min_runtime, pool.max_min_runtime)
    return max(pool.min_runtime, room.project_min_runtime.get(job.project, 0), own)
