"""botocore's event hooks: answering an operation here instead of at AWS, for any SDK above it.

An operation passes three points. Its parameters are looked at when they are given
(`before-parameter-build`), where they may also be changed; it is answered, where it is to be, after
botocore has validated them (`before-call`); and the service's own answer can be amended
(`after-call`). What an SDK or a program sees is an ordinary answer, or an ordinary ClientError.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from slotq.errors import NameTaken, Refused

Params = MutableMapping[str, Any]
"""An operation's parameters; changed in place."""
Context = MutableMapping[str, Any]
"""botocore's own for one call; the same object at all three points."""
Answer = dict[str, Any]


class InUse(Refused):
    """What is asked for takes a job that has ended."""

    code = "in_use"


_PENDING = "slotq_answer"
_CODES: Mapping[type[Refused], str] = {NameTaken: "ResourceInUse", InUse: "ResourceInUse"}
"""SageMaker's code for a refusal of the queue, where it has one of its own."""
_OTHER_CODE = "ValidationException"

_untouched: ContextVar[bool] = ContextVar("slotq_untouched", default=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class TakenCall:
    """One operation that is looked at, answered or amended here."""

    operation: str
    """With its service, as botocore's events name it: `sagemaker.CreateTrainingJob`."""
    before: Callable[[Params, Context], Callable[[], Answer] | None]
    """Looks at the parameters. Gives what will answer the call; None: the service does."""
    after: Callable[[Answer, Context], None] | None = None
    """Amends an answer in place, the service's or our own."""


@contextmanager
def untouched() -> Iterator[None]:
    """Calls made inside go to AWS as they are."""
    token = _untouched.set(True)
    try:
        yield
    finally:
        _untouched.reset(token)


def take_over(events: Any, calls: tuple[TakenCall, ...], *, owner: str) -> None:
    """Register the calls with the events of a boto3 session (for clients that it makes from now on)
    or of one client. What the same owner registered there before is replaced."""
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
        answer = call.before(params, context)
        if answer is not None:
            context[_PENDING] = answer

    return look


def _answer(context: Context, **_: Any) -> tuple[Any, Answer] | None:
    """Answer without the network where somebody has taken the call."""
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

    # Before it is signed: the signature covers the host.
    events.register("before-sign.sts", redirect, unique_id="slotq-sts-endpoint")
