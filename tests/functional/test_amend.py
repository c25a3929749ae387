"""Holding, releasing and retagging jobs through the real handler."""

import json
from typing import Any

import pytest

from tests.functional.account import Account, sample


def amend(body: Any, name: str = "job1") -> dict[str, Any]:
    event = sample("amend-job")
    return {**event, "path": f"/jobs/{name}", "body": json.dumps(body)}


def test_a_job_is_held_and_retagged_at_once_and_released(account: Account):
    account.call("add-job")
    status, job = account.call("amend-job")
    assert (status, job["state"], job["priority"]) == (200, "held", 5)
    assert "held by arn:aws:" in job["message"]
    account.settle()
    assert account.state("job1") == "held"
    status, shown = account.call("get-request")
    assert (status, shown["name"]) == (200, "job1")
    tags = {tag["Key"]: tag["Value"] for tag in shown["request"]["Tags"]}
    assert (tags["priority"], tags["team"]) == ("5", "vision")
    before = json.loads(sample("add-job")["body"])
    assert {**shown["request"], "Tags": None} == {**before, "Tags": None}
    status, job = account.call(amend({"held": False}))
    assert (status, job["state"]) == (200, "pending")
    account.settle()
    assert account.state("job1") == "running"


def test_a_change_of_an_ended_or_unknown_job_is_refused(account: Account):
    account.call("add-job")
    account.settle()
    status, error = account.call(amend({"held": True}))
    assert (status, error["code"], error["field"]) == (409, "too_late", "held")
    assert "job1 is running" in error["message"]
    status, error = account.call(amend({"held": True}, "job9"))
    assert (status, error["code"]) == (404, "no_such_job")
    event = sample("get-request")
    status, error = account.call({**event, "path": "/jobs/job9/request"})
    assert (status, error["code"]) == (404, "no_such_job")


@pytest.mark.parametrize(
    ("body", "field", "said"),
    [
        ([], "", "JSON object"),
        ({}, "", "say what to change"),
        ({"held": "yes"}, "held", "boolean"),
        ({"priority": 5}, "priority", "not permitted"),
        ({"tags": {"priority": 5}}, "tags.priority", "string"),
        ({"tags": {"priority": "hihg"}}, "Tags", "names no class"),
        ({"tags": {"priority": "1.5"}}, "Tags", "integer"),
        ({"tags": {"slotq:pool": "p5"}}, "Tags", "slotq:pools"),
        ({"tags": {f"t{n}": "x" for n in range(60)}}, "tags", "44"),
        ({"tags": {"t": "x" * 300}}, "Tags", "256"),
        ({"give_up": "1"}, "give_up", "integer"),
        ({"give_up": -1}, "give_up", "greater"),
        ({"give_up": 1}, "give_up", "begun 0 attempts"),
    ],
)
def test_a_malformed_change_changes_nothing(account: Account, body, field, said):
    account.call("add-job")
    before = account.items()
    status, error = account.call(amend(body))
    assert (status, error["code"]) == (400, "invalid_request")
    assert error["field"].startswith(field)
    assert said in error["message"]
    assert account.items() == before


@pytest.mark.parametrize(
    ("tags", "code", "said"),
    [
        ({"priority": "abc"}, "invalid_request", "names no class: 'abc'"),
        ({"priority": "1.5"}, "invalid_request", "integer"),
        ({"priority": "hihg"}, "invalid_request", "did you mean 'HIGH'?"),
        ({"slotq:pools": "p6"}, "invalid_request", "names no pool of this queue: p6"),
        ({"slotq:project": "nope"}, "project_not_allowed", "no projects"),
        ({"slotq:pool": "p5"}, "invalid_request", "the tag 'slotq:pool' is unknown"),
        ({"priority": "5"}, "too_late", "has already ended"),
        ({"priority": "high"}, "too_late", "has already ended"),
    ],
)
def test_of_a_wrong_value_and_an_ended_job_the_value_is_named(account: Account, tags, code, said):
    account.call("add-job")
    account.call("cancel-job")
    account.settle()
    _, error = account.call(amend({"tags": tags}))
    assert (error["code"], said in error["message"]) == (code, True), error
    changes = json.dumps({"changes": [{"name": "job1", "tags": tags}]})
    (outcome,) = account.call({**sample("change-jobs"), "body": changes})[1]["outcomes"]
    assert outcome["error"]["code"] == code


def test_an_unsigned_caller_changes_nothing(account: Account):
    account.call("add-job")
    event = amend({"held": True})
    event["requestContext"]["identity"]["userArn"] = None
    assert account.call(event)[0] == 403
    assert account.state("job1") == "pending"


def test_a_running_attempt_is_requeued(account: Account):
    account.call("add-job")
    account.settle()
    status, job = account.call(amend({"give_up": 1}))
    assert (status, job["state"]) == (200, "stopping")
    assert "given up by arn:aws:" in job["message"]
    account.settle()
    status, job = account.call("get-job")
    assert (job["state"], job["attempts_begun"], job["evictions"]) == ("running", 2, 1)
    assert [each["stop_cause"] for each in job["attempts"]] == ["requeued", None]
