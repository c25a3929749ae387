"""The session under the real SageMaker SDK v2, with a fake queue and moto's AWS."""

from __future__ import annotations

import io
import json
import re
import signal
import subprocess
import sys
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

import slotq
from slotq.errors import CannotReach, InvalidRequest, NameTaken, NotConfigured
from slotq.session import hooks
from slotq.session.answers.describe import as_the_job, description
from tests.unit.client.fake_aws import REQUEST, make_default_bucket
from tests.unit.client.fake_queue import (
    FakeQueue,
    attempt,
    client_of,
    ended,
    job_view,
    no_connection,
    running,
    waiting,
)

pytest.importorskip("sagemaker.estimator", reason="the sagemaker2 extra is not installed")

from sagemaker.estimator import Estimator
from sagemaker.exceptions import UnexpectedStatusException

from slotq import QueueTrainingJobSession
from slotq.demo import driver, play

ROLE = "arn:aws:iam::123456789012:role/trainer"


@cache
def boto_session():
    """One session for all tests of this file, because reading AWS's service models takes long."""
    return boto3.Session()


pytestmark = pytest.mark.usefixtures("no_telemetry")


@pytest.fixture
def aws():
    with mock_aws():
        make_default_bucket()
        yield boto_session()


@pytest.fixture
def queue():
    return FakeQueue()


@pytest.fixture
def session(aws, http, clock, said):
    def make(boto_session=aws, **settings):
        return QueueTrainingJobSession(
            boto_session,
            queue=client_of(http, clock=clock),
            endpoint="https://queue.test/prod",
            say=said.append,
            clock=clock,
            sleep=clock.sleep,
            **settings,
        )

    return make


def estimator(session, **settings):
    given = {"instance_count": 1, "instance_type": "ml.p5.48xlarge", "role": ROLE}
    image = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/train:1"
    return Estimator(image, sagemaker_session=session, **(given | settings))


def tags_of(request):
    return {tag["Key"]: tag["Value"] for tag in request["Tags"]}


def train(aws, name, status="Completed"):
    """A training job in moto, completed from the start."""
    aws.client("sagemaker").create_training_job(
        TrainingJobName=name,
        AlgorithmSpecification={"TrainingImage": "train:1", "TrainingInputMode": "File"},
        RoleArn=ROLE,
        OutputDataConfig={"S3OutputPath": "s3://out", "KmsKeyId": ""},
        ResourceConfig={
            "InstanceType": "ml.p5.48xlarge",
            "InstanceCount": 1,
            "VolumeSizeInGB": 30,
        },
        StoppingCondition={"MaxRuntimeInSeconds": 60},
        Tags=[{"Key": "priority", "Value": "1"}],
    )


def test_fit_submits_to_the_queue_and_returns(session, queue, aws, said):
    job = estimator(session(priority=5), tags=[{"Key": "team", "Value": "vision"}])
    job.fit("s3://data/train", job_name="job1", wait=False)
    request = queue.requests["job1"]
    assert request["TrainingJobName"] == "job1"
    assert request["ResourceConfig"]["InstanceType"] == "ml.p5.48xlarge"
    assert tags_of(request) == {"priority": "5", "team": "vision"}
    assert aws.client("sagemaker").list_training_jobs()["TrainingJobSummaries"] == []
    assert said == ["job1: in the queue with priority 5"]


def test_a_client_of_the_sessions_boto_session_goes_to_the_queue(session, queue, aws):
    """A library that is handed the boto session makes clients of its own."""
    client = session(priority=5).boto_session.client("sagemaker")
    client.create_training_job(**REQUEST | {"TrainingJobName": "handed-on"})
    assert tags_of(queue.requests["handed-on"]) == {"priority": "5"}
    aws.client("sagemaker").create_training_job(**REQUEST | {"TrainingJobName": "users-own"})
    assert [*queue.requests] == ["handed-on"]


def test_the_estimators_tag_overrides_the_session(session, queue):
    made = session(
        priority=5, pools=["p5", "p4"], preemptible=False, min_runtime=60, retries=1, gpus=2
    )
    estimator(made, tags=[{"Key": "priority", "Value": "9"}]).fit(job_name="job1", wait=False)
    assert tags_of(queue.requests["job1"]) == {
        "priority": "9",
        "slotq:pools": "p5,p4",
        "slotq:preemptible": "false",
        "slotq:min-runtime": "60",
        "slotq:retries": "1",
        "slotq:gpus": "2",
    }


