"""EventBridge events of unforeseen forms: each is handled or goes to the dead letters."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

import app
from tests.attack.worlds import ODD, budget, busy
from tests.functional.account import Account, context, sample


@budget(60)
@given(event=ODD)
def test_any_json_goes_to_the_dead_letters(account: Account, event: Any):
    assert "dead_letter" in app.handler(event, context())
    assert len(account.letters.read[-1]["subject"]) <= 100


@pytest.mark.parametrize(
    "key", ["FailureReason", "TrainingJobStatus", "ModelArtifacts", "Tags", "CreationTime", "Odd"]
)
def test_a_deeply_nested_event_goes_to_the_dead_letters(account: Account, key: str):
    deep: Any = "x"
    for _ in range(900):
        deep = {"a": [deep]}
    busy(account)
    event = sample("training-failed")
    event["detail"][key] = deep
    assert set(app.handler(event, context())) in ({"decisions", "busy"}, {"dead_letter"})


@pytest.mark.parametrize("length", [2_000, 240_000])
def test_a_reason_of_an_events_full_length_is_cut(account: Account, length: int):
    """What no item could hold is cut, instead of failing again and again."""
    event = sample("training-failed")
    event["detail"]["FailureReason"] = "\u4e2d" * length
    event["detail"]["ModelArtifacts"] = {"S3ModelArtifacts": "s3://" + "b" * length}
    busy(account)
    account.send(event)
    assert account.state("job1") == "failed"


@pytest.mark.parametrize("name", ["n" * 3000, "job1\0", "j\u043eb1", "a" + "-" * 3000 + "b", " "])
def test_an_impossible_training_job_name_goes_to_the_dead_letters(account: Account, name: str):
    event = sample("training-completed")
    event["detail"]["TrainingJobName"] = name
    busy(account)
    assert "dead_letter" in account.send(event)


def test_half_a_surrogate_pair_does_not_break_the_listing(account: Account):
    event = sample("training-failed")
    event["detail"]["FailureReason"] = "AlgorithmError: \ud800"
    busy(account)
    account.send(event)
    status, listed = account.call("list-jobs")
    assert status == 200
    (failed,) = [job for job in listed["jobs"] if job["state"] == "failed"]
    assert failed["message"] == "AlgorithmError: ?"
