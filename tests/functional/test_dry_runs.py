"""Dry submissions through the real handler: the answer of a submission, and nothing is stored."""

import copy
import json
from typing import Any

import pytest

from tests.functional.account import EVENTS, Account, add_job, forget, sample
from tests.functional.sharing import OTHER, OWNER, share

MEMBER = json.loads(sample("add-job")["body"])
TYPE = MEMBER["ResourceConfig"]["InstanceType"]


def tagged(**tags: str) -> list[dict[str, str]]:
    return [{"Key": key.replace("_", ":", 1), "Value": value} for key, value in tags.items()]


def resources(count: int = 1, kind: str = TYPE) -> dict[str, Any]:
    return {"InstanceType": kind, "InstanceCount": count, "VolumeSizeInGB": 50}


def group(name: str = "grid", /, members: int = 2, **changes: Any) -> dict[str, Any]:
    every = [{**MEMBER, "TrainingJobName": f"{name}-{n}", **changes} for n in range(members)]
    body = {"name": name, "max_parallel": 1, "members": every}
    return {**sample("submit-group"), "body": json.dumps(body)}


def gang(members: int, **changes: Any) -> dict[str, Any]:
    event = group("ring", members=members, **changes)
    body = json.loads(event["body"])
    body.pop("max_parallel")
    return {**event, "body": json.dumps({**body, "gang": {}})}


def signed(event: dict[str, Any], *, by: str) -> dict[str, Any]:
    event = copy.deepcopy(event)
    event["requestContext"]["identity"]["userArn"] = by
    return event


def dry(event: dict[str, Any], *values: str) -> dict[str, Any]:
    given = [*(values or ("true",))]
    return event | {
        "queryStringParameters": {"dry_run": given[-1]},
        "multiValueQueryStringParameters": {"dry_run": given},
    }


@pytest.fixture
def shared(account: Account) -> Account:
    """A queue that is shared between two projects; `there` is a job of the other one."""
    share()
    event = signed(add_job(TrainingJobName="there", Tags=tagged(priority="0")), by=OTHER)
    assert account.call(event)[0] == 202
    event = signed(add_job(TrainingJobName="own", Tags=tagged(priority="0")), by=OWNER)
    assert account.call(event)[0] == 202
    account.settle()
    account.lambda_.events.clear()
    return account


WRONG = {
    "priority": {"Tags": tagged(priority="first")},
    "project": {"Tags": tagged(slotq_project="nowhere")},
    "project of others": {"Tags": tagged(slotq_project="speech")},
    "priority above the project's": {"Tags": tagged(priority="11")},
    "after": {"Tags": tagged(slotq_after="never")},
    "pool": {"Tags": tagged(slotq_pools="nope")},
    "instance type": {"ResourceConfig": resources(kind="ml.odd.xlarge")},
    "count": {"ResourceConfig": resources(count=3)},
    "field": {"StoppingCondition": {"MaxRuntimeInSeconds": "soon"}},
    "name": {"TrainingJobName": "own"},
    "name of others": {"TrainingJobName": "there"},
}


@pytest.mark.parametrize("what", WRONG)
def test_a_dry_run_is_refused_as_the_submission_is(shared: Account, what: str):
    for made in (add_job(**WRONG[what]), group(**WRONG[what])):
        event, before = signed(made, by=OWNER), shared.items()
        status, told = shared.call(dry(event))
        assert status in {400, 403, 409}, told
        assert shared.items() == before
        assert shared.call(event) == (status, told)


def test_a_dry_run_says_what_the_job_would_be_and_stores_nothing(shared: Account):
    tags = tagged(priority="7", slotq_after="own")
    event = signed(add_job(TrainingJobName="new", Tags=tags), by=OWNER)
    before = shared.items()
    status, would = shared.call(dry(event))
    assert (status, shared.items()) == (200, before)
    assert shared.lambda_.events == []
    named = ("name", "state", "priority", "project", "pools", "demand", "after", "warnings")
    assert [would[key] for key in named[:5]] == ["new", "pending", 7, "vision", ["main"]]
    status, stored = shared.call(event)
    assert status == 202
    assert {key: would[key] for key in named} == {key: stored[key] for key in named}
    assert shared.call(dry(event)) == (200, shared.call(event)[1]), "it is stored by now"


