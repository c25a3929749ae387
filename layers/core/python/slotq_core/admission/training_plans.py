"""Which SageMaker training plans a submission may name.

A plan is reserved capacity that somebody has paid for, and the queue uses it with its own right,
not with the caller's. So, as with roles, what may be used is asked at the door, before the job
waits.
"""

from __future__ import annotations

from dataclasses import dataclass

from slotq_core.errors import PlanNotAllowed

FIELD = "ResourceConfig.TrainingPlanArn"


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingPlans:
    """The training plans that jobs may run on."""

    allowed: tuple[str, ...] | None = None
    """Their ARNs; None: any, as in the emulator, where no plan is anybody's."""

    def check(self, plan: str) -> None:
        """Raises PlanNotAllowed with those that may be named. No plan is always allowed."""
        if not plan or self.allowed is None or plan in self.allowed:
            return
        choice = ", ".join(self.allowed) or "none at all"
        raise PlanNotAllowed(
            f"'{plan[:200]}' is no training plan that this queue may use; these are: {choice}",
            field=FIELD,
        )


ANY_PLAN = TrainingPlans()
