"""Callers' limits through the real handler: refusals, times to retry, and repairs of counters."""

import json
from typing import Any

import pytest

import app
from slotq_core.adapters.dynamodb import jobs as dynamodb_jobs
from slotq_core.adapters.dynamodb.groups import DynamoGroups
from slotq_core.errors import Unavailable
from slotq_core.wire.groups.group_submission import GroupText
from tests.functional.account import Account, add_job, forget, sample

ADA = sample("add-job")["requestContext"]["identity"]["userArn"]
ROLE = ADA.rpartition("/")[0]
OPERATOR = sample("set-limits")["requestContext"]["identity"]["userArn"]
PRIORITY = [{"Key": "priority", "Value": "11"}]


@pytest.fixture
def limits(account: Account, monkeypatch):
    """Cold-start the function with these limits."""

    def set_(text: str) -> None:
        monkeypatch.setenv("SLOTQ_LIMITS", text)
        forget()

    return set_


def job(name: str, *, by: str = ADA, **changes: Any) -> dict[str, Any]:
    event = add_job(TrainingJobName=name, **changes)
    event["requestContext"]["identity"]["userArn"] = by
    return event


def amend(name: str, body: Any) -> dict[str, Any]:
    return {**sample("amend-job"), "path": f"/jobs/{name}", "body": json.dumps(body)}


def cancel(name: str) -> dict[str, Any]:
    return {**sample("cancel-job"), "path": f"/jobs/{name}"}


def set_limits(**settings: Any) -> dict[str, Any]:
    return {**sample("set-limits"), "body": json.dumps(settings)}


def own_limits(by: str = ADA) -> dict[str, Any]:
    event = sample("get-limits")
    event["requestContext"]["identity"]["userArn"] = by
    return event


def submit(account: Account, number: int, **changes: Any) -> list[int]:
    return [account.call(job(f"job{n}", **changes))[0] for n in range(number)]


def later(account: Account, seconds: int) -> None:
    account.clock.set(account.clock.now() + 1000 * seconds)


def refusal(account: Account, event: dict[str, Any]) -> tuple[int, str, str]:
    """Status, code and Retry-After."""
    answer = account.send(event)
    again = answer["multiValueHeaders"].get("Retry-After", [""])
    return answer["statusCode"], json.loads(answer["body"])["code"], again[0]


def test_one_caller_cannot_fill_the_queue(account: Account, limits):
    """The attack: as many jobs as possible."""
    limits("waiting=3")
    assert submit(account, 5) == [202, 202, 202, 429, 429]
    status, error = account.call(job("more"))
    assert (status, error["code"]) == (429, "too_many_waiting")
    for part in (ROLE, "3 jobs waiting", "the limit for one caller is 3", "cancel some"):
        assert part in error["message"]
    assert account.call(job("theirs", by=OPERATOR))[0] == 202


def test_a_class_gives_nobody_more_than_their_priority(account: Account, limits):
    """Interactive jobs go before every priority. Without projects no quota bounds them."""
    limits("priority=10")
    interactive = [{"Key": "slotq:class", "Value": "interactive"}]
    status, error = account.call(job("shell", Tags=interactive))
    assert (status, error["code"]) == (403, "priority_too_high")
    assert "a project with a quota" in error["message"]
    assert account.call(job("shell", Tags=[]))[0] == 202
    change = {"tags": {"slotq:class": "interactive"}}
    assert account.call(amend("shell", change))[1]["code"] == "priority_too_high"
    rule = [{"callers": f"{ROLE}/*", "priority": 0}]
    assert account.call(set_limits(callers=rule))[0] == 200
    assert account.call(job("notebook", Tags=interactive))[1]["workload"] == "interactive"


def test_submissions_a_minute_are_limited_with_a_time_to_retry(account: Account, limits):
    limits("submissions=2")
    later(account, 40)
    assert submit(account, 2) == [202, 202]
    assert refusal(account, job("job2")) == (429, "too_many_submissions", "20")
    assert "submit again in 20 seconds" in account.call(job("job2"))[1]["message"]
    later(account, 20)
    assert account.call(job("job2"))[0] == 202


def test_a_repeated_submission_costs_nothing_and_is_answered_at_the_limit(account: Account, limits):
    limits("waiting=1,submissions=1")
    assert [account.call(job("job0"))[0] for _ in range(3)] == [202] * 3
    assert account.call(own_limits())[1]["own"]["submissions_used"] == 1
    assert account.call(job("job1"))[0] == 429


