"""EventBridge events that nobody foresaw: each is taken in or put away."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

import app
from tests.attack.worlds import ODD, budget, busy
from tests.functional.account import Account, context, sample


@budget(60)
@given(event=ODD)
def test_anything_at_all_is_put_away(account: Account, event: Any):
    assert "dead_letter" in app.handler(event, context())
    assert len(account.letters.read[-1]["subject"]) <= 100


@pytest.mark.parametrize(
    "key", ["FailureReason", "TrainingJobStatus", "ModelArtifacts", "Tags", "CreationTime", "Odd"]
)
def test_an_event_that_nests_without_end(account: Account, key: str):
    deep: Any = "x"
    for _ in range(900):
        deep = {"a": [deep]}
    busy(account)
    event = sample("training-failed")
    event["detail"][key] = deep
    assert set(app.handler(event, context())) in ({"decisions", "busy"}, {"dead_letter"})


@pytest.mark.parametrize("length", [2_000, 240_000])
def test_a_reason_as_long_as_an_event_may_be(account: Account, length: int):
    """What no item could hold is cut, not refused again and again."""
    event = sample("training-failed")
    event["detail"]["FailureReason"] = "\u4e2d" * length
    event["detail"]["ModelArtifacts"] = {"S3ModelArtifacts": "s3://" + "b" * length}
    busy(account)
    account.send(event)
    assert account.state("job1") == "failed"


@pytest.mark.parametrize("name", ["n" * 3000, "job1\0", "j\u043eb1", "a" + "-" * 3000 + "b", " "])
def test_a_training_job_of_a_name_that_none_can_have(account: Account, name: str):
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
