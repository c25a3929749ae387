"""Messages of callback steps of SageMaker Pipelines, and the requests that they carry.

Pipelines gives values to the arguments of a step alone, not to texts inside them. So a step
(`slotq.pipelines.QueueStep`) has its request as JSON in one argument, and each pipeline variable of
the request as an argument of its own. In the request an object of one key stands for the variable:
`{"slotq:argument": NAME}`. A value is put in whole, so it can change no other part of the request.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slotq_core import names
from slotq_core.errors import InvalidRequest, NotUnderstood
from slotq_core.wire import strict_json

REQUEST = "request"
"""The argument with the CreateTrainingJob request."""
ABANDONED = "when_abandoned"
"""The argument that says what becomes of the job when the step no longer waits."""
PLACEHOLDER = "slotq:argument"
KIND = "kind"
"""The key beside PLACEHOLDER for the type of the value, if the request needs another than text."""
MOST_ARGUMENTS = 200_000
"""The most bytes of a step's arguments as JSON: with the rest of the message less than the 256 KiB
that an SQS message may have."""

_TOKEN = re.compile(r"[A-Za-z0-9]{10}")
_EXECUTION = re.compile(
    r"arn:[^:]+:sagemaker:[^:]*:[0-9]*:pipeline/(?P<pipeline>[A-Za-z0-9-]{1,256})"
    r"/execution/(?P<id>[A-Za-z0-9]{1,18})"
)
_LONGEST_PIPELINE = 34
"""The most characters of the pipeline's name in the job's name, which has at most 63."""
_NUMBERS = {"integer": int, "float": float}
_TRUTH = {"true": True, "false": False}


@dataclass(frozen=True, kw_only=True, slots=True)
class StepMessage:
    """The message of one callback step."""

    token: str
    """The step's secret token."""
    execution: str
    """The ARN of the pipeline's execution."""
    job: str
    """The name of the step's job. It follows from the execution and the token, so that a repeated
    message is the same submission and the message of a stop finds the job."""
    stopping: bool
    """Whether the execution is being stopped."""
    arguments: Mapping[str, Any]

    @property
    def goes_on(self) -> bool:
        """Whether the job goes on when the execution is stopped."""
        return self.arguments.get(ABANDONED) == "continue"

    def body(self) -> str:
        """The body of the submission. Raises InvalidRequest with the name of the argument."""
        text = self.arguments.get(REQUEST)
        if not isinstance(text, str):
            raise InvalidRequest(
                f"the step has no argument '{REQUEST}': build it with slotq.pipelines.QueueStep",
                field=REQUEST,
            )
        try:
            request = strict_json.parse(text)
        except ValueError:
            request = None
        if not isinstance(request, dict):
            raise InvalidRequest(f"the argument '{REQUEST}' is no JSON object", field=REQUEST)
        filled = _filled(request, self.arguments)
        callback = {"pipeline_token": self.token}
        if self.arguments.get(ABANDONED) is not None:
            callback[ABANDONED] = self.arguments[ABANDONED]
        return json.dumps({**filled, "TrainingJobName": self.job, names.CALLBACK: callback})


def read_message(text: str) -> StepMessage:
    """Read the message of a callback step. Raises NotUnderstood if it names no step to answer."""
    try:
        message = strict_json.parse(text)
    except ValueError:
        raise NotUnderstood("the message is not JSON") from None
    if not isinstance(message, dict):
        raise NotUnderstood("the message is no JSON object")
    token, status = message.get("token"), message.get("status", message.get("Status"))
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise NotUnderstood("the message has no token of a callback step")
    execution = _EXECUTION.fullmatch(str(message.get("pipelineExecutionArn")))
    if execution is None:
        raise NotUnderstood("the message has no pipelineExecutionArn")
    arguments = message.get("arguments")
    mark = hashlib.sha256(f"{execution[0]} {token}".encode()).hexdigest()[:8]
    pipeline = execution["pipeline"][:_LONGEST_PIPELINE].strip("-")
    return StepMessage(
        token=token,
        execution=execution[0],
        job=f"{pipeline}-{execution['id']}-{mark}",
        stopping=status == "Stopping",
        arguments=arguments if isinstance(arguments, dict) else {},
    )


def _filled(value: Any, arguments: Mapping[str, Any]) -> Any:
    """The value with each placeholder's argument in its place."""
    if isinstance(value, list):
        return [_filled(item, arguments) for item in value]
    if not isinstance(value, dict):
        return value
    if PLACEHOLDER in value:
        return _argument(str(value[PLACEHOLDER]), value.get(KIND), arguments)
    return {key: _filled(item, arguments) for key, item in value.items()}


def _argument(name: str, kind: object, arguments: Mapping[str, Any]) -> Any:
    """The argument of that name as the type that the request needs. Raises InvalidRequest."""
    value = arguments.get(name)
    if value is None or isinstance(value, dict | list):
        raise InvalidRequest(f"the step's argument '{name[:40]}' has no value", field=name[:40])
    if not isinstance(value, str) or kind is None:
        return value
    if kind == "boolean" and value.lower() in _TRUTH:
        return _TRUTH[value.lower()]
    try:
        return _NUMBERS[str(kind)](value)
    except (KeyError, ValueError):
        raise InvalidRequest(
            f"the step's argument '{name[:40]}' must be of type {kind}, not '{value[:40]}'",
            field=name[:40],
        ) from None
