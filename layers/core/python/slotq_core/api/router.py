"""Routing of API Gateway REST proxy events to the functions that answer them.

Only what the API needs: at a cold start, a whole framework takes longer than the rest of the core
(benchmarks/cold_start.py).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any

Answer = Callable[..., "Response"]
"""Receives the named parts of the path as keywords."""
Handler = Callable[[Any], "Response"]
"""Receives the exception."""

_PART = re.compile(r"[-._~()'!*:@,;=+&$%<> \[\]{}|^\w]+")
"""The characters that one decoded part of a path may have."""


@dataclass(kw_only=True, slots=True)
class Response:
    status: int
    body: str
    """JSON; empty: none."""
    headers: dict[str, str] = field(default_factory=dict)
    """Headers besides Content-Type."""
    has_reports: bool = False
    """Whether the body has reports of scripts, which change past the table."""

    def as_event(self) -> dict[str, Any]:
        """The response in the format of the proxy integration."""
        kind = {"Content-Type": "application/json"} if self.body else {}
        headers = {**kind, **self.headers}
        return {
            "statusCode": self.status,
            "body": self.body,
            "isBase64Encoded": False,
            "multiValueHeaders": {name: [value] for name, value in headers.items()},
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """An event and the context of its invocation."""

    event: Mapping[str, Any]
    context: Any

    @property
    def body(self) -> str:
        """The decoded body. Raises ValueError if it claims to be base64 and is not base64 of
        UTF-8."""
        body: str = self.event.get("body") or ""
        return base64.b64decode(body).decode() if self.event.get("isBase64Encoded") else body

    @property
    def query(self) -> dict[str, list[str]]:
        """Each parameter with all its values."""
        single = self.event.get("queryStringParameters") or {}
        every = self.event.get("multiValueQueryStringParameters") or {}
        return {**{key: value.split(",") for key, value in single.items()}, **every}

    def header(self, name: str) -> str:
        """All values of a header as one list; empty if it is absent."""
        single = self.event.get("headers") or {}
        every = self.event.get("multiValueHeaders") or {key: [single[key]] for key in single}
        values = (values for key, values in every.items() if key.lower() == name.lower())
        return ", ".join(str(value) for found in values for value in found or ())


_REQUEST: ContextVar[Request] = ContextVar("request")
"""The request being answered. Lambda answers one at a time; tests answer several, in threads."""


class Router:
    def __init__(
        self, *, not_found: Handler, before: Callable[[str, str], None] = lambda *_: None
    ) -> None:
        """`not_found` answers if no route matches; it receives None. `before` is called before each
        route's answer, with the path and the method of the route; if it raises, its error is
        answered."""
        self._not_found, self._before = not_found, before
        self._routes: list[tuple[str, str, Answer]] = []
        self._handlers: dict[type[Exception], Handler] = {}

    @property
    def request(self) -> Request:
        """The request being answered."""
        return _REQUEST.get()

    def add(self, path: str, methods: Iterable[str], answer: Answer) -> None:
        """Add a route. A part `<name>` of a path matches any one part."""
        self._routes += ((path, method, answer) for method in methods)

    def on_error(self, kind: type[Exception], handler: Handler) -> None:
        """Set the handler for this kind of exception. The most specific kind wins."""
        self._handlers[kind] = handler

    def resolve(self, event: Mapping[str, Any], context: Any) -> dict[str, Any]:
        _REQUEST.set(Request(event=event, context=context))
        answer, named = self._route(event)
        try:
            return answer(**named).as_event()
        except Exception as error:
            kinds = [kind for kind in type(error).__mro__ if kind in self._handlers]
            if not kinds:
                raise
            return self._handlers[kinds[0]](error).as_event()

    def _route(self, event: Mapping[str, Any]) -> tuple[Answer, Mapping[str, str]]:
        for path, method, answer in self._routes:
            if method != event["httpMethod"].upper():
                continue
            named = _named(path, event["path"])
            if named is not None:
                return partial(self._after_check, path, method, answer), named
        return lambda: self._not_found(None), {}

    def _after_check(self, path: str, method: str, answer: Answer, **named: str) -> Response:
        self._before(path, method)
        return answer(**named)


def _named(path: str, requested: str) -> Mapping[str, str] | None:
    """The named parts of a requested path; None if the path differs. Trailing slashes are
    ignored."""
    parts, found = path.split("/"), requested.rstrip("/").split("/")
    if len(parts) != len(found):
        return None
    named = {}
    for part, text in zip(parts, found, strict=True):
        if part.startswith("<"):
            if not _PART.fullmatch(text):
                return None
            named[part.strip("<>")] = text
        elif part != text:
            return None
    return named
