"""What a submission asks of the table, and how a repeated one is recognised."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slotq_core.adapters.dynamodb import line_bounds
from slotq_core.adapters.dynamodb.layout.lines import LINE_KEPT
from slotq_core.adapters.dynamodb.layout.table import job_key, line_key
from slotq_core.adapters.dynamodb.line_bounds import KEPT_FOR, TouchedLines
from slotq_core.adapters.dynamodb.reading import line_reading as places
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.adapters.memory import store as memory_store
from slotq_core.errors import Conflict, InvalidRequest
from slotq_core.lifecycle import move
from slotq_core.model.jobs import JobState, Workload
from slotq_core.model.projects import APPROVAL
from slotq_core.operations.effects import HANDLER_LIFETIME
from slotq_core.policy.lines import line_of
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Ahead, Change, StoredAlready
from tests.contract.by_hand import Table
from tests.contract.test_dynamodb_cost import fill, measured
from tests.contract.worlds import (
    NOW,
    REQUEST,
    a_job,
    a_pool,
    a_queue,
    ahead_of,
    cancelling,
    commit,
    completing,
    runs,
    waits,
)

TOUCH, STORE = "UpdateItem", "TransactWriteItems"


def test_a_job_whose_line_the_table_cannot_name_is_refused(dynamo: DynamoStore) -> None:
    """A path in IAM has up to 512 characters."""
    person = f"arn:aws:iam::123456789012:user/{'p' * 510}/{'u' * 64}"
    few, many = (tuple(f"a-pool-of-some-kind-{n:02}" for n in range(most)) for most in (8, 16))
    job = a_job("job1", project="vision", submitter=person, pools=few)
    assert dynamo.jobs.submit(job, REQUEST).person == person
    with pytest.raises(InvalidRequest, match="name fewer pools"):
        dynamo.jobs.submit(replace(job, name="job2", pools=many), REQUEST)
    assert dynamo.jobs.get("job2") is None


def test_a_taken_name_brings_the_job_as_it_stands(store: Store) -> None:
    a_queue(store)
    waiting, running = waits(store, "waiting"), runs(store, "running")
    (ended,) = store.decisions.commit([completing(runs(store, "ended"))])
    for job in (waiting, running, ended):
        with pytest.raises(StoredAlready, match=job.name) as raised:
            store.jobs.submit(a_job(job.name, priority=7), REQUEST)
        assert raised.value.job == job


def test_a_taken_name_whose_record_is_unreadable_brings_nothing(
    dynamo: DynamoStore, items: Table
) -> None:
    waits(dynamo, "job1")
    items.change(job_key("job1"), priority={"S": "high"})
    with pytest.raises(StoredAlready) as raised:
        waits(dynamo, "job1")
    assert raised.value.job is None


def entering(name: str, minutes: float) -> Any:
    at = NOW + round(minutes * 60_000)
    return a_job(name, entry_time=at, changed_at=at)


def test_a_line_is_touched_again_only_after_ten_minutes(client: Any, table: str) -> None:
    store = DynamoStore(client, table)
    with measured(client) as meter:
        for number, minutes in enumerate((0, 1, 9.99, 10, 12, 20)):
            store.jobs.submit(entering(f"job{number}", minutes), REQUEST)
    assert meter.calls == [TOUCH, STORE, STORE, STORE, TOUCH, STORE, STORE, TOUCH, STORE]
    with measured(client) as meter:
        DynamoStore(client, table).jobs.submit(entering("other", 20), REQUEST)
        store.jobs.submit(replace(entering("another-line", 20), priority=2), REQUEST)
        store.jobs.submit(entering("clock-set-back", 1), REQUEST)
    assert meter.calls == [TOUCH, STORE] * 3


def test_a_line_that_a_submission_relies_on_is_never_removed(client: Any, table: str) -> None:
    """The last moment without a touch, and the slowest handler."""
    store = a_queue(DynamoStore(client, table))
    commit(store, cancelling(waits(store, "first")))
    late = entering("late", (KEPT_FOR - 1) / 60_000)
    DynamoStore(client, table).worlds.load(late.entry_time + HANDLER_LIFETIME)
    store.jobs.submit(late, REQUEST)
    assert [job.name for job in store.worlds.load(late.entry_time).snapshot.waiting] == ["late"]
    assert KEPT_FOR + HANDLER_LIFETIME < LINE_KEPT / 5, "clocks may differ by the rest"


def test_a_line_touched_lately_is_open_and_no_other(dynamo: DynamoStore, items: Table) -> None:
    waits(dynamo, "first")
    dynamo.jobs.submit(a_job("second"), REQUEST, opens_line=False)
    with pytest.raises(Conflict):
        dynamo.jobs.submit(a_job("third", priority=5), REQUEST, opens_line=False)
    assert not items.get(line_key(line_of(a_job("third", priority=5))))
    with pytest.raises(Conflict):  # What was refused is not remembered.
        dynamo.jobs.submit(a_job("third", priority=5), REQUEST, opens_line=False)


def test_no_more_lines_are_remembered_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_bounds, "MOST_KEPT", 10)
    lines = TouchedLines()
    for priority in range(25):
        lines.note(a_job("job", priority=priority))
    assert sum(lines.lately(a_job("job", priority=n)) for n in range(25)) == 5


def test_the_place_is_counted_up_to_a_bound(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (places, memory_store):
        monkeypatch.setattr(module, "MOST_AHEAD", 20)
    a_queue(store)
    last = waits(store, "last", entry_time=NOW + 10_000)
    for number in range(20):
        waits(store, f"job{number:04d}", entry_time=NOW + number)
    assert ahead_of(store, last) == Ahead(jobs=20)
    for number in range(3):
        waits(store, f"urgent{number}", priority=9)
    assert ahead_of(store, last) == Ahead(jobs=21, or_more=True)
    first = store.jobs.get("job0000")
    assert first is not None
    assert ahead_of(store, first) == Ahead(jobs=3)


def test_the_place_counts_fifty_lines_at_most_and_no_lower_ranks(client: Any, table: str) -> None:
    store = a_queue(DynamoStore(client, table), a_pool("p5", 80))
    own = [replace(a_job(f"own{n}", entry_time=NOW + n), version=1) for n in range(3)]
    higher = [
        replace(a_job(f"job{n}", priority=n, slots=1 + n % 3), version=1) for n in range(2, 51)
    ]
    lower = [replace(a_job(f"low{n}", priority=-n), version=1) for n in range(1, 20)]
    fill(client, table, [*own, *higher, *lower])
    world = store.worlds.load(NOW)
    with measured(client) as meter:
        assert world.ahead_of(own[2]) == Ahead(jobs=2 + 49)
    assert meter.calls == ["Query"] * 50
    fill(client, table, [replace(a_job(f"more{n}", priority=60 + n), version=1) for n in range(9)])
    world = store.worlds.load(NOW)
    with measured(client) as meter:
        assert world.ahead_of(own[2]) == Ahead(jobs=2 + 49, or_more=True)
    assert meter.calls == ["Query"] * 50


def test_a_line_whose_bound_is_behind_the_job_is_not_counted(client: Any, table: str) -> None:
    """Nobody there is ahead of it."""
    store = a_queue(DynamoStore(client, table, clock=lambda: NOW + LINE_KEPT), a_pool("p5", 80))
    first = replace(a_job("first", entry_time=NOW), version=1)
    later = replace(a_job("later", slots=2, entry_time=NOW + 9), version=1)
    fill(client, table, [first, later])
    world = store.worlds.load(NOW + LINE_KEPT)
    with measured(client) as meter:
        assert world.ahead_of(first) == Ahead(jobs=0)
    assert meter.calls == ["Query"] * 2
    world.keep_bounds()
    world = store.worlds.load(NOW + LINE_KEPT)
    with measured(client) as meter:
        assert (world.ahead_of(first), world.ahead_of(later)) == (Ahead(jobs=0), Ahead(jobs=1))
    assert meter.calls == ["Query"]


def test_a_job_that_begins_as_held_waits_once_it_is_released(store: Store) -> None:
    a_queue(store)
    job = a_job("job1", state=JobState.HELD, cause=APPROVAL, message="waits for approval")
    held = store.jobs.submit(job, REQUEST)
    assert store.worlds.load(NOW).snapshot.waiting == ()
    assert store.jobs.in_states([JobState.HELD]) == (held,)
    commit(store, Change(before=held, after=move(held, JobState.PENDING, at=NOW)))
    assert [waiting.name for waiting in store.worlds.load(NOW).snapshot.waiting] == ["job1"]


def test_a_job_moves_to_another_line_with_its_class(store: Store) -> None:
    a_queue(store)
    before = waits(store, "job1")
    after = replace(before, workload=Workload.INTERACTIVE)
    commit(store, Change(before=before, after=after))
    assert [job.workload for job in store.worlds.load(NOW).snapshot.waiting] == [
        Workload.INTERACTIVE
    ]


def test_waiting_jobs_are_counted_by_project(store: Store) -> None:
    a_queue(store)
    waits(store, "job1", project="vision")
    store.jobs.submit(a_job("job2", project="vision", state=JobState.HELD), REQUEST)
    waits(store, "job3")
    runs(store, "job4", project="vision")
    assert store.counters.census().projects == {"vision": 2, "": 1}
