"""Time slices: who has yielded is kept with the eviction, and lines tell users apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slotq_core.adapters.dynamodb.layout import table as layout
from slotq_core.adapters.dynamodb.layout.records import Item
from slotq_core.adapters.dynamodb.store import DynamoStore, table_definition
from slotq_core.errors import Conflict
from slotq_core.model.attempts import StopCause
from slotq_core.model.jobs import Job, Workload
from slotq_core.model.users import Yielded
from slotq_core.policy.cycle import plan
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Change
from slotq_core.storage.yields import KEPT_FOR
from tests.contract.conftest import a_store
from tests.contract.metered import Metered
from tests.contract.worlds import (
    NOW,
    a_pool,
    a_queue,
    cancelling,
    commit,
    completing,
    evicted,
    evicting,
    runs,
    waits,
)

SLICE = 60_000
USERS = ("arn:aws:iam::123456789012:user/ann", "arn:aws:iam::123456789012:user/bob")


def sliced(store: Store, *names: str, slots: int = 3) -> None:
    a_queue(store, *(a_pool(name, slots, time_slice=SLICE) for name in names or ("p5",)))


def yielding(job: Job, *, at: int = NOW + 3) -> Change:
    """The change by which the job yields to a time slice."""
    change = evicting(job, "x")
    assert change.after.attempt and change.after.attempt.stop
    stop = replace(change.after.attempt.stop, cause=StopCause.YIELDED, at=at)
    attempt = replace(change.after.attempt, stop=stop)
    return replace(change, after=replace(change.after, attempt=attempt, changed_at=at))


def yields(store: Store, now: int = NOW + 4) -> set[tuple[str, int, int]]:
    found = store.worlds.load(now).snapshot.yields
    assert set(store.worlds.load_all(now).snapshot.yields) == set(found)
    assert len({each.of for each in found}) == len(found)
    return {(each.user, each.priority, each.at) for each in found}


def test_a_yield_is_kept_with_the_eviction(store: Store) -> None:
    sliced(store)
    job = runs(store, "a", submitter=USERS[0], priority=7)
    assert yields(store) == set()
    after = commit(store, yielding(job))
    assert yields(store) == {(USERS[0], 7, NOW + 3)}
    again = commit(store, evicted(after))
    assert yields(store) == {(USERS[0], 7, NOW + 3)}, "also once the attempt has ended"
    commit(store, cancelling(again))
    assert yields(store) == {(USERS[0], 7, NOW + 3)}, "and the job: the user's other jobs may wait"


def test_an_eviction_for_another_cause_is_no_yield(store: Store) -> None:
    sliced(store)
    commit(store, evicting(runs(store, "a", submitter=USERS[0]), "x"))
    assert yields(store) == set()


def test_a_refused_eviction_keeps_no_yield(store: Store) -> None:
    sliced(store)
    job = runs(store, "a", submitter=USERS[0])
    commit(store, completing(job))
    try:
        commit(store, yielding(job))
    except Conflict:
        assert yields(store) == set()
    else:
        raise AssertionError


def test_the_last_yield_of_each_user_and_rank_counts(store: Store) -> None:
    """Also across pools."""
    sliced(store, "p5", "p4")
    first = runs(store, "a", submitter=USERS[0], pools=("p5", "p4"))
    other = runs(store, "b", submitter=USERS[1])
    lower = runs(store, "c", submitter=USERS[0], priority=0)
    store.decisions.commit([yielding(first), yielding(other), yielding(lower)])
    assert yields(store) == {
        (USERS[0], 1, NOW + 3),
        (USERS[1], 1, NOW + 3),
        (USERS[0], 0, NOW + 3),
    }
    there = runs(store, "d", pool="p4", submitter=USERS[0], pools=("p4",))
    commit(store, yielding(there, at=NOW + 9))
    assert (USERS[0], 1, NOW + 9) in yields(store)
    assert len(yields(store)) == 3


def test_a_workload_class_is_part_of_the_rank(store: Store) -> None:
    sliced(store)
    commit(store, yielding(runs(store, "a", submitter=USERS[0], workload=Workload.INTERACTIVE)))
    (found,) = store.worlds.load(NOW + 4).snapshot.yields
    assert found == Yielded(
        user=USERS[0], workload=Workload.INTERACTIVE, priority=1, at=NOW + 3, project=""
    )


def test_a_yield_counts_in_its_project(store: Store) -> None:
    """One role often submits for several projects."""
    sliced(store, "p5", "p4")
    commit(store, yielding(runs(store, "a", submitter=USERS[0], project="x")))
    other = commit(store, yielding(runs(store, "b", submitter=USERS[0], project="y"), at=NOW + 5))
    at = {each.project: each.at for each in store.worlds.load(NOW + 6).snapshot.yields}
    assert at == {"x": NOW + 3, "y": NOW + 5}
    mine = waits(store, "mine", submitter=USERS[0], project="z", line_by_user=True)
    theirs = waits(
        store, "theirs", submitter=USERS[1], project="z", entry_time=NOW + 1, line_by_user=True
    )
    assert [store.worlds.load(NOW + 6).ahead_of(job).jobs for job in (mine, theirs)] == [0, 1]
    late = NOW + 5 + KEPT_FOR
    waits(store, "older", submitter=USERS[0], project="x", entry_time=NOW - 1, line_by_user=True)
    commit(store, completing(other))
    store.worlds.load(late).keep_bounds()
    kept = {each.project for each in store.worlds.load(late + 1).snapshot.yields}
    assert kept == {"x"}, "the yield in y is forgotten: no job of that project can notice it"


def test_without_a_time_slice_nobody_has_yielded(store: Store) -> None:
    sliced(store)
    commit(store, yielding(runs(store, "a", submitter=USERS[0])))
    a_queue(store, a_pool("p5", 3))
    assert yields(store) == set()


def test_a_yield_is_forgotten_when_nobody_can_notice_it(store: Store) -> None:
    """Not while a job waits or runs that entered before it."""
    sliced(store)
    job = runs(store, "a", submitter=USERS[0])
    behind = waits(store, "behind", submitter=USERS[0], line_by_user=True)
    commit(store, completing(commit(store, yielding(job))))
    late = NOW + 3 + KEPT_FOR
    store.worlds.load(late).keep_bounds()
    assert yields(store, late)
    commit(store, cancelling(behind))
    for moment in (late, late + 1, late + 2):  # The empty line is read, and removed.
        world = store.worlds.load(moment)
        plan(world.snapshot, moment, more=world.more)
        world.keep_bounds()
    assert yields(store, late + 3) == set()


def test_a_yield_is_kept_for_longer_than_any_back_off(store: Store) -> None:
    sliced(store)
    commit(store, completing(commit(store, yielding(runs(store, "a", submitter=USERS[0])))))
    waits(store, "younger", submitter=USERS[0], entry_time=NOW + 4)
    late = NOW + 3 + KEPT_FOR
    store.worlds.load(late - 1).keep_bounds()
    assert yields(store, late)
    store.worlds.load(late).keep_bounds()
    assert yields(store, late) == set()


def test_a_later_yield_is_not_forgotten_with_an_earlier_one(store: Store) -> None:
    sliced(store)
    commit(store, completing(commit(store, yielding(runs(store, "a", submitter=USERS[0])))))
    late = NOW + 3 + KEPT_FOR
    world = store.worlds.load(late)
    again = yielding(runs(store, "b", submitter=USERS[0]), at=late)
    commit(store, completing(commit(store, again)))
    world.keep_bounds()
    assert yields(store, late) == {(USERS[0], 1, late)}


def names(store: Store) -> set[str]:
    return {job.name for job in store.worlds.load(NOW).snapshot.waiting}


@pytest.mark.parametrize("setting", [{"time_slice": SLICE}, {"consolidate": True}], ids=str)
def test_a_line_that_mixes_users_is_read_whole_where_users_matter(
    store: Store, setting: dict[str, Any]
) -> None:
    """The jobs came while no pool had a time slice, or consolidated. A job of ann that is blocked
    hides none of bob's."""
    a_queue(store, a_pool("p5", 3))
    for number in range(40):
        waits(store, f"a{number:02d}", submitter=USERS[0], entry_time=NOW + number)
    waits(store, "b", submitter=USERS[1], entry_time=NOW + 50)
    assert "b" not in names(store)
    a_queue(store, a_pool("p5", 3, **setting))
    assert len(names(store)) == 41
    store.worlds.load(NOW).keep_bounds()
    assert {"a00", "b"} <= names(store)
    runs(store, "c", submitter="", entry_time=NOW - 9, slots=3)
    world = store.worlds.load(NOW)
    planned = plan(world.snapshot, NOW, more=world.more)
    everything = store.worlds.load_all(NOW).snapshot
    assert planned.decisions == plan(everything, NOW).decisions


