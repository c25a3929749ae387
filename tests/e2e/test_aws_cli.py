"""The AWS CLI, the queue and real processes: submitted, evicted, resumed, described, finished.

It has a botocore of its own, which no hook reaches, and is pointed at the relay of `slotq exec`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import boto3
import pytest

from slotq import QueueClient, install
from slotq.session.relay import JsonRelay, clients, pointed_at, served
from slotq_core.names import LOG_GROUP
from tests.e2e import test_boto3
from tests.e2e.test_boto3 import ENDLESS, STOPPED_ONCE, evicted_and_resumed, request
from tests.e2e.waiting import until

OWN = Path(sys.prefix, "awscli", "bin", "aws")
AWS = str(OWN) if OWN.exists() else shutil.which("aws") or ""

pytestmark = pytest.mark.skipif(not AWS, reason="there is no AWS CLI (`make test` installs it)")


@pytest.fixture(scope="module")
def environment(aws):
    """The environment that `slotq exec` gives its command; one relay for all tests, to save
    time."""
    session = boto3.Session()
    install(session, priority=1)
    with served(JsonRelay(clients(session, aws.region))) as url:
        yield {k: v for k, v in pointed_at(url).items() if k != "PYTHONPATH"}


@pytest.fixture
def cli(environment):
    def run(*words):
        done = subprocess.run(
            [AWS, *words, "--output", "json"],
            check=False, capture_output=True, text=True, timeout=60, env=environment,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout or "null")

    return run


def creation(tmp_path, wanted):
    file = tmp_path / "request.json"
    file.write_text(json.dumps(wanted))
    return "sagemaker", "create-training-job", "--cli-input-json", f"file://{file}"


def described(cli, name):
    said = cli("sagemaker", "describe-training-job", "--training-job-name", name)
    return said["TrainingJobStatus"], said["SecondaryStatus"]


def log_of(cli, name):
    """The whole of the job's one log stream, page after page."""
    stream = ("--log-group-name", LOG_GROUP, "--log-stream-name", f"{name}/algo-1-slotq")
    lines, token = [], []
    while True:
        page = cli("logs", "get-log-events", *stream, "--start-from-head", *token)
        lines += [event["message"] for event in page["events"]]
        if token == ["--next-token", page["nextForwardToken"]]:
            return lines
        token = ["--next-token", page["nextForwardToken"]]


def test_a_job_is_evicted_resumes_and_completes(aws, cli, tmp_path):
    queue = QueueClient()
    made = cli(*creation(tmp_path, request(aws, "low", STOPPED_ONCE)))
    assert made["TrainingJobArn"].endswith(":123456789012:training-job/low")
    until(lambda: queue.jobs.view("low").state == "running", "low does not run")
    # By boto3: the log grows quicker than the CLI reads its pages.
    until(lambda: "step 1" in test_boto3.log_of(boto3.Session(), "low"), "low does nothing")
    urgent = [{"Key": "priority", "Value": "5"}]
    cli(*creation(tmp_path, request(aws, "high", ENDLESS, Tags=urgent)))
    until(lambda: queue.jobs.view("low").state == "preempted", "low was not evicted")
    assert described(cli, "low") == ("InProgress", "Pending")
    cli("sagemaker", "stop-training-job", "--training-job-name", "high")

    until(lambda: queue.jobs.view("low").state == "completed", "low has not completed")
    cli(
        "sagemaker", "wait", "training-job-completed-or-stopped", "--training-job-name", "low"
    )  # The CLI's waiter polls every two minutes, so it is not used.
    assert described(cli, "low") == ("Completed", "Completed")
    evicted_and_resumed(log_of(cli, "low"))


def test_a_waiting_job_is_listed_and_stopped(aws, cli, tmp_path):
    queue = QueueClient()
    cli(*creation(tmp_path, request(aws, "first", ENDLESS)))
    until(lambda: queue.jobs.view("first").state == "running", "first does not run")
    cli(*creation(tmp_path, request(aws, "second", 5)))
    rows = cli("sagemaker", "list-training-jobs", "--name-contains", "second")
    assert [row["TrainingJobName"] for row in rows["TrainingJobSummaries"]] == ["second"]
    cli("sagemaker", "stop-training-job", "--training-job-name", "second")
    assert described(cli, "second") == ("Stopped", "Stopped")
    queue.jobs.cancel("first")
    until(lambda: queue.jobs.view("first").state == "cancelled", "first was not cancelled")


def test_slotq_exec_passes_the_commands_output_and_exit_code(aws, tmp_path):
    wanted = request(aws, "refused", 1, Tags=[{"Key": "priority", "Value": "1.5"}])
    words = ("exec", "--", "env", "-u", "PYTHONPATH", AWS, *creation(tmp_path, wanted))
    done = subprocess.run(
        [sys.executable, "-m", "slotq", *words],
        check=False, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode not in {0, 1}
    assert "(ValidationException) when calling the CreateTrainingJob operation" in done.stderr
    assert "or an integer from" in done.stderr
