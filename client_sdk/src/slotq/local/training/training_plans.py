"""SageMaker's training plans: instances of one type that are bought for windows of time. Not safe
for threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Never

from slotq.local.training.request_check import PlaneError
from slotq.local.training.training_job import TrainingJob, longest_pending
from slotq_core.model.capacity.plans import LAST_PART
from slotq_core.ports.surroundings import Clock
from slotq_core.timestamps import to_datetime

LONGEST_PENDING = 2 * 86_400_000
"""How long (ms) a job waits for room in a plan that is active."""
EXPIRATION = "SAGEMAKER_CURRENT_CAPACITY_BLOCK_EXPIRATION_TIMESTAMP"
"""The variable by which a container knows the end of its window, in milliseconds since 1970."""
TRAINING = "training-job"


@dataclass(frozen=True, kw_only=True)
class Window:
    """A reserved capacity. Moments in milliseconds."""

    begins: int
    ends: int
    instances: int


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    name: str
    instance_type: str
    windows: tuple[Window, ...]
    """In the order of time, without overlaps."""
    target_resources: tuple[str, ...] = (TRAINING,)
    unhealthy: int = 0
    used_elsewhere: int = 0
    """Instances that others than this emulator's training jobs use."""
    status: str = ""
    """Pending or Failed; empty: what follows from the windows."""
    message: str = ""

    def window_at(self, moment: int) -> Window | None:
        return next((it for it in self.windows if it.begins <= moment < it.ends), None)

    def end_of(self, window: Window) -> int:
        """When the window's instances are gone: one of as many instances that begins at its end, as
        after ExtendTrainingPlan, has the same."""
        for later in self.windows:
            if (later.begins, later.instances) == (window.ends, window.instances):
                window = later
        return window.ends

    def status_at(self, moment: int) -> str:
        if self.status:
            return self.status
        if self.window_at(moment):
            return "Active"
        return "Scheduled" if self.has_later(moment) else "Expired"

    def has_later(self, moment: int) -> bool:
        """Whether a window begins after this moment."""
        return any(window.begins > moment for window in self.windows)

    def pended_for(self, longest: int, since: int) -> int:
        """When a job that pends since a moment has done so for `longest`. The time before the
        plan's windows and between them does not count."""
        for window in self.windows:
            begins = max(since, window.begins)
            if begins + longest <= window.ends:
                return begins + longest
            longest -= max(0, window.ends - begins)
        return max(since, self.windows[-1].ends) + longest