def test_guessing_names_counts_in_the_minute_and_not_as_waiting(account: Account, limits):
    """The attack: learn which jobs exist by submitting under their names."""
    limits("waiting=9,submissions=3")
    assert account.call(job("job0", by=OPERATOR))[0] == 202
    other = {"StoppingCondition": {"MaxRuntimeInSeconds": 77}}
    answers = [account.call(job("job0", **other)) for _ in range(4)]
    assert [status for status, _ in answers] == [409, 409, 409, 409]
    assert account.call(job("job1"))[1]["code"] == "too_many_submissions"
    own = account.call(own_limits())[1]["own"]
    assert (own["waiting_used"], own["submissions_used"]) == (0, 3)


def test_a_too_large_priority_is_refused_in_a_submission_and_in_a_change(account: Account, limits):
    limits("priority=10")
    assert refusal(account, job("job0", Tags=PRIORITY)) == (403, "priority_too_high", "")
    assert account.call(job("job0", Tags=[]))[0] == 202
    assert refusal(account, amend("job0", {"tags": {"priority": "11"}}))[1] == "priority_too_high"
    assert account.call(amend("job0", {"held": True}))[0] == 200
    assert account.call(amend("job0", {"tags": {"priority": "10"}}))[1]["priority"] == 10


def test_a_job_keeps_a_priority_from_before_the_limit(account: Account, limits):
    high = [{"Key": "priority", "Value": "50"}]
    account.call(job("job0", Tags=high))
    limits("priority=10")
    assert account.call(amend("job0", {"tags": {"slotq:retries": "1"}}))[0] == 200
    assert account.call(amend("job0", {"tags": {"priority": "20"}}))[1]["priority"] == 20
    assert account.call(amend("job0", {"tags": {"priority": "21"}}))[0] == 403


def test_all_callers_share_a_limit(account: Account, limits):
    limits("waiting_in_all=4")
    for number in range(4):
        assert account.call(job(f"job{number}", by=f"{ADA}{number}"))[0] == 202
    account.settle()
    account.send("tick")
    assert account.call("get-limits")[1]["use"] == {"waiting": 2, "lines": 1}  # Two jobs run.
    for number in range(4, 6):
        account.call(job(f"job{number}", by=f"{ADA}{number}"))
    account.send("tick")
    assert refusal(account, job("more", by="arn:aws:iam::123456789012:user/x")) == (
        429,
        "queue_full",
        "60",
    )


def test_a_line_too_many_is_refused_and_not_counted(account: Account, limits):
    limits("lines=1,waiting=9")
    account.call(job("job0"))
    account.call(job("job1"))
    account.send("tick")
    other = [{"Key": "slotq:preemptible", "Value": "false"}]
    assert refusal(account, job("other", Tags=other))[:2] == (429, "too_many_lines")
    assert account.call(own_limits())[1]["own"]["waiting_used"] == 2
    assert account.call(job("job2"))[0] == 202


def group(name: str, *members: str, max_parallel: int = 1) -> dict[str, Any]:
    requests = [json.loads(add_job(TrainingJobName=each)["body"]) for each in members]
    body = {"name": name, "max_parallel": max_parallel, "members": requests}
    return {**sample("submit-group"), "body": json.dumps(body)}


@pytest.mark.parametrize(
    ("text", "names"), [("submissions=2", "ab"), ("waiting=2", "ab"), ("waiting_in_all=2", "abe")]
)
def test_a_refused_group_costs_a_look_at_its_callers_limits(
    account: Account, limits, monkeypatch, text: str, names: str
):
    """The members are read after the limits are asked, not before each refusal."""
    limits(text)
    read = []

    def count(self: GroupText) -> Any:
        read.append(self.body.name)
        return members(self)

    members = GroupText.members
    monkeypatch.setattr(GroupText, "members", count)
    assert account.call(group("first", *names))[0] == 202
    assert account.call(group("first", *names))[0] == 202, "the same again is never refused"
    account.send("tick")
    for _ in range(3):
        assert refusal(account, group("second", "c", "d"))[0] == 429
    assert read == ["first", "first"]


def test_an_unfinished_group_is_finished_at_the_limit_that_its_own_members_fill(
    account: Account, limits, monkeypatch
):
    limits("waiting=2")

    def crash(*_: Any) -> None:
        raise Unavailable("crash")

    with monkeypatch.context() as patched:
        patched.setattr(dynamodb_jobs, "_MOST_BYTES", 0)  # No transaction holds the group.
        patched.setattr(DynamoGroups, "keep", crash)
        assert account.call(group("sweep", "a", "b"))[0] == 503
    assert account.call(own_limits())[1]["own"]["waiting_used"] == 2
    assert refusal(account, group("other", "c"))[:2] == (429, "too_many_waiting")
    status, told = account.call(group("sweep", "a", "b"))
    assert (status, told["states"]) == (202, {"pending": 2})


