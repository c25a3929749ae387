"""Gangs, through the real handler: each rule of a submission with its own message, and what the
queue shows of a gang. Nothing here depends on how a gang's starts are committed."""

import json
from dataclasses import replace
from typing import Any

import pytest

from slotq_core.wire.groups.group_submission import MOST_OF_A_GANG
from tests.functional.account import Account, add_job, sample
from tests.functional.sharing import SHARING, VISION, share
from tests.functional.test_transfer import BOTH

MEMBER = json.loads(sample("add-job")["body"])
POOLS = "main=2@ml.p4d.24xlarge,other=2@ml.p4d.24xlarge,third=1@ml.g5.48xlarge"


@pytest.fixture(autouse=True)
def pools(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two pools of one instance type and one of another, before the first call."""
    monkeypatch.setenv("SLOTQ_POOLS", POOLS)


def member(name: str, *, pools: str = "", **changes: Any) -> dict[str, Any]:
    tags = [*MEMBER["Tags"], *([{"Key": "slotq:pools", "Value": pools}] if pools else [])]
    found = {**MEMBER, "TrainingJobName": name, "Tags": tags, **changes}
    return {key: value for key, value in found.items() if value is not None}


def of(kind: str, instances: int = 1) -> dict[str, Any]:
    return {"InstanceType": kind, "InstanceCount": instances, "VolumeSizeInGB": 50}


def submit(
    account: Account, *members: dict[str, Any], by: str | None = None, **body: Any
) -> tuple[int, dict[str, Any]]:
    told = {"name": "ring", "gang": {}, "members": members, **body}
    told = {key: value for key, value in told.items() if value is not None}
    return account.call(signed({**sample("submit-gang"), "body": json.dumps(told)}, by))


def shown(account: Account, by: str | None = None, **query: str) -> tuple[int, dict[str, Any]]:
    event = {**sample("get-group"), "path": "/groups/ring", "pathParameters": {"name": "ring"}}
    return account.call(signed({**event, "queryStringParameters": query or None}, by))


def signed(event: dict[str, Any], by: str | None) -> dict[str, Any]:
    if by is not None:
        event["requestContext"]["identity"]["userArn"] = f"arn:aws:iam::123456789012:user/{by}"
    return event


def amend(
    account: Account, job: str, by: str | None = None, **changes: Any
) -> tuple[int, dict[str, Any]]:
    event = {**sample("amend-job"), "path": f"/jobs/{job}", "body": json.dumps(changes)}
    return account.call(signed(event, by))


def full(account: Account) -> None:
    """Fill every slot of both large pools."""
    for number in range(4):
        urgent = [{"Key": "priority", "Value": "9"}]
        account.call(add_job(TrainingJobName=f"busy-{number}", Tags=urgent))
    account.settle()


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({"gang": None}, "max_parallel", "which kind of group is it? give max_parallel for a"),
        ({"max_parallel": 1}, "gang", "a group is not both: give max_parallel for a sweep"),
        ({"min_members": 2}, "min_members", "write it within gang, as gang: {min_members: …}"),
        ({"same_pool": True}, "same_pool", "write it within gang"),
        ({"mandatory": ["a"]}, "mandatory", "write it within gang"),
        ({"gang": []}, "gang", "gang: "),
        ({"gang": {"min_members": 0}}, "gang.min_members", "greater than or equal to 1"),
        ({"gang": {"min_members": True}}, "gang.min_members", "integer"),
        ({"gang": {"min_members": "2"}}, "gang.min_members", "integer"),
        ({"gang": {"min_members": 1.0}}, "gang.min_members", "integer"),
        ({"gang": {"min_members": 10**9}}, "gang.min_members", "200"),
        ({"gang": {"same_pool": "yes"}}, "gang.same_pool", "boolean"),
        ({"gang": {"elastic": "yes"}}, "gang.elastic", "boolean"),
        ({"gang": {"elastic": True}}, "gang.min_members", "says how many jobs must run at once"),
        (
            {"gang": {"elastic": True, "min_members": 1, "ends_with": "a"}},
            "gang.ends_with",
            "a gang that ends with one of its jobs is not elastic",
        ),
        ({"gang": {"mandatory": "a"}}, "gang.mandatory", "list"),
        ({"gang": {"mandatory": [3]}}, "gang.mandatory.0", "string"),
        ({"gang": {"leader": "a"}}, "gang.leader", "not permitted"),
        (
            {"gang": {"min_members": 4}},
            "gang.min_members",
            "the gang must start 4 jobs at once and has 3 members",
        ),
        (
            {"gang": {"mandatory": ["a", "z"]}},
            "gang.mandatory.1",
            "'z' is not a member; the members are a, b, c",
        ),
    ],
)
def test_each_rule_has_its_own_message(account: Account, body, field, words):
    before = account.items()
    status, told = submit(account, *map(member, "abc"), **body)
    assert (status, told["field"]) == (400, field), told
    assert words in told["message"]
    assert [item for item in account.items() if item not in before and "JOB" in str(item)] == []


@pytest.mark.parametrize(
    ("members", "gang", "field", "words"),
    [
        (
            [member(name) for name in "abcde"],
            {},
            "gang",
            "gang 'ring' must start 5 of its jobs at once, more than its pools can hold even when",
        ),
        (
            [member(name) for name in "abcde"],
            {"min_members": 3, "same_pool": True},
            "gang",
            "must start 3 of its jobs at once in one pool, more than its pools can hold",
        ),
        (
            [member("a", pools="main"), member("b", pools="other")],
            {"same_pool": True},
            "gang.same_pool",
            "and no pool is accepted by so many: main by 1, other by 1",
        ),
        (
            [member("a", pools="main"), member("b", pools="main"), member("c", pools="other")],
            {"same_pool": True, "min_members": 2, "mandatory": ["c"]},
            "gang.same_pool",
            "2 of its jobs at once in one pool, the mandatory ones among them, and no pool",
        ),
        (
            [
                member("a"),
                member(
                    "b",
                    pools="main,third",
                    ResourceConfig={
                        "VolumeSizeInGB": 50,
                        "InstanceGroups": [
                            {
                                "InstanceGroupName": str(number),
                                "InstanceType": kind,
                                "InstanceCount": 1,
                            }
                            for number, kind in enumerate(("ml.p4d.24xlarge", "ml.g5.48xlarge"))
                        ],
                    },
                ),
            ],
            {},
            "members.1.ResourceConfig.InstanceGroups",
            "members.1: a job that runs in several pools at once cannot belong to a group",
        ),
        (
            [member("a"), member("b", ResourceConfig=of("ml.odd"))],
            {"min_members": 1},
            "members.1.ResourceConfig.InstanceType",
            "members.1: no pool has instance type 'ml.odd'",
        ),
        (
            [
                member("a"),
                member("b", Tags=[*MEMBER["Tags"], {"Key": "slotq:class", "Value": "interactive"}]),
            ],
            {"min_members": 1, "elastic": True},
            "members.1.Tags",
            "members.1: a job of an elastic gang is training, not interactive",
        ),
    ],
)
def test_a_gang_that_could_never_start_is_refused(account: Account, members, gang, field, words):
    status, told = submit(account, *members, gang=gang)
    assert (status, told["field"]) == (400, field), told
    assert words in told["message"]
    assert shown(account)[0] == 404


@pytest.mark.parametrize(
    ("members", "gang"),
    [
        ([member(name) for name in "abcd"], {}),
        ([member(name) for name in "abcde"], {"min_members": 4}),
        ([member(name) for name in "abcde"], {"min_members": 2, "same_pool": True}),
        ([member("a"), member("b", ResourceConfig=of("ml.g5.48xlarge"))], {}),
        (
            [member("a", pools="main"), member("b", pools="main"), member("c", pools="other")],
            {"same_pool": True, "min_members": 2, "mandatory": ["a", "a"]},
        ),
    ],
)
def test_a_gang_that_empty_pools_could_hold_is_taken(account: Account, members, gang):
    full(account)
    status, told = submit(account, *members, gang=gang)
    assert status == 202, told
    assert told["state"] == "pending"
    assert told["gang"]["mandatory"] == gang.get("mandatory", [])
    assert told["gang"]["needed"] == gang.get("min_members", len(members))
    assert told["gang"]["ready"] == len(members)
    assert (told["max_parallel"], told["reason"]) == (None, None)


def test_the_rules_are_kept_and_read_again(account: Account):
    full(account)
    rules = {"min_members": 2, "mandatory": ["b"], "same_pool": True}
    first = submit(account, *map(member, "abc"), gang=rules)[1]
    status, told = shown(account)
    assert status == 200
    assert {key: told["gang"][key] for key in rules} == rules
    again = submit(account, *map(member, "abc"), gang=rules)
    assert (again[0], again[1]["submitted_at"]) == (202, first["submitted_at"])
    status, told = submit(account, *map(member, "abc"), gang={**rules, "min_members": 3})
    assert (status, told["code"]) == (409, "name_taken")
    status, told = submit(account, *map(member, "abc"), gang=None, max_parallel=1)
    assert (status, told["code"]) == (409, "name_taken")


def test_an_elastic_gang_says_what_waits_to_join(account: Account):
    urgent = [{"Key": "priority", "Value": "9"}, {"Key": "slotq:pools", "Value": "main"}]
    account.call(add_job(TrainingJobName="busy", Tags=urgent))
    account.settle()
    asking = [member(name, pools="main,other") for name in "abc"]
    submit(account, *asking, gang={"min_members": 1, "elastic": True})
    account.settle()
    told = shown(account)[1]
    assert (told["gang"]["elastic"], told["gang"]["same_pool"]) == (True, True)
    assert told["states"] == {"running": 1, "pending": 2}
    assert [job["pool"] for job in told["jobs"]] == ["main", None, None]
    assert told["reason"]["code"] == "not_yet_in"
    assert told["reason"]["text"].startswith(
        "not yet in: gang ring runs with 1 of its 3 jobs; this one joins when there is room"
    )


def test_a_gang_that_waits_says_why_with_its_numbers(account: Account):
    full(account)
    submit(account, *map(member, "abc"), gang={"min_members": 2})
    account.settle()
    told = shown(account)[1]
    assert (told["state"], told["reason"]["code"]) == ("pending", "gang_blocked")
    numbers = told["reason"]["numbers"]
    assert numbers == {
        "group": "ring",
        "needed": 2,
        "free": 0,
        "drains": "",
        "project": "",
        "member": "a",
        "member_needs": 1,
        "pool": "main",
        "pool_free": 0,
        "site": "",
        "resource": "slots",
        "holder": "busy-0",
        "holder_project": "",
        "other_holders": 1,
    }
    assert told["reason"]["text"] == (
        "gang ring needs room for 2 of its jobs at once; its pools have 0 slots free. Pool main "
        "has 0 free for a, which needs 1 slot; busy-0 and 1 job more hold slots there"
    )


def test_a_gang_without_a_mandatory_member_says_who_is_missing(account: Account):
    full(account)
    submit(account, *map(member, "abc"), gang={"min_members": 2, "mandatory": ["b"]})
    assert amend(account, "b", held=True)[1]["state"] == "held"
    account.settle()
    told = shown(account)[1]
    assert (told["gang"]["ready"], told["gang"]["missing"]) == (2, ["b"])
    assert told["reason"]["code"] == "gang_incomplete"
    assert told["reason"]["numbers"]["missing"] == ["b"]
    assert "these are missing: b" in told["reason"]["text"]


def test_a_gang_whose_mandatory_member_is_cancelled_tells_so(account: Account):
    full(account)
    submit(account, *map(member, "abc"), gang={"min_members": 1, "mandatory": ["b"]})
    account.call({**sample("cancel-job"), "path": "/jobs/b"})
    told = shown(account)[1]
    assert told["message"].startswith("b was cancelled (cancelled by arn:aws:")
    assert told["message"].endswith("), and the gang does not run without it")


def test_members_are_shown_with_their_attempts_where_somebody_asks(account: Account):
    submit(account, *map(member, "ab"))
    account.settle()
    assert [job["attempts"] for job in shown(account)[1]["jobs"]] == [[], []]
    attempts = [job["attempts"] for job in shown(account, attempts="true")[1]["jobs"]]
    assert [[each["number"] for each in those] for those in attempts] == [[1], [1]]
    assert shown(account, attempts="maybe")[0] == 400
    assert shown(account, attempt="true")[1]["field"] == "attempt"


def test_groups_are_listed_with_their_kind_and_state(account: Account):
    full(account)
    submit(account, *map(member, "abc"), gang={"min_members": 2})
    submit(account, *map(member, "de"), name="grid", gang=None, max_parallel=1)
    submit(account, member("f"), name="gone")
    account.call({**sample("cancel-job"), "path": "/jobs/f"})

    def listed(**query: str) -> list[tuple[Any, ...]]:
        event = {**sample("list-groups"), "queryStringParameters": query or None}
        status, told = account.call(event)
        assert status == 200, told
        return [(it["name"], it["state"], it["states"]) for it in told["groups"]]

    living = [("grid", "pending", {"pending": 2}), ("ring", "pending", {"pending": 3})]
    assert listed() == living
    assert listed(ended="true") == [("gone", "cancelled", {"cancelled": 1}), *living]
    told = account.call(sample("list-groups"))[1]["groups"]
    assert [(it["max_parallel"], it["gang"] is None) for it in told] == [(1, True), (None, False)]


def test_a_member_of_a_gang_stays_in_its_project(account: Account):
    share(replace(SHARING, projects=(VISION, BOTH)))
    vision = [*MEMBER["Tags"], {"Key": "slotq:project", "Value": "vision"}]
    speech = [*MEMBER["Tags"], {"Key": "slotq:project", "Value": "speech"}]
    status, told = submit(account, member("a", Tags=vision), member("b", Tags=speech), by="mia")
    assert (status, told["field"]) == (400, "members")
    assert "belong to one project, not to speech, vision" in told["message"]
    status, told = submit(account, member("a", Tags=vision), member("b", Tags=vision), by="mia")
    assert status == 202, told
    status, told = amend(account, "a", by="mia", tags={"slotq:project": "speech"})
    assert (status, told["field"]) == (400, "Tags")
    assert "a gang is of one project" in told["message"]


def test_a_heartbeat_is_refused_where_nobody_could_hear_it(account: Account):
    silent = {key: it for key, it in member("b").items() if key != "CheckpointConfig"}
    rules = {"heartbeat_seconds": 60}
    status, told = submit(account, member("a"), silent, gang=rules)
    assert (status, told["field"]) == (400, "members.1.CheckpointConfig")
    assert "scripts leave their reports there" in told["message"]
    status, told = submit(account, member("a"), member("b"), gang=rules)
    assert status == 202, told


SCRIPT = "<script>alert(1)</script>"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": SCRIPT}, "name"),
        ({"name": "ring\n"}, "name"),
        ({"name": "ríng"}, "name"),
        ({"name": "r" * 5000}, "name"),
        ({"gang": {SCRIPT: 1}}, f"gang.{SCRIPT}"),
        ({"gang": {"mandatory": [SCRIPT]}}, "gang.mandatory.0"),
        ({"gang": {"mandatory": ["\u202e" * 9000]}}, "gang.mandatory.0"),
        ({"gang": {"mandatory": ["a"] * 10_000}}, "gang.mandatory"),
        ({"members": [member("a")] * 10_000}, ""),
        ({"members": [{}] * 10_000}, "members"),
        ({"members": [member(SCRIPT)]}, "members.0.TrainingJobName"),
        ({"members": [[]]}, "members.0"),
    ],
)
def test_hostile_bodies_are_refused_briefly(account: Account, body, field):
    status, told = submit(account, **{"members": [member("a")], **body})
    assert (status, told["code"], told["field"]) == (400, "invalid_request", field)
    assert len(json.dumps(told)) < 2_000
    assert account.call(sample("list-groups"))[1]["groups"] == []


def test_names_of_other_peoples_jobs_and_groups_are_taken(account: Account):
    full(account)
    assert submit(account, *map(member, "ab"), by="eve")[0] == 202
    status, told = submit(account, *map(member, "ab"), by="mallory")
    assert (status, told["code"], told["field"]) == (409, "name_taken", "name")
    status, told = submit(account, *map(member, "bc"), name="mine", by="mallory")
    assert (status, told["code"]) == (409, "name_taken")
    assert told["message"].startswith("members.0: ")
    account.settle()
    account.submit("c")  # No member of it was stored.


def test_as_many_members_as_a_group_may_have(account: Account):
    full(account)
    names = [f"m{number}" for number in range(MOST_OF_A_GANG)]
    told = submit(account, *map(member, names), gang={"min_members": 4, "mandatory": names[-2:]})
    assert (told[0], told[1]["states"]) == (202, {"pending": MOST_OF_A_GANG})


def test_a_held_member_keeps_its_gang_from_starting_until_it_is_released(account: Account):
    full(account)
    submit(account, *map(member, "abc"))
    amend(account, "b", held=True)
    for number in range(4):
        account.completes(f"busy-{number}")
    assert shown(account)[1]["states"] == {"pending": 2, "held": 1}
    amend(account, "b", held=False)
    account.settle()
    assert shown(account)[1]["states"] == {"running": 3}


def test_a_gang_starts_without_a_held_member_that_it_does_not_need(account: Account):
    full(account)
    submit(account, *map(member, "abc"), gang={"min_members": 2})
    amend(account, "b", held=True)
    for number in range(4):
        account.completes(f"busy-{number}")
    told = shown(account)[1]
    assert (told["state"], told["states"]) == ("running", {"running": 2, "held": 1})
    amend(account, "b", held=False)
    account.settle()
    assert shown(account)[1]["states"] == {"running": 3}, "it joins"


def test_the_resources_of_a_gang_count_at_the_door(account: Account):
    """Each pool has room for one member's licences, whatever slots are free."""
    for pool in ("main", "other"):
        resources = {"resources": {"licences": 8}, "properties": {"disk_in_GiB": 16}}
        event = {**sample("set-pool"), "path": f"/pools/{pool}", "body": json.dumps(resources)}
        assert account.call(event)[0] == 200
    demand = {"Key": "slotq:demand", "Value": "licences=5,disk_in_GiB=16G"}
    asking = [member(name, Tags=[demand]) for name in "abc"]
    status, told = submit(account, *asking)
    assert (status, told["code"]) == (400, "never_fits")
    assert "must start 3 of its jobs at once, more than its pools can hold" in told["message"]
    status, told = submit(account, *asking, gang={"min_members": 2})
    assert (status, told["jobs"][0]["requires"]) == (202, {"disk_in_GiB": 16})
    assert told["jobs"][0]["demand"] == {"slots": 1, "licences": 5}


def test_one_more_than_a_gang_may_have(account: Account):
    names = [f"m{number}" for number in range(MOST_OF_A_GANG + 1)]
    status, told = submit(account, *map(member, names), gang={})
    assert (status, told["field"]) == (400, "members")
    assert "a gang has at most 200 members, not 201; a sweep has up to 1,000" in told["message"]


def test_a_gang_tries_nothing(account: Account):
    status, told = submit(account, member("a"), gang={}, sweep={"metric": "loss"})
    assert (status, told["field"]) == (400, "sweep")
