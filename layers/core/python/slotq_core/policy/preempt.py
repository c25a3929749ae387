"""Step 3c, preempt: whom to stop so that a job of higher rank can start (DESIGN 5.1).

"Evict only when the beneficiary then fits whole. Candidates one by one: lowest rank, then least
time since the last reported checkpoint (else since the attempt's start), then larger, then later
entry, then name; then drop what turns out not to be needed, last chosen first. Of all the job's
pools, the one with the smallest harm."
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from slotq_core.model import Job, JobState, Pool
from slotq_core.policy.fit import PoolRoom
from slotq_core.policy.order import rank


@dataclass(frozen=True, kw_only=True, slots=True)
class Eviction:
    """Victims whose slots, with what is free and coming, are enough."""

    room: PoolRoom
    victims: tuple[Job, ...]

    def harm(self, now: int) -> tuple[tuple[int, ...], int, int]:
        """Small is good: "fewer of a higher rank, then less slot-time lost, then fewer victims"."""
        return (
            tuple(sorted((rank(victim) for victim in self.victims), reverse=True)),
            sum(victim.demand.slots * unsaved(victim, now) for victim in self.victims),
            len(self.victims),
        )


def may_evict(evictor: Job, holder: Job) -> bool:
    """ "Preempt strictly lower rank"; "never evicted: a non-preemptible job"."""
    return holder.preemptible and rank(holder) < rank(evictor)


def protected_until(job: Job, pool: Pool) -> int | None:
    """When a running job's `min_runtime` is over; None while it has not begun to run at all.

    "Never evicted: one inside its pool's or own min_runtime (a job's own is capped by its pool's
    max_min_runtime, default 0)."
    """
    assert job.attempt is not None
    if job.attempt.running_since is None:
        return None
    return job.attempt.running_since + _protection(job, pool)


def is_protected(job: Job, pool: Pool, now: int) -> bool:
    if not _protection(job, pool):
        return False
    until = protected_until(job, pool)
    return until is None or now < until


def is_settled(job: Job) -> bool:
    """Whether SageMaker has answered the create. Until then the attempt's fate is not known: the
    create may still be under way, and a stop could overtake it."""
    return job.state is not JobState.STARTING or (job.attempt is not None and job.attempt.created)


def unsaved(job: Job, now: int) -> int:
    """Milliseconds of work that stopping the job now may cost."""
    assert job.attempt is not None
    since = job.attempt.checkpoint_at or job.attempt.running_since
    return 0 if since is None else max(0, now - since)


def best_eviction(job: Job, rooms: Iterable[PoolRoom], now: int) -> Eviction | None:
    """The least harmful way to make room for the job; None where no pool offers one.

    Between pools of equal harm the job's own order decides: `rooms` comes in it.
    """
    found = [eviction for room in rooms if (eviction := _in_pool(job, room, now))]
    return min(found, key=lambda eviction: eviction.harm(now), default=None)


def lower_ranked(job: Job, room: PoolRoom) -> list[Job]:
    """What runs there at a strictly lower rank, whether or not it may be stopped now."""
    return [other for other in room.running if rank(other) < rank(job)]


def evictable(job: Job, room: PoolRoom, now: int) -> list[Job]:
    return [
        other
        for other in room.running
        if may_evict(job, other) and is_settled(other) and not is_protected(other, room.pool, now)
    ]


def _in_pool(job: Job, room: PoolRoom, now: int) -> Eviction | None:
    left = room.left(job, may_evict)
    chosen: list[Job] = []
    for victim in sorted(evictable(job, room, now), key=lambda other: _victim_order(other, now)):
        if job.demand.within(left):
            break
        left = left + victim.demand
        chosen.append(victim)
    if not job.demand.within(left):
        return None
    for victim in reversed(tuple(chosen)):
        if job.demand.within(left - victim.demand):
            left = left - victim.demand
            chosen.remove(victim)
    return Eviction(room=room, victims=tuple(chosen))


def _victim_order(job: Job, now: int) -> tuple[int, int, int, int, str]:
    return (rank(job), unsaved(job, now), -job.demand.slots, -job.entry_time, job.name)


def _protection(job: Job, pool: Pool) -> int:
    return max(pool.min_runtime, min(job.min_runtime, pool.max_min_runtime))