def tagged(name: str, **tags: str) -> dict[str, Any]:
    return amend(name, {"tags": {f"slotq:{key.replace('_', '-')}": it for key, it in tags.items()}})


def together(*changes: dict[str, Any]) -> dict[str, Any]:
    return {**sample("change-jobs"), "body": json.dumps({"changes": changes})}


def waiting_one(account: Account) -> None:
    """Fill the pool, and let `waits` wait."""
    assert submit(account, 2) == [202, 202]
    account.settle()
    assert account.call(job("waits"))[0] == 202


def test_amendments_of_one_job_do_not_close_the_queue_to_others(account: Account, limits):
    """The attack: each amendment opens a line, which stays for an hour after the job has left."""
    limits("lines=30,waiting=100")
    waiting_one(account)
    answers = [account.send(tagged("waits", priority=str(n))) for n in range(11, 41)]
    refused = [json.loads(it["body"]) for it in answers if it["statusCode"] == 429]
    assert len(refused) == 21, "one caller opens 10 lines, the first with the submission"
    assert {it["code"] for it in refused} == {"too_many_lines"}
    assert "has opened 10 lines, and the limit for one caller is 10" in refused[0]["message"]
    assert account.job("waits")["priority"] == 19
    account.send("tick")
    others = [job(f"other{n}", by=OPERATOR, Tags=priority(n)) for n in range(50, 60)]
    assert [account.call(event)[0] for event in others] == [202] * 10
    assert refusal(account, tagged("waits", priority="41"))[:2] == (429, "too_many_lines")
    assert account.call(tagged("waits", priority="13"))[0] == 200, "this line is there"
    assert account.call(job("more"))[0] == 202, "and so is this one"


def priority(number: int) -> list[dict[str, str]]:
    return [{"Key": "priority", "Value": str(number)}]


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ({}, lambda n: tagged("waits", priority=str(n))),
        ({}, lambda n: together({"name": "waits", "tags": {"slotq:priority": str(n)}})),
        ({"held": True}, lambda n: amend("waits", {"held": False, "tags": {"priority": str(n)}})),
    ],
    ids=["amend", "in bulk", "release"],
)
def test_a_change_that_opens_a_line_counts_as_a_submission(account: Account, limits, first, then):
    limits("submissions=4")
    waiting_one(account)
    if first:
        assert account.call(amend("waits", first))[0] == 200
    assert _code(account.call(then(5))) == ""
    assert account.call(own_limits())[1]["own"]["submissions_used"] == 4
    if first:
        assert account.call(amend("waits", first))[0] == 200
    assert _code(account.call(then(6))) == "too_many_submissions"
    assert account.job("waits")["priority"] == 5
    assert _code(account.call(then(5))) == ""
    later(account, 60)
    assert _code(account.call(then(6))) == ""


def _code(answer: tuple[int, dict[str, Any]]) -> str:
    """The code of a refusal, of the job's own or of the whole."""
    told = answer[1]
    own = told["outcomes"][0]["error"] or {} if "outcomes" in told else told
    return str(own.get("code", ""))


def test_submissions_of_one_caller_open_a_tenth_of_the_lines(account: Account, limits):
    limits("lines=200")
    codes = [account.call(job(f"j{n}", Tags=priority(n)))[0] for n in range(25)]
    assert codes == [202] * 20 + [429] * 5
    assert account.call(job("same", Tags=priority(7)))[0] == 202
    assert account.call(job("theirs", by=OPERATOR, Tags=priority(30)))[0] == 202
    forget()
    account.send("tick")
    assert account.call(job("again", Tags=priority(25)))[0] == 429, "a new process knows it too"


def test_a_lines_bound_is_free_again_when_empty_lines_are_removed(account: Account, limits):
    limits("lines=10")
    for n in range(10):
        assert account.call(job(f"j{n}", Tags=priority(n)))[0] == 202
        account.call(cancel(f"j{n}"))
    assert refusal(account, job("more", Tags=priority(20)))[1] == "too_many_lines"
    account.send("tick")
    assert refusal(account, job("more", Tags=priority(20)))[1] == "too_many_lines"
    assert account.call(job("theirs", by=OPERATOR, Tags=priority(20)))[0] == 202
    later(account, 3_700)
    for _ in range(4):
        account.send("tick")
        later(account, 60)
    assert account.call(job("more", Tags=priority(21)))[0] == 202


