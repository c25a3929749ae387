"""The SageMaker training plans that a submission may name.

A plan is paid, reserved capacity. The queue uses the plan with its own right, not the caller's, so
admission checks the plan before the job waits.
"""

from __future__ import annotations

from dataclasses import dataclass

from slotq_core.errors import PlanNotAllowed

FIELD = "ResourceConfig.TrainingPlanArn"


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingPlans:
    """The training plans that jobs may use."""

    allowed: tuple[str, ...] | None = None
    """The plans' ARNs; None: any plan, as in the emulator, where plans belong to nobody."""

    def check(self, plan: str) -> None:
        """Raises PlanNotAllowed, listing the allowed plans. An empty plan is always allowed."""
        if not plan or self.allowed is None or plan in self.allowed:
            return
        choice = ", ".join(self.allowed) or "none at all"
        raise PlanNotAllowed(
            f"'{plan[:200]}' is not a training plan that this queue may use; it may use: {choice}",
            field=FIELD,
        )


ANY_PLAN = TrainingPlans()
