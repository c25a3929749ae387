"""Jobs after groups, groups after jobs, and members after each other, through the real handler."""

from collections import Counter
from typing import Any

import pytest

from slotq_core.names import MAX_TAGS
from tests.functional.account import TABLE, Account
from tests.functional.sharing import MEMBER, OTHER, OWNER, request, share, submission
from tests.functional.test_after import cancel, submit
from tests.functional.test_groups import members, shown
from tests.functional.test_groups import submit as submit_group
from tests.functional.test_retry_jobs import code, request_of, retried


def tagged(name: str, **after: str) -> dict[str, Any]:
    (member,) = members(name)
    tags = [{"Key": f"slotq:{key.replace('_', '-')}", "Value": it} for key, it in after.items()]
    return {**member, "Tags": tags}


def ends(account: Account, name: str) -> None:
    """The job's training completes, and the queue has seen it."""
    assert account.state(name) == "running"
    account.completes(name)
    assert account.state(name) == "completed"


def followed(account: Account) -> list[str]:
    """The jobs whose ends will be handed on."""
    return [
        item["jobName"]["S"]
        for item in account.items()
        if item["sk"]["S"] == "JOB" and item.get("followed", {}).get("BOOL")
    ]


@pytest.mark.parametrize(
    ("named", "order"), [("grid", "bac"), ("group:grid", "abc"), ("grid", "bca")]
)
def test_a_job_waits_for_all_members_of_a_group(account: Account, named: str, order: str):
    """The pool has two slots."""
    submit_group(account, "a", "b", "c", max_parallel=3)
    assert submit(account, "evaluate", after=named)[0] == 202
    account.settle()
    told = account.job("evaluate")
    assert (told["after"], told["waits_for"]) == (["group:grid"], ["group:grid"])
    assert told["reason"]["code"] == "waits_for_jobs"
    assert told["reason"]["text"] == "comes after group grid, which must complete first"
    for name in order:
        assert account.job("evaluate")["state"] == "pending"
        ends(account, name)
    told = account.job("evaluate")
    assert (told["state"], told["waits_for"]) == ("running", [])


def test_a_job_has_the_name_before_a_group(account: Account):
    submit_group(account, "a")
    submit(account, "grid")
    assert submit(account, "evaluate", after="grid")[1]["after"] == ["grid"]
    assert submit(account, "report", after="group:grid")[1]["after"] == ["group:grid"]


def test_a_group_that_has_not_completed_cancels_those_after_it(account: Account):
    submit_group(account, "a", "b")
    submit(account, "evaluate", after="grid")
    submit(account, "clean", after_any="grid")
    submit(account, "report", after="evaluate")
    account.settle()
    cancel(account, "b")
    account.settle()
    assert account.job("evaluate")["state"] == "pending"  # The group goes on.
    ends(account, "a")
    told = account.job("evaluate")
    assert (told["state"], told["cause"]) == ("cancelled", "dependency")
    assert told["message"] == (
        "it came after group grid, which has not completed: its member b was cancelled"
    )
    assert account.job("report")["cause"] == "dependency"
    assert account.job("clean")["waits_for"] == []


def test_a_job_after_a_group_that_has_ended(account: Account):
    submit_group(account, "a", "b", max_parallel=2)
    account.settle()
    ends(account, "a")
    cancel(account, "b")
    account.settle()
    status, told = submit(account, "evaluate", after="grid")
    assert (status, told["field"]) == (400, "Tags")
    assert told["message"] == (
        "it comes after group 'grid', which has not completed: its member b was cancelled"
    )
    status, told = submit(account, "clean", after_any="group:grid")
    assert (status, told["waits_for"], told["after"]) == (202, [], ["group:grid"])
    assert submit(account, "late", after="group:nobody")[1]["message"] == (
        "it comes after group 'nobody', but there is no such group"
    )


def test_a_group_comes_after_jobs_and_groups(account: Account):
    submit(account, "prepare")
    submit_group(account, "a", "b", max_parallel=2)
    rest = {"name": "second", "members": [tagged("c", after="a"), tagged("d")]}
    status, told = submit_group(account, after=["grid"], after_any=["prepare"], **rest)
    assert status == 202, told
    after = {each["name"]: each["after"] for each in told["jobs"]}
    assert after == {"c": ["a", "group:grid", "prepare"], "d": ["group:grid", "prepare"]}
    assert shown(account, "second")[1]["states"] == {"pending": 2}
    cancel(account, "prepare")
    account.settle()
    assert account.job("d")["waits_for"] == ["group:grid"]
    ends(account, "a")
    ends(account, "b")
    assert [account.job(name)["waits_for"] for name in "cd"] == [[], []]
    assert "running" in {account.job(name)["state"] for name in "cd"}


def test_retries_and_clones_know_what_the_body_of_the_group_said(account: Account):
    submit(account, "prepare")
    submit(account, "clean")
    chain = [tagged("a", after="prepare"), *members("b")]
    submit_group(account, members=chain, after=["clean"], after_any=["prepare"])
    for name, after in (("a", "prepare,clean"), ("b", "clean")):
        tags = {tag["Key"]: tag["Value"] for tag in request_of(account, name)["Tags"]}
        assert (tags["slotq:after"], tags["slotq:after-any"]) == (after, "prepare")
    cancel(account, "b")
    assert [code(it) for it in retried(account, "b", new_name="again")] == ["again"]
    assert account.job("again")["waits_for"] == ["clean", "prepare"]


