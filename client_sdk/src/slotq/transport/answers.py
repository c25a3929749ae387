"""Read the answers of the queue and of API Gateway: views, or exceptions that say what to do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol, Self, TypeVar
from urllib.parse import urlsplit

from pydantic import ValidationError

from slotq.configuration.settings import Config
from slotq.errors import (
    InvalidRequest,
    LimitReached,
    NotAllowed,
    Refused,
    RequestWithheld,
    SlotQError,
    Unavailable,
    UnexpectedAnswer,
)
from slotq.transport.network import api_in
from slotq.transport.signed_http import TRIES, HttpAnswer, Transport
from slotq_core.errors import REFUSALS
from slotq_core.wire import VERSION
from slotq_core.wire.base import ErrorView


class Answer(Protocol):
    """A view with which the queue answers."""

    version: int

    @classmethod
    def model_validate_json(cls, json_data: bytes) -> Self: ...
    @property
    def model_fields_set(self) -> set[str]: ...


View = TypeVar("View", bound=Answer)


def read(view: type[View], answer: HttpAnswer, transport: Transport, config: Config) -> View:
    """The view that a successful answer carries.

    Raises the queue's refusal otherwise, and UnexpectedAnswer for what is not the queue's.
    """
    if not 200 <= answer.status_code < 300:
        signed = transport.credentials() is not None
        raise error_in(answer, config=config, signed=signed)
    try:
        found = view.model_validate_json(answer.content)
    except ValidationError:
        raise _not_the_queue(answer, config) from None
    if "version" not in found.model_fields_set or found.version != VERSION:
        raise _not_the_queue(answer, config)
    return found


def _not_the_queue(answer: HttpAnswer, config: Config) -> UnexpectedAnswer:
    return UnexpectedAnswer(
        f"{config.endpoint} answered {answer.status_code}, but not as the queue does: "
        "check that the endpoint is the queue's API and ends with its stage (…/prod), and "
        f"that the queue speaks this client's version ({VERSION})"
    )


NOT_REACHED = "unavailable"
"""The code of an error that may disappear when the request is repeated."""

_HINTS = {
    "missing authentication token": (
        "the API has no such path: the endpoint must end with the stage (…/prod)"
    ),
    "is not authorized to perform": (
        "your IAM role needs execute-api:Invoke on the queue's API, and the API's resource policy "
        "must admit your VPC endpoint"
    ),
    "signature": (
        "the signature does not match: check the secret key, the region (SLOTQ_REGION) and this "
        "machine's clock"
    ),
    "expired": "your AWS credentials have expired: log in again",
    "security token": (
        "AWS does not know these credentials: check the AWS profile (SLOTQ_AWS_PROFILE) and "
        "the account"
    ),
    "forbidden": (
        "API Gateway found no API for this host that admits you: check {api} and the stage; "
        "through a VPC endpoint set api_id (SLOTQ_API_ID) to the queue's API, and check that the "
        "API's resource policy admits the endpoint"
    ),
}
"""What to check, by a part of API Gateway's message; the first match counts. With a slow clock
it is the signature that has expired."""


def error_in(answer: HttpAnswer, *, config: Config, signed: bool) -> SlotQError:
    """The exception for an answer that reports no success."""
    status, said = answer.status_code, _object(answer.content)
    kind = REFUSALS.get(str(said.get("code", "")))
    message = str(said.get("message") or said.get("Message") or "")
    if kind is not None:
        return _refusal(kind, message, said, answer)
    if status in {401, 403}:
        return NotAllowed(_not_allowed(status, message, config, signed=signed))
    if status == 429 or status >= 500:
        return Unavailable(
            f"the queue at {config.endpoint} answered {status} {TRIES} times{_quoted(message)}; "
            "try again later"
        )
    if status == 413:
        return InvalidRequest(f"the request is larger than the API allows{_quoted(message)}")
    if "code" in said and status not in {404, 405}:
        return Refused(message, field=str(said.get("field") or ""))
    return UnexpectedAnswer(
        f"{config.endpoint} answered {status}{_quoted(message)}: check that the endpoint (from "
        f"{config.source('endpoint')}) is the queue's API and ends with its stage (…/prod)"
    )


def error_of_one(view: ErrorView, *, place: str = "", retry_after: int | None = None) -> SlotQError:
    """The exception for one of several jobs that failed, as if it had been alone in the request.
    `place`: where it was."""
    message = view.message.removeprefix(f"{place}: ")
    if view.code == RequestWithheld.code:
        return NotAllowed(message)
    if view.code in {NOT_REACHED, "internal_error"}:
        return Unavailable(message)
    kind, field = REFUSALS.get(view.code, Refused), _path_in(view.field, place)
    if issubclass(kind, LimitReached):
        return kind(message, field=field, retry_after=retry_after or 60)
    faults = tuple((_path_in(fault.path, place), fault.message) for fault in view.faults)
    return kind(message, field=field, faults=faults)


def _path_in(path: str, place: str) -> str:
    """The path of a field below the place."""
    return "" if path == place else path.removeprefix(f"{place}.")


def _refusal(
    kind: type[Refused], message: str, said: Mapping[str, Any], answer: HttpAnswer
) -> Refused:
    field, again = str(said.get("field") or ""), answer.headers.get("Retry-After", "")
    if not issubclass(kind, LimitReached):
        return kind(message, field=field, faults=_faults(said.get("faults")))
    if again.isdecimal():
        return kind(message, field=field, retry_after=int(again))
    return kind(message, field=field)


def _faults(found: object) -> tuple[tuple[str, str], ...]:
    """The faults of an answer: each field's path and what would be right."""
    entries = found if isinstance(found, list) else []
    return tuple(
        (str(entry.get("path", "")), str(entry.get("message", "")))
        for entry in entries
        if isinstance(entry, dict)
    )


def _not_allowed(status: int, message: str, config: Config, *, signed: bool) -> str:
    lead = f"the queue at {config.endpoint} did not let you in ({status}{_quoted(message)}): "
    if not signed:
        return (
            lead + "no AWS credentials were found to sign the request with; set SLOTQ_AWS_PROFILE, "
            "AWS_PROFILE or AWS_ACCESS_KEY_ID"
        )
    lowered = message.lower()
    hint = next((hint for mark, hint in _HINTS.items() if mark in lowered), None)
    if hint is None:
        return lead + "check that your IAM role has execute-api:Invoke on the queue's API"
    api = api_in(urlsplit(config.endpoint or "").hostname or "")
    return lead + hint.format(api=api or "the endpoint's name")


def _object(content: bytes) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _quoted(message: str) -> str:
    return f' "{message}"' if message else ""
