"""Classes, users and user groups in the configuration, through the real handler."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from slotq.cli.exits import ExitCode
from tests.functional import real_http
from tests.functional.account import Account
from tests.functional.sharing import (
    ADMIN,
    MEMBER,
    NOBODY,
    OPERATOR,
    OWNER,
    amend,
    request,
    submission,
    submit,
)
from tests.functional.test_config import POOL, put

CLASSES = [
    {"name": "URGENT", "value": 50, "chosen_by": ["leads"]},
    {"name": "HIGH", "value": 30},
    {"name": "SPRINT", "value": 20, "demote_to": "NORMAL", "demote_after": 1800},
    {"name": "NORMAL", "value": 10},
]
DOCUMENT: dict[str, Any] = {
    "pools": [POOL],
    "classes": CLASSES,
    "user_groups": [
        {
            "name": "leads",
            "members": ["arn:aws:iam::123456789012:user/leads/*"],
            "limits": {"main": {"URGENT": 2, "NORMAL": 2}},
        },
        {
            "name": "everybody",
            "members": ["everyone"],
            "limits": {"main": {"HIGH": 1, "SPRINT": 1, "NORMAL": 1}},
        },
    ],
    "users": [{"name": MEMBER, "limits": {"main": {"HIGH": 2}}}],
    "operators": [OPERATOR.rpartition("/")[0] + "/*"],
    "people": {"contact": "gpu-admins@example.com"},
}


@pytest.fixture
def account(account: Account) -> Account:
    document = {**DOCUMENT, "operators": []}
    status, told = account.call(put(document))
    assert status == 200, told
    return account


def entered(
    account: Account, name: str, *, by: str = OWNER, code: int = 202, **tags: str
) -> dict[str, Any]:
    status, view = submit(account, name, by=by, **tags)
    assert status == code, view
    return view


def shown(account: Account, name: str, *, by: str = OWNER) -> dict[str, Any]:
    account.settle()
    return account.call(request("GET", f"/jobs/{name}", by=by))[1]


def class_of(view: Mapping[str, Any]) -> tuple[str, int]:
    return view["priority_class"], view["priority"]


def test_the_document_is_kept_whole(account: Account) -> None:
    assert account.call("get-configuration")[1]["configuration"] == {
        **{key: value for key, value in DOCUMENT.items() if key != "operators"}
    }


def test_a_class_is_named_by_the_priority_tag(account: Account) -> None:
    assert class_of(entered(account, "named", priority="HIGH")) == ("HIGH", 30)
    assert class_of(entered(account, "number", priority="10")) == ("NORMAL", 10)
    assert class_of(entered(account, "none")) == ("AUTO", -1)
    refused = entered(account, "unknown", code=400, priority="URGENTER")
    assert "URGENT, HIGH, SPRINT, NORMAL, AUTO" in refused["message"]


def test_the_tag_has_two_spellings(account: Account) -> None:
    both = {"slotq:priority": "HIGH"}
    assert class_of(entered(account, "named", **both)) == ("HIGH", 30)
    assert class_of(entered(account, "number", **{"slotq:priority": "10"})) == ("NORMAL", 10)
    assert class_of(entered(account, "same", priority="HIGH", **both)) == ("HIGH", 30)
    refused = entered(account, "differ", code=400, priority="NORMAL", **both)
    assert refused["field"] == "Tags"
    assert "'priority' NORMAL and 'slotq:priority' HIGH" in refused["message"]
    wrong = entered(account, "wrong", code=400, **{"slotq:priority": "1.5"})
    assert "the tag 'slotq:priority' takes the name of a class or an integer" in wrong["message"]


def test_a_change_replaces_the_tag_in_either_spelling(account: Account) -> None:
    entered(account, "one", **{"slotq:priority": "HIGH"})
    view = amend(account, "one", by=OWNER, tags={"priority": "NORMAL"})[1]
    assert class_of(view) == ("NORMAL", 10)
    view = amend(account, "one", by=OWNER, tags={"slotq:priority": "SPRINT"})[1]
    assert class_of(view) == ("SPRINT", 20)
    kept = account.call(request("GET", "/jobs/one/request", by=OWNER))[1]["request"]["Tags"]
    assert kept == [{"Key": "slotq:priority", "Value": "SPRINT"}]


def test_who_may_not_choose_a_class_gets_auto(account: Account) -> None:
    assert class_of(entered(account, "own", by=ADMIN, priority="URGENT")) == ("URGENT", 50)
    assert class_of(entered(account, "not", priority="URGENT")) == ("AUTO", -1)
    assert class_of(entered(account, "number", priority="50")) == ("AUTO", -1)
    account.settle()
    entered(account, "later", priority="NORMAL")
    assert class_of(amend(account, "later", by=OWNER, tags={"priority": "URGENT"})[1]) == (
        "AUTO",
        -1,
    )


def test_auto_takes_the_highest_class_with_room(account: Account) -> None:
    entered(account, "first")
    entered(account, "second")
    assert class_of(shown(account, "first")) == ("HIGH", 30)
    assert class_of(shown(account, "second")) == ("SPRINT", 20)


def test_a_personal_limit_beats_a_groups_and_the_largest_group_counts(account: Account) -> None:
    for number in range(3):
        entered(account, f"m{number}", by=MEMBER, priority="HIGH")
    states = [shown(account, f"m{number}", by=MEMBER)["state"] for number in range(3)]
    assert states == ["running", "running", "pending"]
    why = shown(account, "m2", by=MEMBER)["reason"]
    assert why["code"] == "user_limit_reached"


def test_the_largest_of_several_groups_limits_counts(account: Account) -> None:
    for number in range(2):
        entered(account, f"a{number}", by=ADMIN, priority="NORMAL")
    assert [shown(account, f"a{n}", by=ADMIN)["state"] for n in range(2)] == ["running"] * 2


def test_a_refusal_for_quota_names_the_contact(account: Account) -> None:
    none = entered(account, "none", by=NOBODY, code=400, priority="0")
    assert none["code"] == "class_not_allowed"
    assert none["message"].endswith("; gpu-admins@example.com can give more")
    needs = {"InstanceType": POOL["instance_type"], "InstanceCount": 2, "VolumeSizeInGB": 1}
    body = {**submission("large", priority="HIGH"), "ResourceConfig": needs}
    status, large = account.call(request("POST", "/add-job", by=OWNER, body=body))
    assert (status, large["code"]) == (400, "never_fits")
    assert large["message"].endswith("; gpu-admins@example.com can give more")


def test_jobs_that_wait_when_users_begin_to_matter_are_told_apart(account: Account) -> None:
    """They came while the queue had no classes, and their lines mixed users."""
    assert account.call(put({"pools": [{**POOL, "state": "paused"}]}))[0] == 200
    for number in range(12):
        entered(account, f"mine{number}", priority="30")
    entered(account, "other", by=MEMBER, priority="30")
    account.settle()
    assert account.call(put({**DOCUMENT, "operators": []}))[0] == 200
    account.settle()
    assert shown(account, "mine0")["state"] == "running"
    assert shown(account, "mine1")["state"] == "pending", "one of HIGH for everybody"
    assert shown(account, "other", by=MEMBER)["state"] == "running"


def test_a_job_counts_as_the_lower_class_after_its_time(account: Account) -> None:
    entered(account, "sprint", priority="SPRINT")
    assert class_of(shown(account, "sprint")) == ("SPRINT", 20)
    account.clock.set(account.clock.now() + 1_800_000)
    account.send("tick")
    view = shown(account, "sprint")
    assert class_of(view) == ("NORMAL", 10)
    assert view["admitted_class"] == "SPRINT"


def test_a_demoted_job_counts_in_the_lower_class_of_its_users_limits(
    account: Account, slotq: Any
) -> None:
    """So the user's next job of the class starts, and a limit is enforced where the job counts."""
    entered(account, "first", by=MEMBER, priority="SPRINT")
    entered(account, "second", by=MEMBER, priority="SPRINT")
    assert shown(account, "second", by=MEMBER)["state"] == "pending"
    assert quotas(account, MEMBER)[MEMBER, "SPRINT"] == (1, 1)
    account.clock.set(account.clock.now() + 1_800_000)
    account.send("tick")
    assert [shown(account, name, by=MEMBER)["state"] for name in ("first", "second")] == [
        "running"
    ] * 2
    assert quotas(account, MEMBER)[MEMBER, "SPRINT"] == (1, 1)
    assert quotas(account, MEMBER)[MEMBER, "NORMAL"] == (1, 1)
    told = slotq("set", "everybody", "NORMAL", "main", "0", "--enforce").stderr
    assert [line.split()[0] for line in told.splitlines()] == ["first"]


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"classes": [{"name": "1st", "value": 1}]}, "classes[0].name"),
        (
            {"classes": [{"name": "A", "value": 1, "chosen_by": ["bosses"]}]},
            "classes[0].chosen_by[0]",
        ),
        ({"classes": [{"name": "A", "value": 1, "demote_to": "B"}]}, "classes[0].demote_to"),
        ({"users": [{"name": "u", "groups": ["none"]}]}, "users[0].groups[0]"),
        ({"users": [{"name": "u", "limits": {"q": {"HIGH": 1}}}]}, "users[0].limits.q"),
        ({"users": [{"name": "u", "limits": {"main": {"LOW": 1}}}]}, "users[0].limits.main.LOW"),
        ({"users": [{"name": "u", "limits": {"main": 1}}]}, "users[0].limits.main"),
        ({"user_groups": [{"name": "g", "members": ["*"]}]}, "user_groups[0].members[0]"),
        ({"users": [{"name": "u"}, {"name": "u"}]}, "users[1].name"),
    ],
)
def test_what_contradicts_itself_is_refused(
    account: Account, change: dict[str, Any], path: str
) -> None:
    base = {"pools": [POOL], "classes": CLASSES[1:]}
    status, told = account.call(put({**base, **change}))
    assert status == 400
    assert path in [fault["path"] for fault in told["faults"]]


