"""botocore event hooks: answer an operation here instead of at AWS, for any SDK above botocore.

An operation passes three points. `before-parameter-build` sees the caller's parameters and may
change them. `before-call`, after botocore has validated the parameters, may answer the operation.
`after-call` may amend the answer. The SDK or program sees an ordinary answer or ClientError.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from slotq.aws_members import refused_by_hooks
from slotq.errors import InvalidRequest, NameTaken, Refused

Params = MutableMapping[str, Any]
"""The parameters of an operation; changed in place."""
Context = MutableMapping[str, Any]
"""botocore's context of one call: the same object at all three points."""
Answer = dict[str, Any]


class InUse(Refused):
    """The operation needs a job that has ended."""

    code = "in_use"


_PENDING = "slotq_answer"
_CODES: Mapping[type[Refused], str] = {NameTaken: "ResourceInUse", InUse: "ResourceInUse"}
"""SageMaker's error code for a refusal of the queue. Other refusals get `_OTHER_CODE`."""
_OTHER_CODE = "ValidationException"

_untouched: ContextVar[bool] = ContextVar("slotq_untouched", default=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class TakenCall:
    """One operation that is inspected, answered or amended here."""

    operation: str
    """Service and operation, as botocore's events name them: `sagemaker.CreateTrainingJob`."""
    before: Callable[[Params, Context], Callable[[], Answer] | None]
    """Inspect the parameters. Returns the function that answers; None leaves the call to AWS."""
    after: Callable[[Answer, Context], None] | None = None
    """Amend an answer in place, whether from AWS or from here."""


@contextmanager
def untouched() -> Iterator[None]:
    """Send the calls made inside this context to AWS unchanged."""
    token = _untouched.set(True)
    try:
        yield
    finally:
        _untouched.reset(token)


def take_over(events: Any, calls: tuple[TakenCall, ...], *, owner: str) -> None:
    """Register the calls with the events of one client, or of a boto3 session.

    A boto3 session passes the hooks on to clients that it creates later. Earlier registrations by
    the same owner are replaced.
    """
    for call in calls:
        points = (
            ("before-parameter-build", _look(call)),
            ("before-call", _answer),
            ("after-call", _amend(call)),
        )
        for point, handler in points:
            event = f"{point}.{call.operation}"
            shared = handler is _answer
            name = f"slotq-{event}" if shared else f"slotq-{owner}-{event}"
            if not shared:
                events.unregister(event, unique_id=name)
            events.register(event, handler, unique_id=name)


def _look(call: TakenCall) -> Callable[..., None]:
    def look(params: Params, context: Context, **_: Any) -> None:
        if _PENDING in context or _untouched.get():
            return
        asked = dict(params)
        answer = call.before(params, context)
        if answer is not None:
            why = refused_by_hooks(call.operation, asked)
            context[_PENDING] = partial(_refuse, why) if why else answer

    return look


def _refuse(message: str) -> Answer:
    raise InvalidRequest(message)


def _answer(context: Context, **_: Any) -> tuple[Any, Answer] | None:
    """Answer a taken call without the network; None if nothing has taken the call."""
    if _PENDING not in context:
        return None
    status, answer = 200, {}
    try:
        answer = context[_PENDING]()
    except Refused as refusal:
        status = 400
        code = _CODES.get(type(refusal), _OTHER_CODE)
        answer = {"Error": {"Code": code, "Message": refusal.message}}
    answer["ResponseMetadata"] = {"HTTPStatusCode": status, "RetryAttempts": 0}
    return SimpleNamespace(status_code=status, headers={}), answer


def _amend(call: TakenCall) -> Callable[..., None]:
    def amend(parsed: Answer, context: Context, **_: Any) -> None:
        if call.after is not None and "Error" not in parsed and not _untouched.get():
            call.after(parsed, context)

    return amend


def honour_sts_endpoint(events: Any) -> None:
    """Send STS calls to AWS_ENDPOINT_URL_STS or AWS_ENDPOINT_URL, if either is set.

    The SDK creates its STS clients with an explicit endpoint, so botocore ignores both variables.
    `events` belong to a boto3 session that has no STS client yet.
    """
    target = os.environ.get("AWS_ENDPOINT_URL_STS") or os.environ.get("AWS_ENDPOINT_URL")
    if not target:
        return

    def redirect(request: Any, **_: Any) -> None:
        wanted = urlsplit(target)
        url = urlsplit(request.url)._replace(scheme=wanted.scheme, netloc=wanted.netloc)
        request.url = url.geturl()

    # Redirect before signing: the signature covers the host.
    events.register("before-sign.sts", redirect, unique_id="slotq-sts-endpoint")
