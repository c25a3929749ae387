"""The request being answered, as routes read it, and answers as they write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from itertools import accumulate, takewhile
from typing import TYPE_CHECKING, TypeVar

from slotq_core.api.router import Response, Router
from slotq_core.api.table.route import DRY_RUN
from slotq_core.errors import InvalidRequest, Refused
from slotq_core.operations.jobs.listing import MOST_ANSWER

if TYPE_CHECKING:
    from pydantic import BaseModel

V = TypeVar("V", bound="BaseModel")

_FRAME = 500
"""Bytes of an answer besides its views and what is measured: names of fields, and cursors."""

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

    def query(self) -> Mapping[str, Sequence[str]]:
        """The query's parameters; those that the table of routes names (`check_query`)."""
        return self._http.request.query

    def header(self, name: str) -> str:
        """All values of a header as one list; empty if it is absent."""
        return self._http.request.header(name)

    @property
    def path(self) -> str:
        return str(self._http.request.event["path"])

    def check_query(self, known: Sequence[str]) -> None:
        """Raises InvalidRequest for a parameter that is not among these."""
        for key in self.query():
            if key not in known:
                *others, last = known or ("",)
                use = f"{', '.join(others)} or {last}" if others else last
                raise InvalidRequest(
                    f"there is no parameter '{key[:40]}' here{use and f'; use {use}'}",
                    field=key[:40],
                )

    def is_dry_run(self) -> bool:
        """Whether the request only asks what would come of it. Raises InvalidRequest."""
        return switch(DRY_RUN, self.query())


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
    values = {*query.get(key, ("false",))}
    for text in sorted(values - {"true", "false"}):
        raise InvalidRequest(f"{key} takes true or false, not '{text[:40]}'", field=key)
    if len(values) > 1:
        raise InvalidRequest(f"{key} is given as true and as false", field=key)
    return "true" in values


def fitting_views(views: Sequence[V], *, beside: BaseModel | None = None) -> Sequence[V]:
    """The first of these views that fit into one answer beside the rest of it; one at least."""
    room = MOST_ANSWER - _FRAME - (_size(beside) if beside else 0)
    sizes = accumulate(_size(view) + 1 for view in views)
    return views[: max(1, sum(1 for _ in takewhile(room.__ge__, sizes)))]


def _size(view: BaseModel) -> int:
    return len(view.model_dump_json().encode())


def json_answer(status: HTTPStatus, body: BaseModel, *, has_reports: bool = False) -> Response:
    return Response(status=int(status), body=body.model_dump_json(), has_reports=has_reports)