def test_a_pool_that_limits_name_stays(account: Account) -> None:
    pools = [{**POOL, "name": "other"}]
    status, told = account.call(put({"pools": pools, "user_groups": DOCUMENT["user_groups"]}))
    assert status == 400
    assert "user_groups[0].limits.main" in [fault["path"] for fault in told["faults"]]


def quotas(account: Account, by: str, **query: str) -> dict[tuple[str, str], tuple[int, Any]]:
    given = {key: [value] for key, value in query.items()}
    status, view = account.call(request("GET", "/quota", by=by, query=given))
    assert status == 200, view
    assert view["contact"] == "gpu-admins@example.com"
    return {
        (each["user"], each["priority_class"]): (each["used"], each["total"])
        for each in view["quotas"]
    }


def test_a_quota_is_shown_with_what_is_used_of_it(account: Account) -> None:
    entered(account, "one", by=MEMBER, priority="HIGH")
    entered(account, "other", by=OWNER, priority="NORMAL")
    account.settle()
    assert quotas(account, MEMBER) == {
        (MEMBER, "HIGH"): (1, 2),
        (MEMBER, "SPRINT"): (0, 1),
        (MEMBER, "NORMAL"): (0, 1),
    }
    owner = OWNER.rpartition("/")[0]
    everyone = quotas(account, ADMIN, user="everyone")
    assert everyone[owner, "NORMAL"] == (1, 1)
    assert everyone[MEMBER, "HIGH"] == (1, 2)


