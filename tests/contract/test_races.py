"""Concurrent calls, which the conditions are for: with threads on engines where that proves
something."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from slotq_core.adapters.dynamodb.layout.table import line_key
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.errors import Conflict, NameTaken, Unavailable
from slotq_core.lifecycle import move
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.policy.lines import line_of
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Change
from tests.contract.faults import answering, before_the_next
from tests.contract.worlds import (
    NOW,
    REQUEST,
    a_job,
    a_pool,
    a_queue,
    cancelling,
    claiming,
    commit,
    completing,
    evicting,
    runs,
    starting,
    starts,
    waits,
)

THREADS = 8
HOUR = 3_600_000


def at_once(*attempts: Callable[[], Any]) -> list[Any]:
    """The outcome of each call, in order: a result or the raised error."""
    ready = threading.Barrier(len(attempts))

    def run(attempt: Callable[[], Any]) -> Any:
        ready.wait()
        try:
            return attempt()
        except (Conflict, NameTaken, Unavailable) as error:
            return error

    with ThreadPoolExecutor(len(attempts)) as threads:
        return list(threads.map(run, attempts))


def won(results: list[Any]) -> list[Any]:
    return [result for result in results if not isinstance(result, Exception)]


def test_the_last_slot_goes_to_exactly_one(racing_store: Store) -> None:
    store = a_queue(racing_store, a_pool("p5", 1))
    for turn in range(5):
        jobs = [waits(store, f"job{turn}-{n}") for n in range(THREADS)]
        results = at_once(*(_commit(store, starting(job)) for job in jobs))
        winner = won(results)
        assert len(winner) == 1
        assert store.worlds.load(NOW).snapshot.active == winner[0]
        commit(store, completing(winner[0][0]))
    assert store.worlds.load(NOW).ledgers["p5"].used == Demand()


def test_exactly_one_decision_on_a_ledger_version_holds(racing_store: Store) -> None:
    store = a_queue(racing_store, a_pool("p5", THREADS))
    jobs = [waits(store, f"job{n}") for n in range(THREADS)]
    seen = {"p5": store.worlds.load(NOW).ledgers["p5"].version}
    results = at_once(*(_commit(store, starting(job), seen) for job in jobs))
    assert len(won(results)) == 1


def test_use_adds_up_under_concurrent_starts_and_ends(racing_store: Store) -> None:
    """Starts and ends, each retried until it holds, without reading the ledger."""
    store = a_queue(racing_store, a_pool("p5", 5))
    highest: list[int] = []

    def live(name: str) -> Callable[[], None]:
        def life() -> None:
            job = waits(store, name)
            job = insist(store, starting(job))
            highest.append(store.worlds.load(NOW).ledgers["p5"].used.slots)
            insist(store, completing(job))

        return life

    at_once(*(live(f"job{n}") for n in range(THREADS)))
    assert store.worlds.load(NOW).ledgers["p5"].used == Demand()
    assert len(highest) == THREADS
    assert max(highest) <= 5


def test_a_name_submitted_concurrently_is_given_once(racing_store: Store) -> None:
    a_queue(racing_store)
    results = at_once(*(_submit(racing_store, a_job("job1", priority=n)) for n in range(THREADS)))
    (kept,) = won(results)
    assert racing_store.jobs.get("job1") == kept
    assert [job.name for job in racing_store.worlds.load_all(NOW).snapshot.waiting] == ["job1"]


def test_concurrent_submissions_cancel_neither_each_other_nor_a_pass(racing_store: Store) -> None:
    store = a_queue(racing_store, a_pool("p5", 1))
    job = waits(store, "first")
    seen = {"p5": store.worlds.load(NOW).ledgers["p5"].version}
    submissions = [_submit(store, a_job(f"job{n}")) for n in range(THREADS - 1)]
    results = at_once(_commit(store, starting(job), seen), *submissions)
    assert len(won(results)) == THREADS
    assert len(store.worlds.load_all(NOW).snapshot.waiting) == THREADS - 1


def holding(job: Job) -> Change:
    return Change(before=job, after=move(job, JobState.HELD, at=NOW + 1))


@pytest.mark.parametrize("verb", [cancelling, holding])
def test_exactly_one_of_a_start_and_a_users_verb_holds(
    racing_store: Store, verb: Callable[[Job], Change]
) -> None:
    store = a_queue(racing_store, a_pool("p5", 4))
    for turn in range(10):
        job = waits(store, f"job{turn}")
        results = at_once(_commit(store, starting(job)), _commit(store, verb(job)))
        assert len(won(results)) == 1
        kept = store.jobs.get(job.name)
        assert kept == won(results)[0][0]
        if kept and kept.active:
            commit(store, completing(kept))
    assert store.worlds.load(NOW).ledgers["p5"].used == Demand()


def test_loads_beside_commits_are_consistent(racing_store: Store) -> None:
    """Active jobs and ledger agree in every load."""
    store = a_queue(racing_store, a_pool("p5", 2))
    done = threading.Event()

    def lives() -> None:
        try:
            for n in range(15):
                commit(store, completing(starts(store, f"job{n}", slots=1 + n % 2)))
        finally:
            done.set()

    def looks() -> int:
        looked = 0
        while not (looked and done.is_set()):  # On a busy machine the lives may end first.
            world = store.worlds.load(NOW)
            held = sum((job.demand for job in world.snapshot.active), Demand())
            assert held == world.ledgers["p5"].used
            looked += 1
        return looked

    _, *looked = at_once(lives, looks, looks)
    assert all(isinstance(each, int) and each > 0 for each in looked)


def test_a_line_touched_since_it_was_found_empty_is_kept(
    dynamo: DynamoStore, client: Any, table: str
) -> None:
    """A submission touches its line between a load's read and the load's removal."""
    a_queue(dynamo)
    commit(dynamo, cancelling(waits(dynamo, "old")))
    later = NOW + 2 * HOUR
    other = DynamoStore(client, table)
    job = a_job("new", entry_time=later, changed_at=later)
    with before_the_next(client, "DeleteItem", _submit(other, job)):
        assert dynamo.worlds.load(later).snapshot.waiting == ()
    assert [job.name for job in dynamo.worlds.load(later).snapshot.waiting] == ["new"]


def test_an_empty_line_is_removed_only_when_long_untouched(
    dynamo: DynamoStore, client: Any, table: str
) -> None:
    a_queue(dynamo)
    job = commit(dynamo, cancelling(waits(dynamo, "job1")))
    dynamo.worlds.load(NOW + HOUR - 1)
    assert _item(client, table, line_key(line_of(job)))
    dynamo.worlds.load(NOW + HOUR + 1)
    assert not _item(client, table, line_key(line_of(job)))


def test_a_load_in_the_middle_of_a_transaction_is_repeated(
    dynamo: DynamoStore, client: Any, table: str
) -> None:
    """A Query is not a snapshot. Here it misses a claim that its transaction has not yet made
    visible, while the ledger is already the later one. So the load must not trust the other
    items."""
    a_queue(dynamo, a_pool("p5", 1))
    victim, job = runs(dynamo, "victim"), waits(dynamo, "job1", priority=5)
    torn = _partition(client, table)
    dynamo.decisions.commit([evicting(victim, "job1"), claiming(job)], seen=_seen(dynamo))
    whole = _partition(client, table)
    torn[-1] = whole[-1]
    assert "LEDGER" in torn[-1]["sk"]["S"]
    answers = iter([torn, torn[:1] + whole[1:], whole[:1] + torn[1:]])
    with answering(client, "POOL#p5", answers):
        snapshot = dynamo.worlds.load(NOW).snapshot
    assert [each.state for each in snapshot.active] == ["stopping"]
    assert [each.claim is not None for each in snapshot.waiting] == [True]
    assert next(answers, None) is None


def _commit(
    store: Store, change: Change, seen: dict[str, int] | None = None
) -> Callable[[], tuple[Job, ...]]:
    return lambda: store.decisions.commit([change], seen=seen)


def _submit(store: Store, job: Job) -> Callable[[], Job]:
    return lambda: store.jobs.submit(job, REQUEST)


def insist(store: Store, change: Change) -> Job:
    while True:
        try:
            return commit(store, change)
        except Conflict:
            before = store.jobs.get(change.before.name)
            assert before == change.before


def _seen(store: Store) -> dict[str, int]:
    return {name: each.version for name, each in store.worlds.load(NOW).ledgers.items()}


def _item(client: Any, table: str, key: tuple[str, str]) -> Any:
    pk, sk = key
    found = client.get_item(TableName=table, Key={"pk": {"S": pk}, "sk": {"S": sk}})
    return found.get("Item")


def _partition(client: Any, table: str) -> list[dict[str, Any]]:
    answer = client.query(
        TableName=table,
        KeyConditionExpression="pk = :p",
        ExpressionAttributeValues={":p": {"S": "POOL#p5"}},
        ConsistentRead=True,
    )
    items: list[dict[str, Any]] = answer["Items"]
    return items