def test_what_is_fitted_within_after_comes_after_others(session, queue):
    made = session(after="always")
    own = [{"Key": "slotq:after", "Value": "own"}]
    with made.after("prepare", "group:grid", after_any="clean"), made.after(job_view("inner")):
        estimator(made).fit(job_name="job1", wait=False)
        estimator(made, tags=own).fit(job_name="job2", wait=False)
        estimator(session(), tags=own).fit(job_name="job3", wait=False)
    estimator(made).fit(job_name="job4", wait=False)
    tags = {name: tags_of(request) for name, request in queue.requests.items()}
    assert tags["job1"]["slotq:after"] == "always,prepare,group:grid,inner"
    assert tags["job2"]["slotq:after"] == "own,prepare,group:grid,inner"
    assert {tags[name]["slotq:after-any"] for name in ("job1", "job2")} == {"clean"}
    assert tags["job3"]["slotq:after"] == "own"  # Of another session.
    assert tags["job4"]["slotq:after"] == "always"
    assert "slotq:after-any" not in tags["job4"]


def test_a_sweep_of_an_estimator_has_the_settings_of_its_session(session, queue, said):
    made = session(priority=5)
    given = estimator(made, hyperparameters={"lr": 1, "epochs": 2})
    with made.after("prepare"):
        sweep = made.sweep(given, {"lr": [0.1, 0.2]}, name="grid", max_parallel=1)
    assert (sweep.name, sweep.states, queue.groups["grid"][1]) == ("grid", {"pending": 2}, 1)
    for number, rate in ((1, "0.1"), (2, "0.2")):
        request = queue.requests[f"grid-{number}"]
        assert request["HyperParameters"] == {"lr": rate, "epochs": "2"}
        assert tags_of(request) == {"priority": "5", "slotq:after": "prepare"}
    assert queue.requests.keys() == {"grid-1", "grid-2"}
    assert said == []


def test_while_a_sweep_reads_a_request_other_threads_submit_theirs(session, queue):
    made = session()
    given = estimator(made)
    right = given.fit

    def fit(*arguments, **more):
        with ThreadPoolExecutor() as threads:
            threads.submit(estimator(made).fit, job_name="other", wait=False).result()
        right(*arguments, **more)

    given.fit = fit
    made.sweep(given, {"lr": [0.1]}, name="grid", max_parallel=1)
    assert queue.requests.keys() == {"other", "grid-1"}


def test_a_sweep_takes_what_trains_in_its_session(session):
    with pytest.raises(InvalidRequest, match="sagemaker_session=session"):
        session().sweep(SimpleNamespace(fit=lambda *_, **__: None), {"lr": [1]}, max_parallel=1)
    with pytest.raises(InvalidRequest, match="takes an estimator or a ModelTrainer"):
        session().sweep(object(), {"lr": [1]}, max_parallel=1)


def test_fit_itself_takes_no_after(session):
    """It is the SDK's method; docs/client.md says what to use."""
    with pytest.raises(TypeError, match="after"):
        estimator(session()).fit(after="prepare")


LOSS = [{"Name": "loss", "Regex": "loss=(.*)"}]


def tuner(trainer, **settings):
    from sagemaker.tuner import CategoricalParameter, ContinuousParameter, HyperparameterTuner

    ranges = {
        "lr": ContinuousParameter(1e-5, 0.1, "Logarithmic"),
        "opt": CategoricalParameter(["adam", "sgd"]),
    }
    given = {"objective_metric_name": "loss", "metric_definitions": LOSS, "max_jobs": 3}
    given |= {"objective_type": "Minimize", "max_parallel_jobs": 2, "strategy": "Random"}
    return HyperparameterTuner(trainer, hyperparameter_ranges=ranges, **(given | settings))


