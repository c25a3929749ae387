"""The session under the real SageMaker SDK v3, with a fake queue and moto's AWS.

Run by `make test-sagemaker3`; skipped without that SDK.
"""

from __future__ import annotations

import gc
import io
import logging
import subprocess
import sys
import time

import boto3
import botocore.session
import pytest
from botocore.exceptions import ClientError
from botocore.loaders import create_loader
from moto import mock_aws

pytest.importorskip("sagemaker.train", reason="the sagemaker3 extra is not installed")

from sagemaker.core.helper.session_helper import Session
from sagemaker.core.resources import HyperParameterTuningJob, Tag, TrainingJob
from sagemaker.core.shapes import (
    AlgorithmSpecification,
    HyperParameterTuningJobConfig,
    OutputDataConfig,
    ResourceConfig,
    ResourceLimits,
    StoppingCondition,
)
from sagemaker.core.telemetry.constants import Feature
from sagemaker.core.telemetry.telemetry_logging import _telemetry_emitter
from sagemaker.core.utils.logs import CloudWatchLogsClient
from sagemaker.core.utils.utils import SageMakerClient

from slotq import QueueTrainingJobSession
from slotq.configuration.settings import Config
from slotq.errors import InvalidRequest, NotConfigured
from slotq.session.installed_sdk import sdk_version
from slotq_core.names import LOG_GROUP
from tests.unit.client.fake_queue import (
    MOMENT,
    FakeHttp,
    FakeQueue,
    attempt,
    client_of,
    ended,
    waiting,
)

_LOADER = create_loader()
"""One session for all tests, because reading AWS's service models takes long."""


def boto_session(**settings):
    core = botocore.session.get_session()
    core.register_component("data_loader", _LOADER)
    return boto3.Session(botocore_session=core, **settings)


@pytest.fixture
def aws(monkeypatch):
    monkeypatch.setattr("sagemaker.core.utils.utils.Session", boto_session)
    monkeypatch.setattr("sagemaker.core.utils.logs.Session", boto_session)
    with mock_aws():
        yield boto_session()


@pytest.fixture(autouse=True)
def untouched_sdk(monkeypatch):
    """As in a process that has not used the SDK yet, because the SDK keeps a client."""
    for name in ("sagemaker", "slotq"):
        monkeypatch.setattr(logging.getLogger(name), "level", logging.NOTSET)
    monkeypatch.setattr(type(SageMakerClient), "_instances", {})
    monkeypatch.setattr(type(CloudWatchLogsClient), "_instances", {})


@pytest.fixture
def queue():
    return FakeQueue()


@pytest.fixture
def session(aws, queue, said):
    def make(over=aws, say=said.append, **settings):
        return QueueTrainingJobSession(
            over,
            queue=client_of(FakeHttp(queue)),
            endpoint="https://queue.test/prod",
            say=say,
            **settings,
        )

    return make


def create(session, name="job1", **more):
    """As ModelTrainer.train does."""
    return TrainingJob.create(**asked(name, **more), session=session.boto_session)


