"""The training job of a node: its request, and who has its name."""

from __future__ import annotations

from typing import Any

import pytest

from slotq_core.adapters.sagemaker.node_requests import node_request
from slotq_core.model.nodes import Node, NodeState
from slotq_core.names import node_training_job, token_in_tags
from slotq_core.ports.nodes import Launch
from slotq_core.ports.training import Verdict
from tests.unit.sagemaker.adapter_world import TYPE, Failing, World, client_error, request

LAUNCH = Launch(entrypoint=("python3", "-c", "agent"), environment={"SLOTQ_NODE": "node-1"})


def node(token: str = "secret", generation: int = 7, **fields: Any) -> Node:
    described = {"project": "vision", "tenant": "t"} | fields
    return Node(
        name="node-1",
        pool="p",
        generation=generation,
        state=NodeState.STARTING,
        training_job=node_training_job("p", "node-1", 7, "secret"),
        token=token,
        started_at=0,
        **described,
    )


def made(asked: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return node_request(asked, node(**fields), LAUNCH, instance_type=TYPE, queue="mine")


SHARED = {
    "VpcConfig": {"Subnets": ["s"], "SecurityGroupIds": ["g"]},
    "OutputDataConfig": {"S3OutputPath": "s3://bucket/out", "KmsKeyId": "key"},
    "EnableInterContainerTrafficEncryption": True,
    "RemoteDebugConfig": {"EnableRemoteDebug": True},
}


def test_a_node_takes_what_its_tenant_shares_and_nothing_of_the_job() -> None:
    asked = request(
        **SHARED,
        AlgorithmSpecification={
            "TrainingImage": "image",
            "TrainingImageConfig": {"TrainingRepositoryAccessMode": "Vpc"},
            "TrainingInputMode": "FastFile",
            "ContainerEntrypoint": ["train"],
            "MetricDefinitions": [{"Name": "loss", "Regex": "x"}],
        },
        ResourceConfig={
            "InstanceType": "ml.m5.large",
            "InstanceCount": 3,
            "VolumeSizeInGB": 50,
            "VolumeKmsKeyId": "disk",
            "KeepAlivePeriodInSeconds": 60,
        },
        HyperParameters={"lr": "1"},
        InputDataConfig=[{"ChannelName": "train"}],
        Environment={"SECRET": "of the job"},
        EnableManagedSpotTraining=True,
        StoppingCondition={"MaxRuntimeInSeconds": 60, "MaxWaitTimeInSeconds": 90},
        RetryStrategy={"MaximumRetryAttempts": 3},
        Tags=[{"Key": "priority", "Value": "5"}, {"Key": "own", "Value": "of the job"}],
    )
    assert made(asked) == {
        **SHARED,
        "TrainingJobName": node().training_job,
        "RoleArn": asked["RoleArn"],
        "AlgorithmSpecification": {
            "TrainingImage": "image",
            "TrainingImageConfig": {"TrainingRepositoryAccessMode": "Vpc"},
            "TrainingInputMode": "File",
            "ContainerEntrypoint": ["python3", "-c", "agent"],
        },
        "ResourceConfig": {
            "InstanceType": TYPE,
            "InstanceCount": 1,
            "VolumeSizeInGB": 50,
            "VolumeKmsKeyId": "disk",
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": 28 * 86_400},
        "EnableManagedSpotTraining": False,
        "Environment": {"SLOTQ_NODE": "node-1"},
        "Tags": [
            {"Key": "slotq:project", "Value": "vision"},
            {"Key": "slotq:job", "Value": "node:p/node-1"},
            {"Key": "slotq:attempt", "Value": "7"},
            {"Key": "slotq:token", "Value": token_in_tags("secret")},
            {"Key": "slotq:queue", "Value": "mine"},
        ],
    }


def test_a_node_has_the_tags_that_all_of_its_jobs_have() -> None:
    tags = [{"Key": "cost-center", "Value": "4711"}]
    asked = request(Tags=[{"Key": "own", "Value": "of the job"}])
    found = node_request(asked, node(), LAUNCH, instance_type=TYPE, queue="mine", tags=tags)["Tags"]
    assert found == [*tags, *made(request())["Tags"]]


def test_a_node_of_every_project_bears_none() -> None:
    keys = [tag["Key"] for tag in made(request(), project="")["Tags"]]
    assert "slotq:project" not in keys
    assert "secret" not in str(made(request()))


def create(world: World, this: Node) -> Verdict:
    answer = world.training.create_node(request(), this, LAUNCH, instance_type=TYPE)
    return answer.verdict


def test_a_repeated_create_of_a_node_is_recognised_by_its_token() -> None:
    world = World()
    assert create(world, node()) is Verdict.OK
    assert create(world, node()) is Verdict.ALREADY_DONE
    assert create(world, node(token="of another")) is Verdict.NAME_TAKEN


def test_a_refusal_after_a_lost_answer_is_no_refusal() -> None:
    world = World(lose_answers=1)
    assert create(world, node()) is Verdict.RETRY
    world.plane.knobs.refuse_creates = 1
    assert create(world, node()) is Verdict.ALREADY_DONE


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        ("ResourceLimitExceeded", Verdict.OTHER_QUOTA),
        ("ValidationException", Verdict.FAIL),
        ("ThrottlingException", Verdict.RETRY),
    ],
)
def test_refusals_of_a_node_are_those_of_a_job(code: str, verdict: Verdict) -> None:
    world = World()
    world.client = Failing(client_error(code, "no"))  # type: ignore[assignment]
    assert create(world, node()) is verdict


def test_a_request_without_an_image_is_an_answer_and_no_crash() -> None:
    answer = World().training.create_node({}, node(), LAUNCH, instance_type=TYPE)
    assert answer.verdict is Verdict.RETRY
