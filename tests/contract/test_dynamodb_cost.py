"""The cost of a load is the same with 10,000 waiting jobs as with 10.

Read units come from the sizes of the items as DynamoDB counts them (a strongly consistent Query:
one unit for each 4 KB, or part, of all items read), because neither engine here reports units as
AWS bills them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any

from benchmarks.dynamodb_units import item_size
from slotq_core.adapters.dynamodb.layout.items import items_of, keyed
from slotq_core.adapters.dynamodb.layout.table import line_key
from slotq_core.adapters.dynamodb.store import DynamoStore, table_definition
from slotq_core.model.jobs import Job, JobState
from slotq_core.policy.lines import line_of
from slotq_core.ports.stored import MOST_AHEAD, Ahead
from slotq_core.storage.snapshots import FIRST_JOBS
from tests.contract.evented_dynamodb import EventedDynamo
from tests.contract.faults import on
from tests.contract.worlds import (
    NOW,
    a_job,
    a_pool,
    a_queue,
    ahead_of,
    attempts_of,
    backing_off,
    claiming,
    commit,
    evicting,
    runs,
    starting,
    starts,
    waits,
)

WAITING = (30, 1_000, 10_000)


@dataclass
class Meter:
    """The calls and units of a client."""

    calls: list[str] = field(default_factory=list)
    read_units: int = 0
    read_bytes: int = 0

    def note(self, model: Any, parsed: dict[str, Any], **_: Any) -> None:
        self.calls.append(model.name)
        if model.name in {"Query", "GetItem"}:
            self._read(parsed.get("Items", [parsed["Item"]] if "Item" in parsed else []))
        for items in parsed.get("Responses", {}).values():
            for item in items:
                self._read([item])

    def _read(self, found: list[dict[str, Any]]) -> None:
        size = sum(item_size(item) for item in found)
        self.read_bytes += size
        self.read_units += max(1, ceil(size / 4096))


@contextmanager
def measured(client: Any) -> Iterator[Meter]:
    meter = Meter()
    with on(client, "after-call.dynamodb.*", meter.note):
        yield meter


def fill(client: Any, table: str, jobs: list[Job]) -> None:
    """Write waiting jobs with their lines, many at a time."""
    items = [keyed(key, item) for job in jobs for key, item in items_of(job).items()]
    items += [
        {**keyed(line_key(line)), "touched": {"N": str(NOW)}}
        for line in {line_of(job) for job in jobs}
    ]
    if isinstance(client, EventedDynamo):
        client.fill(table, items)
        return
    for start in range(0, len(items), 25):
        puts = [{"PutRequest": {"Item": item}} for item in items[start : start + 25]]
        client.batch_write_item(RequestItems={table: puts})


def crowd(first: int, last: int) -> list[Job]:
    """Waiting jobs in two lines, with names of equal length."""
    kinds: list[dict[str, Any]] = [{"priority": 1}, {"priority": 2, "slots": 2}]
    return [
        replace(a_job(f"waiting-{n:06d}", entry_time=NOW + n, **kinds[n % 2]), version=1)
        for n in range(first, last)
    ]


def a_busy_queue(store: DynamoStore) -> None:
    """Two pools with running, starting and stopping jobs, a claim and a back-off."""
    a_queue(store, a_pool("p5", 4), a_pool("p4", 2))
    runs(store, "active-1", priority=3)
    victim = runs(store, "active-2", priority=0)
    starts(store, "active-3", pool="p4", pools=("p4",))
    claimant = waits(store, "claimant", priority=5)
    commit(store, backing_off(starts(store, "tired"), until=NOW + 60_000))
    store.decisions.commit([evicting(victim, "claimant"), claiming(claimant)])


def test_a_load_costs_the_same_however_many_wait(client: Any, table: str) -> None:
    store = DynamoStore(client, table)
    a_busy_queue(store)
    store.worlds.load(NOW)  # The configuration is read once.
    costs, there = {}, 0
    for count in WAITING:
        fill(client, table, crowd(there, count))
        there = count
        with measured(client) as meter:
            world = store.worlds.load(NOW)
        costs[count] = meter
        assert len(world.snapshot.active) == 3
        assert len(world.snapshot.waiting) <= 2 * FIRST_JOBS + 1
    few, *more = costs.values()
    assert more == [few, few]
    assert Counter(few.calls) == {"BatchGetItem": 1, "Query": len(few.calls) - 1}
    pools = 2
    assert few.read_units == pools + len(few.calls)  # No Query returns more than 4 KB.


def test_the_calls_of_a_quiet_load_and_of_each_transition(evented_client: EventedDynamo) -> None:
    """A call for all pools, and one for each line. A pool costs one more after it has changed."""
    evented_client.create_table(**table_definition("t"))
    store = DynamoStore(evented_client, "t")
    a_queue(store, a_pool("p5"), a_pool("p4"))
    with measured(evented_client) as meter:
        job = waits(store, "job1")
    assert meter.calls == ["UpdateItem", "TransactWriteItems"]
    with measured(evented_client) as meter:
        store.worlds.load(NOW)
    queries = ["Query"] * (1 + 1 + 1)  # lines, line, due
    # For the first time, the configuration, its pools' ledgers and the pools.
    assert meter.calls == ["BatchGetItem", "Query", "BatchGetItem", *["Query"] * 2, *queries]
    with measured(evented_client) as meter:
        store.worlds.load(NOW)
    assert meter.calls == ["BatchGetItem", *queries]
    assert meter.read_units == 1 + 2 + len(queries)
    with measured(evented_client) as meter:
        commit(store, starting(job))
    assert meter.calls == ["TransactWriteItems"]
    with measured(evented_client) as meter:
        store.worlds.load(NOW)
    assert meter.calls == ["BatchGetItem", "Query", *queries]


def test_every_read_for_a_decision_is_strongly_consistent(client: Any, table: str) -> None:
    store = DynamoStore(client, table)
    a_busy_queue(store)
    reads: list[dict[str, Any]] = []

    def note(params: dict[str, Any], **_: Any) -> None:
        reads.append(params)

    def note_batch(params: dict[str, Any], **_: Any) -> None:
        reads.extend(params["RequestItems"].values())

    with (
        on(client, "provide-client-params.dynamodb.Query", note),
        on(client, "provide-client-params.dynamodb.GetItem", note),
        on(client, "provide-client-params.dynamodb.BatchGetItem", note_batch),
    ):
        store.worlds.load(NOW)
        store.worlds.load_all(NOW)
        store.configuration.pools()
        store.jobs.get("active-1")
        store.jobs.request("active-1")
        attempts_of(store, "active-1")
        store.jobs.owner_of("active-1")
        consistent = len(reads)
        store.jobs.in_states(
            JobState
        )  # An index cannot be read consistently; no decision reads one.
    assert consistent > 12
    assert all(read["ConsistentRead"] for read in reads[:consistent])
    assert all(read["IndexName"] for read in reads[consistent:])


def test_a_waiting_jobs_item_is_small() -> None:
    job = replace(a_job("a-training-job-of-usual-name-2026-11-20", project="vision"), version=1)
    sizes = {
        key[0].split("#")[0]: item_size(keyed(key, item)) for key, item in items_of(job).items()
    }
    assert set(sizes) == {"JOB", "WAITING"}
    assert sizes["WAITING"] < 500


def test_waiting_jobs_over_several_pages_are_all_read(client: Any, table: str) -> None:
    """A Query returns at most 1 MB a page."""
    store, count = DynamoStore(client, table), 1_500
    a_queue(store)
    jobs = [
        replace(a_job(f"waiting-{n:06d}", entry_time=NOW + n, message="x" * 1000), version=1)
        for n in range(count)
    ]
    fill(client, table, jobs)
    with measured(client) as meter:
        world = store.worlds.load_all(NOW)
    assert {job.name for job in world.snapshot.waiting} == {job.name for job in jobs}
    assert meter.read_bytes > 2_000_000
    assert ahead_of(store, jobs[-1]) == Ahead(jobs=MOST_AHEAD + 1, or_more=True)
    assert len(store.worlds.load(NOW).snapshot.waiting) == FIRST_JOBS


def test_item_sizes_follow_dynamodbs_rules() -> None:
    """The rules of its documentation, on one item of each kind."""
    assert item_size({"pk": {"S": "añb"}}) == 2 + 4
    assert item_size({"n": {"N": "1234"}}) == 1 + 3
    assert item_size({"b": {"BOOL": True}, "x": {"B": b"12345"}}) == 2 + 6
    assert item_size({"m": {"M": {"k": {"S": "v"}}}}) == 1 + 3 + 1 + 2
    assert item_size({"l": {"L": [{"S": "ab"}]}}) == 1 + 3 + 1 + 2
