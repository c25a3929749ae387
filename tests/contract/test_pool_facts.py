"""Facts learned about a pool: its health and its foreign use, kept apart from its definition."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from slotq_core.adapters.dynamodb.layout.items import health_of
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.errors import Conflict
from slotq_core.model.capacity.plans import PlanFacts, PlanStatus, PlanWindow
from slotq_core.model.demand import Demand
from slotq_core.model.pools import HEALTHY, FailedNodes, Pool, PoolHealth
from slotq_core.ports.store import Store
from tests.contract import by_hand
from tests.contract.by_hand import Table
from tests.contract.faults import before_the_next
from tests.contract.test_races import at_once
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

ILL = PoolHealth(
    errors=3,
    not_before=NOW + 5,
    learned=1,
    learned_until=NOW + 9,
    message="full",
    failed_nodes=(
        FailedNodes(tenant="t", image="i", since=NOW, failures=2, not_before=NOW + 9, message="no"),
        FailedNodes(tenant="u", since=NOW, not_before=NOW + 7),
    ),
    plan=PlanFacts(
        arn="arn:aws:sagemaker:us-east-1:123456789012:training-plan/june",
        status=PlanStatus.ACTIVE,
        for_training=False,
        instance_type="ml.p5.48xlarge",
        windows=(
            PlanWindow(begins=NOW, ends=NOW + 5, slots=2),
            PlanWindow(begins=NOW + 7, ends=NOW + 9, slots=0),
        ),
        total=2,
        in_use=1,
        unhealthy=1,
        read_at=NOW,
        message="paid",
    ),
)


def seen(store: Store, name: str = "p5") -> Pool:
    """The pool as a pass sees it, checked against `pool`."""
    pools = {pool.name: pool for pool in store.worlds.load(NOW).snapshot.pools}
    assert store.health.pool(name) == pools.get(name)
    assert store.worlds.load_all(NOW).snapshot.pools == tuple(pools.values())
    return pools[name]


def test_a_new_pool_is_healthy_without_foreign_use(store: Store) -> None:
    a_queue(store)
    assert seen(store) == a_pool()
    assert store.health.pool("p4") is None


def test_health_is_stored_apart_from_the_definition(store: Store) -> None:
    a_queue(store, a_pool("p5"), a_pool("p4"))
    store.health.set("p5", ILL)
    assert seen(store).health == ILL
    assert seen(store, "p4").health == HEALTHY
    assert store.configuration.pools() == (a_pool("p5"), a_pool("p4"))
    store.health.set("p5", PoolHealth(errors=1))
    assert seen(store).health == PoolHealth(errors=1)
    store.health.set("p5", HEALTHY)
    assert seen(store).health == HEALTHY


def test_a_limit_learned_by_an_earlier_version_still_counts_and_ends() -> None:
    item = {
        "learned": {"N": "1"},
        "learnedUntil": {"N": str(NOW + 9)},
        "message": {"S": "ResourceLimitExceeded: … 'ml.p5.48xlarge for training job usage' is 1"},
    }
    learned = a_pool("p5", 4, health=health_of(item))
    assert [learned.size(NOW + at).slots for at in (8, 9)] == [1, 4]


def test_health_outlives_a_change_of_the_pool_and_is_not_recorded(store: Store) -> None:
    a_queue(store)
    store.health.set("p5", ILL)
    version = store.worlds.load(NOW).ledgers["p5"].version
    store.configuration.change(store.worlds.load(NOW).snapshot.pools, who="the test", now=NOW)
    assert store.worlds.load(NOW).ledgers["p5"].version == version
    a_queue(store, a_pool("p5", 5))
    assert seen(store) == a_pool("p5", 5, health=ILL)
    assert store.configuration.pools() == (a_pool("p5", 5),)


def test_health_does_not_change_held_slots(store: Store) -> None:
    a_queue(store)
    job = runs(store, "job1")
    store.health.set("p5", ILL)
    world = store.worlds.load(NOW)
    assert world.snapshot.active == (job,)
    assert world.ledgers["p5"].used == Demand(slots=1)


def test_foreign_slots_are_not_given_to_jobs(store: Store) -> None:
    a_queue(store, a_pool("p5", 3))
    store.health.set_foreign("p5", Demand(slots=2))
    assert seen(store).foreign == Demand(slots=2)
    starts(store, "job1")
    job = waits(store, "job2")
    with pytest.raises(Conflict):
        commit(store, starting(job))
    store.health.set_foreign("p5", Demand(slots=1))
    commit(store, starting(job))
    store.health.set_foreign("p5", Demand())
    starts(store, "job3")
    assert seen(store).foreign == Demand()


def test_foreign_use_may_overlap_held_slots(store: Store) -> None:
    """Nothing starts until both together are below the capacity."""
    a_queue(store)
    jobs = [runs(store, f"job{n}") for n in range(2)]
    store.health.set_foreign("p5", Demand(slots=2))
    late = waits(store, "late")
    for job in jobs:
        commit(store, completing(job))
        with pytest.raises(Conflict):
            commit(store, starting(late))
    store.health.set_foreign("p5", Demand(slots=1))
    commit(store, starting(late))


def test_the_later_of_two_foreign_counts_holds(
    dynamo: DynamoStore, client: Any, table: str
) -> None:
    """Each changes the ledger by the difference to its read; only one may rely on that."""
    a_queue(dynamo, a_pool("p5", 3))
    other = DynamoStore(client, table)
    with before_the_next(
        client, "UpdateItem", lambda: other.health.set_foreign("p5", Demand(slots=2))
    ):
        dynamo.health.set_foreign("p5", Demand(slots=1))
    assert seen(dynamo).foreign == Demand(slots=1)
    commit(dynamo, starting(waits(dynamo, "job1", slots=2)))
    late = waits(dynamo, "late")
    with pytest.raises(Conflict):
        commit(dynamo, starting(late))
    assert list(dynamo.repair.inspect()) == []


def test_concurrent_foreign_counts_do_not_add_up(racing_store: Store) -> None:
    store = a_queue(racing_store, a_pool("p5", 9))
    for _ in range(5):
        amounts = [Demand(slots=n) for n in range(1, 7)]
        at_once(*(partial(store.health.set_foreign, "p5", amount) for amount in amounts))
        assert seen(store).foreign in amounts
        store.health.set_foreign("p5", Demand())
    commit(store, starting(waits(store, "all", slots=9)))


def test_foreign_use_of_a_removed_pool_is_not_counted(
    dynamo: DynamoStore, client: Any, table: str
) -> None:
    """The pool is removed between the read of its ledger and the count."""
    a_queue(dynamo, a_pool("p5"), a_pool("p4"))
    other = a_queue(DynamoStore(client, table), a_pool("p4"))
    a_queue(dynamo, a_pool("p5"), a_pool("p4"))
    with before_the_next(client, "UpdateItem", lambda: a_queue(other, a_pool("p4"))):
        dynamo.health.set_foreign("p5", Demand(slots=1))
    a_queue(dynamo, a_pool("p5"), a_pool("p4"))
    assert seen(dynamo).foreign == Demand()
    assert list(dynamo.repair.inspect()) == []


def test_what_others_occupy_opens_no_pool(dynamo: DynamoStore, client: Any, table: str) -> None:
    """What the ledger has free goes by hand between the look and the count."""
    a_queue(dynamo, a_pool("p5", 3))
    items = Table(client, table)
    interfere = partial(items.change, by_hand.ledger(), free_slots=None)
    with before_the_next(client, "UpdateItem", interfere):
        dynamo.health.set_foreign("p5", Demand(slots=1))
    left = items.get(by_hand.ledger())
    assert "free_slots" not in left
    assert "foreign_slots" not in left


def test_only_a_change_of_foreign_use_raises_the_version(store: Store) -> None:
    a_queue(store)
    job = waits(store, "job1")
    first = {"p5": store.worlds.load(NOW).ledgers["p5"].version}
    store.health.set_foreign("p5", Demand())
    assert store.worlds.load(NOW).ledgers["p5"].version == first["p5"]
    for _ in range(2):
        store.health.set_foreign("p5", Demand(slots=1))
        assert store.worlds.load(NOW).ledgers["p5"].version == first["p5"] + 1
    with pytest.raises(Conflict):
        store.decisions.commit([starting(job)], seen=first)


def test_a_change_of_the_pool_keeps_its_foreign_use(store: Store) -> None:
    a_queue(store, a_pool("p5", 1))
    store.health.set_foreign("p5", Demand(slots=1))
    a_queue(store, a_pool("p5", 2))
    assert seen(store) == replace(a_pool("p5", 2), foreign=Demand(slots=1))
    starts(store, "job1")
    with pytest.raises(Conflict):
        starts(store, "job2")
    a_queue(store, a_pool("p5", 2, count_foreign=True))
    assert seen(store).foreign == Demand(slots=1)


def test_a_removed_pool_has_no_foreign_use(store: Store) -> None:
    a_queue(store, a_pool("p5", 2), a_pool("p4"))
    store.health.set_foreign("p5", Demand(slots=1))
    a_queue(store, a_pool("p4"))
    store.health.set_foreign("p5", Demand(slots=1))
    a_queue(store, a_pool("p5", 2), a_pool("p4"))
    assert seen(store).foreign == Demand()
    starts(store, "job1", slots=2)


def test_foreign_use_counts_every_resource(store: Store) -> None:
    a_queue(store, a_pool("p5", capacity=Demand(slots=2, gpus=16)))
    store.health.set_foreign("p5", Demand(slots=1, gpus=12))
    with pytest.raises(Conflict):
        starts(store, "large", demand=Demand(slots=1, gpus=8))
    starts(store, "small", demand=Demand(slots=1, gpus=4))
    assert seen(store).foreign == Demand(slots=1, gpus=12)


def test_foreign_use_is_right_beside_concurrent_commits(racing_store: Store) -> None:
    store = a_queue(racing_store, a_pool("p5", 8))
    jobs = [waits(store, f"job{n}") for n in range(4)]

    def start_and_end(n: int) -> None:
        for change in (starting, completing):
            while True:
                job = store.jobs.get(f"job{n}")
                assert job
                try:
                    store.decisions.commit([change(job)])
                    break
                except Conflict:
                    continue

    counts = [lambda n=n: store.health.set_foreign("p5", Demand(slots=n)) for n in range(1, 5)]
    at_once(*counts, *(lambda n=n: start_and_end(n) for n in range(len(jobs))))
    foreign = seen(store).foreign.slots
    assert 1 <= foreign <= 4
    starts(store, "rest", slots=8 - foreign)
    with pytest.raises(Conflict):
        starts(store, "more")
