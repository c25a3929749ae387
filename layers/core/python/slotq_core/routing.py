"""From an event of API Gateway's REST proxy integration to the function that answers it, and back.

As much of a framework as the API needs, and no more: at a cold start a whole one takes longer than
everything else of the core together (benchmarks/cold_start.py).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

Answer = Callable[..., "Response"]
"""Gets what the path names as keywords."""
Handler = Callable[[Any], "Response"]
"""Gets the exception."""

_NAME = re.compile(r"<(\w+)>")
_PART = r"[-._~()'!*:@,;=+&$%<> \[\]{}|^\w]+"
"""What one part of a path may be made of, decoded."""


@dataclass(kw_only=True, slots=True)
class Response:
    status: int
    body: str
    """JSON."""
    headers: dict[str, str] = field(default_factory=dict)
    """Beside the content's type."""

    def as_event(self) -> dict[str, Any]:
        """In the format of the proxy integration."""
        headers = {"Content-Type": "application/json", **self.headers}
        return {
            "statusCode": self.status,
            "body": self.body,
            "isBase64Encoded": False,
            "multiValueHeaders": {name: [value] for name, value in headers.items()},
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What came, and the context of the invocation."""

    event: Mapping[str, Any]
    context: Any

    @property
    def body(self) -> str:
        """Raises ValueError where it is not what it says it is: base64 of UTF-8."""
        body: str = self.event.get("body") or ""
        return base64.b64decode(body).decode() if self.event.get("isBase64Encoded") else body

    @property
    def query(self) -> dict[str, list[str]]:
        """Each parameter with all its values."""
        single = self.event.get("queryStringParameters") or {}
        every = self.event.get("multiValueQueryStringParameters") or {}
        return {**{key: value.split(",") for key, value in single.items()}, **every}


_REQUEST: ContextVar[Request] = ContextVar("request")
"""The one that is being answered. Lambda has one at a time; tests answer several, in threads."""


class Router:
    def __init__(self, *, not_found: Handler) -> None:
        """`not_found` answers where no route fits; its exception is None."""
        self._not_found = not_found
        self._routes: list[tuple[str, re.Pattern[str], Answer]] = []
        self._handlers: dict[type[Exception], Handler] = {}

    @property
    def request(self) -> Request:
        """The one that is being answered."""
        return _REQUEST.get()

    def add(self, path: str, methods: Iterable[str], answer: Answer) -> None:
        """`<name>` in a path stands for one part of it."""
        parts = (re.escape(part) for part in _NAME.split(path)[::2])
        names = (f"(?P<{name}>{_PART})" for name in _NAME.findall(path))
        pattern = "".join(part + next(names, "") for part in parts)
        compiled = re.compile(f"{pattern}/*")
        self._routes += ((method, compiled, answer) for method in methods)

    def on_error(self, kind: type[Exception], handler: Handler) -> None:
        """What a route raises of this kind is answered so; the nearest kind counts."""
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
        for method, path, answer in self._routes:
            if method == event["httpMethod"].upper() and (found := path.fullmatch(event["path"])):
                return answer, found.groupdict()
        return lambda: self._not_found(None), {}
