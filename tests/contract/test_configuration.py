"""Pools keep their order, changes are recorded, and no pool is removed while jobs use it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from slotq_core.adapters.deployment_settings import SystemClock
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.errors import Conflict, Misconfigured, Outdated, PoolInUse, Unavailable
from slotq_core.model.demand import Demand
from slotq_core.model.pools import PoolState
from slotq_core.operations.configuring.configurator import Configurator
from slotq_core.ports.store import Store
from slotq_core.ports.stored import ConfigurationChange
from slotq_core.wire.pool_definition import MOST_NAMES, defined, settings_of
from tests.contract import by_hand
from tests.contract.by_hand import Table
from tests.contract.faults import before_the_next
from tests.contract.worlds import (
    NOW,
    a_pool,
    a_queue,
    commit,
    completing,
    runs,
    starting,
    starts,
    waits,
)


def configure(store: Store, *pools: Any, now: int = NOW) -> None:
    store.configuration.change(pools, who="ada", now=now)


def test_pools_are_read_back_whole_and_in_order(store: Store) -> None:
    pools = (
        a_pool("zeta", 2, reserve_after=0, min_runtime=5000, max_min_runtime=9000),
        a_pool("alpha", capacity=Demand(slots=1, gpus=8), pending_timeout=7, count_foreign=True),
        a_pool("empty", 0),
        a_pool("like", properties=Demand({"mem_per_gpu_in_GiB": 16})),
        a_pool("closed", state=PoolState.PAUSED),
        a_pool("going", state=PoolState.DRAINED),
    )
    configure(store, *pools)
    assert store.configuration.pools() == pools
    assert store.worlds.load(NOW).snapshot.pools == pools
    assert set(store.worlds.load(NOW).ledgers) == {pool.name for pool in pools}


def test_the_order_can_change(store: Store) -> None:
    configure(store, a_pool("a"), a_pool("b"), a_pool("c"))
    configure(store, a_pool("c"), a_pool("a"), a_pool("b"))
    assert [pool.name for pool in store.configuration.pools()] == ["c", "a", "b"]


def test_a_pool_can_grow(store: Store) -> None:
    a_queue(store, a_pool("p5", 1))
    starts(store, "job1")
    job = waits(store, "job2")
    version = store.worlds.load(NOW).ledgers["p5"].version
    configure(store, a_pool("p5", 2))
    assert store.worlds.load(NOW).ledgers["p5"].version > version
    commit(store, starting(job))
    with pytest.raises(Conflict):
        starts(store, "job3")


def test_a_decision_made_before_a_pause_is_refused(store: Store) -> None:
    a_queue(store, a_pool("p5", 2))
    job = waits(store, "job1")
    seen = {"p5": store.worlds.load(NOW).ledgers["p5"].version}
    configure(store, a_pool("p5", 2, state=PoolState.PAUSED))
    with pytest.raises(Conflict):
        store.decisions.commit([starting(job)], seen=seen)
    assert store.worlds.load(NOW).snapshot.pools[0].state is PoolState.PAUSED


def test_a_decision_made_before_a_resize_is_refused(store: Store) -> None:
    a_queue(store, a_pool("p5", 2))
    job = waits(store, "job1")
    seen = {"p5": store.worlds.load(NOW).ledgers["p5"].version}
    configure(store, a_pool("p5", 1))
    with pytest.raises(Conflict):
        store.decisions.commit([starting(job)], seen=seen)


def test_a_resource_can_be_added_and_removed(store: Store) -> None:
    a_queue(store, a_pool("p5", 2))
    demand = Demand(slots=1, licences=8)
    configure(store, a_pool("p5", capacity=Demand(slots=2, licences=8)))
    commit(store, completing(starts(store, "job1", demand=demand)))
    configure(store, a_pool("p5", 2))
    with pytest.raises(Conflict):
        starts(store, "job2", demand=demand)


def test_a_pool_with_as_many_resources_as_it_may_have_is_used_and_removed(store: Store) -> None:
    names = [f"{number:02d}".rjust(31, "r") for number in range(MOST_NAMES)]
    rich = replace(a_pool("p5"), capacity=Demand(dict.fromkeys(names, 2), slots=2))
    assert defined("p5", settings_of(rich)).capacity == rich.capacity
    a_queue(store, a_pool("p4"), rich)
    job = runs(store, "job1", demand=Demand(dict.fromkeys(names[:16], 1), slots=1))
    configure(store, a_pool("p4"), replace(rich, capacity=Demand(dict.fromkeys(names, 3), slots=3)))
    commit(store, completing(job))
    configure(store, a_pool("p4"))
    assert [pool.name for pool in store.configuration.pools()] == ["p4"]


def test_a_property_is_no_resource_and_leaves_the_ledger_alone(store: Store) -> None:
    like = a_pool("p5", 2, properties=Demand({"mem_per_gpu_in_GiB": 16}))
    a_queue(store, like)
    job = starts(store, "job1", requires=like.properties)
    assert store.worlds.load(NOW).ledgers["p5"].used == Demand(slots=1)
    version = store.worlds.load(NOW).ledgers["p5"].version
    configure(store, a_pool("p5", 2))
    assert (store.configuration.pools()[0].properties, store.jobs.get("job1")) == (Demand(), job)
    assert store.worlds.load(NOW).ledgers["p5"].version == version


def test_a_pool_with_running_jobs_is_not_removed(store: Store) -> None:
    a_queue(store, a_pool("p5"), a_pool("p4"))
    job = runs(store, "job1")
    with pytest.raises(PoolInUse, match="p5"):
        configure(store, a_pool("p4"))
    assert [pool.name for pool in store.configuration.pools()] == ["p5", "p4"]
    commit(store, completing(job))
    configure(store, a_pool("p4"))
    assert [pool.name for pool in store.configuration.pools()] == ["p4"]


def test_a_removed_pool_admits_nothing(store: Store) -> None:
    a_queue(store, a_pool("p5"), a_pool("p4"))
    job = waits(store, "job1")
    seen = {"p5": store.worlds.load(NOW).ledgers["p5"].version}
    configure(store, a_pool("p4"))
    for version in (seen, None):
        with pytest.raises(Conflict):
            store.decisions.commit([starting(job)], seen=version)


def test_a_pool_added_again_is_empty_with_a_higher_version(store: Store) -> None:
    a_queue(store, a_pool("p5", 2))
    commit(store, completing(starts(store, "job1")))
    version = store.worlds.load(NOW).ledgers["p5"].version
    configure(store)
    configure(store, a_pool("p5", 1))
    assert store.worlds.load(NOW).ledgers["p5"].version > version
    starts(store, "job2")
    with pytest.raises(Conflict):
        starts(store, "job3")


def test_a_dry_run_refuses_what_a_change_would_and_writes_nothing(store: Store) -> None:
    dry = partial(store.configuration.change, who="ada", now=NOW, dry_run=True)
    a_queue(store, a_pool("p5", 1), a_pool("p4", 1))
    runs(store, "job1")
    before = (
        store.configuration.read(),
        store.configuration.changes(limit=9),
        store.worlds.load(NOW).ledgers,
    )
    dry([a_pool("p5", 9)])
    with pytest.raises(PoolInUse, match="p5"):
        dry([a_pool("p4")])
    with pytest.raises(Misconfigured):
        dry([a_pool("p5"), a_pool("p5")])
    with pytest.raises(Conflict):
        dry([a_pool("p5")], seen=7)
    assert (
        store.configuration.read(),
        store.configuration.changes(limit=9),
        store.worlds.load(NOW).ledgers,
    ) == before


def test_two_pools_of_one_name_are_refused(store: Store) -> None:
    with pytest.raises(Misconfigured):
        configure(store, a_pool("p5"), a_pool("p5", 3))
    assert store.configuration.pools() == ()


def test_the_record_has_who_when_before_and_after_latest_first(store: Store) -> None:
    one, two = a_pool("p5", 1), a_pool("p5", 2, state=PoolState.PAUSED)
    assert (store.configuration.read().revision, store.configuration.changes(limit=9)) == (0, ())
    store.configuration.change([one], who="ada", now=NOW)
    store.configuration.change([two], who="grace", now=NOW)
    assert store.configuration.changes(limit=9) == (
        ConfigurationChange(revision=2, who="grace", at=NOW, before=(one,), after=(two,)),
        ConfigurationChange(revision=1, who="ada", at=NOW, before=(), after=(one,)),
    )
    stands = store.configuration.read()
    assert (stands.pools, stands.revision) == ((two,), 2)


def test_the_latest_part_of_the_record_can_be_read(store: Store) -> None:
    for slots in range(30):
        store.configuration.change(
            [a_pool("p5", slots)], who=("ada", "grace")[slots % 2], now=NOW + slots
        )
    assert [change.revision for change in store.configuration.changes(limit=3)] == [30, 29, 28]
    assert [change.revision for change in store.configuration.changes(limit=2, who="ada")] == [
        29,
        27,
    ]
    assert store.configuration.changes(limit=2, who="nobody") == ()
    assert len(store.configuration.changes(limit=99)) == 30


def test_a_change_decided_on_an_older_revision_is_refused(store: Store) -> None:
    configure(store, a_pool("p5", 1))
    seen = store.configuration.read().revision
    store.configuration.change([a_pool("p5", 2)], who="ada", now=NOW, seen=seen)
    with pytest.raises(Conflict):
        store.configuration.change([a_pool("p5", 3)], who="grace", now=NOW, seen=seen)
    assert store.configuration.pools() == (a_pool("p5", 2),)
    assert [change.who for change in store.configuration.changes(limit=9)] == ["ada", "ada"]


def test_the_first_of_two_concurrent_changes_wins(
    dynamo: DynamoStore, client: Any, table: str
) -> None:
    """The second had read and was about to write."""
    configure(dynamo, a_pool("p5", 1))
    seen = dynamo.configuration.read().revision
    other = DynamoStore(client, table)
    interfere = partial(configure, other, a_pool("p5", 2))
    with before_the_next(client, "TransactWriteItems", interfere), pytest.raises(Conflict):
        dynamo.configuration.change([a_pool("p5", 3)], who="grace", now=NOW, seen=seen)
    assert dynamo.configuration.pools() == (a_pool("p5", 2),)


def test_concurrent_operators_lose_no_change(racing_store: Store) -> None:
    """Each adds one slot to what it has read and reads again if outdated. So the slots add up, and
    the record has every step."""
    configure(racing_store, a_pool("p5", 0), a_pool("p4"))
    operators, steps = 4, 3

    def add_slots(operator: int) -> None:
        configurator = Configurator(racing_store, SystemClock(), lambda: None)
        done = 0
        while done < steps:
            now = racing_store.configuration.read()
            slots = now.pools[0].capacity.slots + 1
            try:
                configurator.set_pool("p5", {"slots": slots}, by=f"{operator}", seen=now.revision)
            except (Outdated, Unavailable):
                continue
            done += 1

    with ThreadPoolExecutor(operators) as threads:
        list(threads.map(add_slots, range(operators)))
    assert racing_store.configuration.pools()[0].capacity.slots == operators * steps
    record = racing_store.configuration.changes(limit=99)
    assert [change.after[0].capacity.slots for change in record] == [*range(12, -1, -1)]
    assert [change.revision for change in record] == [*range(13, 0, -1)]


def test_a_record_that_is_not_in_sight_yet_does_not_make_a_change_ones_own(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query may see a part of a transaction: the change, and not yet its record."""
    configure(store, a_pool("p5", 0))
    configurator = Configurator(store, SystemClock(), lambda: None)
    seen = configurator.set_pool("p5", {"slots": 1}, by="ann").revision
    before = store.configuration.changes(limit=1)
    configurator.set_pool("p5", {"slots": 2}, by="bob")
    monkeypatch.setattr(store.configuration, "changes", lambda **_: before)
    with pytest.raises(Outdated):
        configurator.set_pool("p5", {"slots": 2}, by="ann", seen=seen)