def test_jobs_that_wait_for_others_fill_no_lines_in_time(account: Account, limits):
    """The attack: as many lines an hour as one may open, which are removed because the jobs wait
    for a job. When it ends, the queue puts them into all these lines at once."""
    limits("lines=20,waiting=100")
    assert submit(account, 2) == [202, 202]
    account.settle()

    def codes(first: int) -> list[int]:
        numbers = range(first, first + 12)
        return [account.call(following(f"a{n}", n))[0] for n in numbers]

    assert codes(20) == [202] * 9 + [429] * 3
    for _ in range(4):
        later(account, 3_700)
        account.send("tick")
    assert codes(40) == [202] + [429] * 11, "the line of job0 is gone"
    account.completes("job0")
    account.settle()
    account.send("tick")
    assert account.call(job("theirs", by=OPERATOR, Tags=priority(99)))[0] == 202


def following(name: str, rank: int) -> dict[str, Any]:
    return job(name, Tags=[*priority(rank), {"Key": "slotq:after", "Value": "job0"}])


@pytest.mark.parametrize("held", [False, True], ids=["amend", "release"])
def test_amendments_of_jobs_that_wait_for_others_open_lines_too(account: Account, limits, held):
    limits("lines=20,waiting=100")
    assert submit(account, 2) == [202, 202]
    account.settle()
    names = [f"a{n}" for n in range(20, 40)]
    assert {account.call(following(name, 7))[0] for name in names} == {202}
    if held:
        assert {account.call(amend(name, {"held": True}))[0] for name in names} == {200}
    answers = [account.call(tagged(name, priority=name[1:])) for name in names]
    if held:
        answers = [account.call(amend(name, {"held": False})) for name in names]
    assert [_code(answer) for answer in answers] == [""] * 8 + ["too_many_lines"] * 12
    assert account.call(cancel("a39"))[0] == 200


def test_a_pass_may_open_any_line(account: Account, limits):
    """What was running comes back, whatever its caller has opened."""
    limits("lines=1")
    assert account.call(job("job0", Tags=priority(1)))[0] == 202
    account.settle()
    assert account.call(tagged("job0", priority="2"))[0] == 200
    assert account.call(amend("job0", {"give_up": 1}))[0] == 200
    account.settle()
    shown = account.job("job0")
    assert (shown["state"], shown["priority"]) == ("running", 2)


def test_a_caller_is_counted_again_before_a_refusal(account: Account, limits):
    """Jobs that have started or left cause no refusal."""
    limits("waiting=3")
    submit(account, 3)
    account.settle()
    assert [account.state(f"job{n}") for n in range(3)] == ["running", "running", "pending"]
    assert account.call(job("job3"))[0] == 202
    assert account.call(job("job4"))[0] == 202
    assert account.call(job("job5"))[0] == 429
    for number in (2, 3):
        account.call(cancel(f"job{number}"))
    later(account, 10)
    assert account.call(job("job5"))[0] == 202


def test_the_tick_corrects_a_counter_left_too_high_by_a_crash(account: Account, limits):
    limits("waiting=2,submissions=60")
    account.call(job("job0"))
    key = {"pk": {"S": "CALLERS"}, "sk": {"S": ADA}}
    account.dynamodb.put_item(TableName="sagemaker-queue", Item={**key, "waiting": {"N": "70"}})
    account.send("tick")
    assert account.call(job("job1"))[0] == 202


def test_counters_of_former_callers_are_removed(account: Account, limits):
    limits("waiting=2,submissions=60")
    submit(account, 2)
    for number in range(2):
        account.call(cancel(f"job{number}"))
    for _ in range(3):
        later(account, 300)
        account.settle()
        account.send("tick")
    assert [item for item in account.items() if item["pk"]["S"] == "CALLERS"] == []


def test_held_and_evicted_jobs_count(account: Account, limits):
    limits("waiting=2")
    submit(account, 2)
    account.call(amend("job0", {"held": True}))
    account.call(amend("job1", {"held": True}))
    account.send("tick")
    assert account.call(job("job2"))[0] == 429


