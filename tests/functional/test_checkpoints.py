"""Preemptible jobs without checkpoints, through the real handler."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from slotq.cli.app import App
from slotq.cli.exits import ExitCode
from slotq.cli.main import cli
from tests.functional.account import Account, add_job, sample
from tests.functional.real_http import RealHttp
from tests.functional.test_pools import set_pool
from tests.unit.client.fake_aws import FakeServices
from tests.unit.client.fake_queue import client_of

TYPE = "ml.p4d.24xlarge"
SUBMITTER = add_job()["requestContext"]["identity"]["userArn"]


def submission(name: str = "job1", **tags: str) -> dict[str, Any]:
    """A submission without checkpoints."""
    given = [{"Key": f"slotq:{key}", "Value": value} for key, value in tags.items()]
    return add_job(TrainingJobName=name, CheckpointConfig=None, Tags=given)


def pools(account: Account, **rules: str) -> None:
    """Pools of one instance type with these rules for checkpoints."""
    for name, rule in rules.items():
        body = {"slots": 1, "instance_type": TYPE, "checkpoints": rule}
        status, told = account.call(set_pool(body, name))
        assert status == 200, told


def amend(account: Account, name: str = "job1", **tags: str) -> tuple[int, dict[str, Any]]:
    body = {"tags": {f"slotq:{key}": value for key, value in tags.items()}}
    event = {**sample("amend-job"), "path": f"/jobs/{name}", "body": json.dumps(body)}
    event["requestContext"]["identity"]["userArn"] = SUBMITTER
    return account.call(event)


def request(account: Account, name: str = "job1") -> dict[str, Any]:
    event = {**sample("get-request"), "path": f"/jobs/{name}/request"}
    event["requestContext"]["identity"]["userArn"] = SUBMITTER
    found: dict[str, Any] = account.call(event)[1]["request"]
    return found


def test_a_pool_warns_unless_it_is_told_otherwise(account: Account):
    status, job = account.call(submission())
    assert status == 202
    (warning,) = job["warnings"]
    assert "sets job1 back to its beginning" in warning
    assert "checkpoint_s3_uri" in warning
    account.settle()
    assert account.job("job1")["warnings"] == [warning]
    assert account.call("list-jobs")[1]["jobs"][0]["warnings"] == [warning]
    account.completes("job1")
    assert account.job("job1")["warnings"] == []


@pytest.mark.parametrize("tags", [{"preemptible": "false"}, {"class": "interactive"}], ids=str)
def test_nobody_warns_of_what_cannot_happen(account: Account, tags: dict[str, str]):
    pools(account, main="require")
    status, job = account.call(submission(**tags))
    assert (status, job.get("warnings")) == (202, [])


def test_a_job_with_checkpoints_is_left_alone(account: Account):
    pools(account, main="require")
    status, job = account.call("add-job")
    assert (status, job["warnings"]) == (202, [])


def test_a_pool_that_requires_checkpoints_refuses_a_job_without(account: Account):
    pools(account, main="require", other="warn")
    status, error = account.call(submission())
    assert (status, error["code"], error["field"]) == (
        400,
        "checkpoints_required",
        "CheckpointConfig",
    )
    assert "slotq:pools=other" in error["message"]
    assert account.call({**sample("get-job"), "path": "/jobs/job1"})[1]["code"] == "no_such_job"
    assert account.call(submission(pools="other"))[0] == 202


def test_a_pool_provides_a_place_below_the_output(account: Account):
    pools(account, main="provide")
    status, job = account.call(submission())
    assert status == 202
    (notice,) = job["warnings"]
    output = request(account)["OutputDataConfig"]["S3OutputPath"].rstrip("/")
    place = request(account)["CheckpointConfig"]["S3Uri"]
    assert place.startswith(f"{output}/slotq-checkpoints/job1/")
    assert place in notice
    assert account.job("job1")["warnings"] == []
    account.settle()
    assert account.plane.job("job1").request["CheckpointConfig"] == {"S3Uri": place}


def test_the_same_submission_is_the_same_job_whatever_was_provided(account: Account):
    pools(account, main="provide")
    account.call(submission())
    place = request(account)["CheckpointConfig"]
    account.clock.set(account.clock.now() + 5_000)
    assert account.call(submission())[0] == 202
    pools(account, main="require")
    assert account.call(submission())[0] == 202, "a rule that came later refuses nobody"
    assert request(account)["CheckpointConfig"] == place


def test_a_job_that_becomes_preemptible_is_asked_then(account: Account):
    pools(account, main="require")
    account.call(submission(preemptible="false"))
    status, error = amend(account, preemptible="true")
    assert (status, error["code"]) == (400, "checkpoints_required")
    pools(account, main="provide")
    status, job = amend(account, preemptible="true")
    assert status == 200
    assert request(account)["CheckpointConfig"]["S3Uri"] in job["warnings"][0]


def test_a_running_job_is_given_nothing_that_its_attempt_cannot_use(account: Account):
    pools(account, main="provide")
    account.call(submission(preemptible="false"))
    account.settle()
    status, job = amend(account, preemptible="true")
    assert (status, job["state"]) == (200, "running")
    assert "back to its beginning" in job["warnings"][0]
    assert "CheckpointConfig" not in request(account)


def test_other_changes_of_an_accepted_job_are_not_asked(account: Account):
    account.call(submission(preemptible="true"))
    pools(account, main="require")
    assert amend(account, retries="3")[0] == 200


@pytest.fixture
def slotq(account: Account, tmp_path: Path) -> Callable[..., Result]:
    """Runs a command; `FILE` stands for a request without checkpoints."""
    (tmp_path / "job1.json").write_text(submission()["body"])

    def run(*words: str) -> Result:
        http = RealHttp(account, SUBMITTER)
        world = App(connect=lambda _: client_of(http), aws=FakeServices())
        args = [str(tmp_path / "job1.json") if word == "FILE" else word for word in words]
        return CliRunner().invoke(cli, args, obj=world)

    return run


def view(result: Result) -> dict[str, Any]:
    """The JSON that a command prints. The handler, in the same process, prints its metrics."""
    text = "\n".join(x for x in result.stdout.splitlines() if not x.startswith('{"_aws"'))
    found: dict[str, Any] = json.loads(text)
    return found


def test_the_command_line_tells_the_warning(account: Account, slotq: Callable[..., Result]):
    submitted = slotq("submit", "FILE")
    assert submitted.exit_code == ExitCode.OK, submitted.output
    assert "warning" in submitted.stdout
    assert "sets job1 back to its beginning" in " ".join(slotq("show", "job1").stdout.split())
    (warning,) = view(slotq("show", "job1", "--json"))["warnings"]
    assert "checkpoint_s3_uri" in warning


def test_the_command_line_tells_the_place(account: Account, slotq: Callable[..., Result]):
    pools(account, main="provide")
    submitted = slotq("submit", "FILE", "--json")
    (notice,) = view(submitted)["warnings"]
    assert request(account)["CheckpointConfig"]["S3Uri"] in notice


def test_the_command_line_tells_the_refusal(account: Account, slotq: Callable[..., Result]):
    pools(account, main="require")
    refused = slotq("submit", "FILE")
    assert refused.exit_code == ExitCode.NO
    assert "slotq:preemptible=false" in refused.stderr
    assert slotq("submit", "FILE", "--not-preemptible").exit_code == ExitCode.OK
