"""The SageMaker SDK v3 itself, the queue and real processes: submitted, evicted, resumed, done.

Run by `make test-sagemaker3`, in an environment of its own: both majors are one distribution.
"""

from __future__ import annotations

import logging

import boto3
import pytest
from botocore.exceptions import ClientError

pytest.importorskip("sagemaker.train", reason="the sagemaker3 extra is not installed")

from sagemaker.core.parameter import CategoricalParameter, IntegerParameter
from sagemaker.core.resources import TrainingJob
from sagemaker.core.shapes import (
    BestObjectiveNotImproving,
    CheckpointConfig,
    HyperbandStrategyConfig,
    HyperParameterTuningJobStrategyConfig,
    OutputDataConfig,
    Tag,
    TuningJobCompletionCriteria,
)
from sagemaker.core.training.configs import Compute, SourceCode
from sagemaker.core.utils.exceptions import FailedStatusError
from sagemaker.train import ModelTrainer
from sagemaker.train.tuner import HyperparameterTuner

from slotq import QueueClient, QueueTrainingJobSession
from slotq.demo.job.train import begin, improve
from slotq.demo.proof import Evidence
from slotq.errors import InvalidRequest
from tests.e2e.waiting import in_background, until


@pytest.fixture(autouse=True)
def no_telemetry(monkeypatch):
    sender = "sagemaker.core.telemetry.telemetry_logging._send_telemetry_request"
    monkeypatch.setattr(sender, lambda *args, **kwargs: None)


@pytest.fixture
def trainer(aws, script, said):
    session = QueueTrainingJobSession(boto3.Session(), say=said.append)

    def make(name, *, steps, priority, entry="train.py", **settings):
        given = {
            "role": "arn:aws:iam::123456789012:role/slotq-local",
            "compute": Compute(instance_type="ml.p5.48xlarge", instance_count=1),
            "source_code": SourceCode(source_dir=str(script), entry_script=entry),
            "hyperparameters": {"steps": steps, "step-seconds": 0.1},
            "checkpoint_config": CheckpointConfig(s3_uri=f"s3://{aws.bucket}/{name}/checkpoints"),
            "output_data_config": OutputDataConfig(s3_output_path=f"s3://{aws.bucket}/models"),
            "tags": [Tag(key="priority", value=str(priority))],
        }
        image = "123456789012.dkr.ecr.us-east-1.amazonaws.com/train:1"
        return ModelTrainer(
            training_image=image,
            sagemaker_session=session,
            base_job_name=name,
            **(given | settings),
        )

    return make


def submitted(name):
    """The job's name, as chosen by the SDK."""
    found = [job.name for job in QueueClient().jobs() if job.name.startswith(f"{name}-")]
    return found[0] if found else None


def test_the_trainers_of_a_batch_are_submitted_together(aws, trainer, said):
    first, second = (trainer(f"many{number}", steps=1, priority=2) for number in (1, 2))
    second.sagemaker_session = first.sagemaker_session
    with first.sagemaker_session.batch() as batch:
        for each in (first, second):
            each.train(wait=False, logs=False)
        assert submitted("many1") is None
    names = [job.name for job in batch.jobs]
    assert names == [submitted("many1"), submitted("many2")]
    queue = QueueClient()
    until(lambda: {queue.get(name).state for name in names} == {"completed"}, "not completed")
    assert any(line.startswith(f"{names[1]}: in the queue") for line in said)


def test_a_train_waits_is_evicted_resumes_and_completes(aws, trainer, said, caplog):
    caplog.set_level(logging.INFO)
    queue, evidence = QueueClient(), Evidence("low", aws.bucket)
    low = trainer("low", steps=100, priority=1, entry="waits.py")
    join = in_background(low.train)
    until(lambda: evidence.checkpoint("low") is not None, "low has no checkpoint")

    high = trainer("high", steps=20, priority=5)
    high.train(wait=False, logs=False)
    until(lambda: queue.jobs.view(submitted("high")).state == "completed", "high has not completed")
    assert join() is None

    job = queue.jobs.view(submitted("low"))
    assert [attempt.outcome for attempt in job.attempts] == ["evicted", "completed"]
    assert job.attempts[0].stopped_for == submitted("high")
    first, last = (attempt.training_job for attempt in job.attempts)
    stopped, resumed = max(evidence.steps(first)), evidence.resumed_from(last)
    assert resumed is not None
    assert 0 < resumed <= stopped < 100
    assert evidence.steps(last) == list(range(resumed + 1, 101))

    shown = low._latest_training_job
    assert shown.training_job_status == "Completed"
    assert shown.training_job_name == job.name
    weights = begin()
    for step in range(100):
        weights, _ = improve(weights, step)
    model = evidence.model(shown.model_artifacts.s3_model_artifacts)
    assert model == weights

    text = caplog.text
    assert f"slotq: {job.name}: running in pool one (attempt 1: {first})" in text
    assert f"evicted for {submitted('high')}" in text
    assert f"running in pool one (attempt 2: {last})" in text
    assert f"checkpoint found: goes on from step {resumed}" in text
    assert text.count("step 100 loss") == 1
    assert said[0] == f"{job.name}: in the queue with priority 1"


