"""Changes of jobs that ask for GPUs of a node."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slotq_core.admission.instances.nodes import tenant_in
from slotq_core.errors import NeverFits, TooLate
from slotq_core.gpu_amounts import WHOLE
from slotq_core.model.callers import Access
from slotq_core.model.jobs import Job
from slotq_core.model.pools import NodeRules
from slotq_core.model.projects import Project
from slotq_core.model.sharing import Sharing
from slotq_core.operations.amend import Amendment
from slotq_core.wire.submission import parse_submission
from tests.queue_world import START, QueueWorld, pool, request
from tests.unit.test_amend import retag, revising

SCRIPT = {"sagemaker_program": '"a.py"', "sagemaker_submit_directory": '"s3://b/c.tar.gz"'}


def a_world() -> QueueWorld:
    """A queue whose pool p keeps nodes and whose pool q does not, with a job for 2 GPUs in p."""
    without = replace(pool("q"), instance_type="ml.p5.48xlarge")
    world = QueueWorld(pool("p", nodes=NodeRules(gpus=8)), without)
    submit(world, "job1", pools="p")
    return world


def submit(world: QueueWorld, name: str, **tags: Any) -> Job:
    body = {**request(name, gpus="2", **tags), "HyperParameters": SCRIPT}
    submission, kept = parse_submission(body)
    return world.manager.submissions.submit(submission, kept, submitter="ann").job


def with_projects(world: QueueWorld, *names: str) -> None:
    access = Access(members=("ann",))
    sharing = Sharing(projects=tuple(Project(name=name, access=access) for name in names))
    world.store.configuration.change(sharing=sharing, who="test", now=START)


def test_a_waiting_job_may_ask_for_other_gpus() -> None:
    world = a_world()
    before = world.job("job1")
    assert (before.gpus, before.whole_because) == (2 * WHOLE, ())
    retag(world, "job1", gpus="4")
    after = world.job("job1")
    assert (after.gpus, after.tenant) == (4 * WHOLE, before.tenant)
    with pytest.raises(NeverFits):
        retag(world, "job1", gpus="9")
    retag(world, "job1", gpus="0")
    whole = world.job("job1")
    assert (whole.gpus, whole.tenant, whole.whole_because) == (0, "", ())


def test_other_pools_are_decided_anew() -> None:
    world = a_world()
    before = world.job("job1")
    retag(world, "job1", pools="q")
    after = world.job("job1")
    assert (after.gpus, after.tenant, after.whole_because) == (0, "", ("no_nodes",))
    retag(world, "job1", pools="q,p")
    again = world.job("job1")
    assert (again.gpus, again.tenant, again.whole_because) == (2 * WHOLE, before.tenant, ())


def test_another_setting_leaves_it() -> None:
    world = a_world()
    before = world.job("job1")
    retag(world, "job1", priority="7", literal_paths="true")
    after = world.job("job1")
    assert (after.gpus, after.tenant, after.literal_paths) == (2 * WHOLE, before.tenant, True)


def test_a_running_job_keeps_its_gpus() -> None:
    world = a_world()
    submit(world, "job2", pools="q")
    world.manager.changes.amend("job1", Amendment(held=True), by="ann")
    world.deliver()
    assert world.job("job2").active
    with pytest.raises(TooLate, match="other GPUs"):
        retag(world, "job2", gpus="4")


def test_a_job_that_changes_its_project_has_another_tenant() -> None:
    world = a_world()
    with_projects(world, "a", "b")
    tenants = {world.job("job1").tenant}
    for name in ("a", "b"):
        change = Amendment(revise=revising({"slotq:project": name}), project=name)
        world.manager.changes.amend("job1", change, by="ann")
        moved = world.job("job1")
        assert moved.tenant == tenant_in(moved.tenant, name)
        tenants.add(moved.tenant)
    assert len(tenants) == 3
    world.manager.configuration.remove_project("b", by="ann", move_to="a")
    assert world.job("job1").tenant == tenant_in(moved.tenant, "a") != moved.tenant