def test_a_tuner_is_a_sweep_by_one_changed_line(session, queue, said):
    made = session(priority=5)
    trainer = estimator(made, hyperparameters={"epochs": 2})
    given = tuner(trainer, base_tuning_job_name="tuned", random_seed=7, tags={"team": "vision"})
    page = (Path(__file__).parents[3] / "docs" / "sweeps.md").read_text()
    (line,) = re.findall(r"^```python\n(sweep = session.sweep\(tuner.*)\n```", page, re.MULTILINE)
    scope = {"session": made, "tuner": given, "inputs": "s3://data/train"}
    exec(line, scope)
    sweep = scope["sweep"]
    assert sweep.name.startswith("tuned-")
    names = [f"{sweep.name}-{number}" for number in (1, 2, 3)]
    assert (queue.groups[sweep.name]) == (names, 2)
    assert queue.sweeps[sweep.name].metric == "loss"
    assert not queue.sweeps[sweep.name].maximize
    request = queue.requests[names[0]]
    assert request["HyperParameters"].keys() == {"epochs", "lr", "opt"}
    assert request["HyperParameters"]["opt"] in {"adam", "sgd"}
    assert request["AlgorithmSpecification"]["MetricDefinitions"] == LOSS
    assert request["InputDataConfig"][0]["DataSource"]["S3DataSource"]["S3Uri"] == "s3://data/train"
    assert tags_of(request) == {"priority": "5", "team": "vision"}
    assert said == []
    space = given._hyperparameter_ranges
    same = made.sweep(trainer, space, name="same", max_parallel=1, trials=3, seed=7)
    drawn = [queue.requests[f"{same.name}-{n}"]["HyperParameters"] for n in (1, 2, 3)]
    assert drawn == [queue.requests[name]["HyperParameters"] for name in names]


def test_a_tuner_without_a_strategy_is_told_that_trials_are_random(session, said):
    made = session()
    made.sweep(tuner(estimator(made), strategy="Bayesian"), name="grid")
    assert said == ["grid: a sweep draws its trials at random: strategy Bayesian is not followed"]


def test_what_is_given_beside_a_tuner_counts(session, queue):
    made = session()
    more = {"objective": {"metric": "accuracy", "maximize": True}, "trials": 1, "max_parallel": 1}
    made.sweep(tuner(estimator(made)), name="grid", **more)
    assert (queue.groups["grid"], queue.sweeps["grid"].metric) == ((["grid-1"], 1), "accuracy")


def test_a_tuners_grid_is_a_grid_and_its_target_a_goal(session, queue):
    from sagemaker.tuner import CategoricalParameter, TuningJobCompletionCriteriaConfig

    made = session()
    target = TuningJobCompletionCriteriaConfig(target_objective_metric_value=0.2)
    given = tuner(
        estimator(made), strategy="Grid", max_jobs=None, completion_criteria_config=target
    )
    with pytest.raises(InvalidRequest, match="Grid takes values, and lr is a range"):
        made.sweep(given, name="grid")
    given._hyperparameter_ranges["lr"] = CategoricalParameter([0.1, 0.2])
    made.sweep(given, name="grid")
    assert len(queue.groups["grid"][0]) == 4
    assert queue.sweeps["grid"].goal == 0.2


def hyperband(least, most):
    from sagemaker.tuner import HyperbandStrategyConfig, StrategyConfig

    config = HyperbandStrategyConfig(max_resource=most, min_resource=least)
    return {"strategy": "Hyperband", "strategy_config": StrategyConfig(config)}


@pytest.mark.parametrize(
    ("least", "most", "rungs"), [(1, 30, "[1, 3, 9, 27]"), (2, 5, "[2, 5]"), (4, 4, "[4, 5]")]
)
def test_hyperband_is_refused_by_name_with_the_halving(session, queue, least, most, rungs):
    made = session()
    given = tuner(estimator(made), **hyperband(least, most))
    with pytest.raises(InvalidRequest, match="halving instead of Hyperband") as refused:
        made.sweep(given, name="grid")
    assert refused.value.field == "strategy"
    assert f'halving={{"parameter": "epochs", "rungs": {rungs}, "keep": 3}}' in str(refused.value)
    assert not queue.requests
    halving = {"parameter": "epochs", "rungs": [1, 3], "keep": 3}
    made.sweep(given, name="grid", halving=halving)
    assert {request["HyperParameters"]["epochs"] for request in queue.requests.values()} == {"1"}


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"max_runtime_in_seconds": 60}, "max_runtime_in_seconds"),
        ({"early_stopping_type": "Auto"}, "early_stopping_type"),
        ({"autotune": True}, "autotune"),
        ({"warm_start_config": object()}, "warm_start_config"),
        ({"estimator_name": "one"}, "estimator_name"),
    ],
)
def test_what_a_sweep_cannot_do_is_refused_by_the_tuners_word(session, queue, settings, field):
    made = session()
    with pytest.raises(InvalidRequest, match=f"{field} of the tuner: ") as refused:
        made.sweep(tuner(estimator(made), **settings), name="grid")
    assert refused.value.field == field
    assert not queue.requests


