"""Callback steps of SageMaker Pipelines: each message is a request of the API.

A role has a queue of messages, to which nobody else may send. So the queue's ARN says who asks, and
nothing in a message does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from slotq_core.errors import InvalidRequest
from slotq_core.model.notices import Callback, CallbackKind
from slotq_core.notices.job_answers import JobAnswer
from slotq_core.ports.callbacks import Answers
from slotq_core.wire.training.step_messages import StepMessage, read_message

MOST_TRIES = 20
"""How often a message is tried while the queue takes no more jobs, or does not answer. The last try
fails the step. With the template's visibility timeout that is two hours."""
REFUSED, STOPPED = "SlotQ.Refused", "SlotQ.Stopped"
"""The errors of steps whose job was not submitted, or goes on without them."""
_FOR_NOW = 429
_OUTAGE = 500
_UNKNOWN = 404


class StepOutcome(StrEnum):
    """What became of one message."""

    SUBMITTED = "submitted"
    STOPPED = "stopped"
    FAILED = "failed"
    """The step has failed, with the reason."""
    AGAIN = "again"
    """SQS shall deliver the message again."""


class PipelineSteps:
    """Takes the messages of callback steps."""

    def __init__(
        self,
        answer: Callable[[dict[str, Any]], dict[str, Any]],
        *,
        submitter_of: Callable[[str], str],
        executes: Callable[[str], bool],
        answers: Callable[[], Answers],
    ) -> None:
        """`answer` answers a request of the API. `submitter_of` gives the ARN of the caller that
        stands behind a queue's ARN; it raises NotUnderstood. `executes` says whether the execution
        with an ARN goes on; it raises Unavailable. `answers` makes what fails steps."""
        self._answer, self._submitter_of, self._executes = answer, submitter_of, executes
        self._answers = answers

    def take(self, record: Mapping[str, Any]) -> StepOutcome:
        """Handle one record of an SQS event. Raises NotUnderstood for a message that names no step,
        and for a queue without a submitter; then nobody can be answered. Raises NotDelivered if the
        failure of a step is not accepted now, and Unavailable."""
        submitter = self._submitter_of(str(record.get("eventSourceARN")))
        message = read_message(str(record.get("body")))
        if message.stopping:
            return self._stop(message, submitter)
        if _tries(record) > 1 and not self._executes(message.execution):
            # The message of the stop came meanwhile, and found no job.
            return self._failed(message, STOPPED, "the execution, before its job was submitted")
        try:
            body = message.body()
        except InvalidRequest as error:
            return self._failed(message, REFUSED, error.message)
        answer = self._answer(_request("POST", "/add-job", "/add-job", submitter, body))
        if answer["statusCode"] < 400:
            return StepOutcome.SUBMITTED
        return self._refused(message, answer, tries=_tries(record))

    def _stop(self, message: StepMessage, submitter: str) -> StepOutcome:
        """Cancel the job; its end answers the step, for which the execution waits."""
        name = message.job
        if message.goes_on:
            return self._failed(message, STOPPED, f"the execution; job {name} goes on")
        answer = self._answer(_request("DELETE", "/jobs/{name}", f"/jobs/{name}", submitter))
        if answer["statusCode"] >= _OUTAGE:
            return StepOutcome.AGAIN
        if answer["statusCode"] == _UNKNOWN:
            return self._failed(message, STOPPED, "the execution, before its job was submitted")
        return StepOutcome.STOPPED

    def _refused(
        self, message: StepMessage, answer: Mapping[str, Any], *, tries: int
    ) -> StepOutcome:
        status = answer["statusCode"]
        if (status == _FOR_NOW or status >= _OUTAGE) and tries < MOST_TRIES:
            return StepOutcome.AGAIN
        return self._failed(message, REFUSED, str(json.loads(answer["body"])["message"]))

    def _failed(self, message: StepMessage, error: str, reason: str) -> StepOutcome:
        """Fail the step; one that no longer waits is left alone."""
        step = Callback(kind=CallbackKind.PIPELINE, token=message.token)
        facts = {"job": message.job}
        self._answers().send(step, JobAnswer(error=error, reason=reason, facts=facts))
        return StepOutcome.FAILED


def _tries(record: Mapping[str, Any]) -> int:
    """How often SQS has delivered the message, this time included."""
    attributes = record.get("attributes")
    count = attributes.get("ApproximateReceiveCount") if isinstance(attributes, Mapping) else None
    return int(str(count)) if str(count).isdecimal() else 1


def _request(
    method: str, resource: str, path: str, caller: str, body: str | None = None
) -> dict[str, Any]:
    """The request as API Gateway hands it over, signed by the caller."""
    return {
        "httpMethod": method,
        "resource": resource,
        "path": path,
        "requestContext": {"identity": {"userArn": caller}},
        "body": body,
    }
