"""ListTrainingJobs: sorting, filters and pages as in SageMaker."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any

from slotq.jobs.foreign_names import is_listed
from slotq.local.training.request_check import PlaneError
from slotq.local.training.training_job import TrainingJob
from slotq_core.timestamps import to_datetime

_DEFAULT_PAGE = 10


def page_of(jobs: Iterable[TrainingJob], request: Mapping[str, Any]) -> dict[str, Any]:
    """One page. `StatusEquals` filters after the page is cut, so an empty page can have a next
    page."""
    order = _ORDERS[request.get("SortBy", "CreationTime")]
    chosen = sorted(
        (job for job in jobs if _is_listed(job, request)),
        key=lambda job: (*order(job), job.name),
        reverse=request.get("SortOrder") == "Descending",
    )
    if token := request.get("NextToken"):
        chosen = _after(chosen, _decode(token))
    size = request.get("MaxResults", _DEFAULT_PAGE)
    cut, rest = chosen[:size], chosen[size:]
    status = request.get("StatusEquals")
    answer: dict[str, Any] = {
        "TrainingJobSummaries": [
            job.summary() for job in cut if status is None or job.status == status
        ]
    }
    if rest:
        answer["NextToken"] = base64.urlsafe_b64encode(cut[-1].name.encode()).decode()
    return answer


def _by_creation(job: TrainingJob) -> tuple[int, int]:
    return job.created_at, job.serial


def _by_name(job: TrainingJob) -> tuple[str, int]:
    return job.name, job.serial


def _by_status(job: TrainingJob) -> tuple[str, int]:
    return job.status, job.serial


_ORDERS: Mapping[str, Any] = {
    "CreationTime": _by_creation,
    "Name": _by_name,
    "Status": _by_status,
}


def _is_listed(job: TrainingJob, request: Mapping[str, Any]) -> bool:
    times = {
        "CreationTime": to_datetime(job.created_at),
        "LastModifiedTime": to_datetime(job.modified_at),
    }
    return is_listed(job.name, times, request)


def _decode(token: str) -> str:
    try:
        return base64.urlsafe_b64decode(token.encode()).decode()
    except ValueError:
        raise PlaneError("ValidationException", "Invalid NextToken") from None


def _after(chosen: list[TrainingJob], name: str) -> list[TrainingJob]:
    """The jobs after the last one of the previous page."""
    names = [job.name for job in chosen]
    return chosen[names.index(name) + 1 :] if name in names else []
