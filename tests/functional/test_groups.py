"""Groups of jobs, through the real handler: all members or none, and no more at once than asked."""

import json
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from slotq_core.adapters.dynamodb import jobs
from slotq_core.adapters.dynamodb.layout.table import group_key
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.operations.jobs import listing
from slotq_core.operations.jobs.groups import FINISHED_WITHIN
from slotq_core.ports.stored import Change
from slotq_core.wire.groups import members as growth
from slotq_core.wire.groups.group_submission import MOST_MEMBERS
from tests.functional.account import HOUR, TABLE, Account, add_job, forget, sample
from tests.functional.sharing import request

MEMBER = json.loads(sample("add-job")["body"])
CALLER = sample("add-job")["requestContext"]["identity"]["userArn"]


def members(*names: str, **changes: Any) -> list[dict[str, Any]]:
    return [{**MEMBER, "TrainingJobName": name, **changes} for name in names]


def submit(account: Account, *names: str, **body: Any) -> tuple[int, dict[str, Any]]:
    return account.call({**sample("submit-group"), "body": _body(*names, **body)})


def _body(*names: str, **body: Any) -> str:
    return json.dumps({"name": "grid", "max_parallel": 1, "members": members(*names), **body})


def shown(account: Account, name: str = "grid") -> tuple[int, dict[str, Any]]:
    return account.call({**sample("get-group"), "path": f"/groups/{name}"})


def states(account: Account) -> dict[str, int]:
    status, told = shown(account)
    assert status == 200, told
    return told["states"]


def test_no_more_members_run_at_once_than_the_group_may_have(account: Account):
    status, told = submit(account, "a", "b", "c")
    assert (status, told["name"], told["members"]) == (202, "grid", 3)
    account.settle()
    account.call(add_job(TrainingJobName="other"))
    account.settle()
    assert states(account) == {"running": 1, "pending": 2}
    assert account.job("other")["state"] == "running"
    waiting = account.job("b")
    assert (waiting["group"], waiting["reason"]["code"]) == ("grid", "sweep_limit")
    account.clock.set(account.clock.now() + HOUR)
    account.settle()
    assert states(account) == {"completed": 1, "running": 1, "pending": 1}


def test_the_same_group_again_is_the_same_group_also_when_members_have_ended(account: Account):
    first = submit(account, "a", "b")[1]
    account.settle()
    account.clock.set(account.clock.now() + HOUR)
    account.settle()
    status, again = submit(account, "a", "b")
    assert (status, again["submitted_at"]) == (202, first["submitted_at"])
    assert again["states"] == {"completed": 1, "running": 1}
    status, told = submit(account, "a", "b", max_parallel=2)
    assert (status, told["code"], told["message"]) == (
        409,
        "name_taken",
        "a group named 'grid' exists already",
    )


@pytest.mark.parametrize("begins", [False, True], ids=["whole", "unfinished"])
def test_the_same_group_may_come_from_another_session_of_the_person(account: Account, begins: bool):
    """SDKs give each session of a role another name."""
    if begins:
        _begin(account, "a", "b")
    else:
        submit(account, "a", "b")
    for caller, status in (("DataScientist/other", 202), ("Student/ada", 409)):
        event = {**sample("submit-group"), "body": _body("a", "b")}
        identity = event["requestContext"]["identity"]
        identity["userArn"] = f"arn:aws:sts::123456789012:assumed-role/{caller}"
        assert account.call(event)[0] == status


@pytest.mark.parametrize(
    ("wrong", "field", "words"),
    [
        ({"ResourceConfig": None}, "members.1.ResourceConfig", "members.1: "),
        ({"TrainingJobName": "a"}, "members", "two members are named 'a'"),
        (
            {"ResourceConfig": {"InstanceType": "ml.odd", "InstanceCount": 1}},
            "members.1.ResourceConfig.InstanceType",
            "members.1: no pool has instance type 'ml.odd'",
        ),
        ({"TrainingJobName": "there"}, "members.1.TrainingJobName", "'there'"),
    ],
)
def test_one_member_that_is_refused_refuses_them_all(account: Account, wrong, field, words):
    account.call(add_job(TrainingJobName="there"))
    before = account.items()
    some = members("a", "b")
    some[1] = {key: it for key, it in {**some[1], **wrong}.items() if it is not None}
    status, told = submit(account, members=some)
    assert (status // 100, told["field"]) == (4, field), told
    assert words in told["message"]
    lines = [item for item in account.items() if item["pk"]["S"] == "LINES"]
    assert [item for item in account.items() if item not in lines or item in before] == before


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"members": []}, "members"),
        ({"name": "a_b"}, "name"),
        ({"max_parallel": 0}, "max_parallel"),
        ({"max_parallel": "2"}, "max_parallel"),
        ({"more": 1}, "more"),
        ({"members": ["a"]}, "members.0"),
        ({"members": members(*(f"m{n}" for n in range(MOST_MEMBERS + 1)))}, "members"),
    ],
)
def test_what_is_no_group_is_refused(account: Account, body, words):
    status, told = submit(account, "a", **body)
    assert (status, told["code"]) == (400, "invalid_request")
    assert words in told["message"]


