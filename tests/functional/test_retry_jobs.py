"""Many ended jobs submitted again in one request, through the real handler."""

import json
from typing import Any

import pytest

from slotq_core.operations.bulk import JOBS_PER_COMMIT
from tests.functional.account import Account, add_job, forget, sample

ADA = sample("add-job")["requestContext"]["identity"]["userArn"]
EVE = "arn:aws:sts::123456789012:assumed-role/Research/eve"
SECRETS = {"Environment": {"TOKEN": "s3cr3t"}, "HyperParameters": {"epochs": "3"}}
PLAIN = {"TrainingImage": "image", "TrainingInputMode": "File"}


def cancelled(account: Account, *names: str, **changes: Any) -> None:
    """Jobs that have been cancelled."""
    account.submit(*names, **changes)
    for name in names:
        account.call({**sample("cancel-job"), "path": f"/jobs/{name}"})


def change(*changes: Any, by: str = ADA) -> dict[str, Any]:
    event = {**sample("change-jobs"), "body": json.dumps({"changes": changes})}
    event["requestContext"]["identity"]["userArn"] = by
    return event


def retried(account: Account, *names: str, by: str = ADA, **more: Any) -> list[dict[str, Any]]:
    """An outcome for each."""
    changes = [{"name": name, "retry": True, **more} for name in names]
    status, told = account.call(change(*changes, by=by))
    assert status == 200, told
    assert [it["name"] for it in told["outcomes"]] == [*names]
    return told["outcomes"]


def code(outcome: dict[str, Any]) -> str:
    """The new job's name, or the code of the error."""
    return outcome["job"]["name"] if outcome["job"] else outcome["error"]["code"]


def request_of(account: Account, name: str) -> dict[str, Any]:
    event = {**sample("get-request"), "path": f"/jobs/{name}/request"}
    event["requestContext"]["identity"]["userArn"] = ADA
    return account.call(event)[1]["request"]


def names_kept(account: Account) -> set[str]:
    return {item["pk"]["S"] for item in account.items() if item["sk"]["S"] == "JOB"}


def test_each_becomes_another_job_with_the_same_request(account: Account):
    cancelled(account, "a", "b", **SECRETS)
    outcomes = retried(account, "a", "b", tags={"priority": "7"})
    assert [code(it) for it in outcomes] == ["a-r2", "b-r2"]
    assert [it["job"]["state"] for it in outcomes] == ["pending", "pending"]
    assert {(it["job"]["priority"], it["job"]["submitter"]) for it in outcomes} == {(7, ADA)}
    again, first = request_of(account, "a-r2"), request_of(account, "a")
    assert again["Tags"][-1] == {"Key": "priority", "Value": "7"}
    assert {**again, "Tags": 0} == {**first, "Tags": 0, "TrainingJobName": "a-r2"}
    assert account.state("a") == "cancelled"


def test_it_is_the_submission_that_a_client_would_have_sent(account: Account):
    """So one who retries alone and one who retries by the hundred get one job."""
    cancelled(account, "a", **SECRETS)
    (outcome,) = retried(account, "a")
    event = sample("add-job")
    event["body"] = json.dumps({**request_of(account, "a"), "TrainingJobName": "a-r2"})
    assert account.call(event)[0] == 202
    assert code(outcome) == "a-r2"


def test_many_ask_for_one_pass_and_asked_twice_are_the_same_jobs(account: Account):
    names = [f"job-{n}" for n in range(JOBS_PER_COMMIT + 1)]
    cancelled(account, *names)
    account.lambda_.events.clear()
    first = [code(it) for it in retried(account, *names)]
    assert first == [f"{name}-r2" for name in names]
    assert len(account.lambda_.events) == 1
    assert [code(it) for it in retried(account, *names)] == first
    assert len(account.lambda_.events) == 1, "nothing was changed"


def test_names_that_are_taken_are_passed_over(account: Account):
    cancelled(account, "a", "a-r2", "b")
    account.submit("a-r3", **SECRETS)
    assert [code(it) for it in retried(account, "a", "a-r2")] == ["a-r4", "a-r4"]
    own = [code(it) for it in retried(account, "b", new_name="own")]
    assert own == ["own"]
    taken = [code(it) for it in retried(account, "b", new_name="a-r2")]
    assert taken == ["name_taken"]


