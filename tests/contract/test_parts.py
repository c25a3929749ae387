"""Jobs over several pools at once: one admission over all ledgers, one end."""

from __future__ import annotations

import pytest

from slotq_core.adapters.dynamodb.layout.table import active_key
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.errors import Conflict
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.ports.store import Store
from tests.contract.by_hand import Table
from tests.contract.worlds import (
    NOW,
    REQUEST,
    a_job,
    a_pool,
    a_queue,
    claiming,
    commit,
    completing,
    running,
    starting,
    starts,
)

PARTS = (("cpu", Demand(slots=3)), ("gpu", Demand(slots=1)))


def wide(store: Store, name: str = "wide") -> Job:
    """A waiting job that needs three slots of cpu and one of gpu."""
    job = a_job(name, slots=4, pools=("cpu", "gpu"), parts=PARTS)
    return store.jobs.submit(job, REQUEST)


def pools(store: Store, cpu: int = 4, gpu: int = 1) -> Store:
    return a_queue(store, a_pool("cpu", cpu), a_pool("gpu", gpu))


def used(store: Store) -> dict[str, int]:
    return {name: each.used.slots for name, each in store.worlds.load(NOW).ledgers.items()}


def test_a_start_takes_from_each_pool_and_an_end_gives_back(store: Store) -> None:
    pools(store)
    job = commit(store, starting(wide(store), "cpu"))
    assert store.jobs.get("wide") == job
    assert used(store) == {"cpu": 3, "gpu": 1}
    assert store.worlds.load(NOW).snapshot.active == (job,)
    commit(store, completing(job))
    assert used(store) == {"cpu": 0, "gpu": 0}
    assert store.worlds.load(NOW).snapshot.active == ()


@pytest.mark.parametrize(("cpu", "gpu"), [(2, 1), (4, 0), (3, 0), (0, 1)])
def test_no_start_takes_from_one_pool_what_another_has_not(
    store: Store, cpu: int, gpu: int
) -> None:
    pools(store, cpu, gpu)
    with pytest.raises(Conflict):
        commit(store, starting(wide(store), "cpu"))
    assert used(store) == {"cpu": 0, "gpu": 0}


def test_a_start_depends_on_the_ledger_of_each_pool(store: Store) -> None:
    pools(store, gpu=2)
    job = wide(store)
    seen = {name: each.version for name, each in store.worlds.load(NOW).ledgers.items()}
    starts(store, "other", pool="gpu", pools=("gpu",))
    with pytest.raises(Conflict):
        store.decisions.commit([starting(job, "cpu")], seen=seen)


def test_a_job_that_holds_slots_of_several_pools_counts_once_in_usage(store: Store) -> None:
    pools(store)
    job = commit(store, starting(wide(store), "cpu"))
    assert store.usage.running() == (job,)


def test_a_claimant_in_parts_is_loaded_once(store: Store) -> None:
    pools(store)
    job = commit(store, claiming(wide(store), "cpu"))
    assert store.worlds.load(NOW).snapshot.waiting == (job,)


def test_each_change_reaches_the_copies_in_all_pools(dynamo: DynamoStore, items: Table) -> None:
    pools(dynamo)
    job = commit(dynamo, running(commit(dynamo, starting(wide(dynamo), "cpu"))))
    copies = [items.get(active_key(pool, "wide")) for pool in ("cpu", "gpu")]
    assert copies[0]["job"] == copies[1]["job"]
    assert job.state is JobState.RUNNING
    assert [*dynamo.repair.inspect()] == []


def test_a_lost_copy_in_one_pool_is_found_and_mended(dynamo: DynamoStore, items: Table) -> None:
    pools(dynamo)
    commit(dynamo, starting(wide(dynamo), "cpu"))
    items.remove(active_key("gpu", "wide"))
    assert {each.kind for each in dynamo.repair.inspect(mend=True)} >= {"copy"}
    assert [*dynamo.repair.inspect()] == []
    assert used(dynamo) == {"cpu": 3, "gpu": 1}