def test_a_pool_without_slots_admits_nothing_and_can_grow(store: Store) -> None:
    a_queue(store, a_pool("p5", 0))
    job = waits(store, "job1")
    with pytest.raises(Conflict):
        commit(store, starting(job))
    configure(store, a_pool("p5", 1))
    commit(store, starting(job))


def test_a_pool_below_its_use_admits_again_once_use_has_fallen(store: Store) -> None:
    a_queue(store, a_pool("p5", 2))
    first, second = runs(store, "job1"), runs(store, "job2")
    configure(store, a_pool("p5", 1))
    waiting = waits(store, "job3")
    for ended in (first, second):
        with pytest.raises(Conflict):
            commit(store, starting(waiting))
        commit(store, completing(ended))
    commit(store, starting(waiting))


def test_each_change_is_recorded(dynamo: DynamoStore, client: Any, table: str) -> None:
    configure(dynamo, a_pool("p5", 1), now=0)
    configure(dynamo, a_pool("p5", 2), now=0)
    records = _records(client, table)
    assert [record["sk"]["S"] for record in records] == [
        "CHANGE#1970-01-01T00:00:00.000Z#000001",
        "CHANGE#1970-01-01T00:00:00.000Z#000002",
    ]
    last = records[-1]
    assert (last["who"]["S"], last["at"]["S"]) == ("ada", "1970-01-01T00:00:00.000Z")
    assert [_slots(last[part]) for part in ("before", "after")] == ["1", "2"]


