"""SageMaker's protocol on this machine, over a fake queue and moto's AWS, as a program in another
language sees it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from functools import cache

import boto3
import pytest
from moto import mock_aws

import slotq
from slotq.cli.machine.exec import NOT_FOUND
from slotq.session.relay import JsonRelay, clients, pointed_at, served
from tests.unit.client.fake_aws import REQUEST
from tests.unit.client.fake_queue import (
    ENDPOINT,
    FakeAnswer,
    FakeQueue,
    client_of,
    no_connection,
)


@cache
def boto_session():
    """One session for all tests of this file, because reading AWS's service models takes long."""
    return boto3.Session()


@pytest.fixture
def queue():
    return FakeQueue()


@pytest.fixture
def url(http):
    with mock_aws():
        slotq.install(boto_session(), queue=client_of(http), endpoint=ENDPOINT, priority=3)
        with served(JsonRelay(clients(boto_session(), "eu-west-1"))) as address:
            yield address


def post(url, operation, body=None, **headers):
    """Call as an SDK does. Returns status and body."""
    given = {"X-Amz-Target": operation, "Content-Type": "application/x-amz-json-1.1"}
    data = json.dumps(body or {}).encode() if not isinstance(body, bytes) else body
    request = urllib.request.Request(f"{url}/", data, given | headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_a_job_is_submitted_described_and_stopped(url, queue):
    status, said = post(url, "SageMaker.CreateTrainingJob", REQUEST)
    arn = "arn:aws:sagemaker:eu-west-1:123456789012:training-job/job1"
    assert (status, said) == (200, {"TrainingJobArn": arn})
    assert queue.requests["job1"]["Tags"] == [{"Key": "priority", "Value": "3"}]
    status, said = post(url, "SageMaker.DescribeTrainingJob", {"TrainingJobName": "job1"})
    assert (status, said["SecondaryStatus"]) == (200, "Pending")
    assert isinstance(said["CreationTime"], float), "moments are seconds"
    assert post(url, "SageMaker.StopTrainingJob", {"TrainingJobName": "job1"}) == (200, {})
    assert queue.jobs["job1"].state == "cancelled"


def test_the_logs_of_a_job_are_served(url):
    post(url, "SageMaker.CreateTrainingJob", REQUEST)
    asked = {"logGroupName": "/aws/sagemaker/TrainingJobs", "logStreamName": "job1/algo-1-slotq"}
    _, said = post(url, "Logs_20140328.GetLogEvents", asked)
    assert said["events"][0]["message"].startswith("slotq: job1: waiting, place 1")


def test_other_calls_go_to_aws(url):
    assert post(url, "SageMaker.ListModels") == (200, {"Models": []})
    status, said = post(url, "SageMaker.DescribeTrainingJob", {"TrainingJobName": "none"})
    assert (status, said["__type"]) == (400, "ValidationException")


def test_a_call_goes_to_the_region_of_its_signature(url):
    signed = "AWS4-HMAC-SHA256 Credential=AKIA/20261120/us-west-2/sagemaker/aws4_request, Sign..."
    _, said = post(url, "SageMaker.CreateTrainingJob", REQUEST, Authorization=signed)
    assert ":us-west-2:" in said["TrainingJobArn"]


@pytest.mark.parametrize(
    ("operation", "body", "code", "text"),
    [
        ("SageMaker.CreateTrainingJob", REQUEST | {"RoleArn": 7}, "ValidationException", "RoleArn"),
        ("SageMaker.CreateTrainingJob", b"{", "ValidationException", "Expecting"),
        ("SageMaker.CreateTrainingJob", b"[]", "ValidationException", "mapping"),
        ("SageMaker.NotYetInvented", {}, "UnknownOperationException", "NotYetInvented"),
        ("SageMaker.GetPaginator", {}, "UnknownOperationException", "GetPaginator"),
        ("DynamoDB_20120810.ListTables", {}, "UnknownOperationException", "relayed"),
    ],
)
def test_an_unsupported_call_is_an_error(url, operation, body, code, text):
    status, said = post(url, operation, body)
    assert (status, said["__type"]) == (400, code)
    assert text in said["message"]


def test_a_caller_without_the_secret_path_gets_nothing(url, queue):
    for wrong in (url.rpartition("/")[0], url[:-1], f"{url}x"):
        assert post(wrong, "SageMaker.CreateTrainingJob", REQUEST)[0] == 403
    assert not queue.requests


def test_an_unavailable_or_denying_queue_is_an_error(url, http):
    http.troubles = [no_connection()] * 20
    status, said = post(url, "SageMaker.CreateTrainingJob", REQUEST)
    assert (status, said["__type"]) == (400, "QueueUnavailable")
    http.troubles = [FakeAnswer(403, '{"message": "Forbidden"}')]
    status, said = post(url, "SageMaker.CreateTrainingJob", REQUEST)
    assert (status, said["__type"]) == (403, "AccessDeniedException")


def test_the_program_gets_the_relays_environment():
    given = {"HOME": "/home/ada", "no_proxy": "intranet", "AWS_ENDPOINT_URL_SAGEMAKER": "x"}
    assert pointed_at("http://127.0.0.1:1/s", given) == {
        "HOME": "/home/ada",
        "AWS_ENDPOINT_URL_SAGEMAKER": "http://127.0.0.1:1/s",
        "AWS_ENDPOINT_URL_CLOUDWATCH_LOGS": "http://127.0.0.1:1/s",
        "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "false",
        "NO_PROXY": "intranet,127.0.0.1",
        "no_proxy": "intranet,127.0.0.1",
    }


READS = "import os, sys; sys.exit(9 * os.environ['AWS_ENDPOINT_URL_SAGEMAKER'].startswith('http'))"


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ((sys.executable, "-c", READS), 9),
        (("sh", "-c", "kill -9 $$"), 128 + signal.SIGKILL),
        (("no-such-program",), NOT_FOUND),
        ((), 3),
    ],
)
def test_the_commands_exit_code_is_passed_on(command, code, tmp_path):
    """In a separate process, because the relay hooks boto3's session and handles signals."""
    shell = tmp_path / "shell"
    shell.write_text("#!/bin/sh\nexit 3\n")
    shell.chmod(0o755)
    config = tmp_path / "config.toml"
    config.touch()
    done = subprocess.run(
        [sys.executable, "-m", "slotq", "--endpoint", ENDPOINT, "exec", "--", *command],
        check=False, capture_output=True, text=True,
        env={**pointed_at("unused"), "SHELL": str(shell), "SLOTQ_CONFIG": str(config)},
    )  # fmt: skip
    assert done.returncode == code, done.stderr
