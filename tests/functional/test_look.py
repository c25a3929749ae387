"""Reading through the real handler: the list's filters, and who answers."""

from __future__ import annotations

from typing import Any

import pytest

from slotq_core import __version__
from tests.functional.account import NOW, Account, add_job, sample


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
        ({"project": "vision,"}, ["job1", "job2"]),
        ({"since": "2026-11-20T10:30:00Z"}, ["job1", "job2"]),
        ({"until": "2026-11-20T10:29:59.999Z"}, []),
        ({"since": "2026-11-20T12:00:00+01:00"}, []),
        ({"submitter": "eve", "state": "completed"}, []),
        ({"pool": "main", "limit": "1"}, ["job1"]),
    ],
)
def test_the_list_is_filtered(listed, query: dict[str, str], names: list[str]):
    assert listed(**query) == names


@pytest.fixture
def full(account: Account) -> Account:
    """Jobs wait in two lines, and a pass has set a lower bound for each."""
    for number, priority in enumerate(("1", "1", "1", "0")):
        account.clock.set(NOW + number)
        tags = [{"Key": "priority", "Value": priority}]
        assert account.call(add_job(TrainingJobName=f"job{number}", Tags=tags))[0] == 202
        account.settle()
    return account


def test_the_list_explains_the_first_job_of_each_line(full: Account):
    whole = {"job2": NO_FREE_SLOTS, "job3": NO_FREE_SLOTS}
    assert reasons(full) == {name: reason_of(name, full) for name in whole} == whole
    full.call(add_job(TrainingJobName="job4", Tags=[{"Key": "priority", "Value": "0"}]))
    behind = f"2 jobs are ahead of it; job3, the first of its line, waits: {NO_FREE_SLOTS}"
    assert reasons(full) == {**whole, "job4": behind}


def test_a_page_explains_the_first_job_of_each_of_its_lines(full: Account):
    whole = {"job2": NO_FREE_SLOTS, "job3": NO_FREE_SLOTS}
    found, following = {}, {}
    for _ in range(2):
        page = full.asked("list-jobs", state="pending", limit="1", **following)[1]
        found |= {job["name"]: job["reason"]["text"] for job in page["jobs"]}
        following = {"next": page["next"]}
    assert found == whole


def test_a_list_that_is_asked_for_with_places_is_in_the_true_order(full: Account):
    """job3 entered last, and its priority is the lowest; a job that enters now comes before it."""
    full.clock.set(full.clock.now() + 1)
    full.call(add_job(TrainingJobName="job4", Tags=[{"Key": "priority", "Value": "1"}]))
    page = full.asked("list-jobs", state="pending", limit="2", places="true")[1]
    assert [(job["name"], job["place"]) for job in page["jobs"]] == [("job2", 1), ("job4", 2)]
    assert (page["more"], page["next"]) == (True, None)
    status, answer = full.asked("list-jobs", places="true", next="x")
    assert (status, answer["field"]) == (400, "next")


def test_pages_follow_each_other(full: Account):
    whole = [job["name"] for job in full.asked("list-jobs")[1]["jobs"]]
    found, following = [], {}
    for _ in range(2):
        status, page = full.asked("list-jobs", limit="2", **following)
        assert status == 200
        found += [job["name"] for job in page["jobs"]]
        assert page["more"] == (page["next"] is not None)
        following = {"next": page["next"]}
    assert page["next"] is None
    assert sorted(found) == sorted(whole)
    assert set(found[:2]) == {"job0", "job1"}, "those that run come first"


@pytest.mark.parametrize("query", [{"next": "x"}, {"next": ""}, {"next": "2026-11-20~0~~0"}])
def test_a_bad_cursor_is_refused(full: Account, query: dict[str, str]):
    status, answer = full.asked("list-jobs", **query)
    assert (status, answer["code"], answer["field"]) == (400, "invalid_request", "next")
    assert answer["message"] == "next takes what the page before answered as next"


def test_a_cursor_of_another_list_is_refused(full: Account):
    following = full.asked("list-jobs", limit="1", state="pending")[1]["next"]
    assert full.asked("list-jobs", state="pending", next=following)[0] == 200
    status, answer = full.asked("list-jobs", next=following)
    assert (status, answer["field"]) == (400, "next")
    assert answer["message"].startswith("next belongs to another list")


NO_FREE_SLOTS = "needs 1 slot; pool main has 0 free of 2, and no job there has a lower priority"


def reasons(account: Account) -> dict[str, str]:
    """Why the waiting jobs of the list wait."""
    listed = account.call("list-jobs")[1]["jobs"]
    return {job["name"]: job["reason"]["text"] for job in listed if job["reason"]}


def reason_of(name: str, account: Account) -> str:
    event = sample("get-job")
    event["path"] = f"/jobs/{name}"
    return str(account.call(event)[1]["reason"]["text"])


def about(**identity: Any) -> dict[str, Any]:
    event = sample("get-version")
    event["requestContext"]["identity"].update(identity)
    return event


def test_version_names_the_release_and_the_caller(account: Account, monkeypatch):
    caller = "arn:aws:iam::1:user/ada"
    answer = {"version": 1, "slotq": __version__, "caller": caller, "dry_runs": True}
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
            "chosen by the caller who assumes it",
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
