"""A pipeline with a QueueStep in the SDK's own local session: its job goes through the queue, as a
real process. `make journeys` runs this with version 2 of the SDK, `make test-sagemaker3` with 3."""

from __future__ import annotations

from typing import Any

import boto3
import pytest

from slotq import QueueClient
from slotq.session.installed_sdk import sdk_version
from tests.e2e.waiting import in_background, until

try:
    VERSION = sdk_version()
except ImportError:
    pytest.skip("no SageMaker SDK is installed", allow_module_level=True)

# Version 3 makes a client for the default region when it is imported.
with pytest.MonkeyPatch.context() as region:
    region.setenv("AWS_DEFAULT_REGION", "us-east-1")
    from slotq.pipelines import QueueStep
    from slotq.pipelines.sdk import local_pipeline_session

    if VERSION == 2:
        from sagemaker.estimator import Estimator
        from sagemaker.workflow.fail_step import FailStep
        from sagemaker.workflow.functions import Join
        from sagemaker.workflow.parameters import ParameterString
        from sagemaker.workflow.pipeline import Pipeline
    else:
        from sagemaker.core.shapes import CheckpointConfig, OutputDataConfig
        from sagemaker.core.training.configs import Compute, SourceCode
        from sagemaker.core.workflow.functions import Join
        from sagemaker.core.workflow.parameters import ParameterString
        from sagemaker.mlops.workflow.fail_step import FailStep
        from sagemaker.mlops.workflow.pipeline import Pipeline
        from sagemaker.train import ModelTrainer

ROLE = "arn:aws:iam::123456789012:role/slotq-local"
IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/train:1"


@pytest.fixture(autouse=True)
def no_telemetry(monkeypatch):
    sender = {
        2: "sagemaker.telemetry.telemetry_logging._send_telemetry_request",
        3: "sagemaker.core.telemetry.telemetry_logging._send_telemetry_request",
    }
    monkeypatch.setattr(sender[VERSION], lambda *args, **kwargs: None)


@pytest.fixture
def session(aws):
    return local_pipeline_session()(boto3.Session(), default_bucket=aws.bucket)


def trains(
    session: Any, script: Any, place: Any, *, entry: str = "train.py", steps: Any = 20
) -> Any:
    """An estimator, or a trainer, whose model goes to this place."""
    checkpoints = f"s3://{session.default_bucket()}/pipeline/checkpoints"
    hyperparameters = {"steps": steps, "step-seconds": 0.1}
    if VERSION == 2:
        return Estimator(
            IMAGE,
            role=ROLE,
            instance_count=1,
            instance_type="ml.p5.48xlarge",
            source_dir=str(script),
            entry_point=entry,
            hyperparameters=hyperparameters,
            checkpoint_s3_uri=checkpoints,
            output_path=place,
            sagemaker_session=session,
        )
    return ModelTrainer(
        training_image=IMAGE,
        role=ROLE,
        compute=Compute(instance_type="ml.p5.48xlarge", instance_count=1),
        source_code=SourceCode(source_dir=str(script), entry_script=entry),
        hyperparameters=hyperparameters,
        checkpoint_config=CheckpointConfig(s3_uri=checkpoints),
        output_data_config=OutputDataConfig(s3_output_path=place),
        sagemaker_session=session,
    )


def run(session: Any, *steps: Any, **values: str) -> Any:
    """Run a pipeline of these steps locally; returns its execution."""
    parameters = [ParameterString(name) for name in values]
    pipeline = Pipeline("weekly", steps=[*steps], parameters=parameters, sagemaker_session=session)
    if VERSION == 2:
        pipeline.create(ROLE)
        return pipeline.start(parameters=values)
    session.create_pipeline(pipeline, "tried locally")
    return session.start_pipeline_execution("weekly", PipelineParameters=values)


def test_a_local_pipeline_trains_through_the_queue_and_its_model_goes_on(aws, script, session):
    """Evicted for a more urgent job, and resumed, as any job."""
    place = Join(on="/", values=["s3:/", ParameterString("Bucket"), "models"])
    step = QueueStep("train", trains(session, script, place, entry="waits.py"), priority=1)
    after = FailStep("tells", error_message=Join(on="", values=["model ", step.outputs["model"]]))
    executions: list[Any] = []
    join = in_background(lambda: executions.append(run(session, step, after, Bucket=aws.bucket)))
    queue = QueueClient()

    def named() -> list[str]:
        return [job.name for job in queue.jobs() if job.name.startswith("train-")]

    until(lambda: named() and queue.jobs.view(named()[0]).state == "running", "it does not run")
    (name,) = named()
    s3 = boto3.client("s3")
    until(
        lambda: s3.list_objects_v2(Bucket=aws.bucket, Prefix="pipeline/checkpoints").get(
            "Contents"
        ),
        "it has no checkpoint",
    )
    queue.jobs.requeue(name)
    assert join() is None
    failure = executions[0].failure_reason
    job = queue.jobs.view(name)
    assert job.state == "completed", failure
    assert len(job.attempts) == 2
    assert job.priority == 1
    assert f"model s3://{aws.bucket}/models/" in failure


def test_a_failed_job_fails_the_step_with_its_reason(aws, script, session):
    place = f"s3://{aws.bucket}/models"
    step = QueueStep("broken", trains(session, script, place, steps="none"))
    execution = run(session, step)
    assert execution.status == "Failed"
    assert "is failed: " in execution.failure_reason


def test_in_another_local_session_no_job_runs_past_the_queue(aws, script, session):
    other = local_pipeline_session()(boto3.Session(), default_bucket=aws.bucket)
    step = QueueStep("past", trains(session, script, f"s3://{aws.bucket}/models"))
    execution = run(other, step)
    assert execution.status == "Failed"
    assert "TypeError" in execution.failure_reason
    assert [job.name for job in QueueClient().jobs() if job.name.startswith("past-")] == []