def test_a_failure_raises_with_its_message(trainer, caplog):
    caplog.set_level(logging.INFO)
    bad = trainer("bad", steps=10, priority=1, hyperparameters={"steps": "none"})
    with pytest.raises(FailedStatusError, match="exit code"):
        bad.train()
    assert "invalid int value" in caplog.text


def test_a_waiting_job_is_read_tagged_listed_and_stopped(trainer):
    queue = QueueClient()
    first = trainer("first", steps=2000, priority=1)
    first.train(wait=False, logs=False)
    second = trainer("second", steps=10, priority=1)
    second.train(wait=False, logs=False)
    name = submitted("second")
    until(lambda: queue.jobs.view(submitted("first")).state == "running", "first does not run")

    aws = second.sagemaker_session.boto_session
    found = TrainingJob.get(training_job_name=name, session=aws)
    assert (found.training_job_status, found.secondary_status) == ("InProgress", "Pending")
    assert found.hyper_parameters["steps"] == "10"
    client = aws.client("sagemaker")
    assert {"Key": "priority", "Value": "1"} in client.list_tags(
        ResourceArn=found.training_job_arn
    )["Tags"]
    listed = client.list_training_jobs(NameContains="second")["TrainingJobSummaries"]
    assert [(row["TrainingJobName"], row["SecondaryStatus"]) for row in listed] == [
        (name, "Pending")
    ]
    found.stop()
    assert queue.jobs.view(name).state == "cancelled"
    found.wait(poll=1)
    assert found.training_job_status == "Stopped"
    first._latest_training_job.stop()
    until(
        lambda: queue.jobs.view(submitted("first")).state == "cancelled", "first was not cancelled"
    )


def test_a_refusal_says_what_to_change(trainer):
    wrong = trainer("refused", steps=1, priority=1, tags=[Tag(key="priority", value="1.5")])
    with pytest.raises(ClientError, match="or an integer from") as raised:
        wrong.train(wait=False)
    assert raised.value.response["Error"]["Code"] == "ValidationException"
    assert submitted("refused") is None


def tuner(trainer, **settings):
    ranges = {"steps": IntegerParameter(2, 4), "step-seconds": CategoricalParameter([0.01, 0.02])}
    given = {
        "objective_metric_name": "loss",
        "objective_type": "Minimize",
        "strategy": "Random",
        "metric_definitions": [{"Name": "loss", "Regex": "loss ([0-9.]+)"}],
        "max_jobs": 2,
        "max_parallel_jobs": 1,
        "tags": {"team": "vision"},
    }
    return HyperparameterTuner(trainer, hyperparameter_ranges=ranges, **(given | settings))


def test_a_tuner_is_a_sweep_by_one_changed_line(trainer):
    of = trainer("tuned", steps=9, priority=3)
    sweep = of.sagemaker_session.sweep(tuner(of), name="tuned")
    sweep.wait(say=lambda _: None, poll=0.5)
    assert sweep.states == {"completed": 2}
    assert sweep.best().objective is not None
    queue = QueueClient()
    for trial in sweep.results():
        assert 2 <= int(trial.parameters["steps"]) <= 4
        assert trial.parameters["step-seconds"] in {"0.01", "0.02"}
        tags = {tag["Key"]: tag["Value"] for tag in queue.jobs.request(trial.job)["Tags"]}
        assert {"priority": "3", "team": "vision"}.items() <= tags.items()


def test_what_a_sweep_cannot_do_is_refused_by_the_tuners_word(trainer):
    of = trainer("refused", steps=9, priority=1)
    hyperband = HyperbandStrategyConfig(min_resource=2, max_resource=20)
    config = HyperParameterTuningJobStrategyConfig(hyperband_strategy_config=hyperband)
    not_improving = BestObjectiveNotImproving(max_number_of_training_jobs_not_improving=3)
    criteria = TuningJobCompletionCriteria(best_objective_not_improving=not_improving)
    for settings, said in (
        ({"strategy": "Hyperband", "strategy_config": config}, r'"rungs": \[2, 6, 18\]'),
        ({"early_stopping_type": "Auto"}, "early_stopping_type of the tuner"),
        ({"completion_criteria_config": criteria}, "not best_objective_not_improving"),
    ):
        with pytest.raises(InvalidRequest, match=said):
            of.sagemaker_session.sweep(tuner(of, **settings), name="refused")
    assert not [job for job in QueueClient().jobs() if job.name.startswith("refused")]