def test_the_longest_names_of_a_groups_body_are_kept_too(account: Account):
    first = [f"{number:02d}{'x' * 61}" for number in range(45)]
    for name in first:
        submit_group(account, f"of-{name[:2]}", name=name)
    status, told = submit_group(account, "a", name="second", after=[f"group:{it}" for it in first])
    assert status == 202, told
    cancel(account, "a")
    retried(account, "a", new_name="again")
    assert account.job("again")["after"] == [f"group:{name}" for name in first]


def test_more_tags_than_sagemaker_takes_are_refused(account: Account):
    submit(account, "prepare")
    (member,) = members("a")
    member["Tags"] = [{"Key": f"own{number}", "Value": ""} for number in range(MAX_TAGS)]
    status, told = submit_group(account, members=[member], after=["prepare"])
    assert (status, told["field"]) == (400, "members.0.Tags"), told
    assert f"the job has {MAX_TAGS + 1} tags, and the limit is {MAX_TAGS}" in told["message"]
    assert submit_group(account, members=[member])[0] == 202


def test_many_members_after_the_same_jobs_are_not_in_each_others_way(account: Account):
    """DynamoDB cancels transactions that look at one item at once. Each job is followed once."""
    first = [f"first{number}" for number in range(30)]
    for name in first:
        submit(account, name)
    transact, followed = account.dynamodb.transact_write_items, Counter[str]()

    def counted(**asked: Any) -> dict[str, Any]:
        items = [action.get("Put", {}).get("Item", {}) for action in asked["TransactItems"]]
        followed.update(it["jobName"]["S"] for it in items if it.get("followed", {}).get("BOOL"))
        answer: dict[str, Any] = transact(**asked)
        return answer

    account.dynamodb.transact_write_items = counted
    status, told = submit_group(account, *(f"m{number}" for number in range(100)), after=first)
    assert (status, told["states"]) == (202, {"pending": 100}), told
    assert followed == dict.fromkeys(first, 1)


def test_members_come_after_each_other_in_any_order_of_the_submission(account: Account):
    chain = [tagged("c", after="b"), tagged("b", after="a"), *members("a")]
    status, told = submit_group(account, members=chain, max_parallel=3)
    assert status == 202, told
    account.settle()
    for name in "abc":
        ends(account, name)


@pytest.mark.parametrize(
    ("body", "circle"),
    [
        ({"members": [tagged("a", after="b"), tagged("b", after_any="a")]}, "a -> b -> a"),
        ({"members": [tagged("a", after="a")]}, "a -> a"),
        ({"members": [tagged("a", after="group:grid")]}, "a -> group grid -> a"),
        ({"members": members("a", "b"), "after": ["b"]}, "b -> b"),
    ],
)
def test_circles_are_refused_with_the_circle(account: Account, body, circle):
    status, told = submit_group(account, **body)
    assert (status, told["code"]) == (400, "invalid_request")
    assert circle in told["message"]
    assert not [item for item in account.items() if item["pk"]["S"].startswith(("JOB", "OPEN"))]


def test_what_a_group_may_come_after(account: Account):
    for after in (["a_b"], ["group:"], "a", [1]):
        assert submit_group(account, "a", after=after)[1]["code"] == "invalid_request"
    status, told = submit_group(account, "a", after=["nobody"])
    assert (status, told["message"]) == (
        400,
        "members.0: it comes after 'nobody', but there is no such job or group",
    )


def test_one_member_at_a_time_is_watched(account: Account):
    """Ends of others hand nothing on, so they read and write nothing for the group."""
    submit_group(account, "a", "b", "c", "d", max_parallel=4)
    submit(account, "evaluate", after="grid")
    assert followed(account) == ["a"]
    account.settle()
    cancel(account, "c")
    account.settle()
    assert followed(account) == ["a"]
    cancel(account, "a")
    account.settle()
    assert followed(account) == ["b"]
    found = account.dynamodb.get_item(
        TableName=TABLE, Key={"pk": {"S": "JOB#group:grid"}, "sk": {"S": "AFTER#evaluate"}}
    )
    assert "Item" in found


def test_a_group_that_the_caller_may_not_see_does_not_exist(account: Account):
    share()
    told = {"name": "grid", "max_parallel": 1, "members": [submission("a")]}
    status, told = account.call(request("POST", "/groups", by=OWNER, body=told))
    assert status == 202, told
    after = {"slotq:after": "group:grid"}
    for by, allowed in ((OWNER, True), (MEMBER, True), (OTHER, False)):
        name = f"late-{len(by)}"
        event = request("POST", "/add-job", by=by, body=submission(name, **after))
        status, told = account.call(event)
        assert (status == 202) == allowed, told
    assert told["message"] == "it comes after group 'grid', but there is no such group"


def test_a_group_after_a_group_reads_the_ended_members_once(account: Account):
    """Not for each of its own members again."""
    submit_group(account, *(f"m{n}" for n in range(20)), max_parallel=2)
    for n in range(19):
        cancel(account, f"m{n}")
    account.settle()
    read, get_item = [], account.dynamodb.get_item

    def counted(**request: Any) -> dict[str, Any]:
        read.append(request["Key"]["pk"]["S"])
        answer: dict[str, Any] = get_item(**request)
        return answer

    account.dynamodb.get_item = counted
    after = {"name": "next", "members": members(*"abcdefghij"), "after_any": ["grid"]}
    assert submit_group(account, **after)[0] == 202
    del account.dynamodb.get_item
    assert read.count("JOB#m0") == 1
    assert read.count("JOB#m19") == 1  # That it lives is a condition of each transaction.
