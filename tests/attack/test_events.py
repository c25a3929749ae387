"""EventBridge events broken at random: each is answered or put away, and the queue goes on."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import app
from tests.attack.worlds import ODD, budget, busy, renewed
from tests.functional.account import EVENTS, Account, context, sample

TRAINING = sorted(path.stem for path in EVENTS.glob("training-*.json"))


@st.composite
def broken(draw: st.DrawFn) -> dict[str, Any]:
    """A training event of which up to three parts are gone, of another kind, or of an odd value."""
    event = sample(draw(st.sampled_from(TRAINING)))
    event["detail"]["TrainingJobName"] = draw(st.sampled_from(["job1", "job2", "foreign"]))
    for _ in range(draw(st.integers(0, 3))):
        bearer = event["detail"] if isinstance(event.get("detail"), dict) else event
        if draw(st.integers(0, 5)) == 0:
            bearer = event
        key = draw(st.sampled_from(sorted(bearer)))
        if draw(st.booleans()):
            bearer[key] = draw(ODD)
        else:
            del bearer[key]
    return event


@budget(20)
@given(event=broken())
def test_a_broken_event_is_taken_in_or_put_away(account: Account, event: dict[str, Any]):
    """The handler never raises: Lambda's retries of such an event would help nobody. Whoever it is
    not about is left alone, and no answer of the API breaks."""
    busy(renewed(account))
    answer = account.send(event)
    assert set(answer) in ({"decisions", "busy"}, {"dead_letter"})
    assert len(account.letters.read) == ("dead_letter" in answer)
    account.send("tick")
    assert account.state("bystander") == "running"
    status, listed = account.call("list-jobs")
    assert (status, len(listed["jobs"])) == (200, 4)
    assert account.call("examine")[0] == 200
    pool = account.call("list-pools")[1]["pools"][0]
    assert 1 <= pool["used"]["slots"] <= pool["capacity"]["slots"] == 2


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
