"""boto3 alone, with the queue and real processes: submit, evict, resume, describe, finish."""

from __future__ import annotations

import boto3
import pytest
from botocore.exceptions import ClientError

import slotq
from slotq_core.names import LOG_GROUP
from tests.e2e.waiting import until
from tests.log_readers import ReaderByTime

SCRIPT = """
cd /opt/ml/checkpoints
step=$(cat step 2>/dev/null || echo 0)
echo "goes on from step $step"
last=$(($1))
while [ $step -lt $last ]; do
  step=$((step + 1)); echo $step > new; mv new step; echo "step $step"; sleep 0.1
done
cp step /opt/ml/model/result
"""
"""The checkpoint is renamed into place. A script stopped while writing leaves the last whole one,
never an empty file."""
ENDLESS = 1_000_000
"""Steps of a job that runs until it is stopped, on the slowest machine too."""
STOPPED_ONCE = f"step ? step + 5 : {ENDLESS}"
"""Steps of a job that runs until it is stopped, and five more when it runs again."""


def request(aws, name, steps, **changes):
    return {
        "TrainingJobName": name,
        "AlgorithmSpecification": {
            "TrainingImage": "none",
            "TrainingInputMode": "File",
            "ContainerEntrypoint": ["sh", "-c", SCRIPT, "train", str(steps)],
        },
        "RoleArn": "arn:aws:iam::123456789012:role/slotq-local",
        "OutputDataConfig": {"S3OutputPath": f"s3://{aws.bucket}/models"},
        "CheckpointConfig": {"S3Uri": f"s3://{aws.bucket}/{name}/checkpoints"},
        "ResourceConfig": {
            "InstanceType": "ml.p5.48xlarge",
            "InstanceCount": 1,
            "VolumeSizeInGB": 1,
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": 600},
        **changes,
    }


@pytest.fixture
def session(aws):
    return boto3.Session()


def log_of(session, name):
    """Read the log from its start until now: nothing while the job has not written a line."""
    logs = session.client("logs")
    try:
        found = logs.describe_log_streams(logGroupName=LOG_GROUP, logStreamNamePrefix=f"{name}/")
    except logs.exceptions.ResourceNotFoundException:
        return []  # The group comes with the account's first line.
    if not found["logStreams"]:
        return []
    (stream,) = found["logStreams"]
    lines, token = [], {}
    while True:
        page = logs.get_log_events(
            logGroupName=LOG_GROUP,
            logStreamName=stream["logStreamName"],
            startFromHead=True,
            **token,
        )
        lines += [event["message"] for event in page["events"]]
        if token == {"nextToken": page["nextForwardToken"]}:
            return lines
        token = {"nextToken": page["nextForwardToken"]}


def evicted_and_resumed(lines):
    """The whole log of low, of STOPPED_ONCE steps, evicted for high."""
    first, second = (n for n, line in enumerate(lines) if line.startswith("goes on from"))
    assert lines[first] == "goes on from step 0"
    saved = int(lines[second].removeprefix("goes on from step "))
    assert saved > 0
    assert lines[second - 1] == "slotq: low: attempt 1 was evicted for high"
    steps = [line for line in lines[second:] if line.startswith("step ")]
    assert steps == [f"step {saved + more}" for more in range(1, 6)]
    assert lines[-1] == "slotq: low: completed after 2 attempts, evicted 1 time"


def test_a_job_is_evicted_resumes_and_completes(aws, session):
    queue = slotq.install(session, priority=1)
    sagemaker = session.client("sagemaker")
    made = sagemaker.create_training_job(**request(aws, "low", STOPPED_ONCE))
    assert made["TrainingJobArn"].endswith(":123456789012:training-job/low")
    until(lambda: queue.jobs.view("low").state == "running", "low does not run")
    until(lambda: "step 5" in log_of(session, "low"), "low does nothing")

    slotq.install(session, priority=5)
    session.client("sagemaker").create_training_job(**request(aws, "high", ENDLESS))
    shown = sagemaker.describe_training_job(TrainingJobName="low")
    assert shown["TrainingJobStatus"] == "InProgress"
    until(lambda: queue.jobs.view("low").state == "preempted", "low was not evicted")
    shown = sagemaker.describe_training_job(TrainingJobName="low")
    assert (shown["TrainingJobStatus"], shown["SecondaryStatus"]) == ("InProgress", "Pending")
    assert "evicted for high" in log_of(session, "low")[-1]
    queue.jobs.cancel("high")

    waiter = sagemaker.get_waiter("training_job_completed_or_stopped")
    waiter.wait(TrainingJobName="low", WaiterConfig={"Delay": 1, "MaxAttempts": 60})
    shown = sagemaker.describe_training_job(TrainingJobName="low")
    assert (shown["TrainingJobName"], shown["TrainingJobStatus"]) == ("low", "Completed")
    last = queue.jobs.view("low").attempts[-1]
    assert shown["TrainingJobArn"].endswith(f"/{last.training_job}")
    assert shown["ModelArtifacts"]["S3ModelArtifacts"] == last.artifact
    lines = log_of(session, "low")
    evicted_and_resumed(lines)
    rows = sagemaker.list_training_jobs(NameContains="low")["TrainingJobSummaries"]
    statuses = {row["TrainingJobName"]: row["TrainingJobStatus"] for row in rows}
    assert statuses == {"low": "Completed", last.training_job: "Completed"}
    assert ReaderByTime(session.client("logs"), "low", empties=3).look() == lines[:-1]

    sagemaker.delete_training_job(TrainingJobName="low")
    rows = sagemaker.list_training_jobs(NameContains="low")["TrainingJobSummaries"]
    assert rows == [], "of neither attempt"
    with pytest.raises(ClientError, match="not found"):
        sagemaker.describe_training_job(TrainingJobName="low")
    with pytest.raises(ClientError, match="not found"):
        sagemaker.delete_training_job(TrainingJobName="low")
    assert queue.jobs.view("low").state == "completed"


def test_a_waiting_job_answers_every_call(aws, session):
    queue = slotq.install(session)
    sagemaker = session.client("sagemaker")
    sagemaker.create_training_job(**request(aws, "first", ENDLESS))
    tags = [{"Key": "team", "Value": "vision"}]
    sagemaker.create_training_job(**request(aws, "second", 5, Tags=tags))
    until(lambda: queue.jobs.view("first").state == "running", "first does not run")

    anew = boto3.Session()  # another process, which has submitted nothing
    slotq.install(anew)
    other = anew.client("sagemaker")
    shown = other.describe_training_job(TrainingJobName="second")
    assert shown["RoleArn"].endswith("role/slotq-local")
    arn = shown["TrainingJobArn"]
    assert other.list_tags(ResourceArn=arn)["Tags"] == tags
    added = other.add_tags(ResourceArn=arn, Tags=[{"Key": "run", "Value": "7"}])
    assert {"Key": "run", "Value": "7"} in added["Tags"]
    assert sagemaker.list_tags(ResourceArn=arn)["Tags"] == [*tags, {"Key": "run", "Value": "7"}]
    rows = other.get_paginator("list_training_jobs").paginate(PaginationConfig={"PageSize": 1})
    names = [row["TrainingJobName"] for page in rows for row in page["TrainingJobSummaries"]]
    assert names[-2:] == ["first", "second"], "in the order of their creation"
    assert sorted(names) == sorted(set(names))

    other.stop_training_job(TrainingJobName="second")
    assert other.describe_training_job(TrainingJobName="second")["TrainingJobStatus"] == "Stopped"
    for order in ("Ascending", "Descending"):
        page = other.list_training_jobs(StatusEquals="Stopped", SortOrder=order, MaxResults=100)
        stopped = [row["TrainingJobName"] for row in page["TrainingJobSummaries"]]
        assert "second" in stopped, "although it never had a training job"
    queue.jobs.cancel("first")
    until(lambda: queue.jobs.view("first").state == "cancelled", "first was not cancelled")
    with pytest.raises(ClientError, match="cancelled") as raised:
        other.add_tags(ResourceArn=arn, Tags=tags)
    assert raised.value.response["Error"]["Code"] == "ValidationException"


def test_a_refusal_raises_from_the_call(aws, session):
    slotq.install(session)
    sagemaker = session.client("sagemaker")
    large = {"InstanceType": "ml.p5.48xlarge", "InstanceCount": 9, "VolumeSizeInGB": 1}
    with pytest.raises(ClientError, match="more than any of its pools"):
        sagemaker.create_training_job(**request(aws, "large", 1, ResourceConfig=large))
    sagemaker.create_training_job(**request(aws, "twice", 1))
    with pytest.raises(sagemaker.exceptions.ResourceInUse):
        sagemaker.create_training_job(**request(aws, "twice", 2))


def test_an_earlier_client_is_unchanged(aws, session):
    before = session.client("sagemaker")
    queue = slotq.install(session)
    before.create_training_job(**request(aws, "past-the-queue", 1))
    assert "past-the-queue" not in [job.name for job in queue.jobs()]
