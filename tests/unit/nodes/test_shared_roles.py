"""The warning of an execution role that nodes of several projects use."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotq_core.model.callers import Access
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job
from slotq_core.model.projects import EVERYWHERE, Project
from slotq_core.model.snapshot import Snapshot
from slotq_core.operations.nodes.shared_roles import findings
from slotq_core.ports.stored import Finding
from tests.unit.nodes.node_world import NodeWorld
from tests.unit.policy.test_nodes import asks, claims, node, on
from tests.unit.policy.test_reasons import runs

ANN = Access(members=("ann",))
ONE, TWO = "arn:aws:iam::1:role/One", "arn:aws:iam::1:role/Two"


def runs_on(name: str, at: str, role: str) -> Job:
    return replace(on(runs(name), at), role=role)


def waits_for(name: str, at: str, role: str) -> Job:
    return replace(claims(name, 1, at), role=role)


def began(name: str, role: str) -> Job:
    return replace(asks(name), role=role)


@pytest.mark.parametrize(
    ("projects", "world", "found"),
    [
        pytest.param(("a", "b"), (runs_on("x", "n1", ONE), runs_on("y", "n2", ONE)), "a, b"),
        pytest.param(("a", "b"), (runs_on("x", "n1", ONE), runs_on("y", "n2", TWO)), ""),
        pytest.param(("a", "a"), (runs_on("x", "n1", ONE), runs_on("y", "n2", ONE)), ""),
        pytest.param(("", ""), (runs_on("x", "n1", ONE), runs_on("y", "n2", ONE)), ""),
        pytest.param(("a", ""), (runs_on("x", "n1", ONE), runs_on("y", "n2", ONE)), ""),
        pytest.param(("a", "b"), (runs_on("x", "n1", ONE), waits_for("y", "n2", ONE)), "a, b"),
        pytest.param(("b", "a"), (began("first-n1", ONE), began("first-n2", ONE)), "a, b"),
        pytest.param(("a", "b"), (began("first-n1", ONE), runs_on("y", "n2", TWO)), ""),
        pytest.param(("a", "b"), (runs_on("x", "n1", ""), runs_on("y", "n2", "")), ""),
        pytest.param(("a", "b"), (), ""),
    ],
    ids=[
        "jobs of two projects",
        "a role for each",
        "one project",
        "nodes that projects share",
        "a shared node beside one of a project",
        "a job that waits for its node",
        "nodes without jobs",
        "the first job's role where no job is",
        "roles that are not known",
        "nodes of which nothing is known",
    ],
)
def test_a_role_of_several_projects_is_found(
    projects: tuple[str, str], world: tuple[Job, ...], found: str
) -> None:
    nodes = tuple(
        node(name, project=project, started_for=f"first-{name}")
        for name, project in zip(("n1", "n2"), projects, strict=True)
    )
    snapshot = Snapshot(
        pools=(),
        nodes=nodes,
        active=tuple(job for job in world if job.attempt),
        waiting=tuple(job for job in world if job.claim),
    )
    started_for = {job.name: job for job in world if job.name.startswith("first-")}
    warned = [(it.kind, it.subject, it.mended) for it in findings(snapshot, started_for)]
    assert warned == ([("shared_role", ONE, False)] if found else [])
    assert all(f"projects {found} have" in it.text for it in findings(snapshot, started_for))


def test_the_doctor_warns_of_it_and_mends_nothing() -> None:
    world = NodeWorld()
    sharing = world.store.configuration.read().sharing
    quota = {EVERYWHERE: Demand(slots=1)}
    projects = tuple(Project(name=name, quota=quota, access=ANN) for name in ("nlp", "vision"))
    world.store.configuration.change(
        sharing=replace(sharing, projects=projects), who="test", now=world.clock.now()
    )
    world.asks("job1", project="vision", tenant="t-1")
    assert doctor(world) == []
    world.asks("job2", project="nlp", tenant="t-2")
    assert world.run_pass() == ["StartNode", "StartNode"]
    (found,) = doctor(world, fix=True)
    assert (found.subject, found.mended) == (world.job("job1").role, False)
    assert found.text.startswith("nodes of the projects nlp, vision have this execution role")


def doctor(world: NodeWorld, *, fix: bool = False) -> list[Finding]:
    found = world.another_manager().doctor.examine(fix=fix)
    return [it for it in found if it.kind == "shared_role"]