def test_others_quotas_are_for_operators(account: Account) -> None:
    event = put({**DOCUMENT, "operators": [OPERATOR.rpartition("/")[0] + "/*"]})
    event["requestContext"]["identity"]["userArn"] = OPERATOR
    assert account.call(event)[0] == 200
    assert quotas(account, OPERATOR, user=MEMBER)
    assert quotas(account, MEMBER, user=MEMBER)
    for user in (OPERATOR, "everyone"):
        refused = account.call(request("GET", "/quota", by=MEMBER, query={"user": [user]}))
        assert (refused[0], refused[1]["code"]) == (403, "not_permitted")


@pytest.fixture
def slotq(account: Account) -> Any:
    return partial(real_http.slotq, account, "quota")


def test_a_quota_is_drawn_as_a_bar(account: Account, slotq: Any) -> None:
    entered(account, "one", by=MEMBER, priority="HIGH")
    account.settle()
    lines = slotq(by=MEMBER).stdout.splitlines()
    assert [line.split() for line in lines] == [
        ["USER", "POOL", "CLASS", "USED", "TOTAL"],
        ["mia", "main", "HIGH", "█" * 10 + "░" * 10, "1", "2"],
        ["mia", "main", "SPRINT", "░" * 20, "0", "1"],
        ["mia", "main", "NORMAL", "░" * 20, "0", "1"],
    ]
    assert json.loads(slotq("--all", "--json").stdout)["contact"] == "gpu-admins@example.com"


