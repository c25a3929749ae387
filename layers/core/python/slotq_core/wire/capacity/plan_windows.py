"""The windows of a training plan as the size of its pool.

A window's end for the pool is when SageMaker begins to take its instances back, `LAST_PART` before
the end that the plan names; before that, jobs that save are asked to suspend for the pool's
`suspend_grace`. A window that begins when another of as many instances ends goes on, as after
ExtendTrainingPlan: SageMaker then leaves training jobs on their instances.

A plan that cannot be used lets nothing start, and stops nothing: what runs goes on for as long as
SageMaker lets it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from slotq_core.model.capacity.plans import LAST_PART, PlanFacts, PlanStatus, PlanWindow
from slotq_core.model.capacity.schedule import Schedule, SizeCause, SizeChange
from slotq_core.model.pools import Pool
from slotq_core.timestamps import to_datetime

NOT_READ = "SageMaker was not asked about its training plan yet; the queue asks each minute"
_FAULTS = {
    PlanStatus.UNREAD: "SageMaker does not say what its {plan} has",
    PlanStatus.NOT_FOUND: "SageMaker knows no {plan} in this account and region",
    PlanStatus.EXPIRED: "its {plan} expired{ended}",
    PlanStatus.FAILED: "its {plan} has failed",
    PlanStatus.PENDING: "its {plan} is still pending, so it is not paid yet",
}


def schedule_of(pool: Pool) -> Schedule:
    """When the pool has how many slots, by what is known of its plan."""
    why = unusable(pool)
    if why:
        return (SizeChange(at=0, slots=0, cause=SizeCause.PLAN, keeps=True, why=why),)
    assert pool.health.plan is not None
    changes = _changes(pool.health.plan.windows, pool.capacity.slots, pool.suspend_grace)
    if not changes or changes[0].at > 0:
        changes.insert(0, SizeChange(at=0, slots=0, cause=SizeCause.PLAN))
    return tuple(changes)


def unusable(pool: Pool) -> str:
    """Why nothing may start on the pool's plan, as a sentence; empty: it has windows."""
    facts = pool.health.plan
    if facts is None or facts.arn != pool.plan_arn:
        return NOT_READ
    return fault_in(facts, pool.instance_type)


def fault_in(facts: PlanFacts, instance_type: str) -> str:
    """Why a pool of this instance type cannot use the plan, as a sentence; empty: it can."""
    plan = f"training plan {facts.arn.rpartition('/')[2]}"
    if facts.status in _FAULTS:
        ended = f" at {moment_of(facts.windows[-1].ends)}" if facts.windows else ""
        said = f": {facts.message}" if facts.message else ""
        return _FAULTS[facts.status].format(plan=plan, ended=ended) + said
    if not facts.for_training:
        return f"its {plan} is not for training jobs: its TargetResources do not name training-job"
    if facts.instance_type and facts.instance_type != instance_type:
        return f"its {plan} has {facts.instance_type}, and the pool {instance_type}"
    return "" if facts.windows else f"its {plan} has no reserved capacity"


def moment_of(moment: int) -> str:
    """A moment (ms) in words: `08:00 UTC, 3 Dec`."""
    stamp = to_datetime(moment)
    return f"{stamp:%H:%M} UTC, {stamp.day} {stamp:%b}"


def _changes(windows: Iterable[PlanWindow], of: int, grace: int) -> list[SizeChange]:
    spans = [span for span in _joined(windows) if span.ends - LAST_PART - grace > span.begins]
    moments = {span.begins for span in spans} | {span.ends - LAST_PART - grace for span in spans}
    changes, before = [], 0
    for at in sorted(moments):
        there = (span for span in spans if span.begins <= at < span.ends - LAST_PART - grace)
        slots = min(of, sum(span.slots for span in there))
        shrinks = slots < before
        if slots != before:
            changes.append(
                SizeChange(
                    at=at,
                    slots=None if slots == of else slots,
                    cause=SizeCause.OPEN if slots == of else SizeCause.PLAN,
                    grace=grace if shrinks else 0,
                    said=moment_of(at + grace if shrinks else at),
                )
            )
        before = slots
    return changes


def _joined(windows: Iterable[PlanWindow]) -> list[PlanWindow]:
    """The windows with those that go on in one."""
    found: list[PlanWindow] = []
    for window in sorted(windows, key=lambda window: (window.begins, window.ends)):
        joins = (span for span in found if (span.ends, span.slots) == (window.begins, window.slots))
        earlier = next(joins, None)
        if earlier is not None:
            found.remove(earlier)
        found.append(replace(window, begins=earlier.begins) if earlier else window)
    return found
