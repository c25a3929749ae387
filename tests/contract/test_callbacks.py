"""Who waits for jobs' ends, as every store keeps it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

import pytest

from slotq_core.adapters.dynamodb.layout import table
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.errors import InvalidRequest, NotUnderstood
from slotq_core.model.jobs import Job
from slotq_core.model.notices import Callback, CallbackKind, WhenAbandoned
from slotq_core.ports.callbacks import TOGETHER, KeptCallback
from slotq_core.ports.store import Store
from slotq_core.ports.stored import StoredAlready
from slotq_core.storage.callbacks import MOST_TOKENS
from tests.contract.by_hand import Table
from tests.contract.evented_dynamodb import EventedDynamo
from tests.contract.test_dynamodb_cost import measured
from tests.contract.worlds import REQUEST, a_job, a_queue, waits


def task(token: str, when: WhenAbandoned = WhenAbandoned.CANCEL) -> Callback:
    return Callback(kind=CallbackKind.TASK, token=token, when_abandoned=when)


def submitted(store: Store, name: str, token: str) -> Job:
    return store.jobs.submit(a_job(name), REQUEST, callback=task(token))


def there(store: Store) -> list[tuple[str, str, bool]]:
    return [(kept.job, kept.token, kept.superseded) for kept in store.callbacks.all()]


def the_one(store: Store) -> KeptCallback:
    (kept,) = store.callbacks.all()
    return kept


def test_a_submission_keeps_its_callback_with_the_job(store: Store) -> None:
    a_queue(store)
    job = submitted(store, "job1", "first")
    kept = the_one(store)
    assert (kept.job, kept.entered, kept.callback) == ("job1", job.entry_time, task("first"))
    assert kept.due == 0
    with pytest.raises(StoredAlready):
        submitted(store, "job1", "second")
    assert there(store) == [("job1", "first", False)], "a refused submission changes nothing"
    assert store.jobs.request("job1") == REQUEST


def test_a_job_without_one_keeps_none(store: Store) -> None:
    a_queue(store)
    waits(store, "job1")
    assert there(store) == []
    assert store.callbacks.some(limit=10) == []


def test_the_newest_token_wins_and_the_old_one_stays_to_be_told(store: Store) -> None:
    a_queue(store)
    job = submitted(store, "job1", "first")
    assert store.callbacks.attach(job, task("second"))
    assert there(store) == [("job1", "second", False), ("job1", "first", True)]
    assert not store.callbacks.attach(job, task("second")), "the same again changes nothing"
    assert not store.callbacks.attach(job, task("first")), "an older one does not come back"
    assert store.callbacks.attach(job, task("third"))
    assert there(store)[0] == ("job1", "third", False)
    assert sorted(there(store)[1:]) == [("job1", "first", True), ("job1", "second", True)]
    assert not store.callbacks.attach(job, task("first"))


def test_a_job_has_a_bounded_number_of_tokens(store: Store) -> None:
    a_queue(store)
    job = submitted(store, "job1", "token0")
    for number in range(1, MOST_TOKENS):
        assert store.callbacks.attach(job, task(f"token{number}"))
    with pytest.raises(InvalidRequest, match="has had 50 tokens"):
        store.callbacks.attach(job, task("one-more"))
    assert not store.callbacks.attach(job, task("token0"))
    assert len(there(store)) == MOST_TOKENS


def test_a_callback_can_be_attached_later(store: Store) -> None:
    a_queue(store)
    assert store.callbacks.attach(waits(store, "job1"), task("late"))
    assert there(store) == [("job1", "late", False)]


def test_the_same_token_may_change_what_becomes_of_the_job(store: Store) -> None:
    a_queue(store)
    job = submitted(store, "job1", "first")
    read = the_one(store)
    assert store.callbacks.attach(job, task("first", WhenAbandoned.CONTINUE))
    assert store.callbacks.put_off(read, due=7, tries=1, trouble="Throttling")
    kept = the_one(store)
    assert kept.when_abandoned is WhenAbandoned.CONTINUE
    assert (kept.due, kept.tries, kept.trouble) == (7, 1, "Throttling")


def test_what_was_replaced_meanwhile_is_neither_forgotten_nor_put_off(store: Store) -> None:
    a_queue(store)
    job = submitted(store, "job1", "first")
    read = the_one(store)
    store.callbacks.attach(job, task("second"))
    store.callbacks.forget(read)
    assert not store.callbacks.put_off(read, due=7, tries=1, trouble="Throttling")
    assert there(store) == [("job1", "second", False), ("job1", "first", True)]
    newest, old = store.callbacks.all()
    assert newest.trouble == ""
    store.callbacks.forget(old)
    assert there(store) == [("job1", "second", False)]
    store.callbacks.forget(newest)
    store.callbacks.forget(newest)
    assert there(store) == []
    assert not store.callbacks.put_off(newest, due=7, tries=1, trouble="Throttling")
    assert there(store) == [], "what is forgotten stays so"


def test_more_than_a_tick_takes_are_taken_by_turns(store: Store) -> None:
    a_queue(store)
    for number in range(7):
        submitted(store, f"job{number}", f"token{number}")
    seen = Counter(kept.job for _ in range(6) for kept in store.callbacks.some(limit=3))
    assert set(seen) == {f"job{number}" for number in range(7)}
    assert max(seen.values()) - min(seen.values()) <= 1
    assert len(store.callbacks.some(limit=7)) == 7


@pytest.mark.parametrize("limit", [30, 24])
def test_who_had_no_time_comes_first_in_the_next_turn(store: Store, limit: int) -> None:
    a_queue(store)
    names = [f"job{number:02}" for number in range(TOGETHER + 5)]
    for name in names:
        submitted(store, name, f"token of {name}")
    some = store.callbacks.some(limit=limit)
    store.callbacks.go_on_behind(some[TOGETHER - 1])
    behind = [kept.job for kept in store.callbacks.some(limit=limit)]
    assert behind[:5] == names[TOGETHER:]
    assert behind[5:] == (names[:TOGETHER] if limit > len(names) else [])


def test_submissions_at_once_leave_one_token(racing_store: Store) -> None:
    a_queue(racing_store)
    job = waits(racing_store, "job1")
    tokens = [f"token{number}" for number in range(6)]
    threads = [
        threading.Thread(target=racing_store.callbacks.attach, args=(job, task(token)))
        for token in tokens
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = there(racing_store)
    assert sorted(token for _, token, _ in kept) == tokens, "none is lost"
    assert [superseded for _, _, superseded in kept].count(False) == 1


def test_one_that_cannot_be_read_delays_no_other(dynamo: DynamoStore, items: Table) -> None:
    a_queue(dynamo)
    job = submitted(dynamo, "job1", "first")
    submitted(dynamo, "job2", "second")
    items.change((table.CALLBACKS, "job1"), kind={"S": "fax"})
    assert there(dynamo) == [("job2", "second", False)]
    assert [kept.job for kept in dynamo.callbacks.some(limit=10)] == ["job2"]
    with pytest.raises(NotUnderstood):
        dynamo.callbacks.attach(job, task("third"))
    (finding,) = [one for one in dynamo.repair.inspect(mend=True) if one.subject == "job1"]
    assert finding.mended
    assert "first" not in finding.text
    assert dynamo.callbacks.attach(job, task("third"))


def test_what_a_callback_costs(
    evented_store: tuple[DynamoStore, str], evented_client: EventedDynamo
) -> None:
    """A submission with one takes the same calls as one without; a tick's look takes one."""
    store, _ = evented_store
    a_queue(store)
    waits(store, "before")  # The line exists.

    def calls(run: Callable[[], object]) -> list[str]:
        with measured(evented_client) as meter:
            run()
        return meter.calls

    without = calls(lambda: waits(store, "job1"))
    assert calls(lambda: submitted(store, "job2", "x" * 2048)) == without
    assert calls(lambda: store.callbacks.some(limit=10)) == ["Query"]
