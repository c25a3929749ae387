"""The emulator's DynamoDB behind botocore's events: calls are counted, changed and refused as those
of a real client."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from botocore.exceptions import ClientError
from botocore.hooks import HierarchicalEmitter

from slotq.local.services.expressions import Item
from tests.functional.checked_dynamodb import OPERATIONS, CheckedDynamo


class EventedDynamo(CheckedDynamo):
    """Emits an event where a client of boto3 does: before its parameters are checked, and before
    and after the call. What a handler returns before the call is the answer."""

    def __init__(self) -> None:
        super().__init__()
        self.meta = SimpleNamespace(events=HierarchicalEmitter())

    def fill(self, table: str, items: Iterable[Item]) -> None:
        """Write items past the events and checks."""
        for item in items:
            self.tables[table].put((item["pk"]["S"], item["sk"]["S"]), item)

    def __getattribute__(self, name: str) -> Any:
        checked = super().__getattribute__(name)
        if name not in OPERATIONS:
            return checked
        operation = OPERATIONS[name]

        def emit(event: str, **values: Any) -> list[Any]:
            found = self.meta.events.emit(
                f"{event}.dynamodb.{operation}", model=SimpleNamespace(name=operation), **values
            )
            return [answer for _, answer in found if answer is not None]

        def call(**request: Any) -> dict[str, Any]:
            emit("provide-client-params", params=request)
            emit("before-parameter-build", params=request)
            answers = emit("before-call", params=request)
            parsed = answers[0][1] if answers else _answer(checked, request)
            emit("after-call", parsed=parsed)
            if "Error" in parsed:
                raise ClientError(parsed, operation)
            return parsed

        return call


def _answer(call: Any, request: dict[str, Any]) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = call(**request)
    except ClientError as error:
        return error.response
    return answer
