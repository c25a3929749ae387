"""The campaign on the real engine: DynamoDB Local in the place of `fake_dynamodb`.

A part of the campaign runs on both, so that what is proven of the queue does not rest on our own
idea of a transaction. The real engine decides; here is only what it does not do by itself: it never
answers TransactionConflict, so one is injected whenever transactions overlap, and it has no hook
for those who watch, so what each write has changed is asked for and kept in a mirror of the table.
At the end of a run the mirror is compared with the table, item by item.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from botocore.exceptions import ClientError

from slotq.local.services.expressions import Item
from tests.contract import dynamodb_local
from tests.faults import world
from tests.faults.fake_dynamodb import (
    Action,
    Change,
    FakeDynamo,
    Key,
    Request,
    Table,
    action_key,
    key_of,
    nothing,
)


class Engine:
    """DynamoDB Local for one world after the other, with its counts."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.calls = 0
        self.conflicts = 0
        """The number of transactions cancelled because of another in flight."""
        self.unlike: list[str] = []
        """Differences between a mirror and its table; with any, the run proves nothing."""
        self._last: RealDynamo | None = None

    def make(self) -> RealDynamo:
        self.look()
        self._last = RealDynamo(self)
        return self._last

    def look(self) -> None:
        """Compare the last world's mirror with its table."""
        if self._last is not None:
            self.unlike += [f"{key} is not as its mirror" for key in self._last.unlike()]


@contextmanager
def real_engine() -> Iterator[Engine]:
    """Put every world made in this context on DynamoDB Local. Raises `dynamodb_local.NotHere`."""
    with dynamodb_local.running() as endpoint:
        engine = Engine(dynamodb_local.client(endpoint, retries={"total_max_attempts": 1}))
        before, world.make_dynamo = world.make_dynamo, engine.make
        try:
            yield engine
            engine.look()
        finally:
            world.make_dynamo = before


class Mirror(Table):
    """The table as its writes have left it. Items swept from here are deleted there."""

    def __init__(self, definition: Request, delete: Callable[[Key], None]) -> None:
        super().__init__(definition)
        self._delete = delete

    def put(self, key: Key, item: Item | None) -> None:
        if item is None:
            self._delete(key)
        super().put(key, item)

    def follow(self, key: Key, item: Item | None) -> None:
        super().put(key, item)


class RealDynamo(FakeDynamo):
    """The methods of boto3's client that the queue uses, answered by DynamoDB Local."""

    tables: dict[str, Mirror]  # type: ignore[assignment]

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self._engine, self._client = engine, engine.client

    def create_table(self, **request: Any) -> dict[str, Any]:
        name = request["TableName"]
        with suppress(self._client.exceptions.ResourceNotFoundException):
            self._client.delete_table(TableName=name)  # From the last run.
        self._client.create_table(**request)
        self.tables[name] = Mirror(
            request, lambda key: self._client.delete_item(TableName=name, Key=_keyed(key))
        )
        return {}

    def get_item(self, **request: Any) -> dict[str, Any]:
        return self._ask("get_item", request)

    def batch_get_item(self, **request: Any) -> dict[str, Any]:
        return self._ask("batch_get_item", request)

    def query(self, **request: Any) -> dict[str, Any]:
        return self._ask("query", request)

    def scan(self, **request: Any) -> dict[str, Any]:
        return self._ask("scan", request)

    def _ask(self, method: str, request: Request) -> dict[str, Any]:
        self._engine.calls += 1
        answer: dict[str, Any] = getattr(self._client, method)(**request)
        return answer

    def transact_write_items(
        self, *, during: Callable[[], None] = nothing, **request: Any
    ) -> dict[str, Any]:
        """Call `during` before the engine is called and again before the answer is returned: all
        that time the items belong to the transaction."""
        actions = [next(iter(each.items())) for each in request["TransactItems"]]
        keys = self._hold(actions)
        try:
            during()
            answer = self._ask("transact_write_items", request)
            self._report([(each["TableName"], action_key((kind, each))) for kind, each in actions])
            during()
        finally:
            for key in keys:
                self._in_flight.pop(key, None)
        return answer

    def _hold(self, actions: Sequence[Action]) -> list[tuple[str, Key]]:
        try:
            keys = super()._hold(actions)
        except ClientError:
            self._engine.conflicts += 1
            raise
        self._in_flight.update(dict.fromkeys(keys))
        return keys

    def _single(self, operation: str, request: Request) -> dict[str, Any]:
        self._check_free(operation, request)
        kind = operation.removesuffix("Item")
        answer = self._ask(f"{kind.lower()}_item", request)
        self._report([(request["TableName"], action_key((kind, request)))])
        return answer

    def _report(self, written: Sequence[tuple[str, Key]]) -> None:
        """Report each changed item to the watchers."""
        changes: list[Change] = []
        for name, mirror in self.tables.items():
            keys = [key for where, key in written if where == name]
            found = self._found(name, keys)
            for key in keys:
                before, after = mirror.items.get(key), found.get(key)
                if before != after:
                    mirror.follow(key, after)
                    changes.append((key, before, after))
        self.on_write(changes)

    def _found(self, name: str, keys: Sequence[Key]) -> dict[Key, Item]:
        asked = {"Keys": [_keyed(key) for key in keys], "ConsistentRead": True}
        answer = self._client.batch_get_item(RequestItems={name: asked})
        assert not answer["UnprocessedKeys"]
        return {key_of(item): item for item in answer["Responses"][name]}

    def unlike(self) -> list[Key]:
        """The items in which mirror and table differ."""
        wrong: list[Key] = []
        for name, mirror in self.tables.items():
            pages = self._client.get_paginator("scan").paginate(TableName=name, ConsistentRead=True)
            there = {key_of(item): item for page in pages for item in page["Items"]}
            keys = there.keys() | mirror.items.keys()
            wrong += [key for key in keys if there.get(key) != mirror.items.get(key)]
        return wrong


def _keyed(key: Key) -> Mapping[str, Any]:
    return {"pk": {"S": key[0]}, "sk": {"S": key[1]}}