def test_other_criteria_of_a_tuner_are_refused(session):
    from sagemaker.tuner import TuningJobCompletionCriteriaConfig

    made = session()
    criteria = TuningJobCompletionCriteriaConfig(complete_on_convergence=True)
    given = tuner(estimator(made), completion_criteria_config=criteria)
    with pytest.raises(InvalidRequest, match="a target value, not complete_on_convergence"):
        made.sweep(given, name="grid")


def test_a_tuner_is_refused_and_says_what_to_use(session, queue, aws):
    from sagemaker.tuner import ContinuousParameter, HyperparameterTuner

    plain = HyperparameterTuner(
        estimator(session()),
        objective_metric_name="loss",
        hyperparameter_ranges={"lr": ContinuousParameter(0.1, 0.2)},
        metric_definitions=[{"Name": "loss", "Regex": "loss=(.*)"}],
    )
    with pytest.raises(ClientError, match=r"session\.sweep\(tuner\).* Hyperband with halving"):
        plain.fit("s3://data/train", job_name="tuning", wait=False)
    with slotq.direct():
        plain.fit("s3://data/train", job_name="tuning", wait=False)
    found = aws.client("sagemaker").describe_hyper_parameter_tuning_job(
        HyperParameterTuningJobName="tuning"
    )
    assert found["HyperParameterTuningJobName"] == "tuning"
    assert not queue.requests


def test_automl_is_refused(session):
    from sagemaker.automl.automl import AutoML

    auto = AutoML(ROLE, target_attribute_name="label", sagemaker_session=session())
    with pytest.raises(ClientError, match="CreateAutoMLJob starts training jobs past the queue"):
        auto.fit("s3://data/train", wait=False, logs=False)


def test_a_pipeline_with_a_training_step_is_not_started(session, aws):
    from sagemaker.workflow.pipeline import Pipeline
    from sagemaker.workflow.pipeline_context import PipelineSession
    from sagemaker.workflow.steps import TrainingStep

    made = session()
    step = TrainingStep(
        "train", step_args=estimator(PipelineSession(boto3.Session())).fit("s3://data")
    )
    pipeline = Pipeline("weekly", steps=[step], sagemaker_session=made)
    pipeline.create(ROLE)
    with pytest.raises(ClientError, match=r"past the queue \(step train\)"):
        pipeline.start()
    with slotq.direct():
        pipeline.start()
    empty = Pipeline("empty", steps=[], sagemaker_session=made)
    empty.create(ROLE)
    empty.start()


def test_processing_goes_to_sagemaker(session, queue, aws):
    from sagemaker.processing import Processor

    processor = Processor(
        ROLE, "train:1", 1, "ml.m5.large", entrypoint=["true"], sagemaker_session=session()
    )
    processor.run(job_name="prepare", wait=False, logs=False)
    named = aws.client("sagemaker").describe_processing_job(ProcessingJobName="prepare")
    assert named["ProcessingJobName"] == "prepare"
    assert not queue.requests


def test_a_remote_function_is_queued(session, queue, monkeypatch):
    from sagemaker.remote_function import remote
    from sagemaker.remote_function.job import _Job

    class Waits(Exception):
        """The decorated function waits for its job."""

    def wait(*_, **__):
        raise Waits

    monkeypatch.setattr(_Job, "wait", wait)
    made = session(priority=5)
    image = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/train:1"
    divide = remote(
        divmod, sagemaker_session=made, role=ROLE, image_uri=image, instance_type="ml.p5.48xlarge"
    )
    with made.after("prepare"), pytest.raises(Waits):
        divide(7, 3)
    ((name, request),) = queue.requests.items()
    assert name.startswith("divmod-")
    assert tags_of(request) == {"priority": "5", "slotq:after": "prepare"}


def test_the_priority_can_come_from_the_environment(session, queue, monkeypatch):
    monkeypatch.setenv("SLOTQ_PRIORITY", "3")
    estimator(session()).fit(job_name="job1", wait=False)
    assert tags_of(queue.requests["job1"]) == {"priority": "3"}


