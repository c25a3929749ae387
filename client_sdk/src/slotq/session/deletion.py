"""DeleteTrainingJob for a job of the queue: what SageMaker has of it, over all its attempts.

As SageMaker, only of a job that has ended. The queue keeps its own record, and with it the name,
for as long as it keeps any job's; but in this program the name then is SageMaker's alone, which has
no such job any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from botocore.exceptions import ClientError

from slotq.jobs.follow import ended
from slotq.session.hooks import Answer, Context, InUse, Params, TakenCall, untouched
from slotq_core.wire.views import JobView


class Jobs(Protocol):
    """What of TrainingCalls is used here."""

    def known(self, name: Any) -> JobView | None: ...
    def forget(self, name: str) -> None: ...


class Deletion:
    """`client` gives boto3's for `sagemaker` in a region."""

    def __init__(self, jobs: Jobs, *, client: Callable[[str], Any]) -> None:
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
                f"job {job.name} is {job.state} in the queue: stop it first (StopTrainingJob, or "
                f"`slotq cancel {job.name}`), and delete it when it has ended",
                field="TrainingJobName",
            )
        client = self._client(region)
        for attempt in job.attempts:
            _delete(client, attempt.training_job)
        self._jobs.forget(job.name)
        return {}


def _delete(client: Any, training_job: str) -> None:
    """Where it is gone already, or never was, there is nothing to do. Raises ClientError."""
    with untouched():
        try:
            client.delete_training_job(TrainingJobName=training_job)
        except ClientError as error:
            if not _is_gone(error.response["Error"]):
                raise


def _is_gone(error: Mapping[str, str]) -> bool:
    """SageMaker says it with either code."""
    return error["Code"] == "ResourceNotFound" or "not found" in error["Message"]
