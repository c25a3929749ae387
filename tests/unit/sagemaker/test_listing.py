"""Listing and describing training jobs in SageMaker."""

from __future__ import annotations

from typing import Any

import pytest

from slotq_core.adapters.sagemaker.service import LONGEST_LISTING
from slotq_core.errors import Unavailable
from slotq_core.ports.training import LiveTrainingJobs, Sighting
from tests.unit.sagemaker.adapter_world import (
    TYPE,
    World,
    attempt,
    job,
    request,
)


def test_describe_returns_none_for_an_unknown_name_and_raises_without_an_answer() -> None:
    world = World(throttle=1)
    with pytest.raises(Unavailable, match="Rate exceeded"):
        world.training.describe("job1")
    assert world.training.describe("job1") is None


def test_live_lists_each_live_training_job_once_across_pages() -> None:
    world = World(grace_seconds=1000)
    for n in range(205):
        world.client.create_training_job(**request(f"job-{n:03}"))
    world.until(10)  # All have ended, except the two created now.
    for name in ("running", "stopping"):
        world.client.create_training_job(**request(name))
    world.plane.advance()
    world.client.stop_training_job(TrainingJobName="stopping")
    assert world.training.live() == LiveTrainingJobs(names=frozenset({"running", "stopping"}))
    assert world.plane.calls["ListTrainingJobs"] == 3
    world.plane.knobs.throttle = 1
    with pytest.raises(Unavailable, match="ListTrainingJobs: Rate exceeded"):
        world.training.live()


def test_training_jobs_too_old_to_run_are_not_listed() -> None:
    world = World(start_seconds=10**9)
    world.client.create_training_job(**request("old"))
    world.until(91 * 86_400)
    world.client.create_training_job(**request("new"))
    assert world.training.live().names == {"new"}


def test_a_listing_that_takes_too_long_has_the_newest() -> None:
    world = World(start_seconds=10**9)
    for n in range(250):
        world.client.create_training_job(**request(f"job-{n:03}"))
        world.until(n + 1)
    listing = world.client.list_training_jobs

    def slow(**asked: Any) -> Any:
        world.clock.set(world.clock.now() + LONGEST_LISTING // 2 + 1)
        return listing(**asked)

    world.client.list_training_jobs = slow  # type: ignore[method-assign]
    found = world.training.live()
    assert not found.complete
    assert found.names == {f"job-{n:03}" for n in range(50, 250)}


def test_a_training_job_that_begins_to_stop_while_listing_is_listed() -> None:
    world = World()
    for n in range(101):
        world.client.create_training_job(**request(f"job-{n:03}"))
    world.plane.advance()
    listing = world.client.list_training_jobs

    def meanwhile(**asked: Any) -> Any:
        page = listing(**asked)
        for name in ("job-000", "job-100"):
            world.client.stop_training_job(TrainingJobName=name)
        return page

    world.client.list_training_jobs = meanwhile  # type: ignore[method-assign]
    assert world.training.live().names == {f"job-{n:03}" for n in range(101)}


def test_look_into_says_whether_a_training_job_is_ours_and_its_instances() -> None:
    world = World()
    world.training.create(request(), job(), attempt())
    groups = [
        {"InstanceType": kind, "InstanceCount": n, "InstanceGroupName": f"g{n}"}
        for n, kind in enumerate(("ml.m5.large", TYPE, "ml.m5.large"), start=2)
    ]
    other = [{"Key": "slotq:queue", "Value": "another"}, {"Key": "slotq:job", "Value": "job1"}]
    world.client.create_training_job(
        **request("foreign", ResourceConfig={"InstanceGroups": groups, "VolumeSizeInGB": 1})
    )
    world.client.create_training_job(**request("others", Tags=other))
    ours = Sighting(training_job="job1", ours=True, instance_type=TYPE, instances=1, first_seen=7)
    assert world.training.look_into("job1", now=7) == ours
    foreign = world.training.look_into("foreign", now=8)
    assert (foreign.ours, foreign.instance_type, foreign.instances) == (False, "ml.m5.large", 6)
    assert not world.training.look_into("others", now=8).ours
    assert world.plane.calls["DescribeTrainingJob"] == world.plane.calls["ListTags"] == 3


def test_look_into_returns_none_for_an_ended_or_unknown_training_job() -> None:
    world = World()
    world.training.create(request(), job(), attempt())
    world.until(10)
    assert world.training.look_into("job1", now=7) is None
    assert world.training.look_into("nobody", now=7) is None
    assert world.plane.calls["ListTags"] == 0
    world.plane.knobs.throttle = 1
    with pytest.raises(Unavailable, match="looking into job1: Rate exceeded"):
        world.training.look_into("job1", now=7)
