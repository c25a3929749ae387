"""EventBridge events broken at random: each is handled or goes to the dead letters, and the queue
continues."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.attack.worlds import ODD, budget, busy, renewed
from tests.functional.account import EVENTS, Account, sample

TRAINING = sorted(path.stem for path in EVENTS.glob("training-*.json"))


@st.composite
def broken(draw: st.DrawFn) -> dict[str, Any]:
    """A training event with up to three parts missing, of another type, or with an odd value."""
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
def test_a_broken_event_is_handled_or_goes_to_the_dead_letters(
    account: Account, event: dict[str, Any]
):
    """The handler never raises, because Lambda's retries of such an event would not help. Other
    jobs are left alone, and no answer of the API breaks."""
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
