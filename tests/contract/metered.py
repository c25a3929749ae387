"""A store on the emulator's DynamoDB whose calls, rounds of calls and read units are counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import ceil
from typing import Any, TypeVar

from benchmarks.dynamodb_units import item_size
from slotq.local.services.dynamodb import InMemoryDynamo
from slotq_core.adapters.dynamodb.layout.items import items_of, keyed
from slotq_core.adapters.dynamodb.layout.table import line_key
from slotq_core.adapters.dynamodb.reading.in_parallel import IN_FLIGHT
from slotq_core.adapters.dynamodb.store import DynamoStore, table_definition
from slotq_core.model.jobs import Job
from slotq_core.policy.lines import line_of
from tests.contract.worlds import NOW

A = TypeVar("A")
R = TypeVar("R")


class Metered:
    """A client that counts; also the store's `in_parallel`, for calls in flight together count as
    one round."""

    def __init__(self) -> None:
        self._dynamo = InMemoryDynamo()
        self._dynamo.create_table(**table_definition("t"))
        self.items_read: list[tuple[str, str]] = []
        """The keys that BatchGetItem was asked for."""
        self.reset()

    def reset(self) -> None:
        self.calls: Counter[str] = Counter()
        self.rounds = 0
        self.read_units = 0

    def store(self, **settings: Any) -> DynamoStore:
        settings = {"pause": lambda _: None, "clock": lambda: NOW, **settings}
        return DynamoStore(self, "t", in_parallel=self.in_parallel, **settings)

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        def call(**request: Any) -> Any:
            self.calls[operation] += 1
            self.rounds += 1
            answer = getattr(self._dynamo, operation)(**request)
            self.read_units += sum(_units(found) for found in _found(operation, answer))
            for part in request.get("RequestItems", {}).values():
                self.items_read += [
                    (key["pk"]["S"], key["sk"]["S"]) for key in part.get("Keys", ())
                ]
            return answer

        return call

    def in_parallel(self, read: Callable[[A], R], asked: Sequence[A], /) -> list[R]:
        results, begun, longest = [], self.rounds, []
        for each in asked:
            before = self.rounds
            results.append(read(each))
            longest.append(self.rounds - before)
        together = range(0, len(longest), IN_FLIGHT)
        self.rounds = begun + sum(max(longest[at : at + IN_FLIGHT]) for at in together)
        return results

    def fill(self, jobs: Iterable[Job]) -> None:
        """Write waiting jobs with their lines, past the store."""
        lines = set()
        for job in jobs:
            lines.add(line_of(job))
            for key, item in items_of(job).items():
                self._dynamo.put_item(TableName="t", Item=keyed(key, item))
        for line in lines:
            touched = {**keyed(line_key(line)), "touched": {"N": str(NOW - 3_000_000)}}
            self._dynamo.put_item(TableName="t", Item=touched)


def _found(operation: str, answer: Any) -> list[list[dict[str, Any]]]:
    """The items that are rounded up to units together."""
    match operation:
        case "query":
            return [answer.get("Items", [])]
        case "batch_get_item":
            return [[item] for items in answer["Responses"].values() for item in items]
        case "get_item":
            return [[answer["Item"]] if "Item" in answer else []]
    return []


def _units(items: list[dict[str, Any]]) -> int:
    return max(1, ceil(sum(map(item_size, items)) / 4096))