@pytest.mark.parametrize("event", [group(), gang(2)], ids=["sweep", "gang"])
def test_a_dry_run_says_what_the_group_would_be_and_stores_nothing(account: Account, event):
    account.call("list-jobs")
    before = account.items()
    status, would = account.call(dry(event))
    assert (status, account.items()) == (200, before)
    assert would["states"] == {"pending": 2}
    status, stored = account.call(event)
    assert status == 202
    assert [job["name"] for job in would["jobs"]] == [job["name"] for job in stored["jobs"]]
    assert [job["warnings"] for job in would["jobs"]] == [job["warnings"] for job in stored["jobs"]]
    assert account.call(dry(event))[1]["submitted_at"] == stored["submitted_at"]


def test_a_gang_that_never_fits_is_refused_dry(account: Account):
    event = gang(3)
    assert account.call(dry(event)) == account.call(event)
    assert account.call(dry(event))[1]["code"] == "never_fits"


@pytest.mark.parametrize(
    ("limits", "members", "code"),
    [
        ("priority=0", 1, ""),
        ("priority=1", 1, "priority_too_high"),
        ("waiting=3", 2, "too_many_waiting"),
        ("waiting=3", 1, ""),
        ("submissions=2", 1, "too_many_submissions"),
        ("lines=1", 1, "too_many_lines"),
    ],
)
def test_limits_refuse_dry_runs_and_count_none(
    account: Account, monkeypatch, limits, members, code
):
    monkeypatch.setenv("SLOTQ_LIMITS", limits)
    forget()
    tags = tagged(priority="1")
    for name in ("first", "second"):
        account.submit(name, Tags=tags)
    more = {"Tags": tagged(priority="2")} | {"ResourceConfig": resources(count=2)}
    event = group(members=members, **more) if members > 1 else add_job(**more)
    before = account.items()
    for _ in range(3):
        status, told = account.call(dry(event))
        assert (told.get("code", ""), status) == (code, {"": 200}.get(code, status))
    if not code.startswith("too_many_waiting"):  # Before this refusal the queue counts once more.
        assert account.items() == before
    status, real = account.call(event)
    message = real.get("message", "").removeprefix(f"members.{members - 1}: ")
    assert (real.get("code", ""), message) == (code, told.get("message", ""))


def test_guessing_the_names_of_others_counts_as_a_submission_does(shared: Account, monkeypatch):
    monkeypatch.setenv("SLOTQ_LIMITS", "submissions=3")
    forget()
    guess = dry(signed(add_job(TrainingJobName="there"), by=OWNER))
    codes = [shared.call(guess)[1]["code"] for _ in range(4)]
    assert codes == ["name_taken"] * 3 + ["too_many_submissions"]


def test_a_misspelt_dry_run_submits_nothing(account: Account):
    for key, value in (("dryrun", "true"), ("dry_run", "yes")):
        for event in (add_job(), group()):
            event["queryStringParameters"] = {key: value}
            event["multiValueQueryStringParameters"] = {key: [value]}
            status, told = account.call(event)
            assert (status, told["field"]) == (400, key)
    assert account.call("list-jobs")[1]["jobs"] == []


@pytest.mark.parametrize("values", [("true", "false"), ("false", "true"), ("no", "true")])
def test_a_dry_run_that_is_given_both_ways_submits_nothing(account: Account, values):
    for event in (add_job(), group()):
        status, told = account.call(dry(event, *values))
        assert (status, told["field"]) == (400, "dry_run")
    assert account.call("list-jobs")[1]["jobs"] == []


WRITES = [
    name
    for name in sorted(path.stem for path in EVENTS.glob("*.json"))
    if sample(name).get("httpMethod", "GET") != "GET"
]


@pytest.mark.parametrize("name", WRITES)
def test_a_dry_run_of_any_request_changes_nothing(account: Account, name: str):
    assert account.call(add_job())[0] == 202
    before = account.items()
    status, told = account.call(dry(sample(name)))
    assert account.items() == before
    assert status in {200, 400}
    assert status == 200 or told["field"] == "dry_run"


def test_a_queue_says_that_it_knows_dry_runs(account: Account):
    assert account.call("get-version")[1]["dry_runs"] is True
