"""What callers see of nodes: the same from every store, read with one load."""

from __future__ import annotations

from dataclasses import replace

from slotq_core.manager import QueueManager
from slotq_core.model.callers import Access
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Claim
from slotq_core.model.nodes import NodeState
from slotq_core.model.projects import Project
from slotq_core.model.sharing import Sharing
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Change
from slotq_core.timestamps import iso
from slotq_core.wire.views.jobs import job_view
from slotq_core.wire.views.nodes import NodeView, node_view
from tests.contract.keeping_nodes import (
    a_node_queue,
    becoming,
    changed,
    coming,
    ready,
    runs_on,
    waits_for_gpus,
)
from tests.contract.test_budgets import manager_of
from tests.contract.worlds import NOW, commit

ADA, BOB = (f"arn:aws:iam::123456789012:user/{name}" for name in ("ada", "bob"))


def seen(manager: QueueManager, by: str = ADA) -> list[NodeView]:
    return [
        node_view(
            status.node,
            status.pool,
            jobs=status.jobs,
            claimants=status.claimants,
            sees=status.sees,
        )
        for status in manager.queue_snapshots.nodes(to=by)
    ]


def test_a_node_shows_what_its_agent_says_and_whether_it_takes_one_persons_jobs(
    store: Store,
) -> None:
    a_node_queue(store)
    node = changed(store, becoming(ready(store), NodeState.READY, one_person=True))
    store.nodes.note_report(node, 1, at=NOW, lease_until=NOW, problems=["no route"])
    (view,) = seen(manager_of(store))
    assert (view.problems, view.one_person) == (["no route"], True)


def test_a_queue_without_nodes_shows_none(store: Store) -> None:
    a_node_queue(store)
    assert seen(manager_of(store)) == []


def test_a_node_shows_its_jobs_and_its_free_gpus(store: Store) -> None:
    a_node_queue(store)
    node = ready(store)
    runs_on(store, "late", node, 5)
    runs_on(store, "early", node, 0, 2)
    waiting = waits_for_gpus(store, "next", 6)
    claim = Claim(pool="p5", node="n1", amount=Demand(gpus=6), since=NOW)
    commit(store, Change(before=waiting, after=replace(waiting, claim=claim)))
    (view,) = seen(manager_of(store))
    assert (view.pool, view.name, view.state) == ("p5", "n1", "ready")
    assert view.free == [1, 3, 4, 6, 7]
    assert [(job.name, job.gpus, job.gpu_ids) for job in view.jobs] == [
        ("early", 2, [0, 2]),
        ("late", 1, [5]),
    ]
    assert [(job.name, job.state, job.gpus) for job in view.owed] == [("next", "pending", 6)]
    assert (view.idle_since, view.kept_until) == (None, None)
    assert view.training_job == node.training_job


def test_a_node_without_jobs_says_until_when_it_is_kept(store: Store) -> None:
    a_node_queue(store, slots=12)
    for number in (10, 2):
        ready(store, f"node-{number}")
    first, second = seen(manager_of(store))
    assert (first.name, second.name) == ("node-2", "node-10")
    assert first.idle_since == iso(NOW + 1)
    assert first.kept_until == iso(NOW + 1 + 600_000)


def test_who_may_not_see_a_job_sees_only_its_gpus(store: Store) -> None:
    a_node_queue(store)
    projects = tuple(
        Project(name=name, access=Access(members=(who,))) for name, who in (("a", ADA), ("b", BOB))
    )
    store.configuration.change(sharing=Sharing(projects=projects), who="me", now=NOW)
    node = ready(store, project="a")
    job = waits_for_gpus(store, "secret", 1, project="a", submitter=ADA)
    commit(store, coming(job, node, 3))
    manager = manager_of(store)
    assert [job.name for job in seen(manager, ADA)[0].jobs] == ["secret"]
    (withheld,) = seen(manager, BOB)[0].jobs
    assert (withheld.name, withheld.project, withheld.gpu_ids) == ("", "a", [3])


def test_a_job_says_where_it_runs(store: Store) -> None:
    a_node_queue(store)
    job = runs_on(store, "a", ready(store), 0, 3)
    view = job_view(job)
    assert (view.pool, view.node, view.gpus, view.gpu_ids) == ("p5", "n1", 2, [0, 3])
    assert view.whole is None
    waiting = job_view(waits_for_gpus(store, "b"))
    assert (waiting.node, waiting.gpu_ids) == (None, [])


def test_a_job_says_why_it_takes_a_whole_instance(store: Store) -> None:
    a_node_queue(store)
    job = waits_for_gpus(store, "a", 0, tenant="", whole_because=("sharding train", "gang"))
    stored = store.jobs.get("a")
    assert stored is not None
    assert stored.whole_because == job.whole_because
    whole = job_view(stored).whole
    assert whole is not None
    assert (whole.code, whole.numbers) == (
        "whole_instance",
        {"causes": ("sharding train", "gang")},
    )
    assert whole.text == (
        "takes a whole instance, not GPUs of a node: channel train is sharded; a node reads all of "
        "it (FullyReplicated); it is a member of a gang"
    )
