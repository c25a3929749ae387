"""The request being answered, as routes read it, and answers as they write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING

from slotq_core.errors import InvalidRequest, Refused
from slotq_core.routing import Response, Router

if TYPE_CHECKING:
    from pydantic import BaseModel

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
        """The query's parameters. Raises InvalidRequest for an unknown one."""
        query = self._http.request.query
        for key in query:
            if key not in known:
                raise InvalidRequest(
                    f"there is no parameter '{key[:40]}' here; use {' or '.join(known)}",
                    field=key[:40],
                )
        return query


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
    text = query[key][-1] if key in query else "false"
    if text not in {"true", "false"}:
        raise InvalidRequest(f"{key} takes true or false, not '{text[:40]}'", field=key)
    return text == "true"


def json_answer(status: HTTPStatus, body: BaseModel) -> Response:
    return Response(status=int(status), body=body.model_dump_json())
