"""A plan frees what it has used without the garbage collector, which rests meanwhile."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import replace

import pytest

from slotq_core.model.attempts import Attempt
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.pools import Pool
from slotq_core.model.projects import EVERYWHERE, Project
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.cycle import plan
from slotq_core.policy.plan import Evict, Found, Need, Start

NOW = 1_000_000


def job(name: str, project: str, *, priority: int = 0, slots: int = 1, runs: bool = False) -> Job:
    attempt = Attempt(
        number=1,
        training_job=name,
        token="",
        pool="p5",
        instance_type="ml.p5.48xlarge",
        admitted_at=0,
        created=True,
        running_since=0,
    )
    return Job(
        name=name,
        state=JobState.RUNNING if runs else JobState.PENDING,
        priority=priority,
        entry_time=0,
        demand=Demand(slots=slots),
        pools=("p5",),
        project=project,
        attempt=attempt if runs else None,
    )


@pytest.fixture
def snapshot() -> Snapshot:
    """A plan of it starts one job, evicts within a project and between projects, and leaves one."""
    return Snapshot(
        pools=(Pool(name="p5", instance_type="ml.p5.48xlarge", capacity=Demand(slots=6)),),
        projects=tuple(
            Project(name=name, quota={EVERYWHERE: Demand(slots=3)}) for name in ("a", "b")
        ),
        active=tuple(job(f"run{i}", "a", runs=True) for i in range(5)),
        waiting=(
            job("first", "b"),
            job("second", "b", slots=2),
            job("urgent", "a", priority=1),
            job("last", "a"),
        ),
    )


@pytest.fixture
def collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("collection")
def test_a_plan_leaves_no_garbage(snapshot: Snapshot) -> None:
    planned = plan(snapshot, NOW)
    assert {type(each) for each in planned.decisions} == {Start, Evict}
    assert dict(planned.reasons)
    del planned
    assert gc.collect() == 0


def test_nobody_looks_for_garbage_while_a_plan_is_made(snapshot: Snapshot) -> None:
    seen = []

    def more(need: Need) -> Found:
        seen.append(gc.isenabled())
        return Found(jobs=(job("third", "b", slots=2),))

    plan(replace(snapshot, behind={"second": 1}), NOW, more=more)
    assert seen and not any(seen)
    assert gc.isenabled()
