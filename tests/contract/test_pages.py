"""Whatever is read in pages is read to the end, wherever DynamoDB ends a page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import JobState
from slotq_core.ports.training import Sighting
from tests.contract.faults import on
from tests.contract.worlds import (
    NOW,
    a_pool,
    a_queue,
    ahead_of,
    attempts_of,
    backing_off,
    claiming,
    commit,
    completing,
    evicted,
    evicting,
    runs,
    starting,
    starts,
    waits,
)

HOUR = 3_600_000


@contextmanager
def pages_of_one(client: Any) -> Iterator[list[str]]:
    """Make each page have one item during the context. Yields the operations that had further
    pages."""
    more: list[str] = []

    def cut(params: dict[str, Any], **_: Any) -> None:
        params["Limit"] = 1

    def follow(params: dict[str, Any], model: Any, **_: Any) -> None:
        if "ExclusiveStartKey" in params:
            more.append(model.name)

    with ExitStack() as stack:
        for operation in ("Query", "Scan"):
            event = f"dynamodb.{operation}"
            stack.enter_context(on(client, f"provide-client-params.{event}", cut))
            stack.enter_context(on(client, f"before-parameter-build.{event}", follow))
        yield more


def a_full_queue(store: DynamoStore) -> None:
    """A store with several records of every kind."""
    a_queue(store, a_pool("p5", 4), a_pool("p4", 4))
    for n in range(2):
        runs(store, f"running{n}", entry_time=NOW - 9 + n)
        waits(store, f"waiting{n}", entry_time=NOW + n)
        waits(store, f"elsewhere{n}", pools=("p4",), entry_time=NOW + n)
        commit(store, claiming(waits(store, f"claiming{n}", priority=7, entry_time=NOW + n)))
        commit(store, backing_off(starts(store, f"later{n}", pool="p4", pools=("p4",)), NOW + n))
        commit(store, completing(runs(store, f"done{n}")))
        store.health.remember(
            Sighting(
                training_job=f"foreign{n}",
                ours=False,
                instance_type="ml.m5.large",
                instances=1,
                first_seen=NOW,
            )
        )
    job = runs(store, "moved")
    job = commit(store, evicted(commit(store, evicting(job, "waiting0"))))
    commit(store, starting(job))
    store.configuration.change([*store.configuration.pools()[::-1]], who="somebody", now=NOW + 1)
    store.health.set_foreign("p4", Demand(slots=1))


READS: dict[str, Callable[[DynamoStore], Any]] = {
    "load": lambda store: store.worlds.load(NOW + HOUR),
    "load_all": lambda store: store.worlds.load_all(NOW + HOUR),
    "pools": lambda store: store.configuration.pools(),
    "changes": lambda store: store.configuration.changes(limit=9),
    "sightings": lambda store: store.health.sightings(),
    "attempts": lambda store: attempts_of(store, "moved"),
    "jobs": lambda store: store.jobs.in_states(JobState),
    "the first jobs": lambda store: store.jobs.in_states(JobState, limit=4),
    "a state": lambda store: [
        *store.jobs.by_entry(JobState.PENDING, latest_first=False, at_once=3)
    ],
    "ahead_of": lambda store: ahead_of(store, store.jobs.get("waiting1")),
    "inspect": lambda store: list(store.repair.inspect()),
}


@pytest.fixture
def full(dynamo: DynamoStore) -> DynamoStore:
    a_full_queue(dynamo)
    return dynamo


@pytest.mark.parametrize("read", READS.values(), ids=READS.keys())
def test_reads_return_the_same_with_any_page_size(
    full: DynamoStore, client: Any, table: str, read: Any
) -> None:
    whole = read(full)
    assert whole is not None
    with pages_of_one(client) as more:
        assert read(DynamoStore(client, table)) == whole  # One that has kept nothing.
    assert more


def test_findings_on_later_pages_are_repaired(full: DynamoStore, client: Any, table: str) -> None:
    """The inspection is a scan."""
    keys = [
        {"pk": item["pk"], "sk": item["sk"]}
        for item in client.scan(TableName=table)["Items"]
        if item["pk"]["S"].startswith("WAITING#")
    ]
    for key in keys:
        client.delete_item(TableName=table, Key=key)
    with pages_of_one(client) as more:
        found = list(full.repair.inspect(mend=True))
    assert len(found) >= len(keys) > 1
    assert "Scan" in more
    assert list(full.repair.inspect()) == []


def test_all_records_of_an_ended_job_expire(dynamo: DynamoStore, client: Any, table: str) -> None:
    a_queue(dynamo)
    job = commit(dynamo, starting(commit(dynamo, evicted(runs(dynamo, "job1")))))
    commit(dynamo, completing(job))
    with pages_of_one(client):
        assert dynamo.repair.expire(now=NOW + HOUR) == 1
    kept = [
        item
        for item in client.scan(TableName=table)["Items"]
        if "job1" in item["pk"]["S"] and "expiresAt" not in item
    ]
    assert kept == []
