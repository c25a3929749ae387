"""Promise 2: never over capacity. The store enforces it, even for a careless caller."""

from __future__ import annotations

import pytest

from slotq_core.errors import Conflict
from slotq_core.model.demand import Demand
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Ledger
from tests.contract.worlds import (
    NOW,
    REQUEST,
    a_job,
    a_pool,
    a_queue,
    cancelling,
    claiming,
    commit,
    completing,
    evicted,
    evicting,
    running,
    runs,
    starting,
    starts,
    waits,
)


def ledger(store: Store, pool: str = "p5") -> Ledger:
    return store.worlds.load(NOW).ledgers[pool]


def test_slots_are_held_from_the_start_until_the_end(store: Store) -> None:
    a_queue(store)
    job = waits(store, "job1", slots=2)
    assert ledger(store).used == Demand()
    job = commit(store, starting(job))
    assert ledger(store).used == Demand(slots=2)
    job = commit(store, running(job))
    job = commit(store, evicting(job, "job2"))
    assert ledger(store).used == Demand(slots=2)
    commit(store, evicted(job))
    assert ledger(store).used == Demand()


def test_a_start_that_does_not_fit_refuses_the_whole_commit(store: Store) -> None:
    a_queue(store)
    starts(store, "job1")
    small, large = waits(store, "small"), waits(store, "large", slots=2)
    before = store.worlds.load(NOW)
    with pytest.raises(Conflict):
        store.decisions.commit([starting(large)])
    with pytest.raises(Conflict):
        store.decisions.commit([starting(small), starting(large)])
    assert store.worlds.load(NOW) == before
    commit(store, starting(small))
    assert ledger(store).used == Demand(slots=2)


def test_capacity_holds_even_with_the_right_version(store: Store) -> None:
    """The caller has read the latest ledger and still starts too much."""
    a_queue(store)
    starts(store, "job1", slots=2)
    job = waits(store, "job2")
    with pytest.raises(Conflict):
        store.decisions.commit([starting(job)], seen={"p5": ledger(store).version})


def test_capacity_holds_without_a_version(store: Store) -> None:
    a_queue(store, a_pool("p5", 3))
    jobs = [waits(store, f"job{n}") for n in range(5)]
    with pytest.raises(Conflict):
        store.decisions.commit([starting(job) for job in jobs])
    store.decisions.commit([starting(job) for job in jobs[:3]])
    for job in jobs[3:]:
        with pytest.raises(Conflict):
            store.decisions.commit([starting(job)])
    assert ledger(store).used == Demand(slots=3)


def test_a_job_can_take_slots_that_another_frees_in_the_same_commit(store: Store) -> None:
    a_queue(store, a_pool("p5", 1))
    old, new = runs(store, "old"), waits(store, "new")
    store.decisions.commit([completing(old), starting(new)])
    assert ledger(store).used == Demand(slots=1)
    assert [job.name for job in store.worlds.load(NOW).snapshot.active] == ["new"]


def test_every_resource_of_a_demand_must_fit(store: Store) -> None:
    a_queue(store, a_pool("p5", capacity=Demand(slots=4, gpus=8)))
    starts(store, "job1", demand=Demand(slots=1, gpus=6))
    too_much = waits(store, "job2", demand=Demand(slots=1, gpus=3))
    with pytest.raises(Conflict):
        commit(store, starting(too_much))
    starts(store, "job3", demand=Demand(slots=1, gpus=2))
    assert ledger(store).used == Demand(slots=2, gpus=8)


def test_a_resource_that_the_pool_does_not_offer_is_refused(store: Store) -> None:
    a_queue(store)
    job = waits(store, "job1", demand=Demand({"slots": 1, "licence-x": 1}))
    with pytest.raises(Conflict):
        commit(store, starting(job))
    assert ledger(store).used == Demand()


def test_a_resource_can_have_any_name(store: Store) -> None:
    a_queue(store, a_pool("p5", capacity=Demand({"slots": 1, "licence-x": 1, "höhe": 2})))
    demand = Demand({"slots": 1, "licence-x": 1, "höhe": 2})
    job = starts(store, "job1", demand=demand)
    assert ledger(store).used == demand
    commit(store, completing(job))
    assert ledger(store).used == Demand()


def test_a_pool_that_is_not_configured_admits_nothing(store: Store) -> None:
    a_queue(store)
    job = waits(store, "job1", pools=("p4",))
    with pytest.raises(Conflict):
        commit(store, starting(job, "p4"))