def test_a_quota_is_set_for_a_person_and_for_a_group(account: Account, slotq: Any) -> None:
    told = slotq("set", MEMBER, "SPRINT", "main", "2").stdout
    assert "SPRINT: 2" in told
    assert quotas(account, MEMBER)[MEMBER, "SPRINT"] == (0, 2)
    assert quotas(account, MEMBER)[MEMBER, "HIGH"] == (0, 2)
    slotq("set", "everybody", "NORMAL", "main", "2")
    assert quotas(account, MEMBER)[MEMBER, "NORMAL"] == (0, 2)
    slotq("set", ADMIN, "NORMAL", "main", "1")
    assert quotas(account, ADMIN)[ADMIN, "NORMAL"] == (0, 1)
    again = slotq("set", ADMIN, "NORMAL", "main", "1")
    assert (again.stdout, again.stderr) == ("", f"{ADMIN} had that limit already\n")
    slotq("set", MEMBER, "GOLD", "main", "1", status=ExitCode.NO)


def test_a_lowered_limit_evicts_nobody_unless_it_is_enforced(account: Account, slotq: Any) -> None:
    """Then the newest first."""
    for number in range(2):
        entered(account, f"m{number}", by=MEMBER, priority="HIGH")
        account.clock.set(account.clock.now() + 1000)
    assert [shown(account, f"m{n}", by=MEMBER)["state"] for n in range(2)] == ["running"] * 2
    slotq("set", MEMBER, "HIGH", "main", "1")
    assert [shown(account, f"m{n}", by=MEMBER)["state"] for n in range(2)] == ["running"] * 2
    assert quotas(account, MEMBER)[MEMBER, "HIGH"] == (2, 1)
    told = slotq("set", MEMBER, "HIGH", "main", "1", "--enforce").stderr
    assert "m1 gives 1 slot of main back and waits again" in told
    assert "m0" not in told
    account.settle()
    account.clock.set(account.clock.now() + 600_000)
    account.send("tick")
    assert shown(account, "m0", by=MEMBER)["state"] == "running"
    waiting = shown(account, "m1", by=MEMBER)
    assert (waiting["state"], waiting["reason"]["code"]) == ("preempted", "user_limit_reached")
    assert "gives" not in slotq("set", MEMBER, "HIGH", "main", "1", "--enforce").stderr


def test_enforcing_a_groups_limit_stops_each_members_newest(account: Account, slotq: Any) -> None:
    entered(account, "o", priority="NORMAL")
    entered(account, "m", by=MEMBER, priority="NORMAL")
    account.settle()
    told = slotq("set", "everybody", "NORMAL", "main", "0", "--enforce").stderr
    assert sorted(line.split()[0] for line in told.splitlines()) == ["m", "o"]


def test_numbers_count_in_hfais_classes_where_none_are_configured(
    account: Account, slotq: Any
) -> None:
    assert account.call(put({"pools": [POOL]}))[0] == 200
    for number in range(2):
        entered(account, f"m{number}", by=MEMBER, priority="30")
        account.settle()
        account.clock.set(account.clock.now() + 1000)
    told = slotq("set", MEMBER, "HIGH", "main", "1", "--enforce").stderr
    assert [line.split()[0] for line in told.splitlines()] == ["m1"]