def test_other_requests_go_to_sagemaker(session, queue, aws):
    session().create_model("model1", ROLE, {"Image": "train:1", "ModelDataUrl": "s3://out/m"})
    assert aws.client("sagemaker").list_models()["Models"][0]["ModelName"] == "model1"
    assert not queue.requests


def test_fit_waits_across_an_eviction_and_uses_the_last_model(session, queue, aws, said):
    job = estimator(session())
    train(aws, "job1-qstamp-2-abcdef")
    evicted = attempt(1, outcome="evicted", stop_cause="evicted", stopped_for="job4")
    history = [evicted, attempt(2)]
    queue.script(
        waiting(2),
        running(),
        waiting(1, state="preempted", evictions=1, attempts_begun=1, attempts=[evicted]),
        running(2, evictions=1, attempts=history),
        ended(number=2, evictions=1, attempts=history),
    )
    queue.requests.clear()
    queue.jobs.clear()
    job.fit(job_name="job1", logs=False)
    assert said[0] == "job1: in the queue with priority 0"
    assert said[-1] == "job1: completed after 2 attempts, evicted 1 time"
    assert any("was evicted for job4; now waiting, place 1" in line for line in said)
    assert job.model_data.endswith("job1-qstamp-2-abcdef/output/model.tar.gz")
    shown = job.latest_training_job.describe()
    # Later calls on the estimator must still mean the job.
    assert shown["TrainingJobName"] == "job1"
    assert shown["TrainingJobArn"].endswith("/job1-qstamp-2-abcdef")


@pytest.mark.parametrize(
    ("state", "status"), [("failed", "Failed"), ("cancelled", "Stopped"), ("stopped", "Stopped")]
)
def test_an_unsuccessful_end_raises_as_in_the_sdk(session, queue, state, status):
    queue.script(ended(state, message="AlgorithmError: exit code 1"))
    with pytest.raises(UnexpectedStatusException, match="AlgorithmError: exit code 1") as raised:
        session().wait_for_job("job1")
    assert raised.value.actual_status == status


TIME_BOX = {"cause": "max_runtime", "message": "it reached its maximum runtime"}


def test_a_time_box_warns_and_returns(aws, session, queue, caplog):
    """As in the plain SDK: Describe and List agree on Stopped, and the model is kept."""
    train(aws, "job1")
    queue.script(ended("failed", **TIME_BOX))
    job = estimator(session())
    job.fit(job_name="job1", logs=False)
    warned = [each for each in caplog.records if each.levelname == "WARNING"]
    assert any("'Stopped': it reached its maximum runtime" in it.getMessage() for it in warned)
    described = session().describe_training_job("job1")
    assert (described["TrainingJobStatus"], "FailureReason" in described) == ("Stopped", False)
    assert job.model_data.endswith("job1/output/model.tar.gz")


@pytest.mark.parametrize(
    ("last", "secondary"),
    [(attempt(1), "MaxRuntimeExceeded"), (attempt(1, running_since=None), "MaxWaitTimeExceeded")],
)
def test_the_queues_own_description_of_a_time_box_is_sagemakers(last, secondary):
    view = ended("failed", attempts=[last], **TIME_BOX)
    shown = as_the_job(view, {"TrainingJobStatus": "Stopping"})
    assert (shown["TrainingJobStatus"], shown["SecondaryStatus"]) == ("Stopped", secondary)
    told = as_the_job(view, {"TrainingJobStatus": "Stopped"})
    assert told == {"TrainingJobName": "job1"}, "SageMaker's own secondary status stays"
    shown = description(view, {})
    assert (shown["TrainingJobStatus"], shown["SecondaryStatus"]) == ("Stopped", secondary)
    assert "FailureReason" not in shown


def test_a_job_on_a_node_is_described_by_the_queue_as_no_training_job_has_its_name(session, queue):
    """Of a job with a training job of its own SageMaker is asked, which does not know this one."""
    model = "s3://bucket/job1/output/model.tar.gz"
    states = {"starting": "Starting", "running": "Training", "completed": "Completed"}
    for state, secondary in states.items():
        last = attempt(1, node="node-1", artifact=model if state == "completed" else "")
        queue.script(running(state=state, attempts=[last], node="node-1"))
        shown = session().describe_training_job("job1")
        assert shown["SecondaryStatus"] == secondary
        assert shown["ModelArtifacts"] == {"S3ModelArtifacts": last.artifact}
    last = attempt(1, node="node-1")
    queue.script(ended("failed", attempts=[last], message="ClientError: it names /opt/ml"))
    shown = session().describe_training_job("job1")
    assert (shown["TrainingJobStatus"], shown["FailureReason"]) == (
        "Failed",
        "ClientError: it names /opt/ml",
    )


