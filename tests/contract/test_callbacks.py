"""Who waits for jobs' ends, as every store keeps it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

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


def submitted(store: Store, name: str, token: str, *, by: str = "ann") -> Job:
    return store.jobs.submit(a_job(name, submitter=by), REQUEST, callback=task(token))


def a_tick(store: Store, limit: int) -> list[KeptCallback]:
    """Look at those whose turn it is."""
    some, more = store.callbacks.some(limit=limit)
    if more:
        store.callbacks.go_on_behind(some)
    return [*some]


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
    assert store.callbacks.some(limit=10) == ([], False)


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
    seen = Counter(kept.job for _ in range(6) for kept in a_tick(store, 3))
    assert set(seen) == {f"job{number}" for number in range(7)}
    assert max(seen.values()) - min(seen.values()) <= 1
    assert len(a_tick(store, 7)) == 7


def test_whoever_has_few_is_looked_at_in_each_tick(store: Store) -> None:
    a_queue(store)
    for number in range(30):
        submitted(store, f"a-job{number:02}", f"token{number}", by="many")
    submitted(store, "z-job", "mine", by="few")
    ticks = [[kept.job for kept in a_tick(store, 6)] for _ in range(6)]
    assert all("z-job" in tick and len(tick) == 6 for tick in ticks)
    assert len({job for tick in ticks for job in tick}) == 31, "nobody's room is left unused"


@pytest.mark.parametrize("limit", [3, 8])
def test_submitters_take_turns_where_there_are_more_of_them(store: Store, limit: int) -> None:
    a_queue(store)
    for number in range(24):
        submitted(store, f"job{number:02}", f"token{number}", by=f"user{number}")
    seen = Counter(kept.job for _ in range(24 // limit) for kept in a_tick(store, limit))
    assert [*seen.values()] == [1] * 24


def test_replaced_tokens_take_no_turn_of_a_heartbeat(store: Store) -> None:
    a_queue(store)
    jobs = [submitted(store, f"job{number}", f"token{number}") for number in range(8)]
    for job in jobs:
        for number in range(10):
            store.callbacks.attach(job, task(f"{job.name}-{number}"))
    for _ in range(3):
        some = a_tick(store, 8)
        assert {kept.job for kept in some if not kept.superseded} == {job.name for job in jobs}
        assert len(some) == 10
    seen = {kept.token for _ in range(40) for kept in a_tick(store, 8) if kept.superseded}
    assert len(seen) == 80, "each of them has its turn"


@pytest.mark.parametrize("by", ["ann", "eve"])
def test_a_later_job_of_the_name_takes_no_place(store: Store, by: str) -> None:
    """Whoever waits for the job whose records have gone has not been told yet."""
    a_queue(store)
    gone = a_job("job1", submitter="ann", entry_time=1)
    store.callbacks.attach(gone, task("old"))
    new = submitted(store, "job1", "new", by=by)
    assert {token for _, token, _ in there(store)} == {"old", "new"}
    assert store.callbacks.attach(new, task("newer"))
    assert {(kept.entered, kept.token, kept.superseded) for kept in store.callbacks.all()} == {
        (1, "old", False),
        (new.entry_time, "new", True),
        (new.entry_time, "newer", False),
    }


def test_a_token_attached_later_replaces_none_of_an_earlier_job(store: Store) -> None:
    a_queue(store)
    store.callbacks.attach(a_job("job1", entry_time=1), task("old"))
    assert store.callbacks.attach(waits(store, "job1"), task("new"))
    assert all(not kept.superseded and not kept.former for kept in store.callbacks.all())


@pytest.mark.parametrize("limit", [30, 24])
def test_who_had_no_time_comes_first_in_the_next_turn(store: Store, limit: int) -> None:
    a_queue(store)
    names = [f"job{number:02}" for number in range(TOGETHER + 5)]
    for name in names:
        submitted(store, name, f"token of {name}")
    some, _ = store.callbacks.some(limit=limit)
    store.callbacks.go_on_behind(some[:TOGETHER])
    behind = [kept.job for kept in store.callbacks.some(limit=limit)[0]]
    assert behind[:5] == names[TOGETHER:]
    assert behind[5:] == names[: min(limit, len(names)) - 5]


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
    key = table.callback_key(next(iter(dynamo.callbacks.all())))
    items.change(key, kind={"S": "fax"})
    assert there(dynamo) == [("job2", "second", False)]
    assert [kept.job for kept in a_tick(dynamo, 10)] == ["job2"]
    with pytest.raises(NotUnderstood):
        dynamo.callbacks.attach(job, task("third"))
    (finding,) = [one for one in dynamo.repair.inspect(mend=True) if "job1" in one.subject]
    assert finding.mended
    assert "first" not in finding.text
    assert dynamo.callbacks.attach(job, task("third"))


@pytest.mark.parametrize("noted", [{}, {"S": "job7"}, {"S": "[1]"}, {"S": '{"!": null}'}])
def test_turns_begin_anew_where_nobody_can_read_the_last(
    dynamo: DynamoStore, items: Table, noted: Any
) -> None:
    a_queue(dynamo)
    for number in range(4):
        submitted(dynamo, f"job{number}", f"token{number}")
    a_tick(dynamo, 2)
    items.change(table.task_key("callbacks"), behind=noted or {"S": ""})
    assert [kept.job for kept in a_tick(dynamo, 2)] == ["job0", "job1"]
    assert [kept.job for kept in a_tick(dynamo, 2)] == ["job2", "job3"]


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
    for number in range(TOGETHER):
        submitted(store, f"more{number}", "token", by=f"user{number % 3}")
    assert calls(lambda: store.callbacks.some(limit=100)) == ["Query", "GetItem"]
    beyond = calls(lambda: store.callbacks.some(limit=TOGETHER))
    four_submitters, pages = 4, 7
    assert Counter(beyond) == {"GetItem": 1, "Query": 1 + (four_submitters + 1) + pages + 1}
