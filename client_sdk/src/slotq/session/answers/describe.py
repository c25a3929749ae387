"""Describe a job of the queue as SageMaker would: DescribeTrainingJob, ListTrainingJobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slotq.jobs.follow import ended_by_time_box
from slotq_core.model.capacity.work import bare, work_of
from slotq_core.model.jobs import ACTIVE_STATES, TERMINAL_STATES, JobState
from slotq_core.timestamps import from_iso, to_datetime
from slotq_core.wire.views.jobs import JobView

_ENDED = {
    JobState.COMPLETED: "Completed",
    JobState.FAILED: "Failed",
    JobState.CANCELLED: "Stopped",
    JobState.STOPPED: "Stopped",
}
_SECONDARY = {JobState.STARTING: "Starting", JobState.RUNNING: "Training"}
_ENDINGS = frozenset(_ENDED.values())
_FOR_GOOD = frozenset({"cancelled", "group_ended", "goal_reached"})
"""Causes of a stop after which the job does not run again."""


def has_training_job(job: JobView) -> bool:
    """Whether SageMaker's description of the latest attempt also describes the job.

    False while the job waits: its last training job shows Stopped, but the job has not ended.
    False for an attempt that never ran: there may be no training job. False for one on a node: it
    has none.
    """
    last = job.attempts[-1] if job.attempts else None
    ran = last is not None and last.running_since is not None and not last.node
    return ran and job.state in (ACTIVE_STATES | TERMINAL_STATES)


def arn_of(job: JobView, region: str) -> str:
    """The ARN that the job's first training job has or will have."""
    account = job.submitter.split(":")[4] if job.submitter.count(":") >= 5 else ""
    partition = job.submitter.split(":")[1] if account else "aws"
    work, name = work_of(job.name), bare(job.name)
    return f"arn:{partition}:sagemaker:{region}:{account}:{work}-job/{name}"


def description(job: JobView, request: Mapping[str, Any], *, region: str = "") -> dict[str, Any]:
    """The answer of DescribeTrainingJob, built from the queue's record and the request.

    A waiting job is InProgress and Pending, as is a SageMaker training job without instances.
    """
    status = status_of(job)
    return {
        "HyperParameters": {},
        "EnableNetworkIsolation": False,
        "EnableInterContainerTrafficEncryption": False,
        "EnableManagedSpotTraining": False,
        **{key: value for key, value in request.items() if key != "Tags"},
        "TrainingJobName": job.name,
        "TrainingJobArn": arn_of(job, region),
        "TrainingJobStatus": status,
        "SecondaryStatus": _secondary(job, status),
        "SecondaryStatusTransitions": [],
        "ModelArtifacts": {"S3ModelArtifacts": _artifact(job)},
        "OutputDataConfig": {"KmsKeyId": "", **request.get("OutputDataConfig", {})},
        "CreationTime": to_datetime(from_iso(job.entry_time)),
        "LastModifiedTime": to_datetime(from_iso(job.changed_at)),
        **({"FailureReason": job.message} if status == "Failed" else {}),
    }


def _artifact(job: JobView) -> str:
    """The model of a job that has ended on a node; else empty."""
    return job.attempts[-1].artifact if job.state in TERMINAL_STATES and job.attempts else ""


def as_the_job(job: JobView, shown: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of SageMaker's description of the latest attempt that the job changes.

    The job keeps its own name through all attempts, so a program that remembers the name from an
    answer keeps following the job. The job has ended when the queue says so: an evicted attempt
    has ended, but its job has not. The ARN stays that of the attempt.
    """
    status = str(shown["TrainingJobStatus"])
    return {"TrainingJobName": job.name} | statuses_beside(job, status)


def statuses_beside(job: JobView, status: str) -> dict[str, str]:
    """What of the statuses in SageMaker's description of the latest attempt the job changes, where
    the attempt's is `status`."""
    if job.state in TERMINAL_STATES:
        word = status_of(job)
        ends = {"TrainingJobStatus": word, "SecondaryStatus": _secondary(job, word)}
        own = {} if word == status else ends
        failed = word == "Failed" != status
        return own | ({"FailureReason": job.message} if failed else {})
    cause = job.attempts[-1].stop_cause if job.attempts else None
    if cause in _FOR_GOOD and status in _ENDINGS:
        return {"TrainingJobStatus": "Stopping", "SecondaryStatus": "Stopping"}
    if cause not in {None, *_FOR_GOOD} or status in {"Failed", "Stopped"}:
        return {"TrainingJobStatus": "InProgress", "SecondaryStatus": "Interrupted"}
    if status == "Completed":
        return {"TrainingJobStatus": "InProgress", "SecondaryStatus": "Uploading"}
    return {}


def summary(job: JobView, *, region: str) -> dict[str, Any]:
    """The job's row in ListTrainingJobs."""
    return {
        "TrainingJobName": job.name,
        "TrainingJobArn": arn_of(job, region),
        "CreationTime": to_datetime(from_iso(job.entry_time)),
        **_progress(job),
    }


def as_listed(job: JobView, row: Mapping[str, Any]) -> dict[str, Any]:
    """SageMaker's row of the job's first training job, with the status of the job: as
    DescribeTrainingJob shows it."""
    if has_training_job(job) and job.training_job == row["TrainingJobName"]:
        statuses = statuses_beside(job, str(row["TrainingJobStatus"]))
        return {**row, **{key: statuses[key] for key in _STATUS if key in statuses}}
    return {key: value for key, value in row.items() if key != "TrainingEndTime"} | _progress(job)


_STATUS = ("TrainingJobStatus", "SecondaryStatus")


def _progress(job: JobView) -> dict[str, Any]:
    """What changes in the job's row, by the queue's record."""
    status = status_of(job)
    ended_at = job.attempts[-1].ended_at if job.attempts else None
    return {
        "LastModifiedTime": to_datetime(from_iso(job.changed_at)),
        "TrainingJobStatus": status,
        "SecondaryStatus": _secondary(job, status),
    } | (
        {"TrainingEndTime": to_datetime(from_iso(ended_at))}
        if ended_at and status in _ENDINGS
        else {}
    )


def status_of(job: JobView) -> str:
    """The TrainingJobStatus that follows from the job's state in the queue."""
    if ended_by_time_box(job):
        return "Stopped"
    cause = job.attempts[-1].stop_cause if job.attempts else None
    if job.state == JobState.STOPPING and cause in _FOR_GOOD:
        return "Stopping"
    return _ENDED.get(JobState(job.state), "InProgress")


def _secondary(job: JobView, status: str) -> str:
    if ended_by_time_box(job):
        ran = job.attempts and job.attempts[-1].running_since is not None
        return "MaxRuntimeExceeded" if ran else "MaxWaitTimeExceeded"
    if job.state in TERMINAL_STATES or status == "Stopping":
        return status
    return _SECONDARY.get(JobState(job.state), "Pending")
