"""The session under the real SageMaker SDK v3, over a fake queue and moto's AWS.

Run by `make test-sagemaker3`; skipped where that SDK is not.
"""

from __future__ import annotations

import subprocess
import sys

import boto3
import pytest
from moto import mock_aws

pytest.importorskip("sagemaker.train", reason="the sagemaker3 extra is not installed")

from sagemaker.core.resources import Tag, TrainingJob
from sagemaker.core.shapes import (
    AlgorithmSpecification,
    OutputDataConfig,
    ResourceConfig,
    StoppingCondition,
)
from sagemaker.core.utils.utils import SageMakerClient

from slotq import QueueTrainingJobSession
from slotq.errors import NotConfigured
from slotq.session import sdk_version
from tests.unit.client.fake_queue import FakeHttp, FakeQueue, client_of


@pytest.fixture
def aws():
    with mock_aws():
        yield boto3.Session()


@pytest.fixture
def queue():
    return FakeQueue()


@pytest.fixture
def said():
    return []


@pytest.fixture
def session(aws, queue, said):
    def make(boto_session=aws, say=said.append, **settings):
        return QueueTrainingJobSession(
            boto_session,
            queue=client_of(FakeHttp(queue)),
            endpoint="https://queue.test/prod",
            say=say,
            **settings,
        )

    return make


def create(session, name="job1", **more):
    """As ModelTrainer.train does it."""
    return TrainingJob.create(
        session=session.boto_session,
        training_job_name=name,
        role_arn="arn:aws:iam::123456789012:role/trainer",
        algorithm_specification=AlgorithmSpecification(
            training_image="train:1", training_input_mode="File"
        ),
        output_data_config=OutputDataConfig(s3_output_path="s3://out"),
        resource_config=ResourceConfig(
            instance_type="ml.p5.48xlarge", instance_count=1, volume_size_in_gb=30
        ),
        stopping_condition=StoppingCondition(max_runtime_in_seconds=60),
        **more,
    )


def tags_of(request):
    return {tag["Key"]: tag["Value"] for tag in request["Tags"]}


def test_this_is_version_3():
    assert sdk_version() == 3


def test_a_job_is_submitted_with_the_sessions_settings(session, queue, said):
    job = create(session(priority=5, pools=["p5", "p4"]))
    assert tags_of(queue.requests["job1"]) == {"priority": "5", "slotq:pools": "p5,p4"}
    assert (job.training_job_status, job.secondary_status) == ("InProgress", "Pending")
    assert said == ["job1: in the queue with priority 5"]


def test_the_trainers_own_tag_wins(session, queue):
    create(session(priority=5), tags=[Tag(key="priority", value="9")])
    assert tags_of(queue.requests["job1"]) == {"priority": "9"}


def test_it_is_refreshed_and_stopped_in_the_queue(session, queue):
    job = create(session())
    job.stop()
    assert queue.jobs["job1"].state == "cancelled"
    assert job.refresh().training_job_status == "Stopped"


@pytest.fixture
def interrupted(monkeypatch):
    """Ctrl-C as soon as the SDK pauses between two looks."""

    def press(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("sagemaker.core.resources.time.sleep", press)


@pytest.mark.usefixtures("interrupted")
def test_ctrl_c_leaves_the_job_in_the_queue_and_says_how_to_cancel_it(session, queue, said):
    session(boto3.Session())  # Another one, and a second wrapping, change nothing.
    job = create(session())
    with pytest.raises(KeyboardInterrupt):
        job.wait(poll=1)
    assert queue.jobs["job1"].state == "pending"
    (said_last,) = said[1:]
    assert said_last == (
        "job1: no longer watched, but still in the queue. To cancel it: `slotq cancel job1` or "
        'session.queue.cancel("job1"); to watch it again: `slotq watch job1`'
    )


@pytest.mark.usefixtures("interrupted")
def test_of_several_sessions_the_one_that_was_asked_last_says_it(session, said):
    told_before: list[str] = []
    job = create(session(say=told_before.append))
    session()
    with pytest.raises(KeyboardInterrupt):
        job.wait(poll=1)
    assert len(told_before) == 1, "of the submission"
    assert "no longer watched" in said[-1]


def test_ctrl_c_says_nothing_of_a_job_that_is_not_the_queues(session, said, monkeypatch):
    def interrupted(self):
        raise KeyboardInterrupt

    job = create(session())
    said.clear()
    monkeypatch.setattr(TrainingJob, "refresh", interrupted)
    job.training_job_name = "elsewhere"
    with pytest.raises(KeyboardInterrupt):
        job.wait(poll=1)
    assert said == []


def test_a_client_that_the_sdk_made_before_does_not_go_past_the_queue(session, queue, aws):
    SageMakerClient(session=aws)
    create(session())
    assert "job1" in queue.requests


def test_a_job_asked_for_without_a_session_is_the_queues_too(session):
    SageMakerClient.reset()
    SageMakerClient()  # Made first, it is the one that the SDK takes where none is named.
    create(session(boto3.Session()))
    assert TrainingJob.get("job1").secondary_status == "Pending"


def test_each_session_has_its_own_settings(session, queue):
    """Where the SDK has a client for each session (from sagemaker-core 2.21 on)."""
    if SageMakerClient(session=boto3.Session()) is SageMakerClient(session=boto3.Session()):
        pytest.skip("this SDK has one client for the whole process")
    first, second = session(priority=1), session(boto3.Session(), priority=2)
    create(second, "job2")
    create(first, "job1")
    assert tags_of(queue.requests["job1"]) == {"priority": "1"}
    assert tags_of(queue.requests["job2"]) == {"priority": "2"}


def test_without_an_endpoint_it_fails_before_anything_is_done(aws):
    with pytest.raises(NotConfigured, match="SLOTQ_ENDPOINT"):
        QueueTrainingJobSession(aws)


def test_slotq_itself_does_not_import_the_sdk():
    code = (
        "import slotq, sys, slotq.cli.main, slotq.client, slotq.installation, slotq.session\n"
        "sys.exit('sagemaker.core' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
