"""An unreadable ledger, definition or health of a pool stops no other pool."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from slotq_core.adapters.dynamodb.layout.table import (
    POISON,
    health_key,
)
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.errors import SlotQError, Unavailable
from slotq_core.model.demand import Demand
from slotq_core.model.pools import PoolHealth
from tests.contract import by_hand
from tests.contract.by_hand import Table, number, text
from tests.contract.faults import before_the_next
from tests.contract.poisoned import FROM_A_NEWER_RELEASE, free, quarantine
from tests.contract.worlds import (
    NOW,
    a_pool,
    a_queue,
    commit,
    completing,
    runs,
    starts,
    waits,
)


@pytest.mark.parametrize(
    "wrong",
    [
        {"used_slots": number(2)},
        {"used_slots": text("one")},
        {"free_slots": number(2)},
        {"free_slots": None},
        {"holders": number(1)},
        {"holders": None},
        {"version": text("new")},
        {"version": None, "used_slots": None, "free_slots": None, "holders": None},
    ],
    ids=str,
)
def test_a_wrong_ledger_closes_its_pool_until_repaired(
    dynamo: DynamoStore, items: Table, wrong: dict[str, Any]
) -> None:
    a_queue(dynamo, a_pool("p5"), a_pool("p4"))
    job = runs(dynamo, "job1")
    right = items.get(by_hand.ledger())
    items.change(by_hand.ledger(), **wrong)
    world = dynamo.worlds.load(NOW)
    assert [each.key for each in world.poison] == ['["POOL#p5", "LEDGER"]']
    assert world.snapshot.active == (job,)
    assert free(world) < 0
    starts(dynamo, "job2", pool="p4", pools=("p4",))
    quarantine(dynamo)
    mended = items.get(by_hand.ledger())
    assert {**mended, "version": right["version"]} == right
    assert int(mended["version"]["N"]) > 0
    commit(dynamo, completing(job))
    starts(dynamo, "job3", slots=2)


def test_an_end_refused_by_a_broken_ledger_is_retried(dynamo: DynamoStore, items: Table) -> None:
    a_queue(dynamo)
    job = runs(dynamo, "job1")
    items.change(by_hand.ledger(), used_slots=text("one"))
    with pytest.raises(SlotQError):
        commit(dynamo, completing(job))
    quarantine(dynamo)
    commit(dynamo, completing(job))
    assert free(dynamo.worlds.load(NOW)) == 2


def test_unreadable_health_counts_as_healthy(dynamo: DynamoStore, items: Table) -> None:
    a_queue(dynamo)
    job = runs(dynamo, "job1")
    items.put(health_key("p5"), {"errors": text("some")})
    world = dynamo.worlds.load(NOW)
    assert len(world.poison) == 1
    assert world.snapshot.active == (job,)
    assert free(world) == 1
    assert free(quarantine(dynamo)) == 1
    assert items.only(POISON)


@pytest.mark.parametrize(
    "capacity",
    [
        text("three"),
        {"M": {"slots": {"N": "9" * 30}}},
        {"M": {"slots": {"N": "10001"}}},
        {"M": {"slots": {"N": "-5"}}},
        {"M": {"slots": {"N": "3"}, "gpus": {"N": "-1"}}},
    ],
)
def test_a_broken_pool_definition_is_restored_from_the_record(
    dynamo: DynamoStore, items: Table, capacity: dict[str, Any]
) -> None:
    """So is a definition that nobody could have configured: it would start jobs on instances that
    do not exist, or stop running ones."""
    pools = (a_pool("p5", 3, reserve_after=7), a_pool("p4"))
    a_queue(dynamo, *pools)
    job = starts(dynamo, "job1")
    items.change(("CONFIG", "POOL#p5"), capacity=capacity)
    world = dynamo.worlds.load(NOW)
    assert [each.name for each in world.snapshot.pools] == ["p4"]
    assert len(world.poison) == 1
    world = quarantine(dynamo)
    assert dynamo.configuration.pools() == pools
    assert world.snapshot.active == (job,)
    assert free(world) == 2


def test_an_unrecorded_broken_definition_is_quarantined_and_can_be_configured_again(
    dynamo: DynamoStore, items: Table
) -> None:
    a_queue(dynamo)
    job = runs(dynamo, "job1")
    items.remove(next(key for key in items.all() if key[1].startswith("CHANGE#")))
    items.change(("CONFIG", "POOL#p5"), name=None)
    quarantine(dynamo)
    assert dynamo.configuration.pools() == ()
    assert items.only(POISON)
    a_queue(dynamo, a_pool("p5", 3))
    world = dynamo.worlds.load(NOW)
    assert (world.poison, world.snapshot.active, free(world)) == ((), (job,), 2)


def test_slots_freed_while_a_lost_definition_is_configured_again_are_free(
    dynamo: DynamoStore, client: Any, table: str, items: Table
) -> None:
    """Free slots were computed from a ledger that has changed since."""
    a_queue(dynamo)
    job = runs(dynamo, "job1")
    items.change(("CONFIG", "POOL#p5"), position=None)
    other = DynamoStore(client, table)
    with before_the_next(client, "TransactWriteItems", lambda: commit(other, completing(job))):
        a_queue(dynamo, a_pool("p5", 3))
    assert free(dynamo.worlds.load(NOW)) == 3
    assert list(dynamo.repair.inspect()) == []


def test_a_definition_configured_during_its_repair_stays(
    dynamo: DynamoStore, client: Any, table: str, items: Table
) -> None:
    a_queue(dynamo, a_pool("p5", 3))
    items.change(("CONFIG", "POOL#p5"), position=None)
    (poison,) = dynamo.worlds.load(NOW).poison
    other = DynamoStore(client, table)
    with before_the_next(client, "PutItem", lambda: a_queue(other, a_pool("p5", 2))):
        dynamo.repair.quarantine(poison)
    assert dynamo.configuration.pools() == (a_pool("p5", 2),)
    assert list(dynamo.repair.inspect()) == []


def test_an_item_repaired_during_its_quarantine_stays(
    dynamo: DynamoStore, client: Any, items: Table
) -> None:
    """Somebody has repaired it by hand since it was read."""
    a_queue(dynamo)
    job = waits(dynamo, "job1")
    key = items.only("WAITING#")
    whole, main = items.get(key), items.get(("JOB#job1", "JOB"))
    items.change(("JOB#job1", "JOB"), jobState=FROM_A_NEWER_RELEASE)
    items.spoil_copy(key, jobState=FROM_A_NEWER_RELEASE)
    (poison, *_) = dynamo.worlds.load(NOW).poison

    def mended() -> None:
        items.put(key, whole)
        items.put(("JOB#job1", "JOB"), main)

    with before_the_next(client, "TransactWriteItems", mended), suppress(SlotQError):
        dynamo.repair.quarantine(poison)
    assert dynamo.worlds.load(NOW).snapshot.waiting == (job,)
    assert list(dynamo.repair.inspect()) == []


def test_a_broken_definition_can_be_configured_again_at_once(
    dynamo: DynamoStore, items: Table
) -> None:
    a_queue(dynamo)
    runs(dynamo, "job1")
    items.change(("CONFIG", "POOL#p5"), position=None)
    a_queue(dynamo, a_pool("p5", 3))
    assert free(dynamo.worlds.load(NOW)) == 2


def test_unreadable_facts_about_a_pool_stop_nothing(
    dynamo: DynamoStore, items: Table, client: Any, table: str
) -> None:
    a_queue(dynamo)
    items.put(health_key("p5"), {"errors": text("some")})
    items.change(by_hand.ledger(), foreign_slots=text("some"))
    items.put(("SEEN", "job1"), {"ours": text("no")})
    assert dynamo.health.pool("p5") == a_pool()
    dynamo.health.set_foreign("p5", Demand(slots=1))
    dynamo.health.set("p5", PoolHealth(errors=1))
    assert dynamo.health.sightings() == ()
    with pytest.raises(Unavailable):
        dynamo.configuration.change([], who="the test", now=NOW)
    quarantine(dynamo)
    dynamo.health.set_foreign("p5", Demand(slots=1))
    pool = dynamo.health.pool("p5")
    assert pool
    assert (pool.foreign, pool.health.errors) == (Demand(slots=1), 1)
    items.change(("CONFIG", "POOL#p5"), name=None)
    assert DynamoStore(client, table).health.pool("p5") is None


def test_the_configuration_can_change_with_an_unreadable_revision(
    dynamo: DynamoStore, items: Table
) -> None:
    a_queue(dynamo)
    items.change(("CONFIG", "REVISION"), revision=text("one"))
    a_queue(dynamo, a_pool("p5", 3))
    a_queue(dynamo, a_pool("p5", 4))
    assert dynamo.configuration.pools() == (a_pool("p5", 4),)
