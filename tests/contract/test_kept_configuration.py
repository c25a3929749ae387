"""A store reads the configuration anew only after it has changed, and never misses a change."""

from __future__ import annotations

from typing import Any

import pytest

from slotq_core.adapters.dynamodb.layout.table import limits_key, pool_key, revision_key
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.errors import Conflict
from slotq_core.model.callers import NO_LIMITS, NOTHING_USED, QueueUse
from slotq_core.wire.limits_definition import limits_from
from tests.contract.by_hand import Table, text
from tests.contract.faults import before_the_next, on
from tests.contract.test_dynamodb_cost import measured
from tests.contract.worlds import NOW, a_pool, a_queue

LIMITS = limits_from({"waiting": 2})


@pytest.fixture
def other(client: Any, table: str) -> DynamoStore:
    """The store of another handler."""
    return DynamoStore(client, table)


def test_an_unchanged_configuration_costs_one_read_unit(dynamo: DynamoStore, client: Any) -> None:
    a_queue(dynamo, *[a_pool(f"pool-{n:03d}") for n in range(40)])
    stand = dynamo.configuration.read()
    with measured(client) as meter:
        assert dynamo.configuration.read() == stand
        assert dynamo.configuration.pools() == stand.pools
    assert (meter.calls, meter.read_units) == (["GetItem"] * 2, 2)


def test_a_change_by_another_handler_is_seen_at_once(
    dynamo: DynamoStore, other: DynamoStore
) -> None:
    a_queue(dynamo)
    for slots in (3, 4):
        assert dynamo.worlds.load(NOW).snapshot.pools == dynamo.configuration.pools()
        a_queue(other, a_pool("p5", slots), a_pool("p4"))
        limits = limits_from({"waiting": slots})
        other.configuration.change(limits=limits, who="ada", now=NOW)
        stand = dynamo.configuration.read()
        assert stand == other.configuration.read()
        assert (stand.pools[0].capacity.slots, stand.limits) == (slots, limits)
        assert dynamo.worlds.load(NOW).snapshot.pools == stand.pools


def test_after_a_change_between_the_two_reads_both_are_read_again(
    dynamo: DynamoStore, other: DynamoStore, client: Any
) -> None:
    """Pools that are newer than their revision would let a decision overwrite the change."""
    a_queue(dynamo, a_pool("p5", 1))
    with before_the_next(client, "Query", lambda: a_queue(other, a_pool("p5", 2))):
        stand = dynamo.configuration.read()
    assert (stand.revision, stand.pools) == (2, (a_pool("p5", 2),))


def test_after_a_second_change_the_mixture_counts_as_the_earlier_revision(
    dynamo: DynamoStore, other: DynamoStore, client: Any
) -> None:
    """Whoever decides on the mixture is refused, and the next read has the new revision."""
    a_queue(dynamo, a_pool("p5", 1))
    slots, reads = iter([2, 3]), []

    def change(**_: Any) -> None:
        if not reads:
            reads.append("of the other")
            a_queue(other, a_pool("p5", next(slots, 3)))
            reads.clear()

    with on(client, "before-call.dynamodb.Query", change):
        mixed = dynamo.configuration.read()
    assert (mixed.revision, mixed.pools) == (2, (a_pool("p5", 3),))
    with pytest.raises(Conflict):
        dynamo.configuration.change([a_pool("p5", 4)], who="ada", now=NOW, seen=mixed.revision)
    stand = dynamo.configuration.read()
    assert (stand.revision, stand.pools) == (3, (a_pool("p5", 3),))
    assert dynamo.configuration.read() == stand


def test_pools_edited_in_the_table_are_kept_too(
    dynamo: DynamoStore, items: Table, client: Any, table: str
) -> None:
    a_queue(dynamo, a_pool("p5", 1))
    items.change(pool_key("p5"), minRuntime={"N": "5000"})
    store = DynamoStore(client, table)
    assert store.configuration.pools()[0].min_runtime == 5000
    with measured(client) as meter:
        assert store.configuration.pools()[0].min_runtime == 5000
    assert meter.calls == ["GetItem"]


def test_two_handlers_that_keep_a_configuration_lose_no_change(
    dynamo: DynamoStore, other: DynamoStore, client: Any
) -> None:
    a_queue(dynamo, a_pool("p5"))
    assert dynamo.configuration.read() == other.configuration.read()
    with before_the_next(client, "TransactWriteItems", lambda: a_queue(other, a_pool("p4"))):
        dynamo.configuration.change(limits=LIMITS, who="ada", now=NOW)
    for store in (dynamo, other):
        stand = store.configuration.read()
        assert (stand.pools, stand.limits, stand.revision) == ((a_pool("p4"),), LIMITS, 3)


