"""A node whose items do not agree, or cannot be read, stops nothing else, and is repaired."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slotq_core.adapters.dynamodb.held_slots import read_holders
from slotq_core.adapters.dynamodb.layout import table
from slotq_core.adapters.dynamodb.repair.backup import load_table, save_table
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.errors import Conflict, NotUnderstood
from slotq_core.model.demand import Demand
from slotq_core.model.nodes import NodeState
from slotq_core.names import is_legal
from slotq_core.ports.stored import Finding
from tests.contract import by_hand
from tests.contract.by_hand import Table, number, text
from tests.contract.conftest import a_store
from tests.contract.keeping_nodes import (
    a_node_queue,
    becoming,
    changed,
    coming,
    ending_node,
    now,
    ready,
    runs_on,
    waits_for_gpus,
)
from tests.contract.poisoned import quarantine
from tests.contract.worlds import (
    NOW,
    commit,
    completing,
    evicted,
    runs,
    starts,
)

NODE, SLOT = table.node_key("p5", "n1"), table.node_slot_key("p5", "n1")


def faults(store: DynamoStore, *, mend: bool = False) -> list[tuple[str, str]]:
    return [(found.kind, found.subject) for found in _found(store, mend=mend)]


def _found(store: DynamoStore, *, mend: bool) -> list[Finding]:
    return [*store.repair.inspect(mend=mend)]


def mended(store: DynamoStore) -> None:
    """Everything is repaired at once."""
    assert all(found.mended for found in _found(store, mend=True))
    assert faults(store) == []
    assert store.worlds.load(NOW).poison == ()


def free(store: DynamoStore, pool: str = "p5") -> int:
    """The slots that a plan may still give."""
    world = store.worlds.load(NOW)
    seen = next(each for each in world.snapshot.pools if each.name == pool)
    own = [job for job in world.snapshot.active if job.attempt and not job.attempt.node]
    return seen.size(NOW).slots - len(own) - len(world.snapshot.nodes)


def test_a_queue_with_nodes_has_no_faults(dynamo: DynamoStore) -> None:
    a_node_queue(dynamo, slots=4)
    node = ready(dynamo)
    runs_on(dynamo, "one", node, 0, 1)
    victim = runs_on(dynamo, "two", node, 2)
    commit(dynamo, completing(victim))
    runs(dynamo, "whole")
    changed(dynamo, becoming(ready(dynamo, "n2"), NodeState.DRAINING))
    assert faults(dynamo) == []
    assert dynamo.worlds.load(NOW).poison == ()


BROKEN: list[dict[str, Any]] = [
    {"state": text("dreaming")},
    {"state": None},
    {"generation": text("first")},
    {"generation": None},
    {"version": None},
    {"version": text("new")},
    {"contents": text("many")},
    {"jobs": text("some")},
    {"jobs": number(5)},
    {"job_one": text("first")},
    {"gpu_0": text("free")},
    {"name": text("n9")},
    {"reports": text("last")},
]


@pytest.mark.parametrize("wrong", BROKEN, ids=str)
def test_an_unreadable_node_stops_nothing_else_and_is_restored(
    dynamo: DynamoStore, items: Table, wrong: dict[str, Any]
) -> None:
    a_node_queue(dynamo, slots=3)
    node, other = ready(dynamo), ready(dynamo, "n2")
    job, whole = runs_on(dynamo, "one", node, 0, 1), runs(dynamo, "whole")
    dynamo.nodes.note_report(node, 4, at=NOW, lease_until=NOW)
    items.change(NODE, **wrong)
    world = dynamo.worlds.load(NOW)
    assert [each.key for each in world.poison] == ['["NODES#p5", "n1"]']
    assert world.snapshot.nodes == (other,)
    assert world.snapshot.active == (job, whole)
    assert free(dynamo) == 0
    with pytest.raises(NotUnderstood):
        dynamo.nodes.get("p5", "n1")
    runs_on(dynamo, "elsewhere", other, 0)
    quarantine(dynamo)
    restored = now(dynamo, node)
    assert (restored.state, restored.generation) == (NodeState.DRAINING, node.generation)
    assert (restored.training_job, restored.token) == (node.training_job, node.token)
    assert dynamo.nodes.jobs(node) == {"one": 1}
    assert faults(dynamo) == []
    with pytest.raises(Conflict):
        commit(dynamo, coming(waits_for_gpus(dynamo, "late"), restored, 5))
    commit(dynamo, completing(job))
    dynamo.decisions.commit([], nodes=[ending_node(now(dynamo, node))])
    assert free(dynamo) == 1


def test_a_stopping_node_is_restored_as_such(dynamo: DynamoStore, items: Table) -> None:
    a_node_queue(dynamo)
    node = changed(dynamo, becoming(ready(dynamo), NodeState.STOPPING, created=True))
    items.change(NODE, version=text("new"))
    quarantine(dynamo)
    restored = now(dynamo, node)
    assert (restored.state, restored.created) == (NodeState.STOPPING, True)


def test_a_missing_node_is_restored_from_its_slot(dynamo: DynamoStore, items: Table) -> None:
    a_node_queue(dynamo)
    node = ready(dynamo)
    job = runs_on(dynamo, "one", node, 3)
    items.remove(NODE)
    world = dynamo.worlds.load(NOW)
    assert (world.snapshot.nodes, world.snapshot.active) == ((), (job,))
    assert [each.key for each in world.poison] == ['["NODES#p5", "n1"]']
    assert free(dynamo) == 1
    assert faults(dynamo) == [("node", "p5/n1")]
    quarantine(dynamo)
    assert now(dynamo, node).state is NodeState.DRAINING
    assert dynamo.nodes.jobs(node) == {"one": 1}
    assert faults(dynamo) == []


def test_a_node_without_a_slot_gets_one(dynamo: DynamoStore, items: Table) -> None:
    """Its training job may run, so the slot is in use, even if that is one too many."""
    a_node_queue(dynamo, slots=1)
    node = ready(dynamo)
    items.remove(SLOT)
    quarantine(dynamo)  # The ledger counts a slot that nobody holds.
    assert free(dynamo) == 1
    starts(dynamo, "whole")
    mended(dynamo)
    assert dynamo.worlds.load(NOW).snapshot.nodes == (node,)
    assert free(dynamo) == -1
    dynamo.decisions.commit([], nodes=[ending_node(node)])
    assert free(dynamo) == 0
    assert faults(dynamo) == []


@pytest.mark.parametrize(
    "wrong",
    [{"node": text("n1")}, {"node": {"M": {}}}, {"demand": text("one")}, {"holders": text("x")}],
    ids=str,
)
def test_an_unreadable_slot_of_a_node_stays_held_and_is_written_again(
    dynamo: DynamoStore, items: Table, wrong: dict[str, Any]
) -> None:
    a_node_queue(dynamo, slots=1)
    node = ready(dynamo)
    items.change(SLOT, **wrong)
    world = dynamo.worlds.load(NOW)
    assert (world.snapshot.nodes, world.ledgers["p5"].used) == ((), Demand(slots=1))
    assert free(dynamo) <= 0
    mended(dynamo)
    assert dynamo.worlds.load(NOW).snapshot.nodes == (node,)
    assert free(dynamo) == 0


def test_what_is_left_of_an_unreadable_node_keeps_its_slot(
    dynamo: DynamoStore, items: Table
) -> None:
    a_node_queue(dynamo, slots=1)
    ready(dynamo)
    items.change(SLOT, node=text("n1"))
    items.change(NODE, generation=None)
    assert faults(dynamo) == [("node", "p5/n1"), ("held", "p5/n1")]
    _found(dynamo, mend=True)
    assert faults(dynamo) == [("put_aside", "n1"), ("held", "p5/n1")]
    assert free(dynamo) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"gpu_3": number(100)},
        {"gpu_4": number(0)},
        {"gpu_4": None},
        {"free_cpus": number(7)},
        {"jobs": number(2), "job_ghost": number(1)},
        {"jobs": number(0), "job_one": None},
        {"job_one": number(9)},
    ],
    ids=str,
)
def test_room_that_the_jobs_do_not_explain_is_found_and_mended(
    dynamo: DynamoStore, items: Table, wrong: dict[str, Any]
) -> None:
    a_node_queue(dynamo)
    node = ready(dynamo)
    job = runs_on(dynamo, "one", node, 3, cpus=16)
    right = items.get(NODE)
    if "job_ghost" in wrong:
        commit(dynamo, completing(runs_on(dynamo, "ghost", node, 5)))
        right = items.get(NODE)
    items.change(NODE, **wrong)
    assert faults(dynamo) == [("node", "p5/n1")]
    assert dynamo.worlds.load(NOW).snapshot.active == (job,)
    mended(dynamo)
    assert items.get(NODE) == right


def test_a_node_that_does_not_say_whose_it_is_is_mended(dynamo: DynamoStore, items: Table) -> None:
    a_node_queue(dynamo)
    node = changed(dynamo, becoming(ready(dynamo), NodeState.READY, one_person=True))
    runs_on(dynamo, "one", node, 0)
    right = items.get(NODE)
    items.change(NODE, person=text("arn:aws:iam::123456789012:user/eve"))
    assert faults(dynamo) == [("node", "p5/n1")]
    mended(dynamo)
    assert items.get(NODE) == right


def test_a_decision_that_a_wrong_node_refuses_repairs_it(dynamo: DynamoStore, items: Table) -> None:
    """Otherwise it would be refused for ever."""
    a_node_queue(dynamo)
    node = ready(dynamo)
    items.change(NODE, gpu_0=number(0))
    job = waits_for_gpus(dynamo, "one")
    with pytest.raises(Conflict):
        commit(dynamo, coming(job, node, 0))
    commit(dynamo, coming(job, node, 0))


def test_gpus_of_a_job_that_cannot_be_read_stay_taken(dynamo: DynamoStore, items: Table) -> None:
    a_node_queue(dynamo)
    node = ready(dynamo)
    runs_on(dynamo, "one", node, 0)
    items.change(by_hand.job("one"), jobState=text("suspended"))
    items.spoil_copy(table.on_node_key("p5", "one"), jobState=text("suspended"))
    quarantine(dynamo)
    assert dynamo.worlds.load(NOW).snapshot.active == ()
    assert "one" in dynamo.nodes.jobs(node)
    job = waits_for_gpus(dynamo, "two")
    for _ in range(2):  # The refusal repairs nothing that is right.
        with pytest.raises(Conflict):
            commit(dynamo, coming(job, node, 0))
    commit(dynamo, coming(job, node, 1))
    items.change(NODE, gpu_1=number(100))
    _found(dynamo, mend=True)
    assert items.get(NODE)["gpu_0"] == number(0)
    assert items.get(NODE)["gpu_1"] == number(0)


def test_a_copy_of_a_job_on_a_node_is_restored(dynamo: DynamoStore, items: Table) -> None:
    a_node_queue(dynamo)
    node = ready(dynamo)
    job = runs_on(dynamo, "one", node, 0)
    items.remove(table.on_node_key("p5", "one"))
    assert ("copy", "one") in faults(dynamo)
    mended(dynamo)
    assert dynamo.worlds.load(NOW).snapshot.active == (job,)
    items.change(by_hand.job("one"), jobState=text("suspended"))
    assert dynamo.jobs.get("one") == job


def test_an_end_is_not_refused_by_a_node_that_forgot_the_job(
    dynamo: DynamoStore, items: Table
) -> None:
    a_node_queue(dynamo)
    node = ready(dynamo)
    one, two = runs_on(dynamo, "one", node, 0), runs_on(dynamo, "two", node, 1)
    items.change(NODE, jobs=number(1), job_one=None, gpu_0=number(100))
    dynamo.decisions.commit([evicted(one), evicted(two)])
    assert dynamo.nodes.jobs(node) == {}
    assert faults(dynamo) == []


def test_an_end_is_not_refused_by_a_node_that_is_gone(dynamo: DynamoStore, items: Table) -> None:
    a_node_queue(dynamo)
    node = ready(dynamo)
    job = runs_on(dynamo, "one", node, 0)
    items.remove(NODE)
    items.remove(SLOT)
    assert ("node", "one") in faults(dynamo)
    quarantine(dynamo)
    commit(dynamo, evicted(job))
    assert faults(dynamo) == []
    assert not items.get(NODE)
    assert free(dynamo) == 2


def test_a_missing_name_of_a_node_is_written_again(dynamo: DynamoStore, items: Table) -> None:
    a_node_queue(dynamo)
    node = ready(dynamo)
    items.remove(table.name_key(node.training_job))
    assert faults(dynamo) == [("node", "p5/n1")]
    mended(dynamo)
    assert dynamo.jobs.owner_of(node.training_job)


def test_a_wrong_sum_of_marks_on_nodes_is_mended(dynamo: DynamoStore, items: Table) -> None:
    a_node_queue(dynamo)
    job = runs_on(dynamo, "one", ready(dynamo), 0)
    right = items.get(by_hand.ledger())
    items.change(by_hand.ledger(), onNodes=None)
    assert [each.key for each in dynamo.worlds.load(NOW).poison] == ['["POOL#p5", "LEDGER"]']
    quarantine(dynamo)
    after = items.get(by_hand.ledger())
    assert {**after, "version": right["version"]} == right
    assert dynamo.worlds.load(NOW).snapshot.active == (job,)


def test_an_earlier_version_counts_the_slots_of_nodes(dynamo: DynamoStore, items: Table) -> None:
    """It knows neither nodes nor the copies of jobs on them, and keeps the slots for jobs that it
    cannot read."""
    a_node_queue(dynamo, slots=3)
    node = ready(dynamo)
    runs_on(dynamo, "one", node, 0)
    whole = runs(dynamo, "whole")
    known = {"LEDGER", "HEALTH", "ACTIVE", "CLAIM", "HELD", "YIELD"}
    seen = [
        {name: value for name, value in item.items() if name not in {"node", "onNodes"}}
        for key, item in sorted(items.all().items())
        if key[0] == "POOL#p5" and key[1].partition("#")[0] in known
    ]
    read = read_holders(seen)
    assert (read.active, read.kept, read.poison) == ((whole,), Demand(slots=1), ())
    assert read.adds_up
    owner = items.get(table.name_key(node.training_job))["jobName"]["S"]
    assert not is_legal(owner)


def test_a_backup_has_the_nodes(
    dynamo: DynamoStore, items: Table, client: Any, tmp_path: Path
) -> None:
    a_node_queue(dynamo)
    node = ready(dynamo)
    runs_on(dynamo, "one", node, 0)
    before = dynamo.worlds.load(NOW)
    save_table(client, items.name, tmp_path / "backup", clock=lambda: NOW)
    dynamo.decisions.commit([], nodes=[becoming(node, NodeState.DRAINING)])
    load_table(client, items.name, tmp_path / "backup", replace=True, clock=lambda: NOW)
    store = a_store(client, items.name)
    assert store.worlds.load(NOW).snapshot == before.snapshot
    assert store.nodes.jobs(node) == {"one": 1}
    assert faults(store) == []
