"""Read what DescribeTrainingPlan answers, as PlanFacts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from slotq_core.adapters.sagemaker.observations import milliseconds, text_in
from slotq_core.errors import NotUnderstood
from slotq_core.model.capacity.plans import MOST_WINDOWS, PlanFacts, PlanStatus, PlanWindow
from slotq_core.policy.lifecycle.retry import LONGEST_MESSAGE

_STATUSES = {
    "Pending": PlanStatus.PENDING,
    "Scheduled": PlanStatus.SCHEDULED,
    "Active": PlanStatus.ACTIVE,
    "Expired": PlanStatus.EXPIRED,
    "Failed": PlanStatus.FAILED,
}


def plan_facts(arn: str, found: Mapping[str, Any], *, at: int) -> PlanFacts:
    """Return the plan of this ARN as of `at` (ms). Raises NotUnderstood if the status is unknown,
    and ODD if the answer does not have SageMaker's form."""
    status = text_in(found, "Status")
    if status not in _STATUSES:
        raise NotUnderstood(f"unknown Status '{status[:40]}' of a training plan")
    parts = [part for part in found.get("ReservedCapacitySummaries") or () if _counts(part)]
    targets = found.get("TargetResources")
    return PlanFacts(
        arn=arn,
        status=_STATUSES[status],
        for_training=targets is None or "training-job" in targets,
        instance_type=next((kind for part in parts if (kind := text_in(part, "InstanceType"))), ""),
        windows=tuple(sorted(_windows(parts), key=lambda window: window.begins)[-MOST_WINDOWS:]),
        total=_count(found, "TotalInstanceCount"),
        in_use=_count(found, "InUseInstanceCount"),
        unhealthy=_count(found, "UnhealthyInstanceCount"),
        read_at=at,
        message=text_in(found, "StatusMessage")[:LONGEST_MESSAGE],
    )


def _counts(part: Mapping[str, Any]) -> bool:
    """Whether a part of the plan has, or will have, instances: one that failed never will."""
    return text_in(part, "Status") != "Failed"


def _windows(parts: list[Mapping[str, Any]]) -> Iterator[PlanWindow]:
    for part in parts:
        begins, ends = (milliseconds(part.get(key)) for key in ("StartTime", "EndTime"))
        if begins is not None and ends is not None and begins < ends:
            yield PlanWindow(begins=begins, ends=ends, slots=_count(part, "TotalInstanceCount"))


def _count(found: Mapping[str, Any], key: str) -> int:
    return max(0, int(found.get(key) or 0))