def test_jobs_come_into_lines_of_their_users(evented_store: tuple[DynamoStore, str]) -> None:
    """So that later passes read the first jobs alone."""
    store, _ = evented_store
    a_queue(store, a_pool("p5", 3))
    for number in range(60):
        user = USERS[number % 2]
        waits(store, f"{number:02d}", submitter=user, entry_time=NOW + number)
    sliced(store)
    store.worlds.load(NOW).keep_bounds()
    assert len(names(store)) < 25
    assert {job.name for job in store.worlds.load_all(NOW).snapshot.waiting} == {
        f"{number:02d}" for number in range(60)
    }
    assert not [*store.repair.inspect()]


def test_a_job_in_a_line_of_its_user_stays_there(store: Store) -> None:
    """Through an eviction, and when no pool has a time slice any more."""
    sliced(store)
    mine = runs(store, "a", submitter=USERS[0], line_by_user=True)
    back = commit(store, evicted(commit(store, yielding(mine))))
    assert back.line_by_user
    for number in range(20):
        waits(store, f"b{number}", submitter=USERS[1], line_by_user=True, entry_time=NOW + 1)
    a_queue(store, a_pool("p5", 3))
    world = store.worlds.load(NOW)
    planned = plan(world.snapshot, NOW, more=world.more)
    assert planned.decisions == plan(store.worlds.load_all(NOW).snapshot, NOW).decisions
    assert len(planned.decisions) == 3


