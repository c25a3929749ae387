"""Passes a page's call on to the queue, signed with the user's credentials.

Nothing is decided here: the queue refuses what the caller may not do. Only paths of the queue's own
API are passed on, so that the page's address bar cannot make the user sign other requests.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import parse_qsl

from slotq.errors import CannotReach, NotConfigured, SlotQError
from slotq.transport.signed_http import HttpAnswer, Transport
from slotq_core.wire.body import MAX_BODY

METHODS = ("DELETE", "GET", "PATCH", "POST")
LONGEST_BODY = MAX_BODY
LONGEST_TARGET = 8_000
MOST_PARAMETERS = 50
_PATH = re.compile(r"(/([A-Za-z0-9_.~-]|%[0-9A-Fa-f]{2})+){1,8}")
_UP = re.compile(r"(^|/)(\.|%2e){1,2}(/|$)|%2f|%5c", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Reply:
    """The queue's answer, or the error in its place."""

    status: int
    body: bytes
    tag: str = ""
    """The answer's ETag."""


class Calls(Protocol):
    """What the relay needs of `Transport`."""

    def call(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, object] | None,
        body: bytes | None,
        known: str,
    ) -> HttpAnswer: ...


class PageRelay:
    def __init__(self, transport: Transport | Calls) -> None:
        self._transport = transport

    def pass_on(self, method: str, target: str, body: bytes | None, known: str = "") -> Reply:
        """Make one call of the queue's API. Every failure becomes an answer in the API's form.
        `known`: If-None-Match of the page."""
        path, _, asked = target.partition("#")[0].partition("?")
        if (
            method not in METHODS
            or len(target) > LONGEST_TARGET
            or not _PATH.fullmatch(path)
            or _UP.search(path)
        ):
            return refusal(404, "not_found", "the queue has no such address")
        if asked.count("&") >= MOST_PARAMETERS:
            said = f"a call has at most {MOST_PARAMETERS} parameters"
            return refusal(400, "invalid_request", said)
        query: dict[str, object] = {}
        for name, value in parse_qsl(asked, keep_blank_values=True):
            held = query.setdefault(name, [])
            assert isinstance(held, list)
            held.append(value)
        try:
            answer = self._transport.call(
                method, path, query=query or None, body=body, known=known[:LONGEST_TARGET]
            )
        except SlotQError as error:
            return failure(error)
        tag = answer.headers.get("ETag", "")
        return Reply(status=answer.status_code, body=answer.content, tag=tag)


def failure(error: SlotQError) -> Reply:
    """An answer for a call that the queue has not answered."""
    match error:
        case CannotReach():
            code = "cannot_reach"
        case NotConfigured():
            code = "not_configured"
        case _:
            code = "unexpected"
    return refusal(502, code, str(error))


def refusal(status: int, code: str, message: str) -> Reply:
    """An answer of this server itself, in the form of the queue's refusals (`ErrorView`)."""
    said = {"version": 1, "code": code, "message": message, "field": "", "faults": []}
    return Reply(status=status, body=json.dumps(said).encode())
