"""The SageMaker SDK v2 itself, the queue and real processes: submitted, evicted, resumed, done.

The training script is the demo's.
"""

from __future__ import annotations

import re

import boto3
import pytest
from botocore.exceptions import ClientError

pytest.importorskip("sagemaker.estimator", reason="the sagemaker2 extra is not installed")

import sagemaker
from sagemaker.estimator import Estimator
from sagemaker.exceptions import UnexpectedStatusException
from sagemaker.pytorch import PyTorch
from sagemaker.tuner import HyperparameterTuner, IntegerParameter

import slotq
from slotq import QueueClient, QueueTrainingJobSession
from slotq.demo.job.train import begin, improve
from slotq.demo.play import quiet
from slotq.demo.proof import Evidence
from slotq.errors import CheckpointsRequired, InvalidRequest, NameTaken, NeverFits
from tests.e2e.waiting import in_background, until
from tests.log_readers import ReaderByTime


@pytest.fixture(scope="module", autouse=True)
def silent():
    with quiet():
        yield


@pytest.fixture
def estimator(aws, script, said):
    session = QueueTrainingJobSession(boto3.Session(), say=said.append, poll=0.2)

    def make(name, *, steps, priority, kind=Estimator, **settings):
        given = {
            "role": "arn:aws:iam::123456789012:role/trainer",
            "instance_count": 1,
            "instance_type": "ml.p5.48xlarge",
            "source_dir": str(script),
            "entry_point": "train.py",
            "hyperparameters": {"steps": steps, "step-seconds": 0.1},
            "checkpoint_s3_uri": f"s3://{aws.bucket}/{name}/checkpoints",
            "output_path": f"s3://{aws.bucket}/models",
            "tags": [{"Key": "priority", "Value": str(priority)}],
        }
        if kind is Estimator:
            given["image_uri"] = "123456789012.dkr.ecr.us-east-1.amazonaws.com/train:1"
        return kind(**{"sagemaker_session": session} | given | settings)

    return make


def test_a_fit_waits_is_evicted_resumes_and_completes(aws, estimator, said):
    queue, evidence = QueueClient(), Evidence("low", aws.bucket)
    low = estimator("low", steps=100, priority=1, entry_point="waits.py")
    join = in_background(lambda: low.fit(job_name="low"))
    until(lambda: evidence.checkpoint("low") is not None, "low has no checkpoint")

    high = estimator("high", steps=20, priority=5)
    high.fit(job_name="high", wait=False)
    until(lambda: queue.jobs.view("high").state == "completed", "high has not completed")
    assert join() is None

    job = queue.jobs.view("low")
    assert [attempt.outcome for attempt in job.attempts] == ["evicted", "completed"]
    assert job.attempts[0].stopped_for == "high"
    first, last = (attempt.training_job for attempt in job.attempts)
    stopped, resumed = max(evidence.steps(first)), evidence.resumed_from(last)
    assert resumed is not None
    assert 0 < resumed <= stopped < 100
    assert evidence.steps(last) == list(range(resumed + 1, 101))

    weights = begin()
    for step in range(100):
        weights, _ = improve(weights, step)
    assert evidence.model(low.model_data) == weights

    text = "\n".join(said)
    assert "low: running in pool one (attempt 1: low)" in text
    assert "evicted for high" in text
    assert f"running in pool one (attempt 2: {last})" in text
    assert f"checkpoint found: goes on from step {resumed}" in text
    assert "low: completed after 2 attempts, evicted 1 time" in text
    assert said.count("step 100 loss") <= 1


THIRTY_LINES = """
import pathlib, time

place = pathlib.Path("/opt/ml/checkpoints/step")
step = int(place.read_text()) if place.exists() else 0
for n in range(step + 1, 31):
    print(f"line {n}", flush=True)
    place.with_suffix(".new").write_text(str(n))
    place.with_suffix(".new").rename(place)
    while n == 12 and not step:
        time.sleep(0.1)
    time.sleep(0.05)
"""


