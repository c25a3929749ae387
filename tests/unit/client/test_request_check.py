"""A malformed request is refused before it is sent, through every entry point, with all its
faults."""

from __future__ import annotations

import json
from pathlib import Path

import boto3
import pytest
from botocore.exceptions import ClientError, ParamValidationError

import slotq
from slotq.cli.exits import ExitCode
from slotq.errors import InvalidRequest
from tests.least_request import least_request
from tests.unit.client.fake_queue import ENDPOINT, FakeHttp, client_of


@pytest.fixture
def http():
    return FakeHttp()


def bad_request():
    request = least_request("job1", StopingCondition={"MaxRuntimeInSeconds": 60})
    del request["RoleArn"]
    request["AlgorithmSpecification"]["TrainingInputMode"] = "Files"
    return request


TOLD = ["RoleArn: is required", "StopingCondition:", "mean StoppingCondition?", "mean File?"]


def test_the_client_refuses_a_malformed_request(http):
    with pytest.raises(InvalidRequest) as refused:
        client_of(http).submit(bad_request())
    assert all(words in str(refused.value) for words in TOLD)
    assert "botocore" in str(refused.value), "a newer one may know of more"
    assert refused.value.field == "AlgorithmSpecification.TrainingInputMode"
    assert http.sent == []


def test_the_message_is_as_on_the_page(http):
    request = least_request("job1", StopingCondition={"MaxRuntimeInSeconds": 60})
    request["ResourceConfig"]["InstanceCount"] = "1"
    del request["RoleArn"]
    with pytest.raises(InvalidRequest) as refused:
        client_of(http).submit(request)
    page = Path(__file__).parents[3] / "docs/client.md"
    assert f"```none\n{refused.value}\n```" in page.read_text(encoding="utf-8")


def test_a_missing_field_is_not_blamed_on_botocores_age(http):
    request = least_request("job1", InputDataConfig=[{"ChannelName": "train"}])
    with pytest.raises(InvalidRequest) as refused:
        client_of(http).submit(request)
    assert str(refused.value) == "InputDataConfig.0.DataSource: is required"


def test_a_field_that_a_project_may_fill_in_is_left_to_the_queue(http):
    request = least_request("job1")
    del request["RoleArn"], request["OutputDataConfig"]
    assert client_of(http).submit(request).name == "job1"


def test_commas_between_pools_never_reach_sagemaker(http):
    tags = [{"Key": "slotq:pools", "Value": "p5,p4"}]
    assert client_of(http).submit(least_request("job1", Tags=tags)).name == "job1"
    with pytest.raises(InvalidRequest, match=r"Tags\.0\.Value: must have the form"):
        client_of(http).submit(least_request("job1", Tags=[{"Key": "team", "Value": "a,b"}]))


def test_a_malformed_request_file_is_refused(slotq, http, tmp_path):
    (tmp_path / "bad.json").write_text(json.dumps(bad_request()))
    for more in ((), ("--dry-run",)):
        result = slotq("submit", str(tmp_path / "bad.json"), *more)
        assert result.exit_code == ExitCode.NO
        assert all(words in result.stderr for words in TOLD)
    assert http.sent == []


@pytest.mark.parametrize("content", ["[" * 1000, "Tags: 2026-02-30"])
def test_a_request_file_that_no_loader_reads_is_refused(slotq, http, tmp_path, content):
    (tmp_path / "bad.yaml").write_text(content)
    result = slotq("submit", str(tmp_path / "bad.yaml"))
    assert result.exit_code == ExitCode.USAGE
    assert "bad.yaml cannot be read: " in result.stderr
    assert http.sent == []


def test_plain_boto3_refuses_a_malformed_request(http):
    """botocore checks names and types first; the remaining checks follow."""
    aws = boto3.Session(region_name="us-east-1")
    slotq.install(aws, queue=client_of(http), endpoint=ENDPOINT)
    sagemaker = aws.client("sagemaker")
    with pytest.raises(ParamValidationError, match="StopingCondition"):
        sagemaker.create_training_job(**bad_request())
    request = least_request("job1", HyperParameters={"a": "x" * 2501})
    with pytest.raises(ClientError, match=r"HyperParameters\.a: must have at most 2,500 char"):
        sagemaker.create_training_job(**request)
    assert http.sent == []