def test_each_that_cannot_be_is_told_why(account: Account):
    cancelled(account, "a")
    account.submit("waits")
    outcomes = retried(account, "waits", "nobody", "a")
    assert [code(it) for it in outcomes] == ["invalid_request", "no_such_job", "a-r2"]
    assert "only an ended job can be retried" in outcomes[0]["error"]["message"]
    (odd,) = retried(account, "a", new_name="no name")
    assert odd["error"]["field"] == "TrainingJobName"
    (late,) = retried(account, "a", states=["failed"])
    assert code(late) == "too_late"


def test_what_has_completed_is_not_retried(account: Account):
    account.submit("a")
    account.settle()
    account.clock.set(account.clock.now() + 2 * 3_600_000)
    account.settle()
    assert account.state("a") == "completed"
    (outcome,) = retried(account, "a")
    assert "slotq clone a" in outcome["error"]["message"]


def test_another_identity_submits_no_request_that_it_may_not_read(account: Account):
    cancelled(account, "a", **SECRETS)
    before = names_kept(account)
    (outcome,) = retried(account, "a", by=EVE)
    assert code(outcome) == "request_withheld"
    assert "ask its submitter" in outcome["error"]["message"]
    assert "s3cr3t" not in json.dumps(outcome)
    assert names_kept(account) == before


def test_the_new_job_is_the_callers_who_needs_the_right_to_its_role(account: Account, monkeypatch):
    """A request that has nothing to hide may be submitted by others, under roles of theirs."""
    cancelled(account, "a", HyperParameters=None, AlgorithmSpecification=PLAIN)
    (theirs,) = retried(account, "a", by=EVE)
    assert theirs["job"]["submitter"] == EVE
    role = json.loads(add_job()["body"])["RoleArn"]
    monkeypatch.setenv("SLOTQ_EXECUTION_ROLES", role)
    monkeypatch.setenv("SLOTQ_ROLE_USERS", f"{role}={ADA}")
    forget()
    assert code(retried(account, "a", by=EVE, new_name="x")[0]) == "role_not_allowed"
    assert code(retried(account, "a", new_name="y")[0]) == "y"


def test_retries_count_as_submissions_and_waiting_jobs(account: Account, monkeypatch):
    cancelled(account, "a", "b", "c", "d")
    monkeypatch.setenv("SLOTQ_LIMITS", "submissions=2,priority=5")
    forget()
    assert code(retried(account, "a", tags={"priority": "6"})[0]) == "priority_too_high"
    found = [code(it) for it in retried(account, "a", "b", "c", "d")]
    assert found == ["a-r2", "b-r2", "too_many_submissions", "too_many_submissions"]
    account.clock.set(account.clock.now() + 60_000)
    found = [code(it) for it in retried(account, "a", "b", "c", "d")]
    assert found == ["a-r2", "b-r2", "c-r2", "d-r2"], "the same jobs cost nothing"


def test_a_retry_among_other_changes_is_taken_in_its_turn(account: Account):
    account.submit("a", "b")
    status, told = account.call(
        change(
            {"name": "b", "held": True},
            {"name": "a", "cancel": True},
            {"name": "a", "retry": True},
            {"name": "b", "held": False},
        )
    )
    found = [(it["name"], it["job"]["name"], it["job"]["state"]) for it in told["outcomes"]]
    assert (status, found) == (
        200,
        [
            ("b", "b", "held"),
            ("a", "a", "cancelled"),
            ("a", "a-r2", "pending"),
            ("b", "b", "pending"),
        ],
    )


@pytest.mark.parametrize(
    "more",
    [
        {"retry": True, "cancel": True},
        {"retry": True, "held": True},
        {"retry": True, "give_up": 1},
        {"new_name": "b", "held": True},
        {"retry": False, "new_name": "b"},
        {"retry": False},
    ],
)
def test_a_retry_excludes_other_changes(account: Account, more):
    cancelled(account, "a")
    status, error = account.call(change({"name": "a", **more}))
    assert (status, error["code"], error["field"]) == (400, "invalid_request", "changes.0")
    assert "say what to change" in error["message"]


def test_who_is_not_signed_retries_nothing(account: Account):
    cancelled(account, "a")
    before = account.items()
    assert account.call(change({"name": "a", "retry": True}, by=""))[0] == 403
    assert account.items() == before