@pytest.mark.parametrize("installed", [False, True])
def test_fit_shows_the_logs_of_every_attempt_once(session, queue, said, http, installed):
    """Also on a boto session whose own clients know the queue, and its virtual log streams."""
    own = boto3.Session()
    if installed:
        slotq.install(own, queue=client_of(http), endpoint="https://queue.test/prod")
    logs = boto_session().client("logs")
    logs.create_log_group(logGroupName="/aws/sagemaker/TrainingJobs")
    for name, lines in (("job1", ["step 1", "step 2"]), ("job1-qstamp-2-abcdef", ["step 3"])):
        stream = {
            "logGroupName": "/aws/sagemaker/TrainingJobs",
            "logStreamName": f"{name}/algo-1-1700000000",
        }
        logs.create_log_stream(**stream)
        now = 1000 * int(time.time())
        events = [{"timestamp": now + n, "message": line} for n, line in enumerate(lines)]
        logs.put_log_events(**stream, logEvents=events)
    evicted = attempt(1, outcome="evicted", ended_at="2026-11-20T10:31:00.000Z")
    queue.script(
        running(),
        running(),
        running(2, attempts=[evicted, attempt(2)]),
        ended(number=2, attempts=[evicted, attempt(2)]),
    )
    session(boto_session=own).logs_for_job("job1", wait=True)
    assert [line for line in said if line.startswith("step")] == ["step 1", "step 2", "step 3"]
    assert not [line for line in said if line.startswith("slotq: ")]


def test_missing_logs_do_not_matter(session, queue, said):
    queue.script(running(), running(), ended())
    session().logs_for_job("job1", wait=True)
    assert said[-1] == "job1: completed after 1 attempt"


def test_a_waiting_job_is_described_from_its_request(session, queue):
    made = session()
    job = estimator(made, hyperparameters={"lr": 0.1})
    job.fit(job_name="job1", wait=False)
    answer = job.latest_training_job.describe()
    assert (answer["TrainingJobStatus"], answer["SecondaryStatus"]) == ("InProgress", "Pending")
    assert answer["HyperParameters"] == {"lr": "0.1"}
    assert answer["CreationTime"].year == 2026
    assert job.model_data == ""


@pytest.mark.parametrize(
    ("job", "status"),
    [
        (job_view(state="starting", attempts_begun=1, pool="p5"), ("InProgress", "Starting")),
        (running(state="preempted"), ("InProgress", "Pending")),
        (job_view(state="cancelled"), ("Stopped", "Stopped")),
        (job_view(state="failed", message="no such image"), ("Failed", "Failed")),
    ],
)
def test_a_job_without_a_training_job_is_described_from_the_queue(session, queue, job, status):
    queue.jobs["job1"] = job
    answer = session().describe_training_job("job1")
    assert (answer["TrainingJobStatus"], answer["SecondaryStatus"]) == status
    assert answer.get("FailureReason") == (job.message or None)


def test_a_foreign_training_job_is_described_by_sagemaker(session, aws):
    train(aws, "other")
    made = session()
    assert made.describe_training_job("other")["TrainingJobStatus"] == "Completed"
    assert made.wait_for_job("other", poll=0)["TrainingJobName"] == "other"


def test_attach_finds_the_latest_attempt(session, queue, aws):
    train(aws, "job1-qstamp-2-abcdef")
    queue.jobs["job1"] = ended(number=2)
    attached = Estimator.attach("job1", sagemaker_session=session())
    assert attached.model_data.endswith("job1-qstamp-2-abcdef/output/model.tar.gz")
    assert attached.instance_type == "ml.p5.48xlarge"


