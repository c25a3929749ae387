"""Read the training plans of pools: one call for each such pool, by the tick alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from slotq_core.errors import SlotQError, Unavailable
from slotq_core.model.capacity.plans import PlanFacts, PlanStatus
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job
from slotq_core.model.pools import CapacityKind, Pool
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.lifecycle.retry import LONGEST_MESSAGE
from slotq_core.ports.configuration import Health
from slotq_core.ports.surroundings import Clock
from slotq_core.ports.training import SageMakerService


@dataclass(frozen=True, kw_only=True, slots=True)
class LookedAt:
    """The outcome of looking at all plans."""

    changed: bool = False
    """Whether a plan of the queue may now decide differently."""
    troubles: tuple[str, ...] = ()


def described(training: SageMakerService, arn: str, now: int) -> PlanFacts:
    """What SageMaker says of a training plan, also that there is none. Raises Unavailable."""
    gone = PlanFacts(arn=arn, status=PlanStatus.NOT_FOUND, read_at=now)
    return training.describe_plan(arn) or gone


def look(
    snapshot: Snapshot, training: SageMakerService, health: Health, clock: Clock, *, until: int
) -> LookedAt:
    """Read the plan of each pool that has one, and store what has changed. Begins no call from
    `until` (ms) on; the next tick goes on."""
    changed, troubles = False, list[str]()
    for pool in with_plans(snapshot.pools):
        if clock.now() >= until:
            troubles.append("no time left to look at all training plans")
            break
        try:
            changed |= _look(pool, snapshot.active, training, health, clock.now())
        except SlotQError as error:
            troubles.append(f"training plan of pool {pool.name}: {error}")
    return LookedAt(changed=changed, troubles=tuple(troubles))


def with_plans(pools: Iterable[Pool]) -> list[Pool]:
    return [pool for pool in pools if pool.capacity_kind is CapacityKind.PLAN and pool.plan_arn]


def _look(
    pool: Pool, active: Iterable[Job], training: SageMakerService, health: Health, now: int
) -> bool:
    known = pool.health.plan
    try:
        facts = described(training, pool.plan_arn, now)
    except Unavailable as error:
        if known is None or known.arn != pool.plan_arn:  # Else what was read before still counts.
            _keep(pool, _unread(pool.plan_arn, str(error), now), health)
        raise
    changed = _keep(pool, facts, health)
    others = others_use(facts, pool, active)
    if others != pool.foreign.slots:
        health.set_foreign(pool.name, Demand(slots=others))
        return True
    return changed


def _keep(pool: Pool, facts: PlanFacts, health: Health) -> bool:
    """Store the facts unless the pool has the same. Returns whether they were new."""
    known = pool.health.plan
    if known is not None and facts == replace(known, read_at=facts.read_at):
        return False
    health.set(pool.name, replace(health.get(pool.name), plan=facts))
    return True


def _unread(arn: str, message: str, now: int) -> PlanFacts:
    message = message[:LONGEST_MESSAGE]
    return PlanFacts(arn=arn, status=PlanStatus.UNREAD, message=message, read_at=now)


def others_use(facts: PlanFacts, pool: Pool, active: Iterable[Job]) -> int:
    """The plan's instances that training jobs outside the queue use.

    SageMaker's count has the queue's own running attempts, and may have those that start: between
    the two, what was counted before stays.
    """
    ours = [job for job in active if pool.name in dict(job.holds)]
    running = [job for job in ours if job.attempt and job.attempt.running_since is not None]
    least, most = (
        max(0, facts.in_use - sum(dict(job.holds)[pool.name].slots for job in jobs))
        for jobs in (ours, running)
    )
    return min(max(pool.foreign.slots, least), most)
