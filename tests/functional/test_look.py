"""Reading through the real handler: the list's filters, and who answers."""

from __future__ import annotations

from typing import Any

import pytest

from slotq_core.version import __version__
from tests.functional.account import Account, add_job, sample


@pytest.fixture
def listed(account: Account):
    """The names in the filtered list; job1 runs, job2 waits for the other pool."""
    account.call("add-job")
    account.settle()
    tags = [{"Key": "slotq:pools", "Value": "main"}]
    event = add_job(TrainingJobName="job2", Tags=tags)
    event["requestContext"]["identity"]["userArn"] = "arn:aws:sts::1:assumed-role/lab/eve"
    assert account.call(event)[0] == 202
    account.settle()

    def ask(**query: str) -> list[str]:
        event = sample("list-jobs")
        event["multiValueQueryStringParameters"] = {key: [value] for key, value in query.items()}
        status, answer = account.call(event)
        assert status == 200, answer
        return [job["name"] for job in answer["jobs"]]

    return ask


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({}, ["job1", "job2"]),
        ({"submitter": "eve"}, ["job2"]),
        ({"submitter": "lab"}, ["job2"]),
        ({"submitter": "arn:aws:sts::1:assumed-role/lab/eve"}, ["job2"]),
        ({"submitter": "arn:aws:sts::1:assumed-role/lab"}, ["job2"]),
        ({"submitter": "arn:aws:sts::1:assumed-role/la"}, []),
        ({"submitter": "ev"}, []),
        ({"pool": "main"}, ["job1", "job2"]),
        ({"pool": "other"}, []),
        ({"project": ""}, ["job1", "job2"]),
        ({"project": "vision"}, []),
        ({"since": "2026-11-20T10:30:00Z"}, ["job1", "job2"]),
        ({"until": "2026-11-20T10:29:59.999Z"}, []),
        ({"since": "2026-11-20T12:00:00+01:00"}, []),
        ({"submitter": "eve", "state": "completed"}, []),
        ({"pool": "main", "limit": "1"}, ["job1"]),
    ],
)
def test_the_list_is_filtered(listed, query: dict[str, str], names: list[str]):
    assert listed(**query) == names


def about(**identity: Any) -> dict[str, Any]:
    event = sample("get-version")
    event["requestContext"]["identity"].update(identity)
    return event


def test_version_names_the_release_and_the_caller(account: Account, monkeypatch):
    answer = {"version": 1, "slotq": __version__, "caller": "arn:aws:iam::1:user/ada"}
    event = about(userArn="arn:aws:iam::1:user/ada")
    assert account.call(event) == (200, answer)
    monkeypatch.setenv("SLOTQ_SERVES", "views")
    assert account.call(event) == (200, answer)
    assert account.call(about(userArn=None))[0] == 403


@pytest.mark.parametrize(
    ("caller", "person", "why"),
    [
        ("arn:aws:iam::1:user/ada", "arn:aws:iam::1:user/ada", "no session of a role"),
        (
            "arn:aws:sts::1:assumed-role/lab/eve",
            "arn:aws:sts::1:assumed-role/lab",
            "chosen by whoever assumes it",
        ),
        (
            "arn:aws:sts::1:assumed-role/AWSReservedSSO_lab_0a/eve",
            "arn:aws:sts::1:assumed-role/AWSReservedSSO_lab_0a/eve",
            "named by the identity provider (AWSReservedSSO_*)",
        ),
    ],
)
def test_me_names_the_person_and_says_why(account: Account, monkeypatch, caller, person, why):
    monkeypatch.setenv("SLOTQ_SERVES", "views")
    event = sample("get-me")
    event["requestContext"]["identity"]["userArn"] = caller
    status, me = account.call(event)
    assert (status, me["caller"], me["person"]) == (200, caller, person)
    assert why in me["why"]
