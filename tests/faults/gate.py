"""A gate for every call to AWS: it may count the call, kill its handler, throttle it or drop it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


class Killed(BaseException):
    """The handler is gone in the middle of its work. Nothing in the queue catches this."""


@dataclass
class Invocation:
    """One run of the handler."""

    number: int
    label: str
    calls: int = 0
    dead: bool = False


@dataclass(frozen=True)
class Call:
    invocation: Invocation
    service: str
    operation: str
    request: Mapping[str, Any]
    do: Callable[..., Any]

    def __str__(self) -> str:
        at = self.request.get("TrainingJobName") or _keys(self.request)
        return f"{self.service}:{self.operation} {at}".rstrip()


class Gate:
    """Lets every call through; subclasses do more."""

    def through(self, call: Call) -> Any:
        return call.do()


def _keys(request: Mapping[str, Any]) -> str:
    if actions := request.get("TransactItems"):
        return ", ".join(_key(next(iter(each.values()))) for each in actions)
    if isinstance(request.get("Key"), str):
        return str(request["Key"])  # Of an object in S3.
    if "Key" in request or "Item" in request:
        return _key(request)
    pk = request.get("ExpressionAttributeValues", {}).get(":pk", {})
    return str(pk.get("S", ""))


def _key(action: Mapping[str, Any]) -> str:
    key = action.get("Key") or action["Item"]
    return f"{key['pk']['S']}/{key['sk']['S']}"
