"""Processing jobs through the adapter: requests, names, events, listings, quotas."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotq.local.kept import read_jobs, saved_jobs
from slotq_core import names
from slotq_core.adapters.sagemaker.observations import observation_of_event
from slotq_core.adapters.sagemaker.sagemaker_errors import CREATE, CREATE_PROCESSING, verdict_on
from slotq_core.errors import NotUnderstood
from slotq_core.model.attempts import Attempt
from slotq_core.model.capacity.work import WorkKind, bare, work_of
from slotq_core.model.jobs import Job
from slotq_core.ports.training import Phase, Verdict
from slotq_core.wire.submission import parse_submission
from slotq_core.wire.training.processing_request import as_processing, as_training
from tests.functional.test_processing import processing_body
from tests.unit.sagemaker.adapter_world import World, attempt, job, request

NAME = "processing:clean"
M5 = "ml.m5.2xlarge"
BOTH = (WorkKind.TRAINING, WorkKind.PROCESSING)


def of_it(number: int = 1) -> tuple[dict[str, Any], Job, Attempt]:
    _, stored = parse_submission(processing_body())
    return stored, job(NAME), replace(attempt(number, NAME), instance_type=M5)


def test_an_attempt_is_the_users_request_on_the_pools_type() -> None:
    world = World()
    asked = processing_body(Environment={"A": "b"})
    _, stored = parse_submission(asked)
    _, its_job, its_attempt = of_it(2)
    assert world.training.create(stored, its_job, its_attempt).verdict is Verdict.OK
    name = bare(its_attempt.training_job)
    assert name.startswith("clean-qstamp-2-")
    made = world.client.describe_processing_job(ProcessingJobName=name)
    cluster = {**asked["ProcessingResources"]["ClusterConfig"], "InstanceType": M5}
    expected = {
        **asked,
        "ProcessingJobName": name,
        "ProcessingResources": {"ClusterConfig": cluster},
    }
    assert {key: made[key] for key in expected} == expected


def test_names_of_both_kinds_never_meet() -> None:
    world = World()
    assert world.training.create(*of_it()).verdict is Verdict.OK
    trained = world.training.create(request("clean"), job("clean"), attempt(1, "clean"))
    assert trained.verdict is Verdict.OK
    assert world.training.create(*of_it()).verdict is Verdict.ALREADY_DONE
    assert world.training.live(BOTH).names == {"clean", NAME}
    assert world.training.live().names == {"clean"}
    assert world.training.stop(NAME).verdict is Verdict.OK
    assert world.plane.job("clean").status == "InProgress"  # type: ignore[union-attr]


def test_anothers_processing_job_of_the_name_is_a_taken_name() -> None:
    world = World()
    world.client.create_processing_job(**processing_body())
    refused = world.training.create(*of_it())
    assert refused.verdict is Verdict.NAME_TAKEN
    assert "a processing job named clean" in refused.message


def test_each_event_is_an_observation_of_the_marked_name() -> None:
    world = World()
    world.training.create(*of_it())
    world.until(3_600)
    seen = [observation_of_event(event, at=0) for event in world.events]
    assert {one.training_job for one in seen} == {NAME}
    assert {one.token for one in seen} == {of_it()[2].token}
    assert [*dict.fromkeys(one.phase for one in seen)] == [
        Phase.STARTING,
        Phase.RUNNING,
        Phase.COMPLETED,
    ]
    described = world.training.describe(NAME)
    assert described is not None
    assert (described.training_job, described.phase) == (NAME, Phase.COMPLETED)


def test_the_maximum_runtime_shows_in_the_times() -> None:
    world = World()
    stored, its_job, its_attempt = of_it()
    stored = {**stored, "StoppingCondition": {"MaxRuntimeInSeconds": 5}}
    world.training.create(stored, its_job, its_attempt)
    world.until(3_600)
    seen = world.training.describe(NAME)
    assert seen is not None
    assert (seen.phase, seen.max_runtime) == (Phase.FAILED, True)


def test_a_stop_before_that_is_a_stop() -> None:
    world = World()
    world.training.create(*of_it())
    world.until(2)
    world.training.stop(NAME)
    assert world.training.stop(NAME).verdict in {Verdict.OK, Verdict.ALREADY_DONE}
    world.until(3_600)
    seen = world.training.describe(NAME)
    assert seen is not None
    assert (seen.phase, seen.max_runtime) == (Phase.STOPPED, False)
    assert world.training.stop(NAME).verdict is Verdict.ALREADY_DONE


def test_a_stranger_is_looked_into() -> None:
    world = World()
    world.client.create_processing_job(**processing_body(cluster={"InstanceCount": 3}))
    seen = world.training.look_into(NAME, now=7)
    assert seen is not None
    assert (seen.ours, seen.instance_type, seen.instances) == (False, "ml.m5.xlarge", 3)
    assert world.training.look_into("processing:none", now=7) is None


@pytest.mark.parametrize(
    ("quota", "of_training", "of_processing"),
    [
        ("ml.m5.xlarge for processing job usage", Verdict.OTHER_QUOTA, Verdict.BACK_OFF),
        ("ml.m5.xlarge for training job usage", Verdict.BACK_OFF, Verdict.OTHER_QUOTA),
        (
            "Number of instances across all processing jobs",
            Verdict.OTHER_QUOTA,
            Verdict.BACK_OFF,
        ),
    ],
)
def test_each_kind_has_its_own_quota(quota, of_training, of_processing) -> None:
    text = (
        f"The account-level service limit '{quota}' is 4 Instances, with current utilization of 4 "
        "Instances and a request delta of 1 Instances."
    )
    asked = {"code": "ResourceLimitExceeded", "text": text}
    assert verdict_on(CREATE, **asked).verdict is of_training
    seen = verdict_on(CREATE_PROCESSING, **asked, work=WorkKind.PROCESSING)
    assert seen.verdict is of_processing
    assert seen.quota is not None
    assert bool(seen.quota.instance_type or seen.quota.all_training) is (
        of_processing is Verdict.BACK_OFF
    )


def test_the_emulator_keeps_it_over_a_restart() -> None:
    world = World()
    world.training.create(*of_it())
    world.until(3_600)
    (kept,) = read_jobs(json.loads(json.dumps(saved_jobs(world.plane.jobs()))))
    assert kept.name == NAME
    there = world.client.describe_processing_job(ProcessingJobName="clean")
    assert kept.description() == there


def test_an_event_that_names_no_legal_job_is_put_away() -> None:
    event = {"detail": {"ProcessingJobName": "processing:x", "ProcessingJobStatus": "Failed"}}
    with pytest.raises(NotUnderstood):
        observation_of_event(event, at=0)


@pytest.mark.parametrize("name", ["clean", NAME, "a" * 63, f"processing:{'a' * 63}", "a-b-" * 15])
@pytest.mark.parametrize("number", [1, 2, 9_999])
def test_every_attempt_has_a_legal_name_of_the_same_kind(name: str, number: int) -> None:
    made = names.training_job_name(name.rstrip("-"), number)
    assert names.is_legal(bare(made))
    assert work_of(made) is work_of(name)


_SMALL = st.fixed_dictionaries({"A": st.integers()}, optional={"B": st.text(max_size=3)})
_BODIES = st.fixed_dictionaries(
    {"ProcessingJobName": st.just("clean")},
    optional={
        "ProcessingResources": st.fixed_dictionaries({"ClusterConfig": _SMALL}),
        "AppSpecification": st.fixed_dictionaries(
            {"ImageUri": st.text(max_size=3)},
            optional={"ContainerArguments": st.just(["x"]), "New": st.just(1)},
        ),
        "NetworkConfig": st.fixed_dictionaries(
            {"EnableNetworkIsolation": st.booleans()},
            optional={"VpcConfig": _SMALL, "New": st.integers()},
        ),
        "ProcessingOutputConfig": st.fixed_dictionaries(
            {"Outputs": st.just([])}, optional={"KmsKeyId": st.text(max_size=3)}
        ),
        "ProcessingInputs": st.just([{"InputName": "code"}]),
        "Environment": _SMALL,
        "New": _SMALL,
    },
)


@given(body=_BODIES)
def test_a_request_comes_back_as_it_was(body: dict[str, Any]) -> None:
    assert as_processing(as_training(body)) == body