@pytest.mark.parametrize("revision", [None, {"S": "one"}])
def test_without_a_readable_revision_nothing_is_kept(
    dynamo: DynamoStore, items: Table, revision: dict[str, str] | None
) -> None:
    """An operator of old has written the pools by hand."""
    a_queue(dynamo, a_pool("p5", 1))
    dynamo.configuration.read()
    items.remove(revision_key())
    if revision:
        items.put(revision_key(), {"revision": revision})
    definition = items.get(pool_key("p5"))
    for slots in ("2", "3"):
        items.put(pool_key("p5"), {**definition, "capacity": {"M": {"slots": {"N": slots}}}})
        assert dynamo.configuration.pools()[0].capacity.slots == int(slots)
        assert dynamo.configuration.read().revision == 0
    a_queue(dynamo, a_pool("p5", 4))
    assert (dynamo.configuration.read().revision, dynamo.configuration.pools()) == (
        1,
        (a_pool("p5", 4),),
    )


def test_a_queue_that_was_never_configured_sees_its_first_pools(
    dynamo: DynamoStore, other: DynamoStore
) -> None:
    assert (dynamo.configuration.pools(), dynamo.configuration.read().revision) == ((), 0)
    a_queue(other)
    assert (dynamo.configuration.pools(), dynamo.configuration.read().revision) == ((a_pool(),), 1)


def test_the_audit_may_come_before_the_first_configuration(
    dynamo: DynamoStore, other: DynamoStore
) -> None:
    dynamo.counters.set_queue_use(QueueUse(waiting=1, lines=1))
    assert dynamo.configuration.read().revision == 0
    a_queue(other)
    stand = dynamo.configuration.read()
    assert (stand.revision, stand.pools) == (1, (a_pool(),))
    assert stand.use == QueueUse(waiting=1, lines=1)


def test_an_unreadable_definition_is_reported_by_each_load(
    dynamo: DynamoStore, items: Table
) -> None:
    a_queue(dynamo, a_pool("p5"), a_pool("p4"))
    whole = items.get(pool_key("p5"))
    items.change(pool_key("p5"), position=None)
    for _ in range(2):
        world = dynamo.worlds.load(NOW)
        assert [each.key for each in world.poison] == ['["CONFIG", "POOL#p5"]']
        assert [pool.name for pool in world.snapshot.pools] == ["p4"]
    items.put(pool_key("p5"), whole)
    assert dynamo.worlds.load(NOW).poison == ()
    assert [pool.name for pool in dynamo.configuration.pools()] == ["p5", "p4"]


def test_a_definition_put_aside_is_gone_for_every_handler(
    dynamo: DynamoStore, other: DynamoStore, items: Table
) -> None:
    """Another handler has kept it from when it was readable."""
    a_queue(dynamo, a_pool("p5"), a_pool("p4"))
    assert len(other.configuration.pools()) == 2
    items.remove(next(key for key in items.all() if key[1].startswith("CHANGE#")))
    items.change(pool_key("p5"), position=None)
    for poison in dynamo.worlds.load(NOW).poison:
        dynamo.repair.quarantine(poison)
    assert [pool.name for pool in dynamo.configuration.pools()] == ["p4"]
    assert other.configuration.pools() == dynamo.configuration.pools()


def test_a_revision_that_comes_again_with_other_pools_is_another(
    dynamo: DynamoStore, other: DynamoStore, items: Table
) -> None:
    """After a restored backup, the revisions count on from an earlier one."""
    a_queue(dynamo, a_pool("p5", 1))
    backup = items.all()
    a_queue(dynamo, a_pool("p5", 2))
    assert dynamo.configuration.read().revision == 2
    for key in items.all():
        items.remove(key)
    for key, item in backup.items():
        items.put(key, item)
    a_queue(other, a_pool("p5", 3))
    stand = dynamo.configuration.read()
    assert (stand.revision, stand.pools) == (2, (a_pool("p5", 3),))


def test_an_unreadable_use_counts_as_none_and_hides_nothing(
    dynamo: DynamoStore, items: Table
) -> None:
    a_queue(dynamo)
    dynamo.configuration.change(limits=LIMITS, who="ada", now=NOW)
    items.change(revision_key(), waiting=text("many"), lines=text("few"))
    stand = dynamo.configuration.read()
    assert (stand.use, stand.limits, stand.revision) == (NOTHING_USED, LIMITS, 2)


def test_unreadable_limits_apply_again_once_they_are_mended(
    dynamo: DynamoStore, items: Table
) -> None:
    a_queue(dynamo)
    dynamo.configuration.change(limits=LIMITS, who="ada", now=NOW)
    whole = items.get(limits_key())
    items.change(limits_key(), settings=text("{"))
    assert dynamo.configuration.read().limits == NO_LIMITS
    items.put(limits_key(), whole)
    assert dynamo.configuration.read().limits == LIMITS