def test_configuring_the_same_pools_writes_nothing(
    dynamo: DynamoStore, client: Any, table: str
) -> None:
    configure(dynamo, a_pool("p5"), a_pool("p4"))
    before = client.scan(TableName=table)["Items"]
    configure(dynamo, a_pool("p5"), a_pool("p4"), now=NOW + 1)
    assert client.scan(TableName=table)["Items"] == before


def test_two_concurrent_configurations_do_not_mix(
    dynamo: DynamoStore, client: Any, table: str
) -> None:
    """The second read its pools before the first wrote, so it reads them again."""
    configure(dynamo, a_pool("p5"))
    other = DynamoStore(client, table)
    interfere = partial(configure, other, a_pool("p4"))
    with before_the_next(client, "TransactWriteItems", interfere):
        configure(dynamo, a_pool("p5"), a_pool("p6"))
    assert [pool.name for pool in dynamo.configuration.pools()] == ["p5", "p6"]
    assert len(_records(client, table)) == 3


def test_two_who_are_the_first_to_configure_do_not_mix(
    dynamo: DynamoStore, client: Any, table: str
) -> None:
    interfere = partial(configure, DynamoStore(client, table), a_pool("p4"))
    with before_the_next(client, "TransactWriteItems", interfere):
        configure(dynamo, a_pool("p5"))
    assert [pool.name for pool in dynamo.configuration.pools()] == ["p5"]
    assert len(_records(client, table)) == 2


