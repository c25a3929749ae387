"""Many jobs changed in one request, through the real handler."""

import json
from typing import Any

import pytest

from slotq_core.wire.job_changes import MOST_AT_ONCE
from tests.functional.account import Account, sample


def change(*changes: Any) -> dict[str, Any]:
    return {**sample("change-jobs"), "body": json.dumps({"changes": changes})}


def outcomes(account: Account, *changes: Any) -> dict[str, str]:
    """The state, or the error's code, of each job."""
    status, told = account.call(change(*changes))
    assert status == 200, told
    assert [it["name"] for it in told["outcomes"]] == [it["name"] for it in changes]
    return {
        it["name"]: it["job"]["state"] if it["job"] else it["error"]["code"]
        for it in told["outcomes"]
    }


def test_each_job_gets_its_outcome(account: Account):
    account.call("add-job")
    account.call("add-job-urgent")
    status, told = account.call("change-jobs")
    first, missing, second = told["outcomes"]
    assert (status, first["job"]["state"], first["job"]["priority"]) == (200, "held", 2)
    assert missing["error"]["code"] == "no_such_job"
    assert (missing["job"], second["error"], second["job"]["state"]) == (None, None, "pending")
    assert account.state("job1") == "held"


def test_every_kind_of_change_can_be_requested(account: Account):
    account.submit("a", "b", "c", "d", "e")
    account.settle()
    found = outcomes(
        account,
        {"name": "a", "give_up": 1},
        {"name": "b", "held": True},
        {"name": "c", "held": True},
        {"name": "d", "cancel": True},
        {"name": "e", "tags": {"priority": "7"}},
    )
    assert found == {
        "a": "stopping", "b": "too_late", "c": "held", "d": "cancelled", "e": "pending"
    }  # fmt: skip


def test_a_hundred_changes_request_one_pass(account: Account):
    names = [f"job-{n}" for n in range(MOST_AT_ONCE)]
    account.submit(*names)
    account.lambda_.events.clear()
    found = outcomes(account, *({"name": name, "cancel": True} for name in names))
    assert set(found.values()) == {"cancelled"}
    assert len(account.lambda_.events) == 1
    assert outcomes(account, *({"name": name, "cancel": True} for name in names)) == found
    assert len(account.lambda_.events) == 1, "nothing was changed"


@pytest.mark.parametrize(
    ("change", "state"), [({"cancel": True}, "cancelled"), ({"tags": {"priority": "7"}}, "pending")]
)
def test_jobs_after_many_others_change_together(account: Account, change: Any, state: str):
    """Such a job has an item for each, so fifteen of them are too much for one transaction."""
    first = [f"first{n}" for n in range(20)]
    account.submit(*first)
    after = [{"Key": "slotq:after", "Value": " ".join(first)}]
    last = [f"last{n}" for n in range(15)]
    for name in last:
        account.submit(name, Tags=after)
    found = outcomes(account, *({"name": name, **change} for name in last))
    assert found == dict.fromkeys(last, state)


@pytest.mark.parametrize(
    ("changes", "field", "said"),
    [
        ([], "changes", "at least 1"),
        ([{"name": "job1", "cancel": True}] * (MOST_AT_ONCE + 1), "changes", "at most 100"),
        ([{"name": "job1"}], "changes.0", "say what to change"),
        ([{"name": "job1", "cancel": False}], "changes.0", "say what to change"),
        ([{"name": "job1", "cancel": True, "held": True}], "changes.0", "cancel alone"),
        ([{"name": "job1", "cancel": 1}], "changes.0.cancel", "boolean"),
        ([{"cancel": True}], "changes.0.name", "required"),
        ([{"name": "job1", "cancel": True, "states": ["x"] * 12}], "changes.0.states", "at most"),
        ([{"name": "job1", "cancel": True}, {"name": "job1", "hold": True}], "changes.1.hold", ""),
        ([{"name": 7, "cancel": True}], "changes.0.name", "string"),
        ([{"name": "n" * 64, "cancel": True}], "changes.0.name", "at most 63"),
    ],
)
def test_a_malformed_request_changes_nothing(account: Account, changes, field, said):
    account.call("add-job")
    before = account.items()
    status, error = account.call(change(*changes))
    assert (status, error["code"], error["field"]) == (400, "invalid_request", field)
    assert said in error["message"]
    assert account.items() == before


def test_an_unsigned_caller_changes_nothing(account: Account):
    account.call("add-job")
    event = change({"name": "job1", "cancel": True})
    event["requestContext"]["identity"]["userArn"] = None
    assert account.call(event)[0] == 403
    assert account.state("job1") == "pending"