class TrainingPlans:
    """The account's plans by ARN. `live` returns the training jobs that have not ended."""

    def __init__(
        self, clock: Clock, *, account: str, region: str, live: Callable[[], Iterable[TrainingJob]]
    ) -> None:
        self._clock, self._live = clock, live
        self._place = f"{region}:{account}"
        self._plans: dict[str, TrainingPlan] = {}

    def declare(self, plans: Iterable[TrainingPlan]) -> None:
        """Replace all plans."""
        self._plans = {self.arn(plan.name): plan for plan in plans}

    def arn(self, name: str) -> str:
        return f"arn:aws:sagemaker:{self._place}:training-plan/{name}"

    def descriptions(self) -> list[dict[str, Any]]:
        return [self.describe(arn) for arn in self._plans]

    def describe(self, name: str) -> dict[str, Any]:
        """A DescribeTrainingPlan answer. `name`: the plan's name or ARN. Raises PlaneError."""
        arn = name if name.startswith("arn:") else self.arn(name)
        if arn not in self._plans:
            raise PlaneError("ResourceNotFound", f"Training plan '{name}' does not exist.")
        plan, now = self._plans[arn], self._clock.now()
        begins, ends = plan.windows[0].begins, plan.windows[-1].ends
        total = self._total(plan)
        used = self._used(arn) + plan.used_elsewhere
        window = plan.window_at(now)
        free = total - used - plan.unhealthy if window and not plan.status else 0
        return {
            "TrainingPlanArn": arn,
            "TrainingPlanName": plan.name,
            "Status": plan.status_at(now),
            "StatusMessage": plan.message,
            **_duration(sum(window.ends - window.begins for window in plan.windows)),
            "StartTime": to_datetime(begins),
            "EndTime": to_datetime(ends),
            "UpfrontFee": "0.0",
            "CurrencyCode": "USD",
            "TotalInstanceCount": total,
            "AvailableInstanceCount": max(0, free),
            "InUseInstanceCount": used,
            "UnhealthyInstanceCount": plan.unhealthy,
            "AvailableSpareInstanceCount": 0,
            "TargetResources": list(plan.target_resources),
            "ReservedCapacitySummaries": [
                self._summary(plan, number, window) for number, window in enumerate(plan.windows)
            ],
        }

    def check(self, job: TrainingJob) -> None:
        """Check whether a new job may use the plan that it names. Raises PlaneError."""
        if not job.plan:
            return
        plan = self._plans.get(job.plan)
        if plan is None:
            raise PlaneError("ResourceNotFound", f"Training plan '{job.plan}' does not exist.")
        status = plan.status_at(self._clock.now())
        if status not in {"Active", "Scheduled"}:
            _refuse(
                f"The training plan {job.plan} is in status {status}. It must be in status "
                "Scheduled or Active to be used by a training job."
            )
        if TRAINING not in plan.target_resources:
            _refuse(f"The training plan {job.plan} cannot be used by training jobs.")
        if any(kind != plan.instance_type for kind in job.instances):
            _refuse(
                f"The training plan {job.plan} has instances of type {plan.instance_type}, and the "
                f"training job asks for {', '.join(job.instances)}."
            )

    def room_for(self, job: TrainingJob) -> bool:
        """Whether a job can have its instances now."""
        plan, now = self._plans.get(job.plan), self._clock.now()
        window = plan.window_at(now) if plan and not plan.status else None
        if plan is None or window is None or now >= plan.end_of(window) - LAST_PART:
            return False
        free = window.instances - plan.unhealthy - plan.used_elsewhere - self._used(job.plan)
        return sum(job.instances.values()) <= free

    def ends_at(self, job: TrainingJob) -> int | None:
        """The end of the window whose instances a running job has. None: its plan is gone."""
        plan = self._plans.get(job.plan)
        window = plan.window_at(self._clock.now()) if plan else None
        return plan.end_of(window) if plan and window else None

    def goes_on(self, job: TrainingJob) -> bool:
        """Whether the plan has another window for a job that loses its instances."""
        plan = self._plans.get(job.plan)
        return plan is not None and plan.has_later(self._clock.now())

    def gives_up_at(self, job: TrainingJob, since: int) -> int | None:
        """When a job that waits since a moment has waited for too long. None: never."""
        plan = self._plans.get(job.plan)
        longest = min(LONGEST_PENDING, longest_pending(job) or LONGEST_PENDING)
        return plan.pended_for(longest, since) if plan else None

    def openings(self) -> Iterator[int]:
        """The beginnings of windows that jobs wait for."""
        now = self._clock.now()
        for job in self._live():
            if job.waits_for_plan and (plan := self._plans.get(job.plan)):
                yield from (it.begins for it in plan.windows if it.begins > now)

    def _total(self, plan: TrainingPlan) -> int:
        """The instances of the window that is open, else of the next, else of the last."""
        now = self._clock.now()
        return next((it for it in plan.windows if now < it.ends), plan.windows[-1]).instances

    def _used(self, arn: str) -> int:
        holding = (job for job in self._live() if job.plan == arn and job.runs_since is not None)
        return sum(sum(job.instances.values()) for job in holding)

    def _summary(self, plan: TrainingPlan, number: int, window: Window) -> dict[str, Any]:
        alone = TrainingPlan(name="", instance_type="", windows=(window,), status=plan.status)
        return {
            "ReservedCapacityArn": f"arn:aws:sagemaker:{self._place}:reserved-capacity/"
            f"{plan.name}-{number}",
            "ReservedCapacityType": "Instance",
            "InstanceType": plan.instance_type,
            "TotalInstanceCount": window.instances,
            "Status": alone.status_at(self._clock.now()),
            **_duration(window.ends - window.begins),
            "StartTime": to_datetime(window.begins),
            "EndTime": to_datetime(window.ends),
        }


def _duration(milliseconds: int) -> dict[str, int]:
    hours, minutes = divmod(milliseconds // 60_000, 60)
    return {"DurationHours": hours, "DurationMinutes": minutes}


def _refuse(message: str) -> Never:
    raise PlaneError("ValidationException", message)
