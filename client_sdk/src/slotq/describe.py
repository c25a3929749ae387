"""A job of the queue as DescribeTrainingJob would show it, while SageMaker cannot."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from slotq_core.model import ACTIVE_STATES, TERMINAL_STATES, JobState
from slotq_core.moments import from_iso
from slotq_core.wire import JobView

_ENDED = {
    JobState.COMPLETED: "Completed",
    JobState.FAILED: "Failed",
    JobState.CANCELLED: "Stopped",
    JobState.STOPPED: "Stopped",
}


def has_training_job(job: JobView) -> bool:
    """Whether SageMaker's own answer about the latest attempt is the answer about the job.

    Not while the job waits (its last training job shows Stopped, but the job has not ended), and
    not for an attempt that never ran (there may be no training job).
    """
    last = job.attempts[-1] if job.attempts else None
    ran = last is not None and last.running_since is not None
    return ran and job.state in (ACTIVE_STATES | TERMINAL_STATES)


def description(job: JobView, request: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of DescribeTrainingJob, from the queue's knowledge and the request, if known.

    A waiting job is InProgress, Pending: SageMaker's words for a training job without instances.
    """
    status = _ENDED.get(JobState(job.state), "InProgress")
    return {
        "HyperParameters": {},
        "EnableNetworkIsolation": False,
        "EnableInterContainerTrafficEncryption": False,
        "EnableManagedSpotTraining": False,
        **{key: value for key, value in request.items() if key != "Tags"},
        "TrainingJobName": job.name,
        "TrainingJobArn": f"arn:aws:sagemaker:::training-job/{job.name}",
        "TrainingJobStatus": status,
        "SecondaryStatus": _secondary(job, status),
        "SecondaryStatusTransitions": [],
        "ModelArtifacts": {"S3ModelArtifacts": ""},
        "OutputDataConfig": {"KmsKeyId": "", **request.get("OutputDataConfig", {})},
        "CreationTime": _moment(job.entry_time),
        "LastModifiedTime": _moment(job.changed_at),
        **({"FailureReason": job.message} if status == "Failed" else {}),
    }


def _secondary(job: JobView, status: str) -> str:
    if job.state in TERMINAL_STATES:
        return status
    return "Starting" if job.state == JobState.STARTING else "Pending"


def _moment(text: str) -> datetime:
    return datetime.fromtimestamp(from_iso(text) / 1000, UTC)