def test_a_group_with_much_text_comes_in_pages(account: Account, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(listing, "MOST_TEXT", 100)
    for name in ("prepare", "clean"):
        account.call(add_job(TrainingJobName=name))
    names, after = ["a", "b", "c", "d", "e"], ["prepare", "clean"]
    told = submit(account, *names, after=after, sweep={"metric": "loss"})[1]
    found, pages = [job["name"] for job in told["jobs"]], 1
    assert (told["members"], len(told["sweep"]["trials"])) == (5, 5)
    while told["next"]:
        status, told = account.asked("get-group", next=told["next"], attempts="true")
        assert (status, told["states"], told["sweep"]) == (200, {"pending": 5}, None)
        found += [job["name"] for job in told["jobs"]]
        pages += 1
    assert (found, pages) == (names, 3)
    status, told = account.asked("get-group", next="a")
    assert (status, told["field"]) == (400, "next")


def test_two_hundred_members_are_one_group(account: Account):
    status, told = submit(account, *(f"m{n}" for n in range(200)), max_parallel=2)
    assert (status, told["states"]) == (202, {"pending": 200})
    account.settle()
    assert states(account) == {"running": 2, "pending": 198}


def test_a_group_that_there_is_not(account: Account):
    for name in ("grid", "a_b"):
        assert shown(account, name)[1]["code"] == "no_such_group"


def test_a_record_that_cannot_be_read_hides_no_other_group(account: Account):
    submit(account, "grid-1")
    submit(account, "broken-1", name="broken")
    account.call(request("PATCH", "/jobs/broken-1", by=CALLER, body={"held": True}))
    broken = dict(zip(("pk", "sk"), ({"S": part} for part in group_key("broken")), strict=True))
    account.dynamodb.put_item(TableName=TABLE, Item={**broken, "name": {"N": "1"}})
    for sample_of_list in ("list-groups", "get-scenario"):
        status, told = account.call(sample_of_list)
        assert status == 200, told
        assert [group["name"] for group in told["groups"]] == ["grid"]


def test_an_unfinished_group_is_cancelled_after_an_hour(account: Account):
    _begin(account, "a", "b")
    account.send("tick")
    account.settle()
    waiting = account.job("a")
    assert (waiting["state"], waiting["reason"]["code"]) == ("pending", "group_not_whole")
    assert waiting["waits_for"] == []
    assert shown(account)[0] == 404
    account.clock.set(account.clock.now() + FINISHED_WITHIN)
    account.send("tick")
    ended = account.job("a")
    assert (ended["state"], ended["cause"]) == ("cancelled", "group_not_whole")
    assert not [item for item in account.items() if item["pk"]["S"] == "OPENING"]


@pytest.mark.parametrize("finish", ["tick", "again"])
def test_a_group_of_an_earlier_version_is_finished(account: Account, finish: str):
    """The record is there, and no member has entered its line: so far a handler of 0.2.0 came."""
    assert submit(account, "a", "b")[0] == 202
    store = DynamoStore(account.dynamodb, TABLE)
    for name in ("a", "b"):
        waiting = store.jobs.get(name)
        assert waiting is not None
        outside = replace(waiting, after_any=("entry:grid",))
        store.decisions.commit([Change(before=waiting, after=outside)])
    kept = store.groups.get("grid")
    assert kept is not None
    store.groups.open("grid", digest=kept.digest, now=account.clock.now())
    assert states(account) == {"pending": 2}
    assert account.job("a")["reason"]["code"] == "group_not_whole"
    if finish == "tick":
        account.send("tick")
    else:
        assert submit(account, "a", "b")[0] == 202
    account.settle()
    assert states(account) == {"running": 1, "pending": 1}
    account.send("tick")
    assert not [item for item in account.items() if item["pk"]["S"] == "OPENING"]


def test_the_same_body_finishes_an_unfinished_group(account: Account):
    _begin(account, "a", "b")
    other = submit(account, "a", "b", max_parallel=2)[1]
    assert other["code"] == "name_taken"
    assert "is not finished: send that one again as it was, or choose other" in other["message"]
    assert submit(account, "a", "b")[0] == 202
    account.settle()
    assert states(account) == {"running": 1, "pending": 1}


def _begin(account: Account, *names: str) -> None:
    """Submit a group that no transaction holds, while DynamoDB fails before the record is kept, as
    if the handler had died."""
    transact = account.dynamodb.transact_write_items
    error = ClientError({"Error": {"Code": "InternalServerError"}}, "AnyCall")

    def without_records(**request: Any) -> dict[str, Any]:
        puts = [each.get("Put", {}).get("Item", {}) for each in request["TransactItems"]]
        if any(item.get("sk") == {"S": "GROUP"} for item in puts):
            raise error
        answer: dict[str, Any] = transact(**request)
        return answer

    account.dynamodb.transact_write_items = without_records
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "_MOST_BYTES", 0)
        assert submit(account, *names)[0] == 503
    del account.dynamodb.transact_write_items
    forget()


def test_a_group_stored_under_the_earlier_bound_is_read_and_starts(account: Account, monkeypatch):
    """0.2.0 let a body become 100 MB, whatever its size."""
    template = {key: it for key, it in MEMBER.items() if key != "TrainingJobName"}
    template["HyperParameters"] = {f"key{n}": "x" * 2_500 for n in range(40)}
    names = [f"m{n}" for n in range(30)]
    body = {"template": template, "members": [{"TrainingJobName": name} for name in names]}
    assert submit(account, **body)[0] == 400
    with monkeypatch.context() as earlier:
        earlier.setattr(growth, "MOST_GROWTH", 1_000)
        earlier.setattr(growth, "LARGEST_EXPANDED", 100_000_000)
        assert submit(account, **body)[0] == 202
    forget()
    account.settle()
    assert states(account) == {"running": 1, "pending": 29}
    account.clock.set(account.clock.now() + HOUR)
    account.settle()
    assert states(account) == {"completed": 1, "running": 1, "pending": 28}
