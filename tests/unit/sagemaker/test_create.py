"""Creating and stopping training jobs: requests, tokens, names of others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from slotq.local.services.training_service import PlaneClient
from slotq.local.training.virtual_runner import VirtualClock
from slotq_core import names
from slotq_core.adapters.sagemaker.service import SageMakerTraining, create_request
from slotq_core.ports.training import Verdict
from tests import queue_world
from tests.unit.sagemaker.adapter_world import (
    TYPE,
    Failing,
    World,
    attempt,
    client_error,
    job,
    request,
)


def test_only_name_type_and_ownership_differ_from_the_users_request() -> None:
    asked = request(Environment={"A": "b"})
    made = create_request(asked, job(), attempt(2), queue="mine")
    assert made["TrainingJobName"] == attempt(2).training_job
    assert made["ResourceConfig"] == {
        "InstanceType": TYPE,
        "InstanceCount": 1,
        "VolumeSizeInGB": 1,
    }
    assert made["Tags"] == [
        {"Key": "priority", "Value": "5"},
        {"Key": "slotq:job", "Value": "job1"},
        {"Key": "slotq:attempt", "Value": "2"},
        {"Key": "slotq:token", "Value": attempt(2).token},
        {"Key": "slotq:queue", "Value": "mine"},
    ]
    changed = {"TrainingJobName", "ResourceConfig", "Tags"}
    assert {k: v for k, v in made.items() if k not in changed} == {
        k: v for k, v in asked.items() if k not in changed
    }
    assert asked == request(Environment={"A": "b"})


@pytest.mark.parametrize(
    ("asked", "tag", "ran", "left"),
    [
        (1000, None, 0, 1000),
        (1000, None, 300_500, 700),
        (None, "job", 400_000, 86_000),
        (1000, "attempt", 300_500, 1000),
        (1000, None, 5_000_000, 1),
    ],
)
def test_a_later_attempt_gets_the_rest_of_the_maximum_runtime(asked, tag, ran, left) -> None:
    condition = {"MaxRuntimeInSeconds": asked} if asked else {"MaxPendingTimeInSeconds": 7200}
    tags = [{"Key": "slotq:runtime-limit", "Value": tag}] if tag else []
    body = request(StoppingCondition=condition, Tags=tags)
    made = create_request(body, replace(job(), ran=ran), attempt(2), queue="mine")
    assert made["StoppingCondition"] == {**condition, "MaxRuntimeInSeconds": left}


def test_every_instance_group_gets_the_type() -> None:
    groups = [
        {"InstanceType": "ml.m5.large", "InstanceCount": n, "InstanceGroupName": f"g{n}"}
        for n in (1, 2)
    ]
    asked = request(ResourceConfig={"InstanceGroups": groups})
    made = create_request(asked, job(), attempt(), queue="mine")
    assert [one["InstanceType"] for one in made["ResourceConfig"]["InstanceGroups"]] == [TYPE, TYPE]
    assert "InstanceType" not in made["ResourceConfig"]


def test_a_repeated_create_is_recognised_by_its_token() -> None:
    world = World(lose_answers=1)
    assert world.training.create(request(), job(), attempt()).verdict is Verdict.RETRY
    assert world.training.create(request(), job(), attempt()).verdict is Verdict.ALREADY_DONE


@pytest.mark.parametrize(("queue", "verdict"), [(None, "already_done"), ("another", "name_taken")])
def test_a_create_of_an_older_version_without_a_queue_tag_is_recognised(
    queue: str | None, verdict: str
) -> None:
    """The queue may be updated between a create and its answer."""
    world = World()
    asked = create_request(request(), job(), attempt(), queue=queue or "")
    tags = [tag for tag in asked["Tags"] if queue or tag["Key"] != "slotq:queue"]
    world.client.create_training_job(**{**asked, "Tags": tags})
    assert world.training.create(request(), job(), attempt()).verdict == verdict


@pytest.mark.parametrize("stranger", ["without tags", "another entry of the same name"])
def test_a_name_of_a_foreign_training_job_is_taken(stranger: str) -> None:
    world = World()
    if stranger == "without tags":
        world.client.create_training_job(**request())
    else:
        world.training.create(request(), job(), attempt(entry_time=6))
    answer = world.training.create(request(), job(), attempt())
    assert answer.verdict is Verdict.NAME_TAKEN
    assert answer.message == (
        "SageMaker already has a training job named job1, which is not from this queue"
    )


def test_a_create_is_retried_when_the_names_owner_cannot_be_read() -> None:
    world = World()
    world.training.create(request(), job(), attempt())
    taken = world.client.create_training_job

    def create_then_throttle(**asked: Any) -> Any:
        world.plane.knobs.throttle = 0
        try:
            return taken(**asked)
        finally:
            world.plane.knobs.throttle = 1

    world.client.create_training_job = create_then_throttle  # type: ignore[method-assign]
    assert world.training.create(request(), job(), attempt()).verdict is Verdict.RETRY
    world.plane.knobs.throttle = 0


class OneTagAPage(PlaneClient):
    """A SageMaker that returns one tag a page."""

    def list_tags(self, **request: Any) -> dict[str, Any]:
        tags = super().list_tags(ResourceArn=request["ResourceArn"])["Tags"]
        at = int(request.get("NextToken", 0))
        more = {"NextToken": str(at + 1)} if at + 1 < len(tags) else {}
        return {"Tags": tags[at : at + 1], **more}


@pytest.mark.parametrize("foreign", [0, 46])
def test_a_training_job_is_recognised_by_tags_on_any_page(foreign: int) -> None:
    world = World()
    world.client = OneTagAPage(world.plane)
    tags = [{"Key": f"tag{n}", "Value": "x"} for n in range(foreign)]
    assert world.training.create(request(Tags=tags), job(), attempt()).verdict is Verdict.OK
    again = world.training.create(request(Tags=tags), job(), attempt())
    assert again.verdict is Verdict.ALREADY_DONE
    assert world.training.look_into("job1", now=7).ours
    assert world.plane.calls["ListTags"] == 2 * (foreign + 4)


def test_another_queues_tags_count_on_any_page() -> None:
    world = World()
    world.client = OneTagAPage(world.plane)
    other = SageMakerTraining(queue="other", clock=world.clock, make_client=lambda: world.client)
    other.create(request(), job(), attempt())
    assert world.training.create(request(), job(), attempt()).verdict is Verdict.NAME_TAKEN
    assert not world.training.look_into("job1", now=7).ours


def test_stopping_an_unknown_an_ended_and_a_throttled_training_job() -> None:
    world = World()
    assert world.training.stop("nobody").verdict is Verdict.FAIL
    world.training.create(request(), job(), attempt())
    world.until(10)
    answer = world.training.stop("job1")
    assert answer.verdict is Verdict.ALREADY_DONE
    world.plane.knobs.throttle = 1
    assert world.training.stop("job1").verdict is Verdict.RETRY


def test_the_client_is_built_on_first_use() -> None:
    built: list[int] = []

    def make() -> Any:
        built.append(1)
        return Failing(client_error("ThrottlingException"))

    training = SageMakerTraining(queue="test", clock=VirtualClock(), make_client=make)
    assert not built
    training.stop("a")
    training.stop("a")
    assert built == [1]


def test_lists_in_tags_reach_sagemaker_without_a_comma():
    """SageMaker allows no comma in a tag's value and would refuse the whole request."""
    tags = [
        {"Key": "slotq:pools", "Value": "p5,p4"},
        {"Key": "slotq:demand", "Value": "gpus=8,mem=16"},
        {"Key": "team", "Value": "vision"},
    ]
    assert names.sagemaker_tags(tags) == [
        {"Key": "slotq:pools", "Value": "p5 p4"},
        {"Key": "slotq:demand", "Value": "gpus=8 mem=16"},
        {"Key": "team", "Value": "vision"},
    ]
    world = queue_world.QueueWorld(queue_world.pool("p5"), queue_world.pool("p4"))
    with pytest.raises(ClientError, match="regular expression"):
        world.client.create_training_job(**queue_world.request("other", pools="p5,p4"))
    world.submit("job1", pools="p5,p4")
    world.deliver()
    assert world.states() == {"job1": "running"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("arn:aws:sts::123456789012:assumed-role/A_b-c/ada@example.com", None),
        ("arn:aws:iam::123456789012:user/a,b=c", "arn:aws:iam::123456789012:user/a b=c"),
        ("f\u00fcr alle\n*#", "f\u00fcr alle   "),
        ("x" * 200 + "y" * 256, "y" * 256),
    ],
)
def test_a_tags_value_is_one_that_sagemaker_takes(text: str, value: str | None):
    assert names.tag_value(text) == (text if value is None else value)


def test_training_jobs_carry_project_and_submitter():
    owned = replace(job(), project="vision", submitter="arn:aws:iam::123456789012:user/a,b")
    tags = [{"Key": "slotq:project", "Value": "Vision"}, {"Key": "slotq:submitter", "Value": "me"}]
    made = create_request(request(Tags=tags), owned, attempt(1), queue="mine")["Tags"]
    by_key = {tag["Key"]: tag["Value"] for tag in made}
    assert by_key["slotq:project"] == "vision"
    assert by_key["slotq:submitter"] == "arn:aws:iam::123456789012:user/a b"
    assert len(made) == len(by_key) == 6


@pytest.mark.parametrize(("own", "sent"), [(44, 50), (45, 49), (46, 50)])
def test_a_job_of_an_earlier_version_never_has_too_many_tags(own: int, sent: int):
    owned = replace(job(), project="vision", submitter="arn:aws:iam::123456789012:user/ada")
    tags = [{"Key": f"t{n}", "Value": "x"} for n in range(own)]
    made = create_request(request(Tags=tags), owned, attempt(1), queue="mine")["Tags"]
    assert len(made) == sent
    assert {"slotq:job", "slotq:token", "slotq:queue"} <= {tag["Key"] for tag in made}
