"""The cost of a whole pass, however many jobs wait: the manager with the real store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from slotq_core.adapters.dynamodb.store import DynamoStore, table_definition
from slotq_core.manager import QueueManager
from slotq_core.model.attempts import Attempt
from slotq_core.model.capacity.work import WorkKind
from slotq_core.model.jobs import Job
from slotq_core.ports.training import (
    CallResult,
    LiveTrainingJobs,
    Observation,
    Request,
    Sighting,
    Verdict,
)
from tests.contract.evented_dynamodb import EventedDynamo
from tests.contract.test_dynamodb_cost import WAITING, crowd, fill, measured
from tests.contract.worlds import NOW, REQUEST, a_job, a_pool, a_queue, runs


@dataclass
class Training:
    """A SageMaker that accepts and counts every call. A pass must not list."""

    calls: list[str] = field(default_factory=list)

    def create(self, request: Request, job: Job, attempt: Attempt) -> CallResult:
        self.calls.append("create")
        return CallResult(verdict=Verdict.OK)

    def stop(self, training_job: str) -> CallResult:
        self.calls.append("stop")
        return CallResult(verdict=Verdict.OK)

    def describe(self, training_job: str) -> Observation | None:
        self.calls.append("describe")
        return None

    def live(self, works: Collection[WorkKind] = ()) -> LiveTrainingJobs:
        raise AssertionError("a pass must not list: 2 calls a second for the whole account")

    def look_into(self, training_job: str, *, now: int) -> Sighting | None:
        raise AssertionError("a pass looks into nothing that it does not expect")


class Fixed:
    """A clock that stands still, and a notifier that wakes nobody."""

    def now(self) -> int:
        return NOW + 100

    def wake(self) -> None:
        pass


def a_pass(client: Any, count: int) -> tuple[Counter[str], int, list[str]]:
    """Run a pass that starts one job and evicts for another, with this many jobs waiting behind
    them. Returns DynamoDB calls, read units and SageMaker calls."""
    table = f"queue-{count}"
    client.create_table(**table_definition(table))
    store = DynamoStore(client, table)
    a_queue(store, a_pool("p5", 3))
    runs(store, "low", priority=0)
    runs(store, "high", priority=9)
    store.jobs.submit(a_job("first", priority=5), REQUEST)
    store.jobs.submit(a_job("second", priority=4), REQUEST)
    fill(client, table, crowd(0, count))
    training = Training()
    manager = QueueManager(store=store, training=training, clock=Fixed(), notifier=Fixed())
    with measured(client) as meter:
        result = manager.passes.run()
    assert [type(decision).__name__ for decision in result.decisions] == ["Start", "Evict"]
    return Counter(meter.calls), meter.read_units, training.calls


def test_a_pass_costs_the_same_however_many_wait_and_never_lists(
    evented_client: EventedDynamo,
) -> None:
    few, *more = [a_pass(evented_client, count) for count in WAITING]
    assert more == [few, few]
    assert few[2] == ["create", "stop"]


def test_the_lease_costs_two_small_writes_and_a_refusal_one(evented_client: EventedDynamo) -> None:
    evented_client.create_table(**table_definition("t"))
    store = DynamoStore(evented_client, "t")
    a_queue(store)
    manager = QueueManager(store=store, training=Training(), clock=Fixed(), notifier=Fixed())
    with measured(evented_client) as meter:
        manager.passes.run(holder="one")
    # The configuration's revision, the configuration, its pools' ledgers, the pool.
    first = ["BatchGetItem", "Query", "BatchGetItem", "Query"]
    queries = ["Query"] * (1 + 1)  # lines, due
    assert meter.calls == ["UpdateItem", *first, *queries, "UpdateItem"]
    with measured(evented_client) as meter:
        manager.passes.run(holder="one")
    assert meter.calls == ["UpdateItem", first[0], *queries, "UpdateItem"]
    store.scheduler.take_lease("another", now=NOW, until=NOW + 40_000)
    with measured(evented_client) as meter:
        assert manager.passes.run(holder="one").busy
    assert set(meter.calls) <= {"UpdateItem"}
    assert len(meter.calls) <= 1  # A refused write has no answer for the meter to count.
