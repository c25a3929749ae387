"""How a process learns of a suspend from AWS, and what it costs to ask."""

from __future__ import annotations

import io
import json
import math

import pytest

import slotq_training
from tests.work import counted_calls

MARKER = "runs/job1/checkpoints/_slotq/job1-qstamp-2-abcdef/suspend.json"


class Refused(Exception):
    """As botocore's ClientError."""

    def __init__(self, code):
        super().__init__(code)
        self.response = {"Error": {"Code": code}}


class FakeAws:
    """S3 and SageMaker, as far as a training script asks them."""

    def __init__(self):
        self.objects, self.status, self.calls = {}, "InProgress", []
        self.missing, self.down = "NoSuchKey", False
        self.checkpoints = {"S3Uri": "s3://bucket/runs/job1/checkpoints/"}

    def client(self, service):
        if self.down:
            raise ImportError("boto3")
        return self

    def get_object(self, *, Bucket, Key):  # noqa: N803 - boto3's
        self.calls.append("marker")
        assert Bucket == "bucket"
        if Key not in self.objects:
            raise Refused(self.missing)
        return {"Body": io.BytesIO(self.objects[Key])}

    def put_object(self, *, Bucket, Key, Body):  # noqa: N803 - boto3's
        self.objects[Key] = Body

    def describe_training_job(self, *, TrainingJobName):  # noqa: N803 - boto3's
        self.calls.append("describe")
        assert TrainingJobName == "job1-qstamp-2-abcdef"
        return {"TrainingJobStatus": self.status, "CheckpointConfig": self.checkpoints}


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr("time.monotonic", made)
    return made


@pytest.fixture
def aws():
    return FakeAws()


@pytest.fixture
def sources(tmp_path, monkeypatch, aws, clock):
    monkeypatch.setenv("TRAINING_JOB_NAME", "job1-qstamp-2-abcdef")
    monkeypatch.setenv("SLOTQ_CHECKPOINT_DIR", str(tmp_path / "checkpoints"))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    for name in ("SLOTQ_CHECKPOINTS", "SLOTQ_PASSES_SIGTERM"):
        monkeypatch.delenv(name, raising=False)
    return slotq_training._Sources(aws.client)


def watched(sources, clock, seconds):
    """What is found within so many seconds, looking as often as the thread does."""
    for _ in range(int(seconds / slotq_training._TICK)):
        clock.now += slotq_training._TICK
        if (found := sources.look()) is not None:
            return found
    return None


@pytest.mark.parametrize(
    ("content", "grace"), [(b"", None), (b'{"version": 1, "grace": 5}', 5), (b"[]", None)]
)
def test_the_queues_marker_is_found_within_seconds(sources, aws, clock, content, grace):
    assert watched(sources, clock, 10) is None
    aws.objects[MARKER] = content
    found = watched(sources, clock, 3)
    assert found == {"via": "marker", "grace": grace, "stopping": False}


def test_a_stop_shows_in_the_jobs_own_status(sources, aws, clock):
    assert watched(sources, clock, 30) is None
    aws.status = "Stopping"
    assert watched(sources, clock, 30) == {"via": "status", "grace": None, "stopping": True}


def test_asking_is_cheap(sources, aws, clock):
    watched(sources, clock, 600)
    assert aws.calls.count("marker") < 400
    assert aws.calls.count("describe") < 40


def test_the_status_is_not_asked_where_sigterm_arrives(sources, aws, clock, monkeypatch):
    monkeypatch.setenv("SLOTQ_PASSES_SIGTERM", "1")
    watched(sources, clock, 600)
    assert aws.calls.count("describe") == 1, "once, for the place of the checkpoints"


def test_the_environment_may_say_where_the_checkpoints_are(sources, aws, clock, monkeypatch):
    sources._uri = "s3://bucket/runs/job1/checkpoints"
    aws.objects[MARKER] = b""
    assert watched(sources, clock, 3) is not None
    assert "describe" not in aws.calls


def test_without_the_right_to_list_a_missing_marker_looks_forbidden(sources, aws, clock):
    aws.missing = "AccessDenied"
    assert watched(sources, clock, 600) is None
    aws.objects[MARKER] = b""
    assert watched(sources, clock, 3) is not None, "it is still asked as often"


