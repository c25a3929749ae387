"""What botocore does differently for a session of the queue, by its own event hooks.

A job in the queue may have had several training jobs, or none yet. So that whatever the SDK does
with a job's name works (`model_data`, `describe`, `attach`, `stop`), a session's SageMaker client

- asks about the training job of the latest attempt when it is asked about the job,
- is answered here for a job that has no training job to ask about,
- cancels in the queue when it is told to stop the job.

Names that the queue does not know go to SageMaker untouched.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping
from types import SimpleNamespace
from typing import Any, Protocol
from urllib.parse import urlsplit

from slotq.describe import description, has_training_job
from slotq.errors import InvalidRequest, NoSuchJob
from slotq_core.wire import JobView

_ANSWER = "slotq_answer"
_OK = SimpleNamespace(status_code=200, headers={})


class Queue(Protocol):
    """What of QueueClient is used here."""

    def job(self, name: str) -> JobView: ...
    def cancel(self, name: str) -> JobView: ...


class QueueHooks:
    """Makes one SageMaker client speak of the queue's jobs.

    `requests` holds the requests that this session has submitted, by job name: they fill what is
    answered for a job that has not run yet.
    """

    def __init__(
        self, client: Any, queue: Queue, *, requests: Mapping[str, Mapping[str, Any]]
    ) -> None:
        self._queue = queue
        self._requests = requests
        for operation, answer in (
            ("DescribeTrainingJob", self._describe),
            ("StopTrainingJob", self._stop),
        ):
            client.meta.events.register(f"provide-client-params.sagemaker.{operation}", answer)
            client.meta.events.register(f"before-call.sagemaker.{operation}", _short_circuit)

    def _describe(
        self, params: Mapping[str, Any], context: MutableMapping[str, Any], **_: Any
    ) -> Mapping[str, Any] | None:
        job = self._job(params)
        if job is None:
            return None
        if has_training_job(job):
            return {**params, "TrainingJobName": job.training_job}
        context[_ANSWER] = description(job, self._requests.get(job.name, {}))
        return None

    def _stop(self, params: Mapping[str, Any], context: MutableMapping[str, Any], **_: Any) -> None:
        job = self._job(params)
        if job is not None:
            self._queue.cancel(job.name)
            context[_ANSWER] = {}

    def _job(self, params: Mapping[str, Any]) -> JobView | None:
        try:
            return self._queue.job(str(params.get("TrainingJobName", "")))
        except (NoSuchJob, InvalidRequest):
            return None


def _short_circuit(context: Mapping[str, Any], **_: Any) -> tuple[Any, dict[str, Any]] | None:
    """Answer without the network where the parameters' hook has left an answer."""
    if _ANSWER not in context:
        return None
    return _OK, {
        **context[_ANSWER],
        "ResponseMetadata": {"HTTPStatusCode": 200, "RetryAttempts": 0},
    }


def honour_sts_endpoint(events: Any) -> None:
    """Send STS calls to AWS_ENDPOINT_URL_STS or AWS_ENDPOINT_URL where one of them is set.

    The SDK builds its STS clients with an explicit endpoint, which makes botocore ignore both.
    `events` are those of a boto3 session, before its STS client is made.
    """
    target = os.environ.get("AWS_ENDPOINT_URL_STS") or os.environ.get("AWS_ENDPOINT_URL")
    if not target:
        return

    def redirect(request: Any, **_: Any) -> None:
        wanted = urlsplit(target)
        url = urlsplit(request.url)._replace(scheme=wanted.scheme, netloc=wanted.netloc)
        request.url = url.geturl()

    events.register("before-send.sts", redirect, unique_id="slotq-sts-endpoint")
