"""Faults in calls to DynamoDB, injected through botocore's events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from botocore.exceptions import ReadTimeoutError


@contextmanager
def on(client: Any, event: str, handler: Callable[..., Any]) -> Iterator[None]:
    """Register the handler for `<event>`, e.g. `before-call.dynamodb.Query`, during the context."""
    client.meta.events.register(event, handler)
    try:
        yield
    finally:
        client.meta.events.unregister(event, handler)


@contextmanager
def before_the_next(
    client: Any, operation: str, action: Callable[[], Any], *, after: int = 0
) -> Iterator[None]:
    """Let somebody else act just before the next call of that operation, `after` others."""
    actions = iter([*[None] * after, action])

    def interfere(**_: Any) -> None:
        if (each := next(actions, None)) is not None:
            each()

    with on(client, f"before-call.dynamodb.{operation}", interfere):
        yield


@contextmanager
def refusing(
    client: Any,
    operation: str,
    code: str,
    *,
    times: int = 99,
    status: int = 400,
    after: int = 0,
    only: tuple[str, ...] = (),
    **more: Any,
) -> Iterator[list[str]]:
    """During the context, answer the first calls, after some that pass, with an error. They never
    reach the database. `only`: the operations affected, where `operation` is a pattern."""
    refused: list[str] = []
    passed = iter(range(after))

    def answer(model: Any, **_: Any) -> Any:
        if (only and model.name not in only) or next(passed, None) is not None:
            return None
        if len(refused) >= times:
            return None
        refused.append(code)
        metadata = {"HTTPStatusCode": status, "RequestId": "r", "HTTPHeaders": {}}
        error = {"Code": code, "Message": "injected"}
        parsed = {"Error": error, "ResponseMetadata": metadata, **more}
        return SimpleNamespace(status_code=status), parsed

    with on(client, f"before-call.dynamodb.{operation}", answer):
        yield refused


def cancelled(*codes: str) -> dict[str, Any]:
    """A cancelled transaction, for `refusing`: a reason for each action; "None": no objection."""
    return {
        "code": "TransactionCanceledException",
        "CancellationReasons": [{"Code": code} for code in codes],
    }


@contextmanager
def losing_the_answer(client: Any) -> Iterator[None]:
    """Let the transaction take effect, but lose its answer."""

    def lose(**_: Any) -> None:
        raise ReadTimeoutError(endpoint_url="dynamodb")

    with on(client, "after-call.dynamodb.TransactWriteItems", lose):
        yield


@contextmanager
def answering(
    client: Any, partition: str, answers: Iterable[list[dict[str, Any]]]
) -> Iterator[None]:
    """During the context, queries of the partition return these items, until none are left."""
    prepared = iter(answers)

    def change(parsed: dict[str, Any], **_: Any) -> None:
        items = parsed.get("Items", [])
        if items and items[0]["pk"]["S"] == partition:
            parsed["Items"] = next(prepared, items)

    with on(client, "after-call.dynamodb.Query", change):
        yield
