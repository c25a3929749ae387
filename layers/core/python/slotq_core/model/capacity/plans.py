"""A training plan of SageMaker as the queue last read it: instances that are bought ahead, for
windows of time."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from slotq_core.timestamps import Moment

MOST_WINDOWS = 10
"""The most windows of a plan that the queue keeps: the last. SageMaker has five at most."""


class PlanStatus(StrEnum):
    """The status of a training plan."""

    PENDING = "pending"
    """It is not paid yet."""
    SCHEDULED = "scheduled"
    """Its first window is still to come."""
    ACTIVE = "active"
    EXPIRED = "expired"
    FAILED = "failed"
    NOT_FOUND = "not_found"
    """The account has no such plan, or not any more."""
    UNREAD = "unread"
    """SageMaker has not said yet."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanWindow:
    """A span of time in which a plan has instances."""

    begins: Moment
    """The first moment (ms)."""
    ends: Moment
    """When the window is over (ms). SageMaker takes the instances earlier (`LAST_PART`)."""
    slots: int
    """The instances in the window."""


LAST_PART = 1_800_000
"""How long before the end of a window SageMaker begins to take its instances back (ms)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanFacts:
    """What DescribeTrainingPlan said."""

    arn: str = ""
    """The plan. Facts about another plan than the pool's say nothing about the pool."""
    status: PlanStatus
    for_training: bool = True
    """Whether training jobs may use the plan: its TargetResources name them."""
    instance_type: str = ""
    windows: tuple[PlanWindow, ...] = ()
    """By their begin. At most `MOST_WINDOWS`."""
    total: int = 0
    """The plan's instances, as its counts have them now."""
    in_use: int = 0
    """How many of them any training jobs of the account use."""
    unhealthy: int = 0
    read_at: Moment = 0
    """When the queue first read these facts (ms)."""
    message: str = ""
    """SageMaker's words about the status, shortened."""

    @property
    def usable(self) -> bool:
        """Whether training jobs may start on the plan, or will."""
        return self.status in {PlanStatus.SCHEDULED, PlanStatus.ACTIVE} and self.for_training

    def at(self, now: int) -> PlanWindow | None:
        """The window that is open at `now` (ms), until SageMaker begins to take its instances."""
        opened = (window for window in self.windows if window.begins <= now)
        return next((window for window in opened if now < window.ends - LAST_PART), None)
