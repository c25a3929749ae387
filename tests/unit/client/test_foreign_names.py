"""A name that a training job outside the queue has: the client says so before it submits."""

from __future__ import annotations

import json

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from moto import mock_aws

import slotq as package
from slotq.cli.exits import ExitCode
from slotq.errors import CannotReach, NameTaken, NoSuchJob
from slotq.jobs.foreign_names import ForeignNames
from tests.unit.client.fake_aws import REQUEST, FakeSageMaker, FakeServices, refused
from tests.unit.client.fake_queue import FakeHttp, FakeQueue, client_of, waiting


class Queue:
    def __init__(self, *names, trouble=None):
        self.names, self.trouble = names, trouble

    def view(self, name):
        if self.trouble is not None:
            raise self.trouble
        if name not in self.names:
            raise NoSuchJob(f"there is no job '{name}'", field="name")
        return waiting(1, name=name)


def names(sagemaker, queue=None):
    return ForeignNames(queue or Queue(), lambda _: sagemaker)


def test_a_name_that_only_sagemaker_knows_is_taken():
    with pytest.raises(NameTaken, match="not from this queue"):
        names(FakeSageMaker("theirs")).check("theirs")


def test_a_free_name_and_the_queues_own_are_left_to_the_queue():
    found = names(FakeSageMaker("ours"), Queue("ours"))
    found.check("ours")
    found.check("free")
    found.check(None)


@pytest.mark.parametrize(
    ("trouble", "asked"),
    [
        (refused("DescribeTrainingJob", "AccessDeniedException"), 1),
        (EndpointConnectionError(endpoint_url="https://api.sagemaker"), 1),
        (refused("DescribeTrainingJob", "ThrottlingException"), 3),
    ],
)
def test_trouble_with_the_look_is_silent(trouble, asked):
    """What is sure to happen again is not tried again."""
    sagemaker = FakeSageMaker("theirs", trouble=trouble)
    found = names(sagemaker)
    for _ in range(3):
        found.check("theirs")
    assert len(sagemaker.asked) == asked


def test_a_queue_that_does_not_answer_is_left_to_the_submission():
    names(FakeSageMaker("theirs"), Queue(trouble=CannotReach("no"))).check("theirs")


def test_the_command_says_so_and_submits_nothing(slotq, queue):
    world = {"aws": FakeServices(sagemaker=FakeSageMaker("new"))}
    request = json.dumps(REQUEST | {"TrainingJobName": "new"})
    result = slotq("submit", "-", input=request, world=world)
    assert result.exit_code == ExitCode.NO
    assert "not from this queue" in result.output
    assert not queue.requests
    assert slotq("submit", "-", "--again", input=request, world=world).exit_code == ExitCode.OK
    assert list(queue.requests) == ["new-r2"]


def test_boto3_gets_the_error_of_sagemaker():
    with mock_aws():
        aws, queue = boto3.Session(), FakeQueue()
        aws.client("sagemaker").create_training_job(**REQUEST)
        package.install(aws, queue=client_of(FakeHttp(queue)), endpoint="https://queue.test/prod")
        with pytest.raises(ClientError, match="not from this queue") as raised:
            aws.client("sagemaker").create_training_job(**REQUEST)
        assert raised.value.response["Error"]["Code"] == "ResourceInUse"
        assert not queue.requests