def asked(name, **more):
    return dict(
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


def test_the_trainers_tag_overrides_the_session(session, queue):
    create(session(priority=5), tags=[Tag(key="priority", value="9")])
    assert tags_of(queue.requests["job1"]) == {"priority": "9"}


def test_a_job_is_refreshed_and_stopped_in_the_queue(session, queue):
    job = create(session())
    job.stop()
    assert queue.jobs["job1"].state == "cancelled"
    assert job.refresh().training_job_status == "Stopped"


@pytest.fixture
def interrupted(monkeypatch):
    """Press Ctrl-C as soon as the SDK pauses between two looks."""

    def press(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("sagemaker.core.resources.time.sleep", press)


@pytest.mark.usefixtures("interrupted")
def test_ctrl_c_leaves_the_job_in_the_queue_and_says_how_to_cancel_it(session, queue, said):
    session(boto_session())  # Another job and a second wrapping change nothing.
    job = create(session())
    with pytest.raises(KeyboardInterrupt):
        job.wait(poll=1)
    assert queue.jobs["job1"].state == "pending"
    (said_last,) = said[1:]
    assert said_last == (
        "job1: no longer watched, but still in the queue. To cancel it: `slotq cancel job1` or "
        'session.queue.jobs.cancel("job1"); to watch it again: `slotq watch job1`'
    )


@pytest.mark.usefixtures("interrupted", "no_telemetry")
def test_ctrl_c_gets_out_of_train(session):
    class Trainer:
        sagemaker_session = session()

        @_telemetry_emitter(feature=Feature.MODEL_TRAINER, func_name="model_trainer.train")
        def train(self):
            create(self.sagemaker_session).wait(poll=1)

    with pytest.raises(KeyboardInterrupt):
        Trainer().train()


@pytest.mark.usefixtures("interrupted")
def test_the_session_that_submitted_the_job_says_how_to_cancel(session, said):
    told: list[str] = []
    job = create(session(say=told.append))
    session()
    with pytest.raises(KeyboardInterrupt):
        job.wait(poll=1)
    assert "no longer watched" in told[-1]
    assert said == []


def test_ctrl_c_says_nothing_about_a_foreign_job(session, said, monkeypatch):
    def interrupted(self):
        raise KeyboardInterrupt

    job = create(session())
    said.clear()
    monkeypatch.setattr(TrainingJob, "refresh", interrupted)
    job.training_job_name = "elsewhere"
    with pytest.raises(KeyboardInterrupt):
        job.wait(poll=1)
    assert said == []


def test_a_client_made_by_the_sdk_before_uses_the_queue_too(session, queue, aws):
    SageMakerClient(session=aws)
    create(session())
    assert "job1" in queue.requests


def test_a_job_read_without_a_session_comes_from_the_queue(session):
    SageMakerClient()  # The SDK takes the first client as its default.
    create(session(boto_session()))
    assert TrainingJob.get("job1").secondary_status == "Pending"


class Team:
    """A session with its own queue, priority and credentials."""

    def __init__(self, name, priority):
        self.queue = FakeQueue()
        self.http = FakeHttp(self.queue)
        keys = {"aws_access_key_id": name, "aws_secret_access_key": name}
        self.aws = boto_session(**keys)
        config = Config(endpoint=f"https://{name}.test/prod", region="eu-west-1")
        self.session = QueueTrainingJobSession(
            self.aws,
            queue=client_of(self.http, config=config, aws=self.aws),
            endpoint=config.endpoint,
            priority=priority,
            say=lambda _: None,
        )

    def signers(self):
        """The access keys that signed the calls to the team's queue."""
        return {r.headers["Authorization"].split("Credential=")[1][:5] for r in self.http.sent}


@pytest.fixture
def teams(aws):
    return Team("FIRST", 1), Team("OTHER", 2)


def test_each_session_submits_to_its_own_queue(teams):
    first, other = teams
    create(other.session, "job2")
    create(first.session, "job1")
    create(other.session, "job3")
    assert [*first.queue.requests] == ["job1"]
    assert [*other.queue.requests] == ["job2", "job3"]
    assert tags_of(first.queue.requests["job1"]) == {"priority": "1"}
    assert tags_of(other.queue.requests["job2"]) == {"priority": "2"}


def test_each_session_signs_with_its_own_credentials(teams):
    first, other = teams
    jobs = create(first.session, "job1"), create(other.session, "job2")
    for job in jobs:
        job.refresh()
        job.stop()
    assert (first.signers(), other.signers()) == ({"FIRST"}, {"OTHER"})
    assert first.queue.jobs["job1"].state == other.queue.jobs["job2"].state == "cancelled"


def test_sessions_of_one_queue_keep_their_own_settings(session, queue):
    first, second = session(boto_session(), priority=1), session(boto_session(), priority=2)
    create(second, "job2")
    create(first, "job1")
    assert tags_of(queue.requests["job1"]) == {"priority": "1"}
    assert tags_of(queue.requests["job2"]) == {"priority": "2"}


def test_sessions_over_one_boto_session_keep_their_own_settings(session, queue):
    first, second = session(priority=1), session(priority=2)
    third = session(first.boto_session, priority=3)
    for n, each in enumerate((third, first, second)):
        create(each, f"job{n}")
    priorities = {name: tags_of(request) for name, request in queue.requests.items()}
    assert priorities == {
        "job0": {"priority": "3"},
        "job1": {"priority": "1"},
        "job2": {"priority": "2"},
    }


def test_without_a_session_each_job_is_found_in_its_queue(teams):
    first, other = teams
    create(first.session, "job1")
    create(other.session, "job2")
    assert TrainingJob.get("job1").secondary_status == "Pending"
    TrainingJob.get("job2").stop()
    assert other.queue.jobs["job2"].state == "cancelled"
    assert first.queue.jobs["job1"].state == "pending"
    logs = CloudWatchLogsClient().client
    for name in ("job1", "job2"):
        (stream,) = logs.describe_log_streams(
            logGroupName=LOG_GROUP, logStreamNamePrefix=f"{name}/"
        )["logStreams"]
        assert stream["logStreamName"] == f"{name}/algo-1-slotq"


def test_a_name_in_two_queues_belongs_to_the_last_session_that_submitted_it(teams):
    for team in teams:
        create(team.session, "same")
        TrainingJob.get("same").stop()
        assert team.queue.jobs["same"].state == "cancelled"


def test_a_job_is_found_after_its_session_is_gone(teams):
    first, _ = teams
    job = create(first.session, "job1")
    del first.session
    gc.collect()
    assert job.refresh().secondary_status == "Pending"
    assert TrainingJob.get("job1").secondary_status == "Pending"


def test_jobs_of_a_plain_session_stay_sagemakers(session, queue):
    plain = Session(boto_session())
    create(plain, "before")  # Its client is now the default of callers without a session.
    kept = session(priority=1)
    create(plain, "plain")
    create(kept, "job1")
    assert [*queue.requests] == ["job1"]
    listed = plain.sagemaker_client.list_training_jobs()["TrainingJobSummaries"]
    assert {row["TrainingJobName"] for row in listed} == {"before", "plain"}


def test_a_session_that_is_gone_submits_no_jobs(session, aws, queue):
    kept = session(priority=1)
    TrainingJob.create(**asked("queued"))
    del kept
    gc.collect()
    TrainingJob.create(**asked("past"))
    create(Session(aws), "plain")
    assert [*queue.requests] == ["queued"]


def test_a_missing_endpoint_fails_before_anything_is_done(aws):
    with pytest.raises(NotConfigured, match="SLOTQ_ENDPOINT"):
        QueueTrainingJobSession(aws)


@pytest.fixture
def trained(aws, queue):
    """job1 waits, and has then run in two instances."""
    aws.client("sagemaker").create_training_job(
        TrainingJobName="job1",
        AlgorithmSpecification={"TrainingImage": "train:1", "TrainingInputMode": "File"},
        RoleArn="arn:aws:iam::123456789012:role/trainer",
        OutputDataConfig={"S3OutputPath": "s3://out"},
        ResourceConfig={"InstanceType": "ml.p5.48xlarge", "InstanceCount": 2, "VolumeSizeInGB": 1},
        StoppingCondition={"MaxRuntimeInSeconds": 60},
    )
    logs = aws.client("logs")
    logs.create_log_group(logGroupName=LOG_GROUP)
    for host, text in (("algo-1", "[step 1] loss 0.5"), ("algo-2", "I am the second")):
        stream = {"logGroupName": LOG_GROUP, "logStreamName": f"job1/{host}-1700000000"}
        logs.create_log_stream(**stream)
        event = {"timestamp": int(1000 * time.time()), "message": text}
        logs.put_log_events(**stream, logEvents=[event])
    two = {"demand": {"slots": 2}}
    last = ended(number=1, attempts=[attempt(1, outcome="completed", ended_at=MOMENT)], **two)
    queue.script(*[waiting(2, **two)] * 6, *[last] * 9)


PLACE = "waiting, place 2 in the line (1 ahead, since 2026-11-20 10:30 UTC): the pool is full"
LINES = [
    f"slotq: job1: {PLACE}",
    "[algo-1] [step 1] loss 0.5",
    "[algo-2] I am the second",
]


def logs_to(stream, level=logging.INFO):
    logging.getLogger().addHandler(logging.StreamHandler(stream))
    logging.getLogger().setLevel(level)


def slotq_logs():
    """As client-jobs.md says."""
    logging.getLogger("slotq").setLevel(logging.INFO)


@pytest.mark.parametrize(
    "case",
    [
        (lambda: None, True, 0, 0),
        (lambda: logs_to(sys.stderr, logging.WARNING), True, 0, 0),
        (lambda: logs_to(io.StringIO()), True, 0, 1),
        (lambda: logs_to(sys.stderr), False, 1, 1),
        (lambda: logging.getLogger("sagemaker").setLevel(logging.WARNING), False, 0, 0),
        (slotq_logs, True, 0, 1),
    ],
    ids=["nobody", "warnings", "a file", "this output", "quiet", "slotq's own"],
)
@pytest.mark.usefixtures("trained", "no_telemetry")
def test_what_the_sdk_only_logs_is_printed(session, capsys, caplog, case):
    configured, prints, shown, logged = case
    create(made := session(say=None))
    configured()
    capsys.readouterr()
    TrainingJob.get("job1", session=made.boto_session).wait(poll=0, logs=True)
    out, err = capsys.readouterr()
    assert [line for line in LINES if line in out.splitlines()] == (LINES if prints else [])
    assert err.count("loss 0.5") == shown
    assert caplog.text.count("loss 0.5") == logged, "each handler gets a line once"


@pytest.mark.usefixtures("trained")
def test_without_logs_only_the_sdks_status_is_shown(session, capsys):
    create(made := session(say=None))
    capsys.readouterr()
    TrainingJob.get("job1", session=made.boto_session).wait(poll=0)
    assert "loss" not in capsys.readouterr().out


@pytest.mark.parametrize("configured", [lambda: None, lambda: logs_to(sys.stderr)])
@pytest.mark.usefixtures("trained")
def test_lines_go_to_say_whoever_shows_them_too(session, said, configured):
    configured()
    create(made := session())
    TrainingJob.get("job1", session=made.boto_session).wait(poll=0, logs=True)
    assert set(LINES) < set(said)


def test_importing_slotq_does_not_import_the_sdk():
    code = (
        "import slotq, sys, slotq.cli.main, slotq.client, slotq.session.install\n"
        "import slotq.session.installed_sdk\n"
        "sys.exit('sagemaker.core' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_trainers_of_a_batch_are_sent_together(session, queue, said):
    ours = session(priority=4)
    with ours.batch() as batch:
        first = create(ours, "one")
        create(ours, "two")
        assert first.training_job_status == "InProgress"
        assert queue.jobs.keys().isdisjoint({"one", "two"})
        with pytest.raises(InvalidRequest, match="when the block of its gang or batch ends"):
            first.wait()
    assert [job.name for job in batch.jobs] == ["one", "two"]
    assert said[-1] == "two: in the queue with priority 4"


def test_the_trainers_of_a_block_are_one_gang(session, queue, said):
    ours = session(priority=4)
    with ours.gang("ring", min_members=1):
        first = create(ours, "ring-1")
        create(ours, "ring-2")
        assert (first.training_job_status, queue.groups) == ("InProgress", {})
        with pytest.raises(InvalidRequest, match="when the block of its gang or batch ends"):
            first.wait()
    assert queue.groups["ring"][0] == ["ring-1", "ring-2"]
    assert queue.gangs["ring"].min_members == 1
    assert queue.requests["ring-1"]["Tags"] == [{"Key": "priority", "Value": "4"}]
    assert said[-1] == "ring-2: in the queue, in gang ring"


def test_what_is_trained_within_after_comes_after_others(session, queue):
    made = session()
    with made.after("prepare", after_any=["group:grid"]):
        create(made)
    create(made, "job2")
    assert tags_of(queue.requests["job1"]) == {
        "slotq:after": "prepare",
        "slotq:after-any": "group:grid",
    }
    assert "Tags" not in queue.requests["job2"]


def test_a_tuning_job_is_refused_with_and_without_a_session(session):
    made = session()
    for given in ({"session": made.boto_session}, {}):
        with pytest.raises(ClientError, match="slotq sweep"):
            HyperParameterTuningJob.create(
                hyper_parameter_tuning_job_name="tuning",
                hyper_parameter_tuning_job_config=HyperParameterTuningJobConfig(
                    strategy="Random",
                    resource_limits=ResourceLimits(max_parallel_training_jobs=2),
                ),
                **given,
            )
