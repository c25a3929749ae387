"""The estimator of the article that this queue began with, unchanged, with SageMaker's SDK v2: it
keeps its instance warm for a minute, and the next one starts there."""

from __future__ import annotations

import boto3
import pytest

pytest.importorskip("sagemaker.estimator", reason="the sagemaker2 extra is not installed")

from sagemaker.pytorch import PyTorch

from slotq import QueueClient, QueueTrainingJobSession
from slotq.demo.play import quiet
from tests.e2e.waiting import until


@pytest.fixture
def source(tmp_path, monkeypatch):
    """The working directory, with a `train.py`."""
    (tmp_path / "train.py").write_text('print("trained")\n')
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def keep_warm():
    """Sets the pool's `keep_warm`, and takes that back."""
    queue = QueueClient()
    yield lambda seconds: queue.pools.set("one", {"keep_warm": seconds})
    queue.pools.set("one", {"keep_warm": None})


def run(aws, number):
    estimator = PyTorch(
        role="arn:aws:iam::123456789012:role/trainer",
        entry_point="train.py",
        instance_type="ml.p5.48xlarge",
        instance_count=1,
        framework_version="2.0.1",
        py_version="py310",
        tags=[{"Key": "priority", "Value": "100"}],
        keep_alive_period_in_seconds=60,  # keep warm for 1 minute
        # use our custom Session class
        sagemaker_session=QueueTrainingJobSession(),
    )
    with quiet():
        estimator.fit(wait=False)
    job = estimator.latest_training_job.name
    queue = QueueClient()
    until(lambda: queue.jobs.view(job).state == "completed", f"job {number} has not completed")
    return queue.jobs.view(job).attempts[-1]


@pytest.mark.parametrize(
    ("seconds", "kept"),
    [(None, 60), (600, 60), (0, None)],
    ids=["no keep_warm", "more", "none"],
)
def test_two_in_a_row_get_one_instance(aws, source, keep_warm, seconds, kept):
    keep_warm(seconds)
    attempts = [run(aws, number) for number in (1, 2)]
    sagemaker = boto3.client("sagemaker")
    found = [sagemaker.describe_training_job(TrainingJobName=it.training_job) for it in attempts]
    asked = [it["ResourceConfig"].get("KeepAlivePeriodInSeconds") for it in found]
    assert asked == [kept, kept]
    assert [it.get("EnableManagedSpotTraining", False) for it in found] == [False, False]
    assert attempts[1].warm == (kept is not None)
    first = found[0].get("WarmPoolStatus", {})
    if kept is None:
        assert not first
    else:
        assert (first["Status"], first["ReusedByJob"]) == ("Reused", attempts[1].training_job)
