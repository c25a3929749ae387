"""The request being answered, as routes read it, and answers as they write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from itertools import accumulate, takewhile
from typing import TYPE_CHECKING, TypeVar

from slotq_core.errors import InvalidRequest, Refused
from slotq_core.operations.listing.cursor import MOST_ANSWER
from slotq_core.routing import Response, Router

if TYPE_CHECKING:
    from pydantic import BaseModel

V = TypeVar("V", bound="BaseModel")

_FRAME = 500
"""Bytes of an answer besides its views and what is measured: names of fields, and cursors."""

DRY_RUN = "dry_run"
"""The parameter of requests that only ask what would come of them."""

_DIGITS = 10
"""The most digits of a number in a query, leading zeros included."""


class NotSigned(Refused):
    """The request has no signer."""

    code = "not_signed"
    status = 403


class SignedRequest:
    """The request that the router has at hand."""

    def __init__(self, http: Router) -> None:
        self._http = http

    def caller(self) -> str:
        """The ARN that signed the request. API Gateway sets it; the request itself cannot.

        Raises NotSigned.
        """
        context = self._http.request.event.get("requestContext") or {}
        caller = (context.get("identity") or {}).get("userArn")
        if not isinstance(caller, str) or not caller:
            raise NotSigned("the request must be signed by an IAM principal (AWS Signature V4)")
        return caller

    def body(self) -> str:
        try:
            return self._http.request.body
        except ValueError:
            raise InvalidRequest("the body is not text in UTF-8") from None

    def query(self, *known: str) -> Mapping[str, Sequence[str]]:
        """The query's parameters. Raises InvalidRequest for an unknown one. Every route that
        changes something asks: a `dry_run` that it does not know must not be done in earnest."""
        query = self._http.request.query
        for key in query:
            if key not in known:
                use = f"; use {' or '.join(known)}" if known else ""
                raise InvalidRequest(
                    f"there is no parameter '{key[:40]}' here{use}", field=key[:40]
                )
        return query

    def is_dry_run(self) -> bool:
        """Whether the request only asks what would come of it. `dry_run` is then the only parameter
        that there may be. Raises InvalidRequest."""
        return switch(DRY_RUN, self.query(DRY_RUN))


def number(
    key: str, query: Mapping[str, Sequence[str]], *, low: int, high: int = 10**9
) -> int | None:
    """A whole number from the query; None if absent. Raises InvalidRequest."""
    text = query[key][-1] if key in query else None
    if text is None:
        return None
    legible = text.isascii() and text.isdigit() and len(text) <= _DIGITS
    if not legible or not low <= int(text) <= high:
        raise InvalidRequest(
            f"{key} takes an integer from {low:,} to {high:,}, not '{text[:40]}'", field=key
        )
    return int(text)


def switch(key: str, query: Mapping[str, Sequence[str]]) -> bool:
    """`true` or `false` from the query; False if absent. Raises InvalidRequest."""
    given = {*query.get(key, ("false",))}
    for text in sorted(given - {"true", "false"}):
        raise InvalidRequest(f"{key} takes true or false, not '{text[:40]}'", field=key)
    if len(given) > 1:
        raise InvalidRequest(f"{key} is given as true and as false", field=key)
    return "true" in given


def fitting_views(views: Sequence[V], *, beside: BaseModel | None = None) -> Sequence[V]:
    """The first of these views that fit into one answer beside the rest of it; one at least."""
    room = MOST_ANSWER - _FRAME - (_size(beside) if beside else 0)
    sizes = accumulate(_size(view) + 1 for view in views)
    return views[: max(1, sum(1 for _ in takewhile(room.__ge__, sizes)))]


def _size(view: BaseModel) -> int:
    return len(view.model_dump_json().encode())


def json_answer(status: HTTPStatus, body: BaseModel) -> Response:
    return Response(status=int(status), body=body.model_dump_json())
