"""An unreadable copy of a job stops nothing else and is repaired from the job."""

from __future__ import annotations

import pytest

from slotq_core.adapters.dynamodb.layout.table import (
    line_key,
)
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.errors import Conflict
from slotq_core.model.demand import Demand
from slotq_core.policy.lines import line_of
from tests.contract import by_hand
from tests.contract.by_hand import Table, active, text
from tests.contract.poisoned import FROM_A_NEWER_RELEASE, free, poisons, quarantine, waiting
from tests.contract.worlds import (
    NOW,
    a_pool,
    a_queue,
    backing_off,
    claiming,
    commit,
    completing,
    evicting,
    runs,
    starting,
    starts,
    waits,
)


def test_a_broken_waiting_copy_is_skipped_and_repaired_from_its_job(
    dynamo: DynamoStore, items: Table
) -> None:
    a_queue(dynamo)
    jobs = [waits(dynamo, f"job{n}", entry_time=NOW + n) for n in range(6)]
    first = next(key for key in items.all() if key[1].endswith("#job0"))
    items.spoil_copy(first, jobState=FROM_A_NEWER_RELEASE)
    (poison,) = poisons(dynamo)
    assert "job0" in poison.key
    assert "suspended" in poison.reason
    assert waiting(dynamo.worlds.load(NOW)) == ["job1", "job2", "job3", "job4", "job5"]
    assert waiting(quarantine(dynamo)) == [f"job{n}" for n in range(6)]
    assert commit(dynamo, starting(jobs[0])).version == 2


def test_a_line_of_unreadable_copies_does_not_count_as_empty(
    dynamo: DynamoStore, items: Table
) -> None:
    a_queue(dynamo)
    job = waits(dynamo, "job1")
    items.spoil_copy(items.only("WAITING"), pools=None)
    assert len(dynamo.worlds.load(NOW + 10**9).poison) == 1
    assert items.get(line_key(line_of(job)))
    assert waiting(quarantine(dynamo)) == ["job1"]


def test_a_broken_active_copy_still_holds_its_slots(dynamo: DynamoStore, items: Table) -> None:
    a_queue(dynamo, a_pool("p5", 3))
    job, other = runs(dynamo, "job1", slots=2), runs(dynamo, "other")
    late = waits(dynamo, "late")
    items.spoil_copy(active("job1"), attempt=None)
    world = dynamo.worlds.load(NOW)
    assert [each.key for each in world.poison] == ['["POOL#p5", "ACTIVE#job1"]']
    assert world.snapshot.active == (other,)
    assert free(world) == 0
    with pytest.raises(Conflict):
        commit(dynamo, starting(late))
    commit(dynamo, completing(other))
    assert free(dynamo.worlds.load(NOW)) == 1
    assert quarantine(dynamo).snapshot.active == (job,)
    commit(dynamo, completing(job))
    assert dynamo.worlds.load(NOW).ledgers["p5"].used == Demand()


def test_a_broken_claim_is_repaired(dynamo: DynamoStore, items: Table) -> None:
    a_queue(dynamo)
    victim, job = runs(dynamo, "victim", slots=2), waits(dynamo, "job1", priority=5)
    victim, job = dynamo.decisions.commit([evicting(victim, "job1"), claiming(job)])
    items.spoil_copy(by_hand.claim("job1"), entryTime=text("yesterday"))
    world = dynamo.worlds.load(NOW)
    assert len(world.poison) == 1
    assert world.snapshot.active == (victim,)
    assert quarantine(dynamo).snapshot.waiting == (job,)


def test_a_broken_back_off_is_repaired(dynamo: DynamoStore, items: Table) -> None:
    a_queue(dynamo)
    first = commit(dynamo, backing_off(starts(dynamo, "job1"), until=NOW - 2))
    second = commit(dynamo, backing_off(starts(dynamo, "job2"), until=NOW - 1))
    (key,) = [key for key in items.all() if key[0] == "DUE" and key[1].endswith("job1")]
    items.change(key, job=text("?"))
    world = dynamo.worlds.load(NOW)
    assert len(world.poison) == 1
    assert world.snapshot.due == (second,)
    assert quarantine(dynamo).snapshot.due == (first, second)


def test_a_stale_copy_is_removed(dynamo: DynamoStore, items: Table) -> None:
    a_queue(dynamo)
    job = runs(dynamo, "job1")
    left = items.get(active("job1"))
    commit(dynamo, completing(job))
    items.put(active("job1"), left)
    world = dynamo.worlds.load(NOW)
    assert free(world) <= 0  # Nothing starts there until it is known which jobs hold slots.
    assert quarantine(dynamo).snapshot.active == ()
    assert free(dynamo.worlds.load(NOW)) == 2


def test_a_lost_copy_is_written_again(dynamo: DynamoStore, items: Table) -> None:
    a_queue(dynamo)
    job = runs(dynamo, "job1")
    items.remove(active("job1"))
    world = dynamo.worlds.load(NOW)
    assert free(world) <= 0
    assert quarantine(dynamo).snapshot.active == (job,)
