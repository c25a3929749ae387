"""Answers to state machines (AWS Step Functions) and pipelines (Amazon SageMaker).

An error is told by AWS's code alone, never by its text: that may contain the token.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from slotq_core.adapters.receivers.sending import reason
from slotq_core.errors import NotDelivered
from slotq_core.model.notices import Callback, CallbackKind
from slotq_core.notices import job_answers
from slotq_core.notices.job_answers import JobAnswer

_CLOSED = frozenset({"TaskTimedOut", "TaskDoesNotExist", "InvalidToken", "ResourceNotFound"})
"""AWS's words for a wait that is over, or was none."""


SERVICES: Mapping[CallbackKind, str] = MappingProxyType(
    {CallbackKind.TASK: "stepfunctions", CallbackKind.PIPELINE: "sagemaker"}
)
"""Whose client answers callbacks of each kind."""


class AwsAnswers:
    def __init__(self, clients: Mapping[CallbackKind, Any]) -> None:
        """`clients`: boto3's, of `SERVICES`; those of the kinds that are answered here."""
        self._clients = clients

    def still_waits(self, callback: Callback) -> bool:
        return self._call(callback, "send_task_heartbeat", taskToken=callback.token)

    def send(self, callback: Callback, answer: JobAnswer) -> bool:
        if callback.kind is CallbackKind.PIPELINE:
            return self._to_step(callback, answer)
        if answer.error:
            error, cause = job_answers.task_failure(answer)
            said = {"taskToken": callback.token, "error": error, "cause": cause}
            return self._call(callback, "send_task_failure", **said)
        output = job_answers.task_output(answer)
        return self._call(callback, "send_task_success", taskToken=callback.token, output=output)

    def _to_step(self, callback: Callback, answer: JobAnswer) -> bool:
        """Answer a step. The same answer has the same ClientRequestToken, so that SageMaker takes a
        repeated one for the first."""
        token = callback.token
        said: dict[str, Any] = {"CallbackToken": token, "ClientRequestToken": _same(token, answer)}
        if answer.error:
            reason = job_answers.step_failure(answer)
            operation = "send_pipeline_execution_step_failure"
            return self._call(callback, operation, FailureReason=reason, **said)
        outputs = job_answers.step_outputs(answer)
        operation = "send_pipeline_execution_step_success"
        return self._call(callback, operation, OutputParameters=outputs, **said)

    def _call(self, callback: Callback, operation: str, **arguments: Any) -> bool:
        """Return whether anybody waited. Raises NotDelivered."""
        try:
            getattr(self._clients[callback.kind], operation)(**arguments)
        except Exception as error:  # noqa: BLE001 - a right may miss, or a key, or an answer
            code = reason(error)
            if code in _CLOSED:
                return False
            raise NotDelivered(code) from None
        return True


def _same(token: str, answer: JobAnswer) -> str:
    said = f"{token}\n{answer.error}\n{answer.facts.get('ended_at')}"
    return hashlib.sha256(said.encode()).hexdigest()
