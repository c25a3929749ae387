"""Batches of single jobs, through the real handler: each job has its own answer."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest

from slotq_core.api import signed_requests
from slotq_core.errors import Unavailable
from slotq_core.operations.jobs.submissions import Submissions
from slotq_core.wire.groups.members import MOST_JOBS
from tests.functional.account import HOUR, Account, add_job, forget, sample
from tests.functional.sharing import MEMBER, OTHER, OWNER, share
from tests.functional.test_limits import ADA, own_limits

JOB = json.loads(sample("add-job")["body"])
TEMPLATE = {key: value for key, value in JOB.items() if key != "TrainingJobName"}


@pytest.fixture
def limits(account: Account, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Cold-start the function with these limits."""

    def set_(text: str) -> None:
        monkeypatch.setenv("SLOTQ_LIMITS", text)
        forget()

    return set_


@pytest.fixture
def calls(account: Account, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The calls to DynamoDB, by operation."""
    found: Counter[str] = Counter()
    dynamodb = account.dynamodb

    class Counted:
        def __getattr__(self, name: str) -> Any:
            found[name] += 1
            return getattr(dynamodb, name)

    account.dynamodb = Counted()
    forget()
    return found


def one(name: str, **changes: Any) -> dict[str, Any]:
    return {"TrainingJobName": name, **changes}


def after(*names: str) -> dict[str, Any]:
    return {"Tags": [*JOB["Tags"], {"Key": "slotq:after", "Value": ",".join(names)}]}


def batch(*jobs: Any, by: str = ADA, template: Any = TEMPLATE) -> dict[str, Any]:
    event = sample("submit-jobs")
    event["requestContext"]["identity"]["userArn"] = by
    return {**event, "body": json.dumps({"template": template, "jobs": jobs})}


def outcomes(account: Account, *jobs: Any, by: str = ADA) -> list[dict[str, Any]]:
    status, said = account.call(batch(*jobs, by=by))
    assert status == 200, said
    assert len(said["outcomes"]) == len(jobs)
    return said["outcomes"]


def answers(account: Account, *jobs: Any, by: str = ADA) -> list[str]:
    """The state of each job, or the code of its refusal."""
    found = outcomes(account, *jobs, by=by)
    return [each["job"]["state"] if each["job"] else each["error"]["code"] for each in found]


def alone(account: Account, job: dict[str, Any], by: str = ADA) -> tuple[int, dict[str, Any]]:
    """The answer to the same job as a request of its own."""
    event = add_job(**{**TEMPLATE, **job})
    event["requestContext"]["identity"]["userArn"] = by
    return account.call(event)


def test_the_sample_submits_three_jobs_with_one_pass(account: Account):
    status, said = account.call("submit-jobs")
    assert (status, [each["status"] for each in said["outcomes"]]) == (200, [202, 202, 202])
    assert [each["name"] for each in said["outcomes"]] == ["batch-1", "batch-2", "batch-3"]
    assert len(account.lambda_.events) == 1
    account.settle()
    states = Counter(account.state(f"batch-{number}") for number in (1, 2, 3))
    assert states == {"running": 2, "pending": 1}


def test_a_job_has_the_answer_that_it_would_have_alone(account: Account):
    bad: list[dict[str, Any]] = [
        one("no-pool", ResourceConfig={**JOB["ResourceConfig"], "InstanceType": "ml.g5.xlarge"}),
        one("too-large", ResourceConfig={**JOB["ResourceConfig"], "InstanceCount": 3}),
        one("bad tag", Tags=[{"Key": "slotq:retry", "Value": "1"}]),
        one("unknown", **after("nothing")),
        one("faulty", RoleArn=7, StoppingCondition={"MaxRuntimeInSeconds": "x"}),
    ]
    found = outcomes(account, one("a"), *bad, one("b"))
    assert [each["status"] for each in found] == [202, 400, 400, 400, 400, 400, 202]
    for number, (job, outcome) in enumerate(zip(bad, found[1:-1], strict=True), 1):
        status, said = alone(account, job)
        place = f"jobs.{number}"
        error = outcome["error"]
        assert (outcome["status"], error["code"]) == (status, said["code"])
        assert error["field"] == f"{place}.{said['field']}".rstrip(".")
        assert error["message"] == f"{place}: {said['message']}"
        assert [fault["path"] for fault in error["faults"]] == [
            f"{place}.{fault['path']}" for fault in said["faults"]
        ]
    first, alike = found[0]["job"], alone(account, one("c"))[1]
    differs = {"name", "entry_time", "changed_at", "checkpoints"}
    assert {key: first[key] for key in first.keys() - differs} == {
        key: alike[key] for key in alike.keys() - differs
    }


@pytest.mark.parametrize("body", [{}, {"TrainingJobName": 9}, {"x": None}])
def test_a_job_of_any_form_fails_alone(account: Account, body: Any):
    assert answers(account, one("a"), body, one("b")) == ["pending", "invalid_request", "pending"]


@pytest.mark.parametrize("body", [None, [], "x", 7])
def test_a_batch_with_something_else_than_jobs_submits_nothing(account: Account, body: Any):
    status, said = account.call(batch(one("a"), body))
    assert (status, said["field"]) == (400, "jobs.1")
    assert account.call({**sample("get-job"), "path": "/jobs/a"})[0] == 404


def test_the_same_batch_again_is_the_same_jobs_and_goes_on(account: Account):
    first = outcomes(account, one("a"), one("b"))
    again = outcomes(account, one("a"), one("b"), one("c"))
    assert [each["job"] for each in again[:2]] == [each["job"] for each in first]
    assert again[2]["status"] == 202
    assert alone(account, one("b")) == (202, first[1]["job"])
    account.settle()
    account.pass_time(2 * HOUR)
    account.settle()
    assert answers(account, one("a"), one("d")) == ["name_taken", "pending"]


def test_of_two_jobs_with_one_name_the_second_is_the_same_or_refused(account: Account):
    other = one("a", HyperParameters={"lr": "9"})
    found = answers(account, one("a"), other, one("a"), one("b"), one("b"))
    assert found == ["pending", "name_taken", "pending", "pending", "pending"]
    refused = one("c", ResourceConfig={**JOB["ResourceConfig"], "InstanceCount": 3})
    assert answers(account, refused, one("c")) == ["never_fits", "pending"]


def test_a_job_comes_after_earlier_ones_of_its_batch(account: Account):
    jobs = [one("a"), one("b", **after("a")), one("c", **after("b", "a")), one("d", **after("e"))]
    found = outcomes(account, *jobs, one("e"))
    assert [each["status"] for each in found] == [202, 202, 202, 400, 202]
    assert "there is no such job or group" in found[3]["error"]["message"]
    assert found[2]["job"]["after"] == ["b", "a"]
    for expected in ("running", "completed"):
        account.settle()
        assert account.state("a") == expected
        account.pass_time(HOUR + 60_000)
    account.settle()
    assert account.state("b") in {"running", "completed"}


def test_a_job_after_a_refused_one_is_refused(account: Account):
    big = one("a", ResourceConfig={**JOB["ResourceConfig"], "InstanceCount": 3})
    assert answers(account, big, one("b", **after("a")), one("c")) == [
        "never_fits",
        "invalid_request",
        "pending",
    ]


def test_names_of_others_are_taken_and_no_more_is_said(account: Account):
    share()
    assert alone(account, one("hers"), by=OTHER)[0] == 202
    found = outcomes(account, one("a"), one("hers"), one("b"), one("c", **after("hers")), by=OWNER)
    assert [each["status"] for each in found] == [202, 409, 202, 400]
    said = found[1]["error"]["message"]
    assert said == "jobs.1: a job named 'hers' exists already; choose another name"
    assert "there is no such job" in found[3]["error"]["message"]


@pytest.mark.parametrize(
    ("text", "code"),
    [("waiting=3", "too_many_waiting"), ("submissions=3", "too_many_submissions")],
)
def test_jobs_beyond_a_limit_are_refused_with_its_numbers(
    account: Account, limits: Any, text: str, code: str
):
    limits(text)
    found = outcomes(account, *(one(f"job{number}") for number in range(9)))
    assert [each["status"] for each in found] == [202] * 3 + [429] * 6
    assert {each["error"]["code"] for each in found[3:]} == {code}
    assert all("3" in each["error"]["message"] for each in found[3:])
    assert all(each["retry_after"] for each in found[3:])
    names = [one(f"job{number}") for number in range(9)]
    assert answers(account, *names) == ["pending"] * 3 + [code] * 6, "stored jobs are the same"
    assert account.call(own_limits())[1]["own"]["waiting_used"] == 3


def test_what_comes_after_a_job_beyond_the_limit_is_beyond_it_too(account: Account, limits: Any):
    """The client sends both again in the next minute, as a loop of submissions would wait."""
    limits("submissions=2")
    jobs = [one("a"), one("b"), one("c"), one("d", **after("c")), one("e", **after("a"))]
    codes = ["pending", "pending", *["too_many_submissions"] * 3]
    assert answers(account, *jobs) == codes
    account.pass_time(60_000)
    assert answers(account, *jobs) == [*["pending"] * 4, "too_many_submissions"]


def test_a_limit_amid_a_batch_is_found_in_few_calls(
    account: Account, calls: Counter[str], limits: Any
):
    limits("submissions=60")
    found = outcomes(account, *(one(f"job{number:03d}") for number in range(MOST_JOBS)))
    assert [each["status"] for each in found] == [202] * 60 + [429] * (MOST_JOBS - 60)
    assert calls.total() <= 70


def test_guessing_names_in_a_batch_counts(account: Account, limits: Any):
    share()
    assert alone(account, one("hers"), by=OTHER)[0] == 202
    limits("submissions=5")
    guesses = [one("hers", HyperParameters={"lr": str(number)}) for number in range(8)]
    found = answers(account, *guesses, by=OWNER)
    assert found == ["name_taken"] * 5 + ["too_many_submissions"] * 3


def test_an_unfitting_priority_fails_alone(account: Account, limits: Any):
    limits("priority=10")
    high = one("high", Tags=[{"Key": "priority", "Value": "11"}])
    assert answers(account, one("a"), high, one("b")) == ["pending", "priority_too_high", "pending"]


def test_many_jobs_cost_few_calls_and_the_same_again_little_more(
    account: Account, calls: Counter[str], limits: Any
):
    limits("waiting=5000,submissions=5000")
    account.send("tick")
    jobs = [one(f"job{number:03d}") for number in range(MOST_JOBS)]
    calls.clear()
    assert set(answers(account, *jobs)) == {"pending"}
    assert calls["transact_write_items"] <= -(-MOST_JOBS // 33)
    assert calls["get_item"] <= 5, "no job is read"
    assert calls.total() <= MOST_JOBS / 10
    assert len(account.lambda_.events) == 1
    calls.clear()
    assert set(answers(account, *jobs)) == {"pending"}
    assert calls["transact_write_items"] <= 1, "what was sent before is looked up first"
    assert calls["batch_get_item"] == -(-MOST_JOBS // 33)
    assert calls["get_item"] <= 5
    more = [one(f"more{number:03d}") for number in range(99)]
    calls.clear()
    assert set(answers(account, *jobs[:99], *more)) == {"pending"}
    assert (calls["batch_get_item"], calls["transact_write_items"]) == (4, 4)


def test_one_taken_name_costs_a_look_at_its_part_alone(account: Account, calls: Counter[str]):
    assert alone(account, one("job050"))[0] == 202
    jobs = [one(f"job{number:03d}", HyperParameters={"n": "1"}) for number in range(99)]
    calls.clear()
    found = answers(account, *jobs)
    assert Counter(found) == {"pending": 98, "name_taken": 1}
    assert calls["batch_get_item"] == 2, "the part behind it is looked up first, too"
    assert calls["get_item"] <= 5
    assert calls["transact_write_items"] <= 3 + 2


def test_jobs_that_time_ran_out_for_are_named_and_sent_again(
    account: Account, monkeypatch: pytest.MonkeyPatch
):
    """Each transaction takes nine seconds."""
    together = Submissions.stored_together

    def slow(*args: Any, **more: Any) -> Any:
        account.pass_time(9_000)
        return together(*args, **more)

    monkeypatch.setattr(Submissions, "stored_together", slow)
    jobs = [one(f"job{number:03d}") for number in range(150)]
    late = one("late", **after("job149"))
    found = outcomes(account, *jobs, late)
    left = [each["name"] for each in found if each["job"] is None]
    assert [each["status"] for each in found] == [202] * 99 + [503] * 52
    assert {each["error"]["code"] for each in found[99:]} == {"unavailable"}
    assert left == [*(f"job{number:03d}" for number in range(99, 150)), "late"]
    monkeypatch.setattr(Submissions, "stored_together", together)
    assert set(answers(account, *jobs, late)) == {"pending"}


def test_a_store_that_fails_leaves_jobs_untried(account: Account, monkeypatch: pytest.MonkeyPatch):
    together, tries = Submissions.stored_together, []

    def fails(self: Submissions, admitted: Any, *args: Any, **more: Any) -> Any:
        tries.append(len(admitted))
        if len(tries) == 2:
            raise Unavailable("throttled")
        return together(self, admitted, *args, **more)

    monkeypatch.setattr(Submissions, "stored_together", fails)
    jobs = [one(f"job{number:03d}") for number in range(99)]
    found = answers(account, *jobs)
    assert found == ["pending"] * 33 + ["unavailable"] * 33 + ["pending"] * 33
    monkeypatch.setattr(
        Submissions, "stored_together", lambda *_, **__: (_ for _ in ()).throw(Unavailable("no"))
    )
    assert account.call(batch(one("x"), one("y")))[0] == 503, "nothing could be done"


def test_a_request_that_cannot_be_stored_fails_alone(account: Account):
    text = random.Random(1).randbytes(400_000).hex()
    large = one("large", Environment={f"K{n}": text[n * 500 : n * 500 + 500] for n in range(1600)})
    status, said = alone(account, large)
    found = outcomes(account, one("a"), large, one("b"))
    assert [each["status"] for each in found] == [202, status, 202]
    assert found[1]["error"]["code"] == said["code"]


def test_an_answer_without_room_asks_for_some_jobs_again(account: Account, monkeypatch):
    monkeypatch.setattr(signed_requests, "MOST_ANSWER", 4_000)
    jobs = [one(f"job{number}") for number in range(9)]
    found = outcomes(account, *jobs)
    shown = [each for each in found if each["job"]]
    assert 1 <= len(shown) < 9
    assert {each["error"]["code"] for each in found[len(shown) :]} == {"unavailable"}
    assert account.state("job8") == "pending"
    left = jobs[len(shown) :]
    assert outcomes(account, *left)[0]["job"]["name"] == left[0]["TrainingJobName"]


def test_a_batch_of_several_projects_and_pools_is_stored_by_project(account: Account):
    share()
    mine = one("mine", Tags=[{"Key": "slotq:project", "Value": "vision"}])
    theirs = one("theirs", Tags=[{"Key": "slotq:project", "Value": "speech"}])
    found = outcomes(account, mine, theirs, one("default"), by=OWNER)
    assert [each["status"] for each in found] == [202, 403, 202]
    assert found[1]["error"]["code"] == "project_not_allowed"
    assert outcomes(account, mine, by=MEMBER)[0]["job"]["submitter"] == OWNER, "the same job"


HOSTILE = {
    "no jobs": {"jobs": []},
    "too many": {"jobs": [{}] * (MOST_JOBS + 1)},
    "a hundred thousand": {"jobs": [{}] * 100_000},
    "not a list": {"jobs": {"a": 1}},
    "a name": {"name": "x", "jobs": [{}]},
    "a list": [{}],
    "a template that is none": {"template": [], "jobs": [{}]},
    "growth": {"template": {"x": "y" * 900_000}, "jobs": [{}] * 400},
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_body_that_is_no_batch_submits_nothing(account: Account, body: Any):
    status, said = account.call({**batch(), "body": json.dumps(body)})
    assert (status, said["code"]) == (400, "invalid_request")
    assert len(json.dumps(said)) < 5_000


@pytest.mark.parametrize(
    "text",
    [
        '{"jobs": [' + '{"TrainingJobName": "a"},' * 400_000 + "{}]}",
        '{"jobs": [' + '{"a":' * 1_000 + "1" + "}" * 1_000 + "]}",
        '{"jobs": [{"TrainingJobName": "a", "TrainingJobName": "b"}]}',
        '{"jobs": [{"x": "' + "y" * 5_000_000 + '"}]}',
        '{"jobs": [{"x": NaN}]}',
    ],
    ids=["10 MB", "deep", "a key twice", "a large job", "no number"],
)
def test_a_hostile_text_is_refused_whole(account: Account, text: str):
    status, said = account.call({**batch(), "body": text})
    assert (status, said["code"]) == (400, "invalid_request")


def test_faults_of_many_jobs_stay_within_an_answer(account: Account):
    faulty = {f"Key{number}": 1 for number in range(100)}
    jobs = [one(f"job {number} ", **faulty, Tags=7) for number in range(MOST_JOBS)]
    found = outcomes(account, *jobs)
    assert {each["status"] for each in found} <= {400, 503}


def test_an_unknown_parameter_is_refused(account: Account):
    event = {**batch(one("a")), "queryStringParameters": {"dry_run": "true"}}
    event["multiValueQueryStringParameters"] = {"dry_run": ["true"]}
    assert account.call(event)[0] == 400
    assert account.call({**sample("get-job"), "path": "/jobs/a"})[0] == 404
