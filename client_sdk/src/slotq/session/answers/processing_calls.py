"""SageMaker's processing calls, answered for jobs of the queue.

- CreateProcessingJob submits to the queue, as the job `processing:<name>`;
- DescribeProcessingJob describes the processing job of the latest attempt, or is answered here
  while there is none;
- StopProcessingJob cancels in the queue;
- ListProcessingJobs is SageMaker's own, and the session says what it does not list.

Only for a session that says `processing=True`: a queue without pools for processing jobs takes
none. Names that the queue does not know go to SageMaker unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from slotq.session.answers.describe import (
    arn_of,
    has_training_job,
    status_of,
    statuses_beside,
)
from slotq.session.hooks import Answer, Context, Params, TakenCall
from slotq.session.training_calls import TrainingCalls
from slotq_core.model.capacity.work import WorkKind, bare, marked
from slotq_core.timestamps import from_iso, to_datetime
from slotq_core.wire.training.processing_request import NAME
from slotq_core.wire.views.jobs import JobView

_JOB = "slotq_processing_job"
LISTS = (
    "ListProcessingJobs lists SageMaker's processing jobs: not those that wait in the queue, and "
    "each attempt by itself. `slotq ls` lists the queue's jobs"
)


class ProcessingCalls:
    """The processing calls of one queue, over its training calls."""

    def __init__(self, jobs: TrainingCalls) -> None:
        self._jobs = jobs
        self._said_of_lists = False

    def calls(self) -> tuple[TakenCall, ...]:
        return (
            TakenCall(operation="sagemaker.CreateProcessingJob", before=self._create),
            TakenCall(
                operation="sagemaker.DescribeProcessingJob",
                before=self._describe,
                after=_show_the_job,
            ),
            TakenCall(operation="sagemaker.StopProcessingJob", before=self._stop),
            TakenCall(operation="sagemaker.ListProcessingJobs", before=self._list),
        )

    def known(self, name: object) -> JobView | None:
        """The queue's processing job of that name, or None."""
        return self._jobs.known(marked(str(name or ""), WorkKind.PROCESSING))

    def _create(self, params: Params, context: Context) -> Callable[[], Answer]:
        request, region = dict(params), _region(context)
        return lambda: {"ProcessingJobArn": arn_of(self._jobs.submit(request, region), region)}

    def _describe(self, params: Params, context: Context) -> Callable[[], Answer] | None:
        job = self.known(params.get(NAME))
        if job is None:
            return None
        self._jobs.warned.report(job)
        if has_training_job(job):
            params[NAME] = bare(job.training_job or "")
            context[_JOB] = job
            return None
        return lambda: description(job, self._jobs.request(job.name), region=_region(context))

    def _stop(self, params: Params, _: Context) -> Callable[[], Answer] | None:
        job = self.known(params.get(NAME))
        return None if job is None else partial(self._jobs.cancel, job.name)

    def _list(self, _: Params, __: Context) -> None:
        """Let SageMaker list, and say, once, what it does not list."""
        if not self._said_of_lists:
            self._said_of_lists = True
            self._jobs.say(LISTS)


def description(job: JobView, request: Mapping[str, Any], *, region: str = "") -> dict[str, Any]:
    """The answer of DescribeProcessingJob, built from the queue's record and the request."""
    status = status_of(job)
    return {
        **{key: value for key, value in request.items() if key != "Tags"},
        NAME: bare(job.name),
        "ProcessingJobArn": arn_of(job, region),
        "ProcessingJobStatus": status,
        "CreationTime": to_datetime(from_iso(job.entry_time)),
        "LastModifiedTime": to_datetime(from_iso(job.changed_at)),
        **({"FailureReason": job.message} if status == "Failed" else {}),
    }


def _show_the_job(parsed: Answer, context: Context) -> None:
    """Let SageMaker's description of the latest attempt show the job, under its own name."""
    if _JOB not in context:
        return
    job: JobView = context[_JOB]
    own = statuses_beside(job, str(parsed["ProcessingJobStatus"]))
    parsed[NAME] = bare(job.name)
    if "TrainingJobStatus" in own:
        parsed["ProcessingJobStatus"] = own["TrainingJobStatus"]
    if "FailureReason" in own:
        parsed["FailureReason"] = own["FailureReason"]


def _region(context: Context) -> str:
    return str(context.get("client_region") or "")