def test_attach_waits_for_a_waiting_job(session, queue, aws, said):
    """Attached from another process, which has submitted nothing."""
    estimator(session(), hyperparameters={"lr": 0.1}).fit(job_name="job1", wait=False)
    train(aws, "job1")
    queue.script(*[waiting(1)] * 4, running(), ended())
    attached = Estimator.attach("job1", sagemaker_session=session())
    assert attached.instance_type == "ml.p5.48xlarge"
    assert attached.hyperparameters()["lr"] == "0.1"
    assert attached.latest_training_job.name == "job1"
    assert said[-1] == "job1: completed after 1 attempt"


def test_stop_cancels_in_the_queue(session, queue):
    job = estimator(session())
    job.fit(job_name="job1", wait=False)
    job.latest_training_job.stop()
    assert queue.jobs["job1"].state == "cancelled"


def test_ctrl_c_leaves_the_job_in_the_queue_and_says_how_to_cancel(session, queue, clock, said):
    queue.script(waiting(1), waiting(1))

    def interrupt():
        raise KeyboardInterrupt

    clock.after_sleep = interrupt
    with pytest.raises(KeyboardInterrupt):  # The SDK's telemetry would swallow it, as fit()'s end.
        estimator(session()).fit(job_name="job1")
    assert queue.jobs["job1"].state == "pending"
    assert "slotq cancel job1" in said[-1]


def test_a_refusal_says_what_to_change(session):
    with pytest.raises(InvalidRequest, match="an integer"):
        estimator(session(), tags=[{"Key": "priority", "Value": "1.5"}]).fit(wait=False)


def test_an_unreachable_queue_raises_and_starts_no_training_job(session, http, aws):
    http.troubles = [no_connection()] * 9
    with pytest.raises(CannotReach):
        estimator(session()).fit(job_name="job1", wait=False)
    assert aws.client("sagemaker").list_training_jobs()["TrainingJobSummaries"] == []


def test_ctrl_c_in_fit_ends_the_demo(aws, http, monkeypatch):
    """The telemetry of SDK v2 swallows it: fit() returns as if it had submitted."""

    class Interrupted(QueueTrainingJobSession):
        def _intercept_create_request(self, *_):
            raise KeyboardInterrupt

    class Interrupting(play.Player):
        def _session(self):
            return Interrupted(aws, queue=self.queue, endpoint="https://queue.test/prod")

    monkeypatch.setattr(play, "PATIENCE", 0.0)
    monkeypatch.setattr(play, "LONGEST", 0.0)
    screen = SimpleNamespace(submits=lambda *_: None)
    player = Interrupting(screen=screen, evidence=None, queue=client_of(http), speed=10)
    with pytest.raises(KeyboardInterrupt):
        player.play()
    assert http.sent == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_demo_cleans_up_at_its_terminals_end(number):
    was = signal.signal(number, signal.SIG_DFL)  # Whoever started the tests may ignore it.
    try:
        with pytest.raises(KeyboardInterrupt), driver.terminated_as_interrupted():
            signal.raise_signal(number)
        assert signal.getsignal(number) == signal.SIG_DFL
    finally:
        signal.signal(number, was)


def test_fit_outlasts_an_outage_right_after_the_submission(session, queue, http, aws, said):
    made = estimator(session())
    made.fit(wait=False, job_name="job1")
    train(aws, "job1")
    queue.script(ended())
    http.troubles = [no_connection()] * 12
    made.latest_training_job.wait()
    assert any("the queue does not answer; asking again" in line for line in said)


def test_a_missing_endpoint_fails_before_anything_is_done():
    with pytest.raises(NotConfigured, match="SLOTQ_ENDPOINT"):
        QueueTrainingJobSession()