def test_each_pool_has_its_ledger(store: Store) -> None:
    a_queue(store, a_pool("p5", 1), a_pool("p4", 2))
    both = ("p5", "p4")
    starts(store, "job1", pool="p5", pools=both)
    starts(store, "job2", pool="p4", pools=both)
    with pytest.raises(Conflict):
        starts(store, "job3", pool="p5", pools=both)
    ledgers = store.worlds.load(NOW).ledgers
    assert {name: each.used.slots for name, each in ledgers.items()} == {"p5": 1, "p4": 1}


def test_a_decision_on_an_old_ledger_is_refused(store: Store) -> None:
    a_queue(store)
    seen = {"p5": ledger(store).version}
    one, two = waits(store, "one"), waits(store, "two")
    store.decisions.commit([starting(one)], seen=seen)
    with pytest.raises(Conflict):
        store.decisions.commit([starting(two)], seen=seen)
    store.decisions.commit([starting(two)], seen={"p5": ledger(store).version})


def test_the_version_rises_by_one_for_a_decision_and_for_a_change_of_use(
    store: Store,
) -> None:
    a_queue(store, a_pool("p5", 2), a_pool("p4", 2))
    first = {name: each.version for name, each in store.worlds.load(NOW).ledgers.items()}

    def risen() -> dict[str, int]:
        ledgers = store.worlds.load(NOW).ledgers
        return {name: each.version - first[name] for name, each in ledgers.items()}

    job = waits(store, "job1", pools=("p5", "p4"))
    assert risen() == {"p5": 0, "p4": 0}
    (job,) = store.decisions.commit([starting(job)], seen=first)
    assert risen() == {"p5": 1, "p4": 1}
    job = commit(store, running(job))
    assert risen() == {"p5": 1, "p4": 1}
    job = commit(store, evicting(job, "job2"))
    assert risen() == {"p5": 1, "p4": 1}
    commit(store, evicted(job))
    assert risen() == {"p5": 2, "p4": 1}


def test_an_end_and_a_start_of_equal_size_change_the_use(store: Store) -> None:
    a_queue(store, a_pool("p5", 1))
    old, new = runs(store, "old"), waits(store, "new")
    version = ledger(store).version
    store.decisions.commit([completing(old), starting(new)])
    assert ledger(store).version == version + 1


def test_submissions_and_cancelled_submissions_touch_no_ledger(store: Store) -> None:
    a_queue(store)
    before = ledger(store)
    jobs = [waits(store, f"job{n}") for n in range(3)]
    commit(store, cancelling(jobs[0]))
    assert ledger(store) == before


def test_a_pass_can_commit_while_jobs_are_submitted(store: Store) -> None:
    a_queue(store)
    job = waits(store, "job1")
    world = store.worlds.load(NOW)
    store.jobs.submit(a_job("job2", priority=5), REQUEST)
    seen = {name: each.version for name, each in world.ledgers.items()}
    store.decisions.commit([starting(job)], seen=seen)


def test_an_eviction_and_its_claim_are_one_transaction(store: Store) -> None:
    a_queue(store)
    victim, job = runs(store, "victim", slots=2), waits(store, "job1", priority=5)
    version = ledger(store).version
    store.decisions.commit([evicting(victim, "job1"), claiming(job)], seen={"p5": version})
    snapshot = store.worlds.load(NOW).snapshot
    assert [each.state for each in snapshot.active] == ["stopping"]
    assert [each.claim is not None for each in snapshot.waiting] == [True]
    assert ledger(store) == Ledger(version=version + 1, used=Demand(slots=2))


def test_a_pool_below_its_use_admits_nothing_until_use_has_fallen(store: Store) -> None:
    a_queue(store, a_pool("p5", 3))
    jobs = [runs(store, f"job{n}") for n in range(3)]
    store.configuration.change([a_pool("p5", 1)], who="the test", now=NOW)
    late = waits(store, "late")
    with pytest.raises(Conflict):  # Not even in place of a job that ends.
        store.decisions.commit([completing(jobs[0]), starting(late)])
    commit(store, completing(jobs[0]))
    commit(store, completing(jobs[1]))
    with pytest.raises(Conflict):
        commit(store, starting(late))
    commit(store, completing(jobs[2]))
    commit(store, starting(late))
    assert ledger(store).used == Demand(slots=1)