def test_a_pool_whose_ledger_comes_back_meanwhile_keeps_what_is_used(
    dynamo: DynamoStore, client: Any, table: str
) -> None:
    """Somebody restores a lost ledger while the pool is made anew: no slot is given twice."""
    a_queue(dynamo, a_pool("p5", 2))
    starts(dynamo, "job1")
    items = Table(client, table)
    ledger = items.get(by_hand.ledger())
    items.remove(by_hand.ledger())
    items.remove(("CONFIG", "POOL#p5"))
    interfere = partial(items.put, by_hand.ledger(), ledger)
    with before_the_next(client, "TransactWriteItems", interfere):
        configure(dynamo, a_pool("p5", 2))
    commit(dynamo, starting(waits(dynamo, "job2")))
    with pytest.raises(Conflict):
        commit(dynamo, starting(waits(dynamo, "job3")))
    assert list(dynamo.repair.inspect()) == []


def test_a_job_that_starts_just_before_its_pool_is_removed_keeps_it(
    dynamo: DynamoStore, client: Any, table: str
) -> None:
    configure(dynamo, a_pool("p5"))
    start = starting(waits(dynamo, "job1"))
    interfere = before_the_next(client, "TransactWriteItems", partial(commit, dynamo, start))
    with interfere, pytest.raises(PoolInUse, match="p5"):
        configure(dynamo)
    assert [job.name for job in dynamo.worlds.load(NOW).snapshot.active] == ["job1"]


def _records(client: Any, table: str) -> list[dict[str, Any]]:
    items = client.scan(TableName=table)["Items"]
    records = [item for item in items if item["sk"]["S"].startswith("CHANGE#")]
    return sorted(records, key=lambda record: str(record["sk"]["S"]))


def _slots(pools: dict[str, Any]) -> str:
    (pool,) = pools["L"]
    return str(pool["M"]["capacity"]["M"]["slots"]["N"])