@pytest.fixture
def lines_script(tmp_path):
    """Thirty lines: the first attempt stands still after twelve, the next goes on behind them."""
    (tmp_path / "lines.py").write_text(THIRTY_LINES)
    return {"source_dir": str(tmp_path), "entry_point": "lines.py"}


@pytest.mark.parametrize("kind", ["queue session", "installed"])
def test_fit_prints_each_log_line_once(estimator, said, lines_script, capsys, kind):
    """Also the SDK's own session, whose `fit` looks again and again from the time of the last line:
    as Airflow's operator and W&B Launch do."""
    name, queue = kind.replace(" ", "-"), QueueClient()
    given = {}
    if kind == "installed":
        boto_session = boto3.Session()
        slotq.install(boto_session)
        given["sagemaker_session"] = sagemaker.Session(boto_session)
    job = estimator(name, steps=1, priority=1, **lines_script, **given)
    airflow = ReaderByTime(job.sagemaker_session.boto_session.client("logs"), name, empties=3)
    seen = []

    def at_line_12():
        seen.extend(airflow.look())
        return "line 12" in seen

    join = in_background(lambda: job.fit(job_name=name, logs="All"))
    until(at_line_12, "the job has written nothing")
    estimator(f"{name}-first", steps=1, priority=9).fit(job_name=f"{name}-first", wait=False)
    assert join() is None
    assert queue.jobs.view(name).evictions == 1
    seen.extend(airflow.look())
    printed = said if kind == "queue session" else capsys.readouterr().out.splitlines()
    every = [f"line {n}" for n in range(1, 31)]
    for log in (printed, seen):
        plain = "\n".join(re.sub("\x1b.*?m", "", line) for line in log)
        # Before a line stands what the SDK prints without an end: dots, and a status in words.
        assert re.findall(r"line [0-9]+$", plain, re.MULTILINE) == every
    assert f"slotq: {name}: attempt 1 was evicted for {name}-first" in seen


def test_fit_warns_of_a_job_without_checkpoints(aws, estimator, said):
    careless = estimator("careless", steps=2, priority=1, checkpoint_s3_uri=None)
    careless.fit(job_name="careless")
    (warning,) = [line for line in said if "warning" in line]
    assert warning.startswith("careless: warning: an eviction sets careless back to its beginning")
    assert "checkpoint_s3_uri" in warning


@pytest.fixture
def pool_rule():
    """Sets what the pool does with jobs without checkpoints, and takes that back."""
    queue = QueueClient()
    yield lambda rule: queue.pools.set("one", {"checkpoints": rule})
    queue.pools.set("one", {"checkpoints": "warn"})


def test_a_job_goes_on_from_the_place_that_its_pool_provides(aws, estimator, said, pool_rule):
    pool_rule("provide")
    queue, evidence = QueueClient(), Evidence("provided", aws.bucket)
    settings = {"checkpoint_s3_uri": None, "entry_point": "waits.py"}
    low = estimator("provided", steps=20, priority=1, **settings)
    join = in_background(lambda: low.fit(job_name="provided"))
    until(lambda: any("step 15 " in line for line in said), "provided has saved nothing")
    estimator("passes", steps=2, priority=5).fit(job_name="passes", wait=False)
    assert join() is None
    job = queue.jobs.view("provided")
    assert [attempt.outcome for attempt in job.attempts] == ["evicted", "completed"]
    resumed = evidence.resumed_from(job.attempts[1].training_job)
    assert resumed is not None and resumed > 0
    place = job.attempts[1].checkpoints
    assert place.startswith(f"s3://{aws.bucket}/models/slotq-checkpoints/provided/")
    assert any("warning" in line and place in line for line in said)


def test_a_pool_that_requires_checkpoints_refuses_fit(estimator, pool_rule):
    pool_rule("require")
    with pytest.raises(CheckpointsRequired, match="checkpoint_s3_uri"):
        estimator("refused", steps=2, priority=1, checkpoint_s3_uri=None).fit(job_name="refused")
    fixed = [{"Key": "slotq:preemptible", "Value": "false"}]
    accepted = estimator("fixed", steps=2, priority=1, checkpoint_s3_uri=None, tags=fixed)
    accepted.fit(job_name="fixed")


