"""Report training plans that SageMaker does not describe, that their pools cannot use, or that end
soon."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from slotq_core.errors import RightMissing, Unavailable
from slotq_core.model.capacity.plans import PlanFacts
from slotq_core.model.pools import Pool
from slotq_core.operations.training_plans.looks import described, with_plans
from slotq_core.ports.stored import Finding
from slotq_core.ports.training import SageMakerService
from slotq_core.timestamps import lasting
from slotq_core.wire.capacity.plan_windows import fault_in, moment_of

UNREADABLE, UNUSABLE, ENDS = "plan_unreadable", "plan_unusable", "plan_ends"

WARN_BEFORE = 3 * 86_400_000
"""How long before the end of a plan's last window the doctor warns (ms)."""

_RIGHT = (
    "; the stack's parameter TrainingPlanArns gives the queue's roles "
    "sagemaker:DescribeTrainingPlan: add the plan there"
)


def examine(pools: Iterable[Pool], training: SageMakerService, now: int) -> Iterator[Finding]:
    """Yield what is wrong with the pools' plans, by one call each."""
    for pool in with_plans(pools):
        try:
            facts = described(training, pool.plan_arn, now)
        except Unavailable as error:
            text = f"its training plan cannot be read: {error}"
            text += _RIGHT if isinstance(error, RightMissing) else ""
            yield Finding(kind=UNREADABLE, subject=pool.name, text=text)
            continue
        if fault := fault_in(facts, pool.instance_type):
            yield Finding(kind=UNUSABLE, subject=pool.name, text=f"nothing starts there: {fault}")
        elif (ends := _end(facts)) < now + WARN_BEFORE:
            text = (
                f"its training plan ends at {moment_of(ends)}, in {lasting(max(0, ends - now))}: "
                "extend it (ExtendTrainingPlan), or give the jobs another pool"
            )
            yield Finding(kind=ENDS, subject=pool.name, text=text)


def _end(facts: PlanFacts) -> int:
    return max(window.ends for window in facts.windows)
