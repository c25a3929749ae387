"""Nobody becomes another person by a name that anybody may choose."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.functional.account import Account, add_job, forget, sample

ACCOUNT = "arn:aws:sts::123456789012:assumed-role"
SSO = f"{ACCOUNT}/AWSReservedSSO_Research_0a1b2c3d4e5f6071"
ADA, BOB = f"{SSO}/ada@example.org", f"{SSO}/bob@example.org"

IMPOSTORS = {
    "a colleague with the same role": BOB,
    "a session of an ordinary role, named like ada's": f"{ACCOUNT}/Lab/ada@example.org",
    "a session named like the role": f"{ACCOUNT}/Lab/AWSReservedSSO_Research_0a1b2c3d4e5f6071",
    "a role that is only named like those of Identity Center": (
        f"{ACCOUNT}/AWSReservedSSO_Research/ada@example.org"
    ),
    "the same role and name in another account": ADA.replace("123456789012", "210987654321"),
    "the same role and name in another partition": ADA.replace("arn:aws:", "arn:aws-cn:"),
    "a role named in another case": ADA.replace("AWSReservedSSO", "awsreservedsso"),
    "a user named like ada": "arn:aws:iam::123456789012:user/ada@example.org",
    "a federated user named like ada": "arn:aws:sts::123456789012:federated-user/ada@example.org",
    "a name that begins like ada's": f"{ADA}.evil",
    "the role without a session": SSO,
}


def signed(event: dict[str, Any], by: str) -> dict[str, Any]:
    event["requestContext"]["identity"]["userArn"] = by
    return event


def person(account: Account, caller: str) -> str:
    status, me = account.call(signed(sample("get-me"), caller))
    assert (status, me["caller"]) == (200, caller)
    return str(me["person"])


@pytest.mark.parametrize("impostor", IMPOSTORS.values(), ids=IMPOSTORS)
def test_a_persons_jobs_are_not_anothers(account: Account, impostor: str):
    """Neither to be read whole, nor to be run again, nor listed as the impostor's own."""
    for name in ("add-job", "cancel-job"):
        account.call(signed(sample(name), ADA))
    assert account.call(signed(sample("get-request"), ADA))[1]["withheld"] == []
    assert account.call(signed(sample("get-request"), impostor))[1]["withheld"]
    again = signed(sample("change-jobs"), impostor)
    again["body"] = json.dumps({"changes": [{"name": "job1", "retry": True}]})
    (outcome,) = account.call(again)[1]["outcomes"]
    assert outcome["error"]["code"] == "request_withheld"
    assert person(account, impostor) != person(account, ADA)
    listed = sample("list-jobs")
    listed["multiValueQueryStringParameters"] = {"submitter": [person(account, impostor)]}
    assert account.call(listed)[1]["jobs"] == []


def test_another_session_name_is_no_other_person(account: Account, monkeypatch: Any):
    """The attack: a new session name for each job, to have a limit for each."""
    monkeypatch.setenv("SLOTQ_LIMITS", "waiting=2")
    forget()

    def submit(name: str, by: str) -> int:
        return int(account.call(signed(add_job(TrainingJobName=name), by))[0])

    assert [submit(f"job{n}", f"{ACCOUNT}/Lab/s{n}") for n in range(3)] == [202, 202, 429]
    status, error = account.call(signed(add_job(TrainingJobName="more"), f"{ACCOUNT}/Lab/s9"))
    assert (status, error["code"]) == (429, "too_many_waiting")
    assert error["message"].startswith(f"{ACCOUNT}/Lab has 2 jobs waiting")
    # People whom the identity provider names have a limit each, and so has a role alike in name.
    assert [submit("of-ada", ADA), submit("of-bob", BOB)] == [202, 202]
    assert submit("another-role", f"{ACCOUNT}/Lab2/s0") == 202