def test_an_estimators_tag_has_two_spellings(aws, estimator):
    tag = [{"Key": "slotq:priority", "Value": "7"}]
    estimator("spelled", steps=2, priority=1, tags=tag).fit(job_name="spelled")
    assert QueueClient().jobs.view("spelled").priority == 7


def test_a_framework_estimator_works(aws, estimator, said):
    """`PyTorch`, whose image name the SDK provides; the emulator runs the script."""
    queue, evidence = QueueClient(), Evidence("torch", aws.bucket)
    # The oldest SDK knows no later version.
    settings = {"framework_version": "2.1", "py_version": "py310", "entry_point": "waits.py"}
    torch = estimator("torch", steps=20, priority=1, kind=PyTorch, **settings)
    join = in_background(lambda: torch.fit(job_name="torch"))
    until(lambda: evidence.checkpoint("torch") is not None, "torch has no checkpoint")
    image = queue.jobs.request("torch")["AlgorithmSpecification"]["TrainingImage"]
    assert image.endswith("/pytorch-training:2.1-gpu-py310")

    estimator("first-of-all", steps=10, priority=5).fit(job_name="first-of-all", wait=False)
    assert join() is None
    outcomes = [attempt.outcome for attempt in queue.jobs.view("torch").attempts]
    assert outcomes == ["evicted", "completed"]
    assert torch.latest_training_job.describe()["TrainingJobStatus"] == "Completed"
    assert len(evidence.model(torch.model_data)) == len(begin())
    text = "\n".join(said)
    assert "evicted for first-of-all" in text
    assert "checkpoint found: goes on from step" in text
    assert "torch: completed after 2 attempts, evicted 1 time" in text


def test_a_fit_comes_after_a_group_and_one_after_it(aws, estimator):
    """A group whose members come after each other, with the requests of an estimator."""
    queue = QueueClient()
    estimator("like", steps=2, priority=1).fit(job_name="like")
    request = {key: it for key, it in queue.jobs.request("like").items() if key != "Tags"}
    members = [request | {"TrainingJobName": name} for name in ("part-2", "part-1")]
    members[0]["Tags"] = [{"Key": "slotq:after", "Value": "part-1"}]
    group = queue.groups.submit("parts", members, max_parallel=2)
    last = estimator("last", steps=2, priority=9)
    with last.sagemaker_session.after(group):
        last.fit(job_name="last")
    jobs = {name: queue.jobs.view(name) for name in ("part-1", "part-2", "last")}
    assert {job.state for job in jobs.values()} == {"completed"}
    assert (jobs["part-2"].after, jobs["last"].after) == (["part-1"], ["group:parts"])
    begun = [job.attempts[0].admitted_at for job in jobs.values()]
    assert begun == sorted(begun)  # Although the last has the highest priority.


def test_many_estimators_are_fitted_together(aws, estimator, said):
    """They share the session of the first."""
    names = [f"many{number}" for number in range(4)]
    first, *others = [estimator(name, steps=1, priority=2) for name in names]
    large = estimator("large", steps=1, priority=2, instance_count=2)
    session = first.sagemaker_session
    for each in (*others, large):
        each.sagemaker_session = session
    outcomes = session.fit_many([first, large, *others])
    assert [type(outcome.error) for outcome in outcomes] == [
        type(None),
        NeverFits,
        *[type(None)] * 3,
    ]
    jobs = [outcome.job.name for outcome in outcomes if outcome.job]
    assert jobs == [each.latest_training_job.name for each in (first, *others)]
    for each in (first, *others):
        each.latest_training_job.wait(logs=False)
    assert {QueueClient().get(name).state for name in jobs} == {"completed"}
    assert f"{jobs[-1]}: in the queue with priority 2" in said