def test_sts_follows_the_configured_endpoint(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    own = boto3.Session()
    hooks.honour_sts_endpoint(own.events)
    urls = []

    def stop(request, **_):
        urls.append(request.url)
        raise InterruptedError

    own.events.register_last("before-send.sts", stop)
    sts = own.client("sts", endpoint_url="https://sts.eu-west-1.amazonaws.com")
    with pytest.raises(InterruptedError):
        sts.get_caller_identity()
    assert urls == ["http://127.0.0.1:1/"]


def test_importing_slotq_does_not_import_the_sdk():
    code = "import slotq, sys, slotq.cli.main, slotq.client; sys.exit('sagemaker' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_missing_sdk_is_an_import_error_that_says_what_to_install():
    code = (
        "import sys; sys.modules['sagemaker'] = None\n"
        "import slotq\n"
        "try:\n    slotq.QueueTrainingJobSession\n"
        "except ImportError as error:\n    assert 'client_sdk[sagemaker2]' in str(error)\n"
        "else:\n    raise SystemExit(1)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_session_ships_the_training_file_with_the_code(session, queue, aws, tmp_path):
    (tmp_path / "train.py").write_text("")
    settings = {"entry_point": "train.py", "source_dir": str(tmp_path)}
    estimator(session(ship_training=True), **settings).fit(job_name="job1", wait=False)
    uri = json.loads(queue.requests["job1"]["HyperParameters"]["sagemaker_submit_directory"])
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    body = aws.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
    with tarfile.open(fileobj=io.BytesIO(body)) as tar:
        names = ["hfai.py", "sitecustomize.py", "slotq_training.py", "train.py"]
        assert sorted(tar.getnames()) == names


def test_the_training_file_of_a_job_that_is_refused_is_not_shipped(session, queue, aws, tmp_path):
    """The SDK has uploaded its archive by then: it makes the request last."""
    (tmp_path / "train.py").write_text("")
    settings = {"entry_point": "train.py", "source_dir": str(tmp_path)}
    queue.requests["job1"] = {}
    with pytest.raises(NameTaken):
        estimator(session(ship_training=True), **settings).fit(job_name="job1", wait=False)
    s3 = aws.client("s3")
    (bucket,) = (each["Name"] for each in s3.list_buckets()["Buckets"])
    keys = [each["Key"] for each in s3.list_objects_v2(Bucket=bucket)["Contents"]]
    assert [key.rpartition("/")[2] for key in keys] == ["sourcedir.tar.gz"]


def test_a_request_without_code_is_said_to_ship_nothing(session, queue, said):
    estimator(session(ship_training=True)).fit("s3://data/train", job_name="job1", wait=False)
    assert "job1" in queue.requests
    assert any("not shipped" in line for line in said)


def test_the_estimators_of_a_batch_are_sent_together(session, queue, said, http):
    asked = session(priority=4)
    first, second = estimator(asked), estimator(asked)
    with asked.batch() as batch:
        first.fit(wait=False, job_name="one")
        second.fit(wait=False, job_name="two")
        assert queue.jobs.keys().isdisjoint({"one", "two"})
        with pytest.raises(InvalidRequest, match="when the block of its gang or batch ends"):
            first.latest_training_job.wait(logs=False)
    assert [job.name for job in batch.jobs] == ["one", "two"]
    assert tags_of(queue.requests["two"])["priority"] == "4"
    assert said[-2:] == [f"{name}: in the queue with priority 4" for name in ("one", "two")]


def test_many_estimators_are_fitted_in_one_request(session, queue, http):
    ours = session(priority=4)
    outcomes = ours.fit_many(estimator(ours) for _ in range(12))
    names = [outcome.name for outcome in outcomes]
    assert len(set(names)) == 12
    assert [outcome.job.name for outcome in outcomes] == names
    assert sum(sent.url.endswith("/prod/jobs") for sent in http.sent) == 1
    with pytest.raises(InvalidRequest, match="takes an estimator or a ModelTrainer, not a str"):
        ours.fit_many(["train.py"])


def test_the_estimators_of_a_block_are_one_gang(session, queue, said, aws):
    asked = session(priority=4)
    first, second = estimator(asked), estimator(asked)
    with asked.gang("ring", min_members=1) as ring:
        first.fit(wait=False, job_name="ring-1")
        second.fit(wait=False, job_name="ring-2")
        ring.mandatory.append(first.latest_training_job.name)
        assert queue.groups == {}
        with pytest.raises(InvalidRequest, match="when the block of its gang or batch ends"):
            first.latest_training_job.wait(logs=False)
        with pytest.raises(InvalidRequest, match="when the block of its gang or batch ends"):
            second.logs()
    assert queue.groups["ring"][0] == ["ring-1", "ring-2"]
    assert (queue.gangs["ring"].min_members, queue.gangs["ring"].mandatory) == (1, ["ring-1"])
    assert tags_of(queue.requests["ring-2"])["priority"] == "4"
    queue.script(running(name="ring-1"), ended("completed", name="ring-1"))
    with hooks.untouched():
        train(aws, "job1")
    first.latest_training_job.wait(logs=False)
    assert "ring-2: in the queue, in gang ring" in said
