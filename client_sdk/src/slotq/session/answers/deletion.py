"""DeleteTrainingJob for a job of the queue: delete the training jobs of all attempts.

As in SageMaker, only a job that has ended can be deleted. The queue keeps its own record, so the
name stays taken in the queue. For the rest of this program the name belongs to SageMaker alone,
which then answers that there is no such training job.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from botocore.exceptions import ClientError

from slotq.jobs.follow import ended
from slotq.session.hooks import Answer, Context, InUse, Params, TakenCall, untouched
from slotq.session.training_calls import TrainingCalls
from slotq_core.wire.views.jobs import JobView


class Deletion:
    """`client` returns the boto3 client for `sagemaker` in a region."""

    def __init__(self, jobs: TrainingCalls, *, client: Callable[[str], Any]) -> None:
        self._jobs, self._client = jobs, client

    def calls(self) -> tuple[TakenCall, ...]:
        return (TakenCall(operation="sagemaker.DeleteTrainingJob", before=self._look),)

    def _look(self, params: Params, context: Context) -> Callable[[], Answer] | None:
        job = self._jobs.known(params.get("TrainingJobName"))
        if job is None:
            return None
        return partial(self._delete, job, str(context.get("client_region") or ""))

    def _delete(self, job: JobView, region: str) -> Answer:
        if not ended(job):
            raise InUse(
                f"job {job.name} is {job.state} in the queue: stop it first (StopTrainingJob, "
                f"or `slotq cancel {job.name}`), then delete it when it has ended",
                field="TrainingJobName",
            )
        client = self._client(region)
        for attempt in job.attempts:
            _delete(client, attempt.training_job)
        self._jobs.forget(job.name)
        return {}


def _delete(client: Any, training_job: str) -> None:
    """Delete one training job; does nothing if it does not exist. Raises ClientError."""
    with untouched():
        try:
            client.delete_training_job(TrainingJobName=training_job)
        except ClientError as error:
            if not _is_gone(error.response["Error"]):
                raise


def _is_gone(error: Mapping[str, str]) -> bool:
    """Whether the error means that there is no such training job: SageMaker uses two codes."""
    return error["Code"] == "ResourceNotFound" or "not found" in error["Message"]