def test_a_tuner_is_refused_and_starts_nothing(aws, estimator):
    tuner = HyperparameterTuner(
        estimator("tuned", steps=2, priority=1),
        objective_metric_name="loss",
        hyperparameter_ranges={"steps": IntegerParameter(1, 3)},
        metric_definitions=[{"Name": "loss", "Regex": "loss (.*)"}],
    )
    with pytest.raises(ClientError, match=r"past the queue: .* slotq sweep"):
        tuner.fit(job_name="tuning")
    assert not [job for job in QueueClient().jobs() if job.name.startswith("tuning")]


def test_a_failure_raises_with_its_message(estimator, said):
    bad = estimator("bad", steps=10, priority=1, hyperparameters={"steps": "none"})
    with pytest.raises(UnexpectedStatusException, match=r"ExitCode 2") as raised:
        bad.fit(job_name="bad")
    assert raised.value.actual_status == "Failed"
    assert any("invalid int value" in line for line in said)


def test_a_time_box_keeps_its_model_and_fit_returns(estimator):
    """A job of `max_run` seconds, as under the plain SDK; List agrees with Describe."""
    box = estimator("box", steps=2000, priority=1, max_run=2)
    box.fit(job_name="box")
    shown = box.latest_training_job.describe()
    assert (shown["TrainingJobStatus"], shown["SecondaryStatus"]) == (
        "Stopped",
        "MaxRuntimeExceeded",
    )
    assert "FailureReason" not in shown
    client = box.sagemaker_session.sagemaker_client
    listed = client.list_training_jobs(NameContains="box")["TrainingJobSummaries"]
    assert [job["TrainingJobStatus"] for job in listed] == ["Stopped"]
    client.get_waiter("training_job_completed_or_stopped").wait(TrainingJobName="box")
    bucket, _, key = box.model_data.removeprefix("s3://").partition("/")
    s3 = box.sagemaker_session.boto_session.client("s3")
    assert s3.head_object(Bucket=bucket, Key=key)["ContentLength"]
    job = QueueClient().jobs.view("box")
    assert (job.state, job.cause) == ("failed", "max_runtime")


def test_a_waiting_job_can_be_described_and_cancelled_and_its_fit_raises(estimator):
    queue = QueueClient()
    first = estimator("first", steps=2000, priority=1)
    first.fit(job_name="first", wait=False)
    second = estimator("second", steps=10, priority=1)
    join = in_background(lambda: second.fit(job_name="second"))
    until(lambda: second.latest_training_job is not None, "second was not submitted")
    assert second.latest_training_job.describe()["SecondaryStatus"] == "Pending"
    assert queue.jobs.view("second").place == 1
    second.latest_training_job.stop()
    assert isinstance(join(), UnexpectedStatusException)
    first.latest_training_job.stop()
    until(lambda: queue.jobs.view("first").state == "cancelled", "first was not cancelled")


@pytest.mark.parametrize(
    ("settings", "kind", "text"),
    [
        ({"tags": [{"Key": "priority", "Value": "hihg"}]}, InvalidRequest, "integer"),
        ({"tags": [{"Key": "slotq:pool", "Value": "one"}]}, InvalidRequest, "slotq:pools"),
        ({"tags": [{"Key": "slotq:pools", "Value": "two"}]}, InvalidRequest, "one"),
        ({"instance_type": "ml.m5.large"}, InvalidRequest, "ml.p5.48xlarge"),
        ({"instance_count": 2}, NeverFits, "2"),
    ],
)
def test_a_refusal_says_what_to_change(estimator, settings, kind, text):
    with pytest.raises(kind, match=text):
        estimator("refused", steps=1, priority=1, **settings).fit(job_name="refused", wait=False)
    assert "refused" not in [job.name for job in QueueClient().jobs()]


def test_the_same_name_with_another_body_is_refused(estimator):
    estimator("twice", steps=1, priority=1).fit(job_name="twice", wait=False)
    with pytest.raises(NameTaken):
        estimator("twice", steps=2, priority=1).fit(job_name="twice", wait=False)