def test_what_fails_is_asked_more_and_more_rarely(sources, aws, clock):
    aws.missing = "SlowDown"
    watched(sources, clock, 900)
    assert aws.calls.count("marker") < 15


def test_without_boto3_the_machines_own_files_are_looked_at(sources, aws, clock, tmp_path):
    aws.down = True
    assert watched(sources, clock, 60) is None
    marker = tmp_path / "checkpoints/_slotq/job1-qstamp-2-abcdef/suspend.json"
    marker.parent.mkdir(parents=True)
    marker.write_text("")
    assert watched(sources, clock, 1) == {"via": "marker", "grace": None, "stopping": False}


def test_a_job_without_checkpoints_in_s3_has_its_status_only(sources, aws, clock):
    aws.checkpoints = {}
    assert watched(sources, clock, 100) is None
    assert "marker" not in aws.calls
    aws.status = "Stopping"
    assert watched(sources, clock, 30) is not None


def test_one_process_of_a_machine_asks(sources, aws, clock):
    watched(sources, clock, 10)
    other = FakeAws()
    another = slotq_training._Sources(other.client)
    watched(another, clock, 60)
    assert other.calls == []
    sources.tell_others({"via": "status", "grace": None, "stopping": True})
    assert another.look() == {"via": "status", "grace": None, "stopping": True}


def test_a_report_goes_to_s3_and_to_the_checkpoints(sources, aws, clock, tmp_path):
    reports = slotq_training._Reports()
    reports.latest = (42, 100, {"loss": 0.5}, 1_700_000_000_000)
    reports.saved(epoch=1, step=40, seconds=2.5)
    reports.write(sources, last=False)
    name = "_slotq/job1-qstamp-2-abcdef/report.json"
    written = json.loads((tmp_path / "checkpoints" / name).read_text())
    assert json.loads(aws.objects[f"runs/job1/checkpoints/{name}"]) | {"at": 0} == written | {
        "at": 0
    }
    assert (written["step"], written["of"], written["metrics"]) == (42, 100, {"loss": 0.5})
    assert written["checkpoint"]["step"] == 40
    assert written["checkpoint"]["seconds"] == 2.5
    assert written["suspend"] is None


class Scalar:
    """An integer of numpy or torch, as far as Python knows it."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


class Several:
    """A tensor of torch with several elements."""

    def __float__(self):
        raise RuntimeError("a Tensor with 2 elements cannot be converted to Scalar")

    def __str__(self):
        return "tensor([1., 2.])"


def test_a_report_takes_the_numbers_and_tensors_of_libraries(sources, aws, clock, tmp_path):
    reports = slotq_training._Reports()
    reports.first = {"step": Scalar(41), "at": 1}
    reports.latest = (Scalar(42), math.inf, {"loss": Several(), "seen": Scalar(7)}, 2)
    reports.write(sources, last=False)
    name = "_slotq/job1-qstamp-2-abcdef/report.json"
    written = json.loads((tmp_path / "checkpoints" / name).read_text())
    assert (written["step"], written["of"], written["first"]["step"]) == (42, "inf", 41)
    assert written["metrics"] == {"loss": "tensor([1., 2.])", "seen": 7}


def test_a_report_goes_to_s3_where_the_disk_takes_none(sources, aws, clock, tmp_path):
    (tmp_path / "checkpoints" / "_slotq").write_text("no folder")
    reports = slotq_training._Reports()
    reports.latest = (42, 100, {}, 2)
    reports.write(sources, last=False)
    name = "_slotq/job1-qstamp-2-abcdef/report.json"
    assert json.loads(aws.objects[f"runs/job1/checkpoints/{name}"])["step"] == 42


def test_reports_are_written_a_second_apart(sources, aws, clock):
    reports, puts = slotq_training._Reports(), []
    aws.put_object = lambda **put: puts.append(json.loads(put["Body"])["step"])
    for step in range(300):
        reports.latest = (step, None, {}, 0)
        reports.write(sources, last=False)
        clock.now += 0.1
    assert len(puts) <= 3
    assert counted_calls(lambda: reports.write(sources, last=False)) < 30, "no file, no call"