def test_a_rule_sets_separate_limits_for_some_callers(account: Account, limits):
    limits("waiting=1,priority=5")
    rules = [
        {"callers": "arn:aws:iam::123456789012:user/admin", "waiting": 0, "priority": 0},
        {"callers": "arn:aws:sts::*:assumed-role/ci/*", "waiting": 2, "together": True},
    ]
    status, told = account.call(set_limits(callers=rules))
    assert (status, told["limits"]["callers"][0]["priority"]) == (200, 0)
    admin = "arn:aws:iam::123456789012:user/admin"
    assert submit(account, 4, by=admin, Tags=PRIORITY) == [202] * 4
    sessions = [f"arn:aws:sts::123456789012:assumed-role/ci/{n}" for n in range(3)]
    answers = [account.call(job(f"ci-{n}", by=it))[0] for n, it in enumerate(sessions)]
    assert answers == [202, 202, 429]  # However many session names the role has.


def test_changed_limits_are_recorded_and_outlive_a_stack_update(account: Account, limits, output):
    limits("waiting=1")
    status, told = account.call("set-limits")
    assert (status, told["limits"]["waiting"], told["limits"]["submissions"]) == (200, 500, 30)
    assert told["revision"] == 3
    change = account.call("list-changes")[1]["changes"][0]
    assert (change["who"], change["pools"]) == (OPERATOR, [])
    assert [change["limits"][it]["waiting"] for it in ("before", "after")] == [1, 500]
    limits("waiting=2")
    assert account.call("get-limits")[1]["limits"]["waiting"] == 500
    assert "slotq limits" in output()
    assert account.call(set_limits(waiting=7, revision=1))[1]["code"] == "outdated"
    assert account.call("set-pool")[0] == 200
    assert account.call("get-limits")[1]["limits"]["waiting"] == 500


def test_pools_still_follow_the_setting_after_a_change_of_limits(
    account: Account, limits, monkeypatch
):
    limits("waiting=1")
    account.call("set-limits")
    monkeypatch.setenv("SLOTQ_POOLS", "main=3@ml.p4d.24xlarge")
    forget()
    assert account.call("list-pools")[1]["pools"][0]["capacity"] == {"slots": 3}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ([], ""),
        ({}, ""),
        ({"waiting": -1}, "waiting"),
        ({"waiting": "4"}, "waiting"),
        ({"waitin": 4}, "waitin"),
        ({"lines": 1_000_001}, "lines"),
        ({"callers": [{"waiting": 4}]}, "callers.0.callers"),
        ({"callers": [{"callers": "*"}, {"callers": "*"}]}, "callers"),
    ],
)
def test_malformed_limits_change_nothing(account: Account, body, field):
    event = {**sample("set-limits"), "body": json.dumps(body)}
    status, error = account.call(event)
    assert (status, error["code"], error["field"]) == (400, "invalid_request", field)
    assert account.call("get-limits")[1]["revision"] == 1


def test_the_views_show_the_limits_and_change_nothing(account: Account, limits, monkeypatch):
    limits("waiting=5")
    account.call(job("job0"))
    monkeypatch.setenv("SLOTQ_SERVES", "views")
    forget()
    own = account.call({**sample("get-limits")})[1]["own"]
    assert (own["waiting"], own["caller"], own["counted_as"]) == (5, ADA, ROLE)
    with pytest.raises(app.Failed, match="NotUnderstood"):
        account.send("set-limits")


def test_limits_cost_a_submission_one_more_write_and_no_read(account: Account, limits):
    """However many jobs wait."""

    def calls(names: list[str]) -> list[str]:
        made: list[str] = []

        def note(model: Any, **_: Any) -> None:
            made.append(model.name)

        events = account.dynamodb.meta.events
        events.register("before-call.dynamodb", note)
        for name in names:
            account.call(job(name))
        events.unregister("before-call.dynamodb", note)
        return sorted(made)

    limits("")
    account.call(job("warm"))
    without = calls(["one"])
    limits("waiting=1000,submissions=600,priority=1000,waiting_in_all=10000,lines=2000")
    account.call(job("warm2"))
    assert calls(["two"]) == sorted([*without, "UpdateItem"])
    submit(account, 50)
    assert calls(["three"]) == sorted([*without, "UpdateItem"])


def test_a_class_without_a_project_cannot_go_ahead_of_everybody(account: Account, limits):
    """The attack: rank before every priority, where there is no quota."""
    limits("priority=10")
    shell = [{"Key": "slotq:class", "Value": "inference"}]
    status, error = account.call(job("job1", Tags=shell))
    assert (status, error["code"]) == (403, "priority_too_high")
    assert "a project with a quota" in error["message"]
    assert account.call(job("job1"))[0] == 202
    status, error = account.call(amend("job1", {"tags": {"slotq:class": "inference"}}))
    assert (status, error["code"]) == (403, "priority_too_high")
    limits("")
    assert account.call(job("job2", Tags=shell))[0] == 202
