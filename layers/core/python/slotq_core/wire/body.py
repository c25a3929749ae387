"""Reading JSON bodies, and reporting their faults.

Only the `wire` modules and `openapi` use pydantic. The event path of the Lambda never imports it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from slotq_core.errors import InvalidRequest
from slotq_core.wire import strict_json
from slotq_core.wire.training.training_request import RequestFault, refusal

MAX_BODY = 1_000_000
"""The most bytes of a submission, by any route. API Gateway takes up to 10 MB, an asynchronous
Lambda payload 1 MB. A CreateTrainingJob request with every field at its limit is smaller."""

_SHOWN = 100
"""The most characters of a field's path in an answer. The path may contain a key from the body."""


def json_object(
    body: str | bytes, what: str = "a CreateTrainingJob request", *, most: int = MAX_BODY
) -> Mapping[str, Any]:
    """The JSON object in a body of at most `most` bytes. Raises InvalidRequest, with `what` to send
    in its message."""
    if len(body) > most:
        raise InvalidRequest(f"the body is larger than {most:,} bytes")
    try:
        value = strict_json.parse(body)
    except strict_json.NotStrict as error:
        raise InvalidRequest(f"the queue does not accept this JSON: {error}") from None
    except ValueError:
        raise InvalidRequest(f"the body is not JSON; send {what}") from None
    if not isinstance(value, dict):
        raise InvalidRequest(f"the body must be a JSON object: {what}")
    return value


def invalid(error: ValidationError) -> InvalidRequest:
    """All faults that pydantic found, as one error."""
    return refusal(faults_in(error))


def faults_in(error: ValidationError) -> list[RequestFault]:
    return [_fault(fault["loc"], fault["msg"]) for fault in error.errors(include_input=False)]


def _fault(place: tuple[int | str, ...], message: str) -> RequestFault:
    path = ".".join(str(part) for part in place)[:_SHOWN]
    message = message.removeprefix("Value error, ")
    if not path and "tag '" in message:
        path = "Tags"
    return RequestFault(path=path, message=message)
