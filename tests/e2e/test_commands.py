"""The client and the commands against the code that is deployed: signatures, answers, refusals."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from slotq import QueueClient
from slotq.cli.exits import Exit
from slotq.cli.main import cli
from slotq.config import Config, load
from slotq.errors import InvalidRequest, NotAllowed, UnexpectedAnswer
from slotq_core.wire import JobView, QueueView

pytestmark = pytest.mark.usefixtures("aws")


def request(name, *command):
    return {
        "TrainingJobName": name,
        "AlgorithmSpecification": {
            "TrainingImage": "none",
            "TrainingInputMode": "File",
            "ContainerEntrypoint": list(command),
        },
        "RoleArn": "arn:aws:iam::123456789012:role/trainer",
        "OutputDataConfig": {"S3OutputPath": "s3://sagemaker-us-east-1-123456789012/models"},
        "ResourceConfig": {
            "InstanceType": "ml.p5.48xlarge",
            "InstanceCount": 1,
            "VolumeSizeInGB": 1,
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": 60},
    }


def slotq(*arguments, **options):
    return CliRunner().invoke(cli, arguments, **options)


def test_a_job_from_its_file_to_its_end(tmp_path):
    (tmp_path / "job.json").write_text(json.dumps(request("hello", "echo", "hello")))
    result = slotq("submit", str(tmp_path / "job.json"), "--priority", "3", "--wait")
    assert result.exit_code == Exit.OK, result.output
    assert result.output.splitlines()[-1] == "hello: completed after 1 attempt"
    job = JobView.model_validate_json(slotq("show", "hello", "--json").output)
    assert (job.state, job.priority, job.submitter[-12:]) == ("completed", 3, "user/testing")
    assert job.attempts[0].artifact.endswith("/hello/output/model.tar.gz")


def test_a_job_that_fails_is_a_no():
    result = slotq("submit", "-", "--wait", input=json.dumps(request("broken", "false")))
    assert result.exit_code == Exit.NO
    assert "exit code: 1" in result.output


def test_the_line_and_its_reasons():
    slotq("submit", "-", input=json.dumps(request("long", "sleep", "100")))
    slotq("submit", "-", input=json.dumps(request("next", "true")))
    slotq("submit", "-", input=json.dumps(request("last", "true")))
    view = QueueView.model_validate_json(slotq("ls", "--state", "pending", "--json").output)
    assert [(job.name, job.place) for job in view.jobs] == [("next", 1), ("last", 2)]
    assert "needs 1 slot; pool one has 0 free of 1" in slotq("why", "next").output
    for name in ("next", "last", "long"):
        assert slotq("cancel", name).exit_code == Exit.OK
    assert slotq("watch", "long", "--every", "0.2").exit_code == Exit.NO
    assert "cancelled" in slotq("show", "long").output


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"TrainingJobName": "a_b"}, "TrainingJobName"),
        ({"ResourceConfig": {}}, "ResourceConfig"),
        ({"Tags": [{"Key": "priority", "Value": "1000001"}]}, "1,000,000"),
        ({"Tags": [{"Key": "slotq:pool", "Value": "x"}]}, "slotq:pools"),
    ],
)
def test_what_is_refused_names_its_field(change, said):
    result = slotq("submit", "-", input=json.dumps(request("bad", "true") | change))
    assert result.exit_code == Exit.NO
    assert said in result.stderr
    assert slotq("show", "bad").exit_code == Exit.NO


def test_who_is_not_let_in(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(NotAllowed, match="signature"):
        QueueClient().jobs()
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(NotAllowed, match="no AWS credentials"):
        QueueClient().jobs()
    assert slotq("ls").exit_code == Exit.NOT_ALLOWED


def test_as_through_a_vpc_endpoint():
    config = replace(load(), api_id="slotqlocal")
    assert isinstance(QueueClient(config=config).jobs(), list)
    with pytest.raises(NotAllowed, match="SLOTQ_API_ID"):
        QueueClient(config=replace(config, api_id="another")).jobs()


def test_an_endpoint_without_its_stage(aws):
    with pytest.raises((NotAllowed, UnexpectedAnswer), match="stage"):
        QueueClient(config=Config(endpoint=aws.url)).jobs()


def test_a_larger_request_than_the_queue_takes_is_not_sent():
    large = request("large", "true") | {"Environment": {"A": "x" * 1_000_001}}
    with pytest.raises(InvalidRequest):
        QueueClient().submit(large)
