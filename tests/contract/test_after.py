"""Jobs that come after others, as stored: found by the job that they wait for, told of its end
exactly once, and free of charge for all other jobs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotq_core.adapters.dynamodb.layout.table import after_key, job_key
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.admission.dependencies import MAX_AFTER
from slotq_core.model.jobs import Job, JobState
from slotq_core.operations.jobs.followers import Followers, hand_on_all
from slotq_core.ports.store import Store
from slotq_core.ports.stored import AwaitedEnded, Change
from tests.contract.by_hand import Table
from tests.contract.worlds import (
    NOW,
    REQUEST,
    a_job,
    a_queue,
    cancelling,
    commit,
    waits,
)


class Clock:
    def now(self) -> int:
        return NOW + 10


def followed(store: Store, name: str) -> Job:
    job = waits(store, name)
    Followers(store, Clock()).follow([job])
    kept = store.job(name)
    assert kept is not None
    return kept


def hand_on(store: Store) -> tuple[str, ...]:
    return hand_on_all(store.load(NOW + 10).ended, store, Clock(), until=NOW + 1_000)


def test_a_job_is_found_by_those_that_it_waits_for(store: Store) -> None:
    a_queue(store)
    followed(store, "a")
    followed(store, "b")
    job = waits(store, "c", after=("a",), after_any=("b",))
    assert [*store.followers("a")] == [*store.followers("b")] == [job]
    assert store.load(NOW).snapshot.waiting == tuple(filter(None, map(store.job, "ab")))
    commit(store, cancelling(job))
    assert [*store.followers("a"), *store.followers("b")] == []


def test_no_job_is_stored_after_one_that_would_not_tell_it(store: Store) -> None:
    a_queue(store)
    waits(store, "unmarked")
    commit(store, cancelling(followed(store, "ended")))
    for name in ("unmarked", "ended", "nobody"):
        with pytest.raises(AwaitedEnded):
            waits(store, "b", after_any=(name,))
    assert store.job("b") is None


def test_an_end_stays_to_be_handed_on_until_it_is(store: Store) -> None:
    a_queue(store)
    a = followed(store, "a")
    waits(store, "b", after_any=("a",))
    waits(store, "c", after=("a",))
    commit(store, cancelling(a))
    assert [job.name for job in store.load(NOW).ended] == ["a"]
    assert hand_on(store) == ()
    assert (store.load(NOW).ended, [*store.followers("a")]) == ((), [])
    b, c = store.job("b"), store.job("c")
    assert b is not None and b.waits
    assert c is not None and (c.state, c.cause) == (JobState.CANCELLED, "dependency")


def test_an_end_is_told_to_many(store: Store) -> None:
    """More than one transaction holds, each of which waits for as many others as one may."""
    a_queue(store)
    names = [f"a{number}" for number in range(MAX_AFTER)]
    jobs = [followed(store, name) for name in names]
    for number in range(5):
        waits(store, f"b{number}", after=(names[0],), after_any=tuple(names[1:]))
    for job in jobs:
        commit(store, cancelling(job))
        assert hand_on(store) == ()
    assert {store.job(f"b{number}").state for number in range(5)} == {JobState.CANCELLED}  # type: ignore[union-attr]


def test_following_a_followed_job_writes_nothing(store: Store) -> None:
    a_queue(store)
    job = followed(store, "a")
    Followers(store, Clock()).follow([job])
    assert store.job("a") == job


def test_a_handler_that_lost_the_race_leaves_the_rest_as_it_is(store: Store) -> None:
    a_queue(store)
    a = followed(store, "a")
    b = waits(store, "b", after=("a",))
    (ended,) = store.commit([cancelling(a)])
    assert hand_on(store) == ()
    Followers(store, Clock()).hand_on(ended, until=NOW + 1_000)
    again = store.job("b")
    assert again is not None
    assert again.version == b.version + 1


def test_an_unreadable_copy_keeps_no_job_waiting(dynamo: DynamoStore, items: Table) -> None:
    a_queue(dynamo)
    a = followed(dynamo, "a")
    waits(dynamo, "b", after_any=("a",))
    items.spoil_copy(after_key("a", "b"), priority={"S": "high"})
    commit(dynamo, cancelling(a))
    assert hand_on(dynamo) == ()
    b = dynamo.job("b")
    assert b is not None and b.waits


def test_a_lost_copy_or_mark_is_found_and_mended(dynamo: DynamoStore, items: Table) -> None:
    """A handler of an earlier version writes a job without its mark."""
    a_queue(dynamo)
    a = followed(dynamo, "a")
    waits(dynamo, "b", after_any=("a",))
    assert [*dynamo.inspect()] == []
    items.remove(after_key("a", "b"))
    assert {each.kind for each in dynamo.inspect(mend=True)} == {"copy"}
    (ended,) = dynamo.commit([cancelling(a)])
    unmarked = Change(before=ended, after=replace(ended, followed=False))
    dynamo.commit([unmarked])
    (found,) = dynamo.inspect(mend=True)
    assert (found.kind, found.subject, found.mended) == ("after", "b", True)
    assert hand_on(dynamo) == ()
    b = dynamo.job("b")
    assert b is not None and b.waits
    assert [*dynamo.inspect()] == []


def test_a_job_without_dependencies_costs_nothing_more(dynamo: DynamoStore, items: Table) -> None:
    a_queue(dynamo)
    dynamo.submit(a_job("a"), REQUEST)
    names = {"after", "afterAny", "dependsOn", "followed"}
    assert not names & items.get(job_key("a")).keys()
