"""Departments and projects are stored whole or not at all, and a pass that finds them unchanged
reads nothing more for them."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest

from slotq.local.training.virtual_runner import VirtualClock
from slotq_core.adapters.dynamodb.layout.table import sharing_key
from slotq_core.adapters.dynamodb.sharing_documents import PART, name_of
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.adapters.initial_settings import take_in
from slotq_core.admission.instances.instance_contents import declared
from slotq_core.errors import ConfigurationLost, Conflict, PoolInUse
from slotq_core.model.callers import Access
from slotq_core.model.demand import Demand
from slotq_core.model.projects import EVERYWHERE, Department, Fairness, Prescription, Project
from slotq_core.model.sharing import NO_SHARING, FairShare, Sharing, Subscription
from slotq_core.operations.configuring.jobs_in_need import check_removal
from slotq_core.operations.configuring.moving import Mover
from slotq_core.ports.store import Store
from slotq_core.wire.limits_definition import limits_from
from tests.contract.by_hand import Table
from tests.contract.faults import before_the_next
from tests.contract.metered import Metered
from tests.contract.test_dynamodb_cost import measured
from tests.contract.worlds import NOW, a_pool, a_queue, runs, waits

FULL = Sharing(
    departments=(
        Department(name="research", quota={"p5": Demand(slots=4)}, fairness=Fairness.FULL),
        Department(name="empty", quota={}, weight=0, limit={"p5": {"slots": 0}}, priority=-1),
        Department(name="sum", weight={"slots": 0, "gpus": 3}),
    ),
    projects=(
        Project(
            name="vision",
            department="research",
            quota={"p5": Demand(slots=3, gpus=24)},
            weight=2,
            limit={"p5": {"gpus": 32}},
            priority=1,
            over_quota=False,
            min_runtime=60_000,
            pools=("p5", "p4"),
            access=Access(members=("arn:aws:iam::*:role/vision-*",), default_for=("*",)),
            requests=Prescription(
                defaults={"VpcConfig": {"Subnets": ["subnet-1"]}},
                fixed={"EnableNetworkIsolation": True},
                instance_types={"interactive": ("ml.g5.*",)},
                max_priority=0,
                waiting=10,
                approval=True,
            ),
        ),
        Project(name="ärger", quota={EVERYWHERE: Demand()}),
    ),
    operators=("arn:aws:iam::123456789012:role/ops",),
    session_roles=(),
    weights=False,
    unchecked=frozenset({Subscription.PROJECT_ABOVE_RUNNING}),
    fair_share=FairShare(half_life=86_400_000, influence=25),
)


def many(projects: int, *, note: str = "") -> Sharing:
    return Sharing(
        departments=tuple(Department(name=f"d{n}") for n in range(50)),
        projects=tuple(
            Project(
                name=f"project-{n:04d}",
                department=f"d{n % 50}",
                quota={EVERYWHERE: Demand(slots=n)},
                access=Access(members=(f"arn:aws:iam::123456789012:role/{note}{n}",)),
            )
            for n in range(projects)
        ),
    )


def share(store: Store, sharing: Sharing, *, who: str = "ada", seen: int | None = None) -> None:
    store.configuration.change(sharing=sharing, who=who, now=NOW, seen=seen)


def test_everything_is_read_back_as_it_was(store: Store) -> None:
    a_queue(store)
    share(store, FULL)
    stand = store.configuration.read()
    assert (stand.sharing, stand.revision) == (FULL, 2)


def test_a_pass_plans_with_the_projects_and_those_without_one(store: Store) -> None:
    a_queue(store)
    share(store, many(2))
    snapshot = store.worlds.load(NOW).snapshot
    assert snapshot.departments == many(2).departments
    assert [each.name for each in snapshot.projects] == ["project-0000", "project-0001", ""]
    assert snapshot.projects[-1].weight == 0
    assert store.worlds.load_all(NOW).snapshot.projects == snapshot.projects


def test_without_projects_there_is_one_implicit_project(store: Store) -> None:
    a_queue(store)
    assert store.worlds.load(NOW).snapshot.projects == ()


def test_a_switch_turns_weights_off(store: Store) -> None:
    a_queue(store)
    share(store, FULL)
    snapshot = store.worlds.load(NOW).snapshot
    assert [each.weight for each in snapshot.departments] == [None] * 3
    assert [each.weight for each in snapshot.projects[:-1]] == [None] * 2


def test_changes_name_both_sides_and_only_what_changed(store: Store) -> None:
    a_queue(store)
    share(store, FULL)
    share(store, FULL, who="grace")  # Nothing changes, so nothing is recorded.
    store.configuration.change(limits=limits_from({"waiting": 2}), who="grace", now=NOW)
    limits, shared, pools = store.configuration.changes(limit=9)
    assert shared.sharing == (NO_SHARING, FULL)
    assert (limits.sharing, pools.sharing) == (None, None)
    assert store.configuration.changes(limit=9, sharing=False) == (
        limits,
        replace(shared, sharing=None),
        pools,
    )
    assert shared.limits_before == shared.limits_after
    assert [declared(pool) for pool in shared.after] == [*shared.before]


def test_pools_limits_and_projects_change_together(store: Store) -> None:
    a_queue(store)
    limits = limits_from({"waiting": 2})
    store.configuration.change([a_pool("new")], limits=limits, sharing=FULL, who="ada", now=NOW)
    stand = store.configuration.read()
    assert [declared(pool) for pool in stand.pools] == [a_pool("new")]
    assert (stand.limits, stand.sharing) == (limits, FULL)
    assert stand.revision == 2


@pytest.mark.parametrize("jobs", [1, 40])
def test_jobs_move_to_another_project_with_their_lines(store: Store, jobs: int) -> None:
    a_queue(store)
    share(store, many(2))
    old, new = "project-0000", "project-0001"
    runs(store, "runs", project=old)
    for number in range(jobs):
        waits(store, f"job{number}", project=old, priority=number % 7)
    assert Mover(store, VirtualClock(NOW)).move(old, new, by="olga") == jobs + 1
    world = store.worlds.load_all(NOW)
    assert {job.project for job in world.snapshot.waiting} == {new}
    assert [job.project for job in world.snapshot.active] == [new]
    assert len(world.snapshot.waiting) == jobs
    assert list(store.repair.inspect()) == []
    assert Mover(store, VirtualClock(NOW)).move(old, new, by="olga") == 0


def test_jobs_after_many_others_move_too(store: Store) -> None:
    """Such a job has an item for each, so fifteen of them are too much for one transaction."""
    a_queue(store)
    share(store, many(2))
    old, new = "project-0000", "project-0001"
    first = [waits(store, f"first{number}", followed=True).name for number in range(10)]
    for number in range(15):
        waits(store, f"last{number}", project=old, after=tuple(first))
    assert Mover(store, VirtualClock(NOW)).move(old, new, by="olga") == 15
    assert {job.project for job in store.jobs.followers("first9")} == {new}


def test_what_is_refused_changes_nothing(store: Store) -> None:
    a_queue(store)
    runs(store, "busy")
    with pytest.raises(PoolInUse):
        store.configuration.change([a_pool("new")], sharing=FULL, who="ada", now=NOW)
    with pytest.raises(Conflict):
        share(store, FULL, seen=7)
    assert store.configuration.read().sharing == NO_SHARING


def test_a_thousand_projects_change_at_once(store: Store) -> None:
    a_queue(store)
    share(store, many(1000))
    share(store, many(1000, note="new-"))
    assert store.configuration.read().sharing == many(1000, note="new-")
    assert store.configuration.changes(limit=1)[0].sharing == (many(1000), many(1000, note="new-"))


def test_unchanged_projects_cost_a_pass_nothing(dynamo: DynamoStore, client: Any) -> None:
    a_queue(dynamo)
    dynamo.worlds.load(NOW)
    with measured(client) as without:
        dynamo.worlds.load(NOW)
    share(dynamo, many(1000))
    dynamo.worlds.load(NOW)
    with measured(client) as meter:
        dynamo.worlds.load(NOW)
    assert (meter.calls, meter.read_units) == (without.calls, without.read_units)


@pytest.mark.parametrize("call", ["PutItem", "TransactWriteItems"])
def test_an_interrupted_apply_leaves_the_old_configuration(
    dynamo: DynamoStore, client: Any, table: str, call: str
) -> None:
    a_queue(dynamo)
    share(dynamo, many(3))

    def die() -> None:
        raise KeyboardInterrupt

    with before_the_next(client, call, die), pytest.raises(KeyboardInterrupt):
        share(dynamo, FULL)
    for store in (dynamo, DynamoStore(client, table)):
        assert store.configuration.read().sharing == many(3)
    share(dynamo, FULL)
    assert dynamo.configuration.read().sharing == FULL


def test_a_document_larger_than_an_item_comes_in_parts(dynamo: DynamoStore, client: Any) -> None:
    a_queue(dynamo)
    noise = Sharing(projects=(Project(name="p", pools=(os.urandom(PART).hex(),)),))
    with measured(client) as meter:
        share(dynamo, noise)
    assert meter.calls.count("PutItem") == 2
    assert dynamo.configuration.read().sharing == noise


def test_without_its_document_nothing_is_planned(
    dynamo: DynamoStore, client: Any, table: str
) -> None:
    """Else everybody could use everything, and quotas would be broken silently."""
    a_queue(dynamo)
    share(dynamo, FULL)
    Table(client, table).remove(sharing_key(name_of(FULL), 0))
    fresh = DynamoStore(client, table)
    assert "nothing starts until they are restored" in fresh.worlds.load(NOW).undecidable
    with pytest.raises(ConfigurationLost, match="slotq doctor --fix"):
        fresh.configuration.read()


def weighted(store: Store, times: int) -> None:
    """Change a project's weight so many times."""
    for weight in range(times):
        share(store, Sharing(projects=(Project(name="a", weight=weight),)))


def test_the_record_reads_each_document_once() -> None:
    metered = Metered()
    weighted(metered.store(), 5)
    reader = metered.store()
    metered.reset()
    assert [each.revision for each in reader.configuration.changes(limit=5)] == [5, 4, 3, 2, 1]
    assert metered.calls == {"query": 1 + 5}


def test_a_cold_start_reads_no_project_of_the_past() -> None:
    """Where the pools are no longer the template's, each looks for whom they are from."""
    metered = Metered()
    store = metered.store()
    take_in(store, [a_pool("p5", 1)], now=NOW, check_jobs=check_removal)
    store.configuration.change([a_pool("p5", 2)], who="grace", now=NOW)
    weighted(store, 60)
    fresh = metered.store()
    metered.reset()
    assert take_in(fresh, [a_pool("p5", 1)], now=NOW, check_jobs=check_removal) == ""
    assert metered.calls.total() < 10