def test_half_a_transaction_still_tells_who_yields(fake_client: Any) -> None:
    """A Query may show the stopping job before it shows the yield."""
    fake_client.create_table(**table_definition("t"))
    store = a_store(fake_client, "t")
    sliced(store)
    commit(store, yielding(runs(store, "a", submitter=USERS[0])))
    key = layout.yield_key(
        "p5", Yielded(user=USERS[0], workload=Workload.TRAINING, priority=1, at=0, project="")
    )
    fake_client.delete_item(TableName="t", Key={"pk": {"S": key[0]}, "sk": {"S": key[1]}})
    assert yields(store) == {(USERS[0], 1, NOW + 3)}


def test_an_unreadable_yield_stops_nothing(fake_client: Any) -> None:
    fake_client.create_table(**table_definition("t"))
    store = a_store(fake_client, "t")
    sliced(store)
    broken: Item = {"pk": {"S": "POOL#p5"}, "sk": {"S": "YIELD#training#1#x"}, "at": {"S": "no"}}
    fake_client.put_item(TableName="t", Item=broken)
    world = store.worlds.load(NOW)
    (poison,) = world.poison
    assert world.snapshot.pools[0].foreign.slots == 0
    store.repair.quarantine(poison)
    assert store.worlds.load(NOW).poison == ()


def test_a_pass_costs_nothing_more_with_time_slices() -> None:
    """The yields lie beside the jobs that hold the pool's slots."""

    def cost(time_slice: int | None) -> tuple[object, int, int]:
        metered = Metered()
        store = metered.store()
        a_queue(store, a_pool("p5", 3, time_slice=SLICE))
        for user in USERS:
            commit(store, yielding(runs(store, user[-3:], submitter=user)))
        for number in range(5):
            waits(store, f"w{number}", submitter=USERS[0], line_by_user=True, priority=number)
        a_queue(store, a_pool("p5", 3, time_slice=time_slice))
        store.worlds.load(NOW)
        metered.reset()
        store.worlds.load(NOW)
        return metered.calls, metered.rounds, metered.read_units

    assert cost(SLICE) == cost(None)
