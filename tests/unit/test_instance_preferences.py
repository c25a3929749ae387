"""InstancePreferences: the pools of these types in this order, with one count for all."""

from __future__ import annotations

from typing import Any

import pytest

from slotq_core.errors import InvalidRequest, NeverFits
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import JobState
from slotq_core.model.pools import CapacityKind, Pool
from slotq_core.wire.submission import parse_submission
from tests.queue_world import INSTANCE_TYPE, QueueWorld, request

OTHER, THIRD = "ml.c5.xlarge", "ml.r5.large"


def of_type(name: str, kind: str, slots: int = 2, **fields: Any) -> Pool:
    return Pool(name=name, instance_type=kind, capacity=Demand(slots=slots), **fields)


def preferring(*types: str | tuple[str, int], count: int | None = None, **more: Any) -> Any:
    """A request that prefers these types, each with its count."""
    preferences = [
        {"InstanceType": kind} if isinstance(kind, str)
        else {"InstanceType": kind[0], "InstanceCount": kind[1]}
        for kind in types
    ]  # fmt: skip
    resources: dict[str, Any] = {"VolumeSizeInGB": 1, "InstancePreferences": preferences}
    if count is not None:
        resources["InstanceCount"] = count
    tags = {key: value for key, value in more.items() if key.islower()}
    fields = {key: value for key, value in more.items() if key not in tags}
    return {**request("job", **tags), **fields, "ResourceConfig": resources}


def submit(world: QueueWorld, body: Any) -> Any:
    submission, parsed = parse_submission(body)
    return world.manager.submissions.submit(submission, parsed, submitter="ann")


def world_of(**fields: Any) -> QueueWorld:
    return QueueWorld(
        of_type("p", INSTANCE_TYPE), of_type("q", OTHER), of_type("q2", OTHER), **fields
    )


def test_the_pools_of_these_types_in_this_order():
    world = world_of()
    submit(world, preferring((OTHER, 2), (THIRD, 2), (INSTANCE_TYPE, 2)))
    job = world.job("job")
    assert (job.pools, job.demand) == (("q", "q2", "p"), Demand(slots=2))


def test_sagemaker_gets_the_type_of_the_pool_and_no_choice():
    world = world_of()
    world.plane.knobs.turn({"limits": {OTHER: 0}})
    submit(world, preferring((OTHER, 2), (INSTANCE_TYPE, 2)))
    world.deliver()
    world.deliver()
    job = world.job("job")
    assert (job.state, job.attempt.pool) == (JobState.RUNNING, "p")
    found = world.plane.job(job.attempt.training_job)
    assert found is not None
    resources = {"InstanceType": INSTANCE_TYPE, "InstanceCount": 2, "VolumeSizeInGB": 1}
    assert found.request["ResourceConfig"] == resources


def test_one_count_may_stand_beside_them_all():
    world = world_of()
    submit(world, preferring(OTHER, INSTANCE_TYPE, count=2))
    world.deliver()
    found = world.plane.job("job")
    assert found is not None
    resources = {"InstanceType": OTHER, "InstanceCount": 2, "VolumeSizeInGB": 1}
    assert found.request["ResourceConfig"] == resources


def test_they_mean_no_spot_pool():
    world = QueueWorld(
        of_type("s", OTHER, capacity_kind=CapacityKind.SPOT), of_type("p", INSTANCE_TYPE)
    )
    submit(world, preferring((OTHER, 1), (INSTANCE_TYPE, 1)))
    assert world.job("job").pools == ("p",)


WAIT = {"MaxRuntimeInSeconds": 60, "MaxWaitTimeInSeconds": 60}
REFUSED = [
    # the request, and what the refusal names
    (
        preferring((OTHER, 1), (INSTANCE_TYPE, 2)),
        f"need one count for all, not {OTHER} 1, {INSTANCE_TYPE} 2",
    ),
    (preferring((OTHER, 1), (INSTANCE_TYPE, 1), count=3), "InstanceCount 3"),
    (preferring((OTHER, 1), INSTANCE_TYPE), "give each of the InstancePreferences"),
    (preferring((OTHER, 1), (OTHER, 1)), "each instance type once"),
    (preferring((THIRD, 1)), f"no pool has instance type '{THIRD}'"),
    (
        preferring((OTHER, 1), pools="p"),
        f"InstancePreferences names {OTHER}, and the tag 'slotq:pools' names p ({INSTANCE_TYPE})",
    ),
    (
        preferring((OTHER, 1), EnableManagedSpotTraining=True, StoppingCondition=WAIT),
        "InstancePreferences do not work with spot training",
    ),
]


@pytest.mark.parametrize(("body", "said"), REFUSED)
def test_what_cannot_be_is_refused_by_name(body: Any, said: str):
    world = world_of()
    with pytest.raises(InvalidRequest) as refused:
        submit(world, body)
    assert said in refused.value.message
    assert world.states() == {}


@pytest.mark.parametrize("key", ["InstanceType", "InstanceGroups"])
def test_nothing_else_names_instances_beside_them(key: str):
    body = preferring((OTHER, 1))
    group = {"InstanceType": OTHER, "InstanceCount": 1, "InstanceGroupName": "g"}
    body["ResourceConfig"][key] = OTHER if key == "InstanceType" else [group]
    with pytest.raises(InvalidRequest, match=f"leave out {key}"):
        submit(world_of(), body)


def test_more_than_every_pool_never_fits():
    with pytest.raises(NeverFits):
        submit(world_of(), preferring((OTHER, 3), (INSTANCE_TYPE, 3)))


def test_a_queue_names_no_plans_for_them():
    body = preferring((OTHER, 1))
    plan = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/p"
    body["ResourceConfig"]["InstancePreferences"][0]["TrainingPlanArns"] = [plan]
    with pytest.raises(InvalidRequest, match=r"leave out TrainingPlanArns.*slotq:pools"):
        submit(world_of(), body)
