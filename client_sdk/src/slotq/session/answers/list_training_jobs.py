"""ListTrainingJobs, extended by the jobs of the queue that SageMaker cannot list.

The queue's jobs come first, in pages of their own. SageMaker's pages follow; there, the first
training job of a waiting job shows the status of the job, not Stopped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from slotq.jobs.foreign_names import is_listed
from slotq.jobs.job_calls import JobCalls
from slotq.session.answers.describe import status_of, summary
from slotq.session.hooks import Answer, Context, Params
from slotq_core.model.jobs import TERMINAL_STATES, WAITING_STATES, JobState
from slotq_core.wire.views.jobs import JobView

_TOKEN = "slotq:"  # noqa: S105 - marks our own page tokens # nosec B105
_OURS = re.compile(rf"{_TOKEN}[0-9]{{1,6}}")
_PAGE = 10
"""Rows per page: SageMaker's default."""
_STATUS = "slotq_status"
LIVING = tuple(state for state in JobState if state not in TERMINAL_STATES)
_KEYS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "CreationTime": lambda row: row["CreationTime"],
    "Name": lambda row: row["TrainingJobName"],
    "Status": lambda row: row["TrainingJobStatus"],
}


class TrainingJobListing:
    """The answers to ListTrainingJobs."""

    def __init__(self, jobs: JobCalls) -> None:
        self._jobs = jobs

    def page(self, params: Params, context: Context) -> Callable[[], Answer] | None:
        """Answer with a page of the queue's jobs; None, once all are shown: SageMaker answers."""
        token = str(params.get("NextToken") or "")
        context[_STATUS] = params.get("StatusEquals")
        if token and not _OURS.fullmatch(token):
            return None
        start = int(token.removeprefix(_TOKEN) or 0)
        region = str(context.get("client_region") or "")
        rows = self._rows(params, region)[start:]
        if not rows:
            params.pop("NextToken", None)
            return None
        size = int(params.get("MaxResults") or _PAGE)
        answer = {
            "TrainingJobSummaries": rows[:size],
            "NextToken": f"{_TOKEN}{start + len(rows[:size])}",
        }
        context[_STATUS] = None
        return lambda: answer

    def amend(self, parsed: Answer, context: Context) -> None:
        """Show waiting jobs among SageMaker's rows with the status of the job."""
        rows = parsed.get("TrainingJobSummaries") or []
        if not rows or str(parsed.get("NextToken", "")).startswith(_TOKEN):
            return
        living = {job.name: job for job in self._jobs(LIVING)}
        wanted = context.get(_STATUS)
        for row in rows:
            job = living.get(row["TrainingJobName"])
            if job is not None and job.state in WAITING_STATES:
                row["TrainingJobStatus"], row["SecondaryStatus"] = status_of(job), "Pending"
        parsed["TrainingJobSummaries"] = [
            row for row in rows if wanted in {None, row["TrainingJobStatus"]}
        ]

    def _rows(self, params: Mapping[str, Any], region: str) -> list[dict[str, Any]]:
        """The jobs that SageMaker does not list, filtered and sorted as requested."""
        rows = [
            summary(job, region=region)
            for job in self._jobs(LIVING)
            if job.attempts_begun == 0 or _is_hidden(job, params.get("StatusEquals"))
        ]
        rows = [row for row in rows if _wanted(row, params)]
        by = _KEYS.get(str(params.get("SortBy", "CreationTime")), _KEYS["CreationTime"])
        return sorted(rows, key=by, reverse=params.get("SortOrder") == "Descending")


def _is_hidden(job: JobView, status: Any) -> bool:
    """Whether the status filter hides the job's training job, which SageMaker lists as Stopped."""
    return status is not None and job.attempts_begun > 0 and job.state in WAITING_STATES


def _wanted(row: Mapping[str, Any], params: Mapping[str, Any]) -> bool:
    status = params.get("StatusEquals")
    if status is not None and row["TrainingJobStatus"] != status:
        return False
    times = {key: row[key] for key in ("CreationTime", "LastModifiedTime")}
    return is_listed(row["TrainingJobName"], times, params)
