"""What every JSON body has in common: how it is read, and how a fault in it is told.

Pydantic lives in the `wire` modules, `api` and `openapi`, and nowhere else in the core; the event
path of the Lambda never imports it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pydantic
from pydantic import ConfigDict, ValidationError

from slotq_core.errors import InvalidRequest
from slotq_core.wire import strict_json
from slotq_core.wire.training_request import Fault, refusal

MAX_BODY = 1_000_000
"""Bytes of a submission, on any way in. API Gateway itself takes up to 10 MB, an asynchronous
Lambda payload 1 MB; a CreateTrainingJob request of every field at its limit stays below this."""

_SHOWN = 100
"""Characters of a field's path that come back: it may hold a key of the body's."""


class BaseModel(pydantic.BaseModel):
    """Built with its first use, not at import: a cold start answers one request, with few of
    them."""

    model_config = ConfigDict(defer_build=True)


def json_object(body: str | bytes, what: str = "a CreateTrainingJob request") -> Mapping[str, Any]:
    """The JSON object that a body is. Raises InvalidRequest: `what` it should be."""
    if len(body) > MAX_BODY:
        raise InvalidRequest(f"the body is larger than {MAX_BODY:,} bytes")
    try:
        value = strict_json.parse(body)
    except strict_json.NotStrict as error:
        raise InvalidRequest(f"the body is not JSON that the queue takes: {error}") from None
    except ValueError:
        raise InvalidRequest(f"the body is not JSON; send {what}") from None
    if not isinstance(value, dict):
        raise InvalidRequest(f"the body must be a JSON object: {what}")
    return value


def invalid(error: ValidationError) -> InvalidRequest:
    """All that pydantic has found wrong, as the API tells it."""
    return refusal(faults_in(error))


def faults_in(error: ValidationError) -> list[Fault]:
    return [_fault(each["loc"], each["msg"]) for each in error.errors(include_input=False)]


def _fault(place: tuple[int | str, ...], message: str) -> Fault:
    path = ".".join(str(part) for part in place)[:_SHOWN]
    message = message.removeprefix("Value error, ")
    if not path and "tag '" in message:
        path = "Tags"
    return Fault(path=path, message=message)
