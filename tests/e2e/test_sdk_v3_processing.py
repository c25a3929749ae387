"""SageMaker's SDK v3 and processing jobs behind the queue: submitted, followed, completed."""

from __future__ import annotations

import boto3
import pytest

pytest.importorskip("sagemaker.core.processing", reason="the sagemaker3 extra is not installed")

from sagemaker.core.processing import Processor

from slotq import QueueClient, QueueTrainingJobSession
from tests.emulators import emulator

M5 = "ml.m5.xlarge"


@pytest.fixture(scope="module")
def aws():
    with emulator(f"data=1@{M5};work=processing") as endpoint:
        yield endpoint


@pytest.mark.parametrize("logs", [True, False])
def test_a_processor_runs_through_the_queue(aws, said, logs):
    name = f"clean-{logs}".lower()
    session = QueueTrainingJobSession(boto3.Session(), say=said.append, processing=True)
    processor = Processor(
        role="arn:aws:iam::123456789012:role/trainer",
        image_uri="123456789012.dkr.ecr.us-east-1.amazonaws.com/clean:1",
        entrypoint=["python3", "-c", "print('cleaned')"],
        instance_count=1,
        instance_type=M5,
        sagemaker_session=session,
    )
    processor.run(job_name=name, wait=True, logs=logs)
    job = QueueClient().jobs.view(f"processing:{name}")
    assert (job.state, job.pools) == ("completed", ["data"])
    assert any(f"processing:{name}: in the queue" in line for line in said)
