"""Jobs that come after others, as stored: found by the job that they wait for, told of its end
exactly once, and free of charge for all other jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from slotq_core.adapters.dynamodb.layout.table import after_key, job_key
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.model.groups import Group, StoredGroup
from slotq_core.model.jobs import MAX_AFTER, Job, JobState
from slotq_core.operations.jobs.followers import Followers, notify_dependents
from slotq_core.ports.store import Store
from slotq_core.ports.stored import AwaitedEnded, Change
from tests.contract.by_hand import Table
from tests.contract.worlds import (
    NOW,
    REQUEST,
    S,
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
    kept = store.jobs.get(name)
    assert kept is not None
    return kept


def notify(store: Store) -> tuple[str, ...]:
    ended = store.worlds.load(NOW + 10).ended
    stopping, troubles = notify_dependents(ended, store, Clock(), until=NOW + 1_000)
    assert not stopping  # There is no sweep.
    return troubles


def test_a_job_is_found_by_those_that_it_waits_for(store: Store) -> None:
    a_queue(store)
    followed(store, "a")
    followed(store, "b")
    job = waits(store, "c", after=("a",), after_any=("b",))
    assert [*store.jobs.followers("a")] == [*store.jobs.followers("b")] == [job]
    assert store.worlds.load(NOW).snapshot.waiting == tuple(filter(None, map(store.jobs.get, "ab")))
    commit(store, cancelling(job))
    assert [*store.jobs.followers("a"), *store.jobs.followers("b")] == []


def test_no_job_is_stored_after_one_that_would_not_tell_it(store: Store) -> None:
    a_queue(store)
    waits(store, "unmarked")
    commit(store, cancelling(followed(store, "ended")))
    for name in ("unmarked", "ended", "nobody"):
        with pytest.raises(AwaitedEnded):
            waits(store, "b", after_any=(name,))
    assert store.jobs.get("b") is None


def test_an_end_stays_to_be_handed_on_until_it_is(store: Store) -> None:
    a_queue(store)
    a = followed(store, "a")
    waits(store, "b", after_any=("a",))
    waits(store, "c", after=("a",))
    commit(store, cancelling(a))
    assert [job.name for job in store.worlds.load(NOW).ended] == ["a"]
    assert notify(store) == ()
    assert (store.worlds.load(NOW).ended, [*store.jobs.followers("a")]) == ((), [])
    b, c = store.jobs.get("b"), store.jobs.get("c")
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
        assert notify(store) == ()
    assert {store.jobs.get(f"b{number}").state for number in range(5)} == {JobState.CANCELLED}  # type: ignore[union-attr]


def a_group(store: Store, *members: str) -> list[Job]:
    """A sweep of these members, stored whole."""
    store.groups.open("grid", digest="d", now=NOW)
    group = Group(name="grid", members=members, max_parallel=1)
    store.groups.keep(StoredGroup(group=group, submitter="ann", digest="d", at=NOW))
    store.groups.close("grid")
    return [waits(store, name, group="grid") for name in members]


def watches(store: Store, members: Sequence[Job]) -> list[str]:
    jobs = (store.jobs.get(each.name) for each in members)
    return [job.name for job in jobs if job and job.followed]


def test_no_job_is_stored_after_a_group_whose_watch_would_not_tell_it(store: Store) -> None:
    a_queue(store)
    a, b = a_group(store, "a", "b")
    late = a_job("late", after_any=("group:grid",))
    for watched in ("a", "nobody"):
        with pytest.raises(AwaitedEnded):
            store.jobs.submit(late, REQUEST, watched=[watched])
    commit(store, cancelling(followed_by(store, a)))
    with pytest.raises(AwaitedEnded):
        store.jobs.submit(late, REQUEST, watched=["a"])
    followed_by(store, b)
    store.jobs.submit(late, REQUEST, watched=["b"])
    assert [job.name for job in store.jobs.followers("group:grid")] == ["late"]


def test_the_watch_goes_on_to_the_next_living_member_and_ends_with_the_last(store: Store) -> None:
    a_queue(store)
    a, b, _, d = members = a_group(store, "a", "b", "c", "d")
    a = followed_by(store, a)
    store.jobs.submit(a_job("late", after_any=("group:grid",)), REQUEST, watched=["a"])
    store.jobs.submit(a_job("strict", after=("group:grid",)), REQUEST, watched=["a"])
    commit(store, cancelling(b))
    assert (notify(store), watches(store, members)) == ((), ["a"])
    commit(store, cancelling(a))
    assert (notify(store), watches(store, members)) == ((), ["c"])
    commit(store, cancelling(d))
    watch = store.jobs.get("c")
    assert watch is not None
    commit(store, cancelling(watch))
    assert (notify(store), watches(store, members)) == ((), [])
    late, strict = store.jobs.get("late"), store.jobs.get("strict")
    assert late is not None and late.waits
    assert strict is not None and (strict.state, strict.cause) == (S.CANCELLED, "dependency")
    assert store.worlds.load(NOW).ended == ()


def test_the_task_of_an_end_may_be_seen_before_the_end_itself(store: Store) -> None:
    """Both are written at once, but a query may see a transaction half done."""
    a_queue(store)
    (a,) = a_group(store, "a")
    a = followed_by(store, a)
    progress = Followers(store, Clock())._groups.watched(cancelling(a).after)
    assert (progress.living, bool(progress.trouble)) == (None, True)


def followed_by(store: Store, job: Job) -> Job:
    Followers(store, Clock()).follow([job])
    kept = store.jobs.get(job.name)
    assert kept is not None and kept.followed
    return kept


def test_a_lost_watch_is_found_and_mended(dynamo: DynamoStore) -> None:
    a_queue(dynamo)
    a, _ = members = a_group(dynamo, "a", "b")
    a = followed_by(dynamo, a)
    dynamo.jobs.submit(a_job("late", after_any=("group:grid",)), REQUEST, watched=["a"])
    assert [*dynamo.repair.inspect()] == []
    (ended,) = dynamo.decisions.commit([cancelling(a)])
    dynamo.decisions.commit([Change(before=ended, after=replace(ended, followed=False))])
    (found,) = dynamo.repair.inspect(mend=True)
    assert (found.kind, found.subject, found.mended) == ("after", "late", True)
    assert watches(dynamo, members) == ["b"]
    watch = dynamo.jobs.get("b")
    assert watch is not None
    (ended,) = dynamo.decisions.commit([cancelling(watch)])
    dynamo.decisions.commit([Change(before=ended, after=replace(ended, followed=False))])
    (found,) = dynamo.repair.inspect(mend=True)
    assert found.mended
    assert notify(dynamo) == ()
    late = dynamo.jobs.get("late")
    assert late is not None and late.waits
    assert [*dynamo.repair.inspect()] == []


def test_following_a_followed_job_writes_nothing(store: Store) -> None:
    a_queue(store)
    job = followed(store, "a")
    Followers(store, Clock()).follow([job])
    assert store.jobs.get("a") == job


def test_a_handler_that_lost_the_race_leaves_the_rest_as_it_is(store: Store) -> None:
    a_queue(store)
    a = followed(store, "a")
    b = waits(store, "b", after=("a",))
    (ended,) = store.decisions.commit([cancelling(a)])
    assert notify(store) == ()
    Followers(store, Clock()).notify_dependents(ended, until=NOW + 1_000)
    again = store.jobs.get("b")
    assert again is not None
    assert again.version == b.version + 1


def test_an_unreadable_copy_keeps_no_job_waiting(dynamo: DynamoStore, items: Table) -> None:
    a_queue(dynamo)
    a = followed(dynamo, "a")
    waits(dynamo, "b", after_any=("a",))
    items.spoil_copy(after_key("a", "b"), priority={"S": "high"})
    commit(dynamo, cancelling(a))
    assert notify(dynamo) == ()
    b = dynamo.jobs.get("b")
    assert b is not None and b.waits


def test_a_lost_copy_or_mark_is_found_and_mended(dynamo: DynamoStore, items: Table) -> None:
    """A handler of an earlier version writes a job without its mark."""
    a_queue(dynamo)
    a = followed(dynamo, "a")
    waits(dynamo, "b", after_any=("a",))
    assert [*dynamo.repair.inspect()] == []
    items.remove(after_key("a", "b"))
    assert {each.kind for each in dynamo.repair.inspect(mend=True)} == {"copy"}
    (ended,) = dynamo.decisions.commit([cancelling(a)])
    unmarked = Change(before=ended, after=replace(ended, followed=False))
    dynamo.decisions.commit([unmarked])
    (found,) = dynamo.repair.inspect(mend=True)
    assert (found.kind, found.subject, found.mended) == ("after", "b", True)
    assert notify(dynamo) == ()
    b = dynamo.jobs.get("b")
    assert b is not None and b.waits
    assert [*dynamo.repair.inspect()] == []


def test_a_job_without_dependencies_costs_nothing_more(dynamo: DynamoStore, items: Table) -> None:
    a_queue(dynamo)
    dynamo.jobs.submit(a_job("a"), REQUEST)
    names = {"after", "afterAny", "dependsOn", "followed"}
    assert not names & items.get(job_key("a")).keys()
