"""Groups as stored: a record is kept once, and only while its submission is open; a load has the
groups of the jobs that wait."""

from __future__ import annotations

import pytest

from slotq_core.adapters.dynamodb.layout.table import group_key
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.errors import Conflict, NotUnderstood
from slotq_core.model.groups import Group, StoredGroup, entry_of
from slotq_core.ports.store import Store
from slotq_core.ports.stored import AwaitedEnded
from tests.contract.by_hand import Table
from tests.contract.worlds import NOW, a_queue, waits

GRID = Group(name="grid", members=("a", "b"), max_parallel=1)


def stored(digest: str = "d") -> StoredGroup:
    return StoredGroup(group=GRID, submitter="ann", digest=digest, project="vision", at=NOW)


def kept(store: Store) -> None:
    store.groups.open("grid", digest="d", now=NOW)
    store.groups.keep(stored())
    store.groups.close("grid")


def test_a_record_is_read_as_it_was_kept(store: Store) -> None:
    assert store.groups.get("grid") is None
    kept(store)
    assert store.groups.get("grid") == stored()
    assert [*store.groups.openings()] == []


def test_a_record_is_kept_once_and_only_while_its_submission_is_open(store: Store) -> None:
    with pytest.raises(Conflict):
        store.groups.keep(stored())
    store.groups.open("grid", digest="d", now=NOW)
    with pytest.raises(Conflict):
        store.groups.keep(stored("another"))
    store.groups.keep(stored())
    with pytest.raises(Conflict):
        store.groups.keep(stored())


def test_one_submission_of_a_name_is_open_at_a_time(store: Store) -> None:
    store.groups.open("grid", digest="d", now=NOW)
    with pytest.raises(Conflict):
        store.groups.open("grid", digest="another", now=NOW)
    store.groups.open("grid", digest="d", now=NOW + 1)
    (opening,) = store.groups.openings()
    assert (opening.name, opening.digest, opening.at) == ("grid", "d", NOW + 1)
    store.groups.close("grid")
    store.groups.open("grid", digest="another", now=NOW)


def test_a_submission_that_was_begun_again_is_not_withdrawn(store: Store) -> None:
    store.groups.open("grid", digest="d", now=NOW)
    (opening,) = store.groups.openings()
    store.groups.open("grid", digest="d", now=NOW + 1)
    with pytest.raises(Conflict):
        store.groups.withdraw(opening)


def test_nothing_is_withdrawn_that_was_kept_and_nothing_kept_that_was_withdrawn(
    store: Store,
) -> None:
    store.groups.open("grid", digest="d", now=NOW)
    (opening,) = store.groups.openings()
    store.groups.withdraw(opening)
    assert [each.withdrawn for each in store.groups.openings()] == [True]
    with pytest.raises(Conflict):
        store.groups.keep(stored())
    with pytest.raises(Conflict):
        store.groups.open("grid", digest="d", now=NOW + 1)
    store.groups.close("grid")
    store.groups.open("grid", digest="d", now=NOW)
    store.groups.keep(stored())
    (opening,) = store.groups.openings()
    with pytest.raises(Conflict):
        store.groups.withdraw(opening)


def test_a_load_has_the_groups_of_the_jobs_that_wait(store: Store) -> None:
    a_queue(store)
    kept(store)
    assert store.load(NOW).snapshot.groups == store.load_all(NOW).snapshot.groups == ()
    waits(store, "a", group="grid")
    waits(store, "c", group="unknown")
    assert store.load(NOW).snapshot.groups == store.load_all(NOW).snapshot.groups == (GRID,)


def test_a_member_waits_for_its_groups_entry_and_for_no_job(store: Store) -> None:
    a_queue(store)
    member = waits(store, "a", group="grid", after_any=(entry_of("grid"),))
    assert [*store.followers(entry_of("grid"))] == [member]
    assert store.load(NOW).snapshot.waiting == ()
    assert member.awaited_jobs == ()
    with pytest.raises(AwaitedEnded):
        waits(store, "b", group="grid", after_any=(entry_of("grid"), "nobody"))
    assert [*store.inspect()] == []


def test_of_a_group_whose_record_cannot_be_read_nothing_starts(
    dynamo: DynamoStore, items: Table
) -> None:
    a_queue(dynamo)
    kept(dynamo)
    items.change(group_key("grid"), maxParallel={"S": "many"})
    waits(dynamo, "a", group="grid")
    (group,) = dynamo.load(NOW).snapshot.groups
    assert (group.name, group.max_parallel) == ("grid", 0)
    with pytest.raises(NotUnderstood):
        dynamo.groups.get("grid")


def test_a_record_is_read_once(dynamo: DynamoStore, items: Table) -> None:
    a_queue(dynamo)
    kept(dynamo)
    waits(dynamo, "a", group="grid")
    dynamo.load(NOW)
    items.remove(group_key("grid"))
    assert dynamo.load(NOW).snapshot.groups == (GRID,)
