"""The Python of the client pages, run in order against a served queue."""

from __future__ import annotations

import logging
import re
from importlib.util import find_spec
from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from slotq.jobs import notices
from tests.least_request import TRAINER, least_request
from tests.unit.client.fake_aws import make_default_bucket
from tests.unit.client.fake_queue import FakeQueue, attempt, ended, running, served, waiting

DOCS = Path(__file__).parents[3] / "docs"
PAGES = "".join(
    (DOCS / name).read_text() for name in ("client.md", "client-jobs.md", "dependencies.md")
)
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGES, re.MULTILINE | re.DOTALL)
DONE = attempt(1, artifact="s3://my-bucket/models/plain/output/model.tar.gz", outcome="completed")


class QuickQueue(FakeQueue):
    """A queue whose job `my-job` has completed at the first look."""

    def taken(self, name, priority):
        if name == "my-job":
            return ended(name=name, priority=priority)
        return super().taken(name, priority)

    def _amend(self, name, wanted):
        job = super()._amend(name, wanted)
        if wanted.held is False:
            self.jobs[name] = ended(name=name, priority=job.priority, attempts=[DONE])
        return job


@pytest.fixture
def page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    queue = QuickQueue()
    with mock_aws(), served(queue) as endpoint:
        make_default_bucket()
        monkeypatch.setenv("SLOTQ_ENDPOINT", endpoint)
        yield queue


def block(mark):
    (found,) = (text for text in BLOCKS if mark in text)
    return compile(found, "docs", "exec")


@pytest.mark.usefixtures("no_telemetry")
def test_the_answers_to_the_first_questions_are_right(page, capsys):
    pytest.importorskip("sagemaker", reason="no SDK is installed")
    from slotq import QueueTrainingJobSession

    names = {"session": QueueTrainingJobSession()}
    for name in ("other", "my-job"):
        names["session"].queue.submit(least_request(name))
    exec(block("session.queue.list()"), names)
    assert "other pending" in capsys.readouterr().out
    first = PAGES.split("\n## ")[1]
    assert first.startswith("The first questions")
    table = first.partition("```")[0]
    answers = re.findall(r"`(session\.queue\.[^`]+)`", table)
    assert len(answers) == 4
    page.jobs["my-job"] = page.jobs["other"].model_copy(update={"name": "my-job"})
    for answer in answers:
        eval(answer, names)
    assert page.jobs["my-job"].state == "cancelled"


@pytest.mark.usefixtures("no_telemetry")
def test_the_estimator_example_runs(page):
    pytest.importorskip("sagemaker.estimator", reason="the sagemaker2 extra is not installed")
    exec(block('"Value": "50"'), {})
    tags = {tag["Key"]: tag["Value"] for tag in page.requests["my-job"]["Tags"]}
    assert tags == {"priority": "50", "slotq:pools": "p5,p4"}


@pytest.mark.usefixtures("no_telemetry")
def test_the_example_of_one_fit_after_another_runs(page):
    pytest.importorskip("sagemaker.estimator", reason="the sagemaker2 extra is not installed")
    exec(block("session.after("), {})
    after = {name: request.get("Tags") for name, request in page.requests.items()}
    assert after == {"prepare": None, "train": [{"Key": "slotq:after", "Value": "prepare"}]}


def test_the_example_of_one_submission_after_another_runs(page):
    exec(block("with queue.after("), {"request": least_request("any")})
    assert page.requests["train"]["Tags"] == [{"Key": "slotq:after", "Value": "prepare"}]
    exec(block("slotq.direct()"), {})


@pytest.mark.skipif(
    find_spec("sagemaker") is None or find_spec("sagemaker.core") is None,
    reason="the sagemaker3 extra is not installed",
)
@pytest.mark.usefixtures("no_telemetry")
def test_the_model_trainer_example_runs(page, monkeypatch):
    monkeypatch.setenv("SAGEMAKER_VALIDATE_ROLE", "false")
    boto3.client("iam").create_role(RoleName="trainer", AssumeRolePolicyDocument="{}")
    exec(block("ModelTrainer("), {})
    ((name, request),) = page.requests.items()
    assert name.startswith("my-job-")
    assert request["CheckpointConfig"]["S3Uri"] == "s3://my-bucket/my-job/checkpoints"


def test_the_boto3_and_job_examples_run(page, capsys):
    notebook: dict = {}
    exec(block("slotq.install("), notebook)
    assert page.requests["plain"]["Tags"] == [{"Key": "priority", "Value": "5"}]
    exec(block("job.hold()"), notebook)
    said = capsys.readouterr().out
    assert "InProgress" in said
    assert "pending 1 the pool is full" in said
    assert said.splitlines()[-1] == DONE.artifact
    assert page.jobs["plain-again"].state == "cancelled"
    exec(block('job = queue.get("plain")\njob'), notebook)
    assert "<b>plain</b>" in notebook["job"]._repr_mimebundle_()["text/html"]


def test_the_submit_example_runs(page):
    notebook: dict = {}
    exec(block("def submit("), notebook)
    request = least_request("own")
    assert notebook["submit"](request) == "own is pending, place 1"
    assert notebook["submit"](request | {"RoleArn": f"{TRAINER}2"}) == "choose another name"
    assert "ResourceConfig" in notebook["submit"]({"TrainingJobName": "own"})


def test_the_log_example_runs(page, tmp_path):
    logger = logging.getLogger("slotq")
    before, level = [*logger.handlers], logger.level
    exec(block("FileHandler("), {})
    try:
        notices.log("job1: waits")
        assert (tmp_path / "jobs.log").read_text() == "job1: waits\n"
    finally:
        for handler in set(logger.handlers) - set(before):
            logger.removeHandler(handler)
            handler.close()
        logger.setLevel(level)


def test_the_queue_state_example_runs(page, capsys):
    page.jobs = {"job1": running(), "job3": waiting(1, name="job3", priority=10)}
    exec(block("print_queue_state"), {})
    (shown,) = re.findall(r"^```text\n(.*?)^```", PAGES, re.MULTILINE | re.DOTALL)
    assert capsys.readouterr().out == shown
