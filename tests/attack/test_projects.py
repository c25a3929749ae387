"""Ways into a project, and sights of it, for callers who have no role there."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slotq_core.admission.access import Permissions
from slotq_core.model.callers import Access, Role
from tests.functional.account import Account
from tests.functional.sharing import (
    MEMBER,
    OPERATOR,
    OTHER,
    OWNER,
    ROLE,
    SHARING,
    SPEECH,
    VISION,
    amend,
    listed,
    request,
    share,
    submission,
    submit,
)

SECRET = "secret-merger-model"
"""The name of a job that OTHER may not see."""


@pytest.fixture
def shared(account: Account) -> Account:
    share()
    assert submit(account, SECRET, "vision", by=OWNER)[0] == 202
    assert submit(account, "talk", by=OTHER)[0] == 202
    return account


def bulk(account: Account, *changes: dict[str, Any], by: str = OTHER) -> list[dict[str, Any]]:
    event = request("PATCH", "/jobs", by=by, body={"changes": changes})
    status, said = account.call(event)
    assert status == 200, said
    outcomes: list[dict[str, Any]] = said["outcomes"]
    return outcomes


@pytest.mark.parametrize(
    "name",
    ["vision", " vision ", "VISION", "visio*", "*", "vision,speech", "speech,vision", "../vision"],
)
def test_a_tag_gets_nobody_into_anothers_project(shared: Account, name: str):
    assert submit(shared, "one", name, by=OTHER)[1]["code"] == "project_not_allowed"
    _, said = amend(shared, "talk", by=OTHER, tags={"slotq:project": name})
    assert said["code"] == "project_not_allowed"
    (outcome,) = bulk(shared, {"name": "talk", "tags": {"slotq:project": name}})
    assert outcome["error"]["code"] == "project_not_allowed"
    assert listed(shared, OTHER) == ["talk"]


def test_the_tag_stands_once_and_no_other_field_counts(shared: Account):
    body = submission("one", "speech")
    doubled = {**body, "Tags": [*body["Tags"], {"Key": "slotq:project", "Value": "vision"}]}
    assert shared.call(request("POST", "/add-job", by=OTHER, body=doubled))[0] == 400
    for extra in ({"project": "vision"}, {"Project": "vision"}, {"submitter": OWNER}):
        body = {**submission(f"with-{min(extra)}"), **extra}
        status, job = shared.call(request("POST", "/add-job", by=OTHER, body=body))
        assert (status, job["project"], job["submitter"]) == (202, "speech", OTHER)


@pytest.mark.parametrize("own", [False, True])
def test_a_change_and_a_move_together_are_refused_together(shared: Account, own: bool):
    name = "talk" if own else SECRET
    before = shared.items()
    body = {"held": True, "tags": {"slotq:project": "vision", "priority": "5"}}
    assert amend(shared, name, by=OTHER, **body)[0] in {403, 404}
    assert shared.items() == before


def test_a_retry_takes_no_job_of_others(shared: Account):
    shared.call(request("DELETE", f"/jobs/{SECRET}", by=OWNER))
    retry = {"name": SECRET, "retry": True, "new_name": "mine", "tags": {"slotq:project": "speech"}}
    absent = {**retry, "name": "absent"}
    hidden, unknown = bulk(shared, retry, absent)
    assert hidden["error"]["code"] == unknown["error"]["code"] == "no_such_job"
    assert listed(shared, OTHER) == ["talk"]


def test_a_retry_by_a_member_needs_the_whole_request(shared: Account):
    shared.call(request("DELETE", f"/jobs/{SECRET}", by=OWNER))
    (outcome,) = bulk(shared, {"name": SECRET, "retry": True, "new_name": "mine"}, by=MEMBER)
    assert outcome["error"]["code"] == "request_withheld"


def test_a_hundred_guesses_tell_nothing(shared: Account):
    guesses = [f"{SECRET}{n}" for n in range(99)]
    changes = [{"name": name, "cancel": True} for name in (*guesses, SECRET)]
    outcomes = bulk(shared, *changes)
    texts = {it["error"]["message"].replace(it["name"], "…") for it in outcomes}
    assert len(texts) == 1
    assert shared.call(request("GET", f"/jobs/{SECRET}", by=OWNER))[1]["state"] == "pending"


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"project": "vision"},
        {"submitter": OWNER},
        {"submitter": "ada"},
        {"pool": "main"},
        {"state": "pending,running,cancelled"},
        {"since": "2020-01-01T00:00:00Z"},
        {"limit": "1"},
    ],
)
def test_no_filter_shows_others_jobs(shared: Account, query: dict[str, str]):
    event = request("GET", "/jobs", by=OTHER, query={key: [it] for key, it in query.items()})
    assert SECRET not in shared.send(event)["body"]


def test_a_taken_name_tells_no_more_than_that(shared: Account):
    """Names are unique in the account, so a name that is taken cannot be hidden."""
    states = []
    for _ in range(2):
        status, said = submit(shared, SECRET, by=OTHER)
        assert (status, said["code"]) == (409, "name_taken")
        states.append(said["message"])
        shared.call(request("DELETE", f"/jobs/{SECRET}", by=OWNER))
    assert states[0] == states[1]
    assert "pending" in submit(shared, "talk", by=OTHER, priority="3")[1]["message"]


def test_the_same_request_does_not_bring_anothers_job(shared: Account):
    """Whoever knows a whole request gets no sight of its job by sending it again."""
    body = submission(SECRET, "vision")
    del body["Tags"][0]  # OTHER's default.
    submit(shared, "twin", "vision", by=OWNER)
    own = shared.call(request("GET", "/jobs/twin/request", by=OWNER))[1]["request"]
    _, said = shared.call(request("POST", "/add-job", by=OTHER, body=body))
    assert said["code"] == "name_taken"
    _, said = shared.call(request("POST", "/add-job", by=OTHER, body=own))
    assert said["code"] == "project_not_allowed"
    status, job = shared.call(request("POST", "/add-job", by=OWNER, body=own))
    assert (status, job["name"]) == (202, "twin")


def test_guesses_of_names_count(shared: Account):
    """A guess costs a submission of the minute, and a refusal for another reason tells nothing."""
    share_limits = {"submissions": 2}
    assert shared.call(request("PATCH", "/limits", by=OPERATOR, body=share_limits))[0] == 200
    codes = [submit(shared, SECRET, by=OTHER, priority=str(n))[1]["code"] for n in range(3)]
    assert codes == ["name_taken", "name_taken", "too_many_submissions"]
    hidden, absent = (submit(shared, name, "vision", by=OTHER)[1] for name in (SECRET, "absent"))
    assert hidden == absent


ODD = [
    f"{ROLE}/Intern/Vision",
    f"{ROLE}/Intern/{ROLE}/Vision/ada",
    f"{ROLE}/Vision*/ada",
    f"{ROLE}/*/ada",
    f"{ROLE}/Visio/n/ada",
    f"{ROLE}/vision/ada",
    f"{ROLE}/Vision\n/ada",
    "*",
    "arn:*",
    "arn:aws:iam::123456789012:user/m*",
    "arn:aws:iam::123456789012:user/leads",
    "arn:aws:iam::123456789012:group/leads/anna",
    "arn:aws:iam::123456789012:user/x/user/leads/anna",
    "everyone",
    "\x00",
    "arn:aws:iam::999999999999:role/Vision",
]


@pytest.mark.parametrize("caller", ODD)
def test_odd_callers_are_nobody(shared: Account, caller: str):
    assert listed(shared, caller) == []
    for method in ("GET", "DELETE"):
        assert shared.call(request(method, f"/jobs/{SECRET}", by=caller))[0] == 404
    assert submit(shared, "one", "vision", by=caller)[0] == 403
    assert shared.call(request("PATCH", "/limits", by=caller, body={"waiting": 1}))[0] == 403


@given(
    name=st.text(max_size=80),
    role=st.sampled_from(["Intern", "Speech", "x"]),
)
@settings(max_examples=300)
def test_no_session_name_looks_like_another_role(name: str, role: str):
    """Whoever may assume a role chooses the session's name."""
    caller = f"{ROLE}/{role}/{name}"
    permissions = Permissions(sharing=SHARING, operators=(f"{ROLE}/*Vision", f"{ROLE}/V*"))
    assert permissions.role(caller, "vision") is Role.NOBODY


def test_views_of_nobody_carry_no_name_of_a_job(shared: Account):
    """All that OTHER may read of the queue as a whole, while its job waits behind vision's."""
    for n in range(3):
        submit(shared, f"{SECRET}-{n}", "vision", by=OWNER, priority="5")
    shared.settle()
    for path in ("/jobs", "/pools", "/limits", "/changes", "/version"):
        answer = shared.send(request("GET", path, by=OTHER))
        assert SECRET not in json.dumps(answer), path


def test_a_member_who_was_removed_keeps_no_way_in(shared: Account):
    share(replace(SHARING, projects=(replace(VISION, access=Access()), SPEECH)))
    assert submit(shared, "one", "vision", by=OWNER)[0] == 403
    assert amend(shared, SECRET, by=OWNER, tags={"priority": "9"})[0] == 403
    assert bulk(shared, {"name": SECRET, "cancel": True}, by=OWNER)[0]["error"]
