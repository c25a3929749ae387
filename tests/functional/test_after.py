"""Jobs that come after others, through the real handler."""

import json
from typing import Any

import pytest

from tests.functional.account import Account, add_job, sample


def submit(account: Account, name: str, **after: str) -> tuple[int, dict[str, Any]]:
    tags = [{"Key": f"slotq:{key.replace('_', '-')}", "Value": jobs} for key, jobs in after.items()]
    status, told = account.call(add_job(TrainingJobName=name, Tags=tags))
    return status, told if "name" in told else told.get("job", told)


def cancel(account: Account, name: str) -> None:
    assert account.call({**sample("cancel-job"), "path": f"/jobs/{name}"})[0] == 200


def test_a_job_waits_for_others_and_tells_for_which(account: Account):
    submit(account, "prepare")
    submit(account, "clean")
    assert submit(account, "train", after="prepare", after_any="clean")[0] == 202
    told = account.job("train")
    assert (told["state"], told["place"]) == ("pending", None)
    assert told["reason"]["code"] == "waits_for_jobs"
    assert (told["after"], told["waits_for"]) == (["prepare", "clean"], ["prepare", "clean"])
    cancel(account, "clean")
    account.settle()
    assert account.job("train")["waits_for"] == ["prepare"]


def test_what_can_no_longer_run_says_so_and_ends(account: Account):
    submit(account, "prepare")
    submit(account, "train", after="prepare")
    submit(account, "evaluate", after="train")
    cancel(account, "prepare")
    account.settle()
    train, evaluate = account.job("train"), account.job("evaluate")
    assert (train["state"], train["cause"]) == ("cancelled", "dependency")
    assert train["message"] == "it came after prepare, which has not completed: it was cancelled"
    assert evaluate["message"] == "it came after train, which has not completed: it was cancelled"
    assert train["waits_for"] == []


@pytest.mark.parametrize(
    ("after", "words"),
    [
        ({"after": "nobody"}, "comes after 'nobody', but there is no such job or group"),
        ({"after_any": "nobody"}, "comes after 'nobody', but there is no such job or group"),
        ({"after": "train"}, "'train' cannot come after itself"),
        ({"after": "a,,b"}, ""),
        ({"after": "a_b"}, "takes the names of jobs and groups, comma separated, not 'a_b'"),
        ({"after": ""}, "takes the names of jobs and groups, comma separated, not ''"),
        ({"after_16": "a"}, "the tag 'slotq:after-16' is unknown"),
    ],
)
def test_dependencies_that_cannot_be_are_refused(account: Account, after, words):
    submit(account, "a")
    submit(account, "b")
    status, told = submit(account, "train", **after)
    assert (status == 202) == (not words), told
    assert words in told.get("message", ""), told


def test_the_same_submission_again_is_the_same_job_whatever_has_ended(account: Account):
    submit(account, "prepare")
    submit(account, "train", after="prepare")
    cancel(account, "prepare")
    status, told = submit(account, "train", after="prepare")
    assert (status, told["name"]) == (202, "train")
    assert submit(account, "other", after="prepare")[0] == 400


def test_the_dependencies_of_a_job_stay_as_submitted(account: Account):
    submit(account, "prepare")
    submit(account, "train", after="prepare")
    event = {**sample("amend-job"), "path": "/jobs/train"}
    event["body"] = json.dumps({"tags": {"slotq:after": "prepare,train"}})
    status, told = account.call(event)
    assert (status, told["field"]) == (400, "Tags")
    event["body"] = json.dumps({"tags": {"priority": "5"}})
    status, told = account.call(event)
    assert (status, told["priority"], told["waits_for"]) == (200, 5, ["prepare"])
