"""Bad days: late, incomplete or unknown news; items of a newer release; a clock that jumps. Each is
logged once with the job's name and counted as a metric, and nothing is lost. (test_poison has what
cannot be understood at all.)"""

import json
from typing import Any

import pytest

import app
from slotq_core.adapters.dynamodb.layout.table import active_key, job_key, name_key
from tests.functional.account import HOUR, TABLE, Account, add_job, forget, sample

YEAR = 365 * 24 * HOUR
DAY = 24 * HOUR


def lines(written: str, *words: str) -> list[dict[str, Any]]:
    """The log lines with all of these words, without metrics."""
    said = [json.loads(line) for line in written.splitlines() if line.startswith("{")]
    return [each for each in said if "_aws" not in each and all(w in str(each) for w in words)]


def counted(written: str, metric: str) -> float:
    said = [json.loads(line) for line in written.splitlines() if line.startswith("{")]
    return sum(sum(each.get(metric, ())) for each in said if "_aws" in each)


def event(name: str, **detail: Any) -> dict[str, Any]:
    found = sample(name)
    found["detail"] |= detail
    return found


def jobs_kept(account: Account) -> list[dict[str, Any]]:
    return [item for item in account.items() if item["pk"]["S"].startswith(("JOB#", "POOL#"))]


def started(account: Account) -> None:
    account.call("add-job")
    account.settle()


def test_an_event_for_an_unknown_job_is_counted(account: Account, output):
    started(account)
    before = jobs_kept(account)
    account.clock.set(account.clock.now() + HOUR)
    account.send(event("training-completed", TrainingJobName="nobodys"))
    (line,) = lines(output(), "nobodys")
    assert line["job"] == "nobodys"
    assert counted(output(), "Ignored") == 1
    assert jobs_kept(account) == before
    assert account.letters.read == []


def test_an_event_for_an_older_attempt_changes_nothing(account: Account, output):
    started(account)
    account.call("add-job-urgent")
    account.settle()
    account.clock.set(account.clock.now() + HOUR)
    account.settle()
    assert account.state("job1") == "running", "its second attempt"
    before, quiet = jobs_kept(account), output()
    account.send("training-completed")
    new = output().removeprefix(quiet)
    (line,) = lines(new, "changes nothing")
    assert (line["job"], line["why"]) == ("job1", "that attempt of job1 is over")
    assert counted(new, "Ignored") == 1
    assert jobs_kept(account) == before


@pytest.mark.parametrize("refused", ["CreateTrainingJob", "StopTrainingJob"])
def test_calls_that_sagemaker_throttles_are_troubles(account: Account, output, refused):
    """Each pass that repeats them in vain counts, so that an alarm can fire."""
    if refused == "StopTrainingJob":
        started(account)
    account.plane.knobs.throttle = 10**6
    account.call("cancel-job" if refused == "StopTrainingJob" else "add-job")
    for _ in range(4):
        quiet = output()
        account.clock.set(account.clock.now() + 60_000)
        account.send("tick")
        (line, *_) = lines(output().removeprefix(quiet), "left to the next pass", "job1")
        assert line["trouble"] == f"job1: {refused} job1: ThrottlingException: Rate exceeded"
        assert counted(output().removeprefix(quiet), "Trouble") >= 1


NO_TIMES = {"TrainingEndTime": None, "LastModifiedTime": None, "CreationTime": None}
NO_TIMES["TrainingStartTime"] = None
ODD = {
    "null times": (NO_TIMES, "it has no time"),
    "a time in words": ({"TrainingEndTime": "half past ten"}, "TrainingEndTime is not a time"),
    "a time that is a list": ({"LastModifiedTime": [1]}, "LastModifiedTime is not a time"),
    "a time that is not a number": (
        {"TrainingEndTime": float("nan")},
        "TrainingEndTime is not a time",
    ),
    "a time without end": ({"TrainingEndTime": "inf"}, "TrainingEndTime is not a time"),
    "a time next year": ({"TrainingEndTime": 1_850_000_000_000}, "far ahead"),
    "a secondary status nobody knew": ({"SecondaryStatus": "Pondering"}, "'Pondering'"),
}


@pytest.mark.parametrize(("detail", "words"), ODD.values(), ids=ODD.keys())
def test_a_partly_malformed_event_still_counts(account, output, detail, words):
    started(account)
    account.clock.set(account.clock.now() + HOUR)
    account.plane.advance()
    account.emitted.clear()
    account.send(event("training-completed", **detail))
    (line,) = lines(output(), words)
    assert line["job"] == "job1"
    assert counted(output(), "Odd") == 1
    assert account.state("job1") == "completed"
    (attempt,) = account.call("get-job")[1]["attempts"]
    assert "2026-11-20T10:30" <= attempt["ended_at"] <= "2026-11-20T11:31"


def test_times_can_be_numbers_in_strings(account: Account, output):
    started(account)
    account.clock.set(account.clock.now() + HOUR)
    times = {key: str(sample("training-completed")["detail"][key]) for key in NO_TIMES}
    account.send(event("training-completed", **times))
    assert lines(output(), "odd") == []
    assert account.state("job1") == "completed"


def test_a_running_job_continues_with_an_unknown_secondary_status(account: Account, output):
    account.call("add-job")
    account.send("pass")
    account.send(event("training-in-progress", SecondaryStatus="Pondering"))
    (line,) = lines(output(), "Pondering")
    assert line["job"] == "job1"
    assert account.state("job1") == "running"


def rewrite(account: Account, key: tuple[str, str], **attributes: Any) -> None:
    found = [it for it in account.items() if (it["pk"]["S"], it["sk"]["S"]) == key]
    for item in found:
        bearer = item["job"]["M"] if "job" in item else item
        bearer.update(attributes)
        account.dynamodb.put_item(TableName=TABLE, Item=item)


def test_readable_items_of_a_newer_release_are_used(account: Account):
    started(account)
    for key in (job_key("job1"), active_key("main", "job1"), name_key("job1")):
        rewrite(account, key, moonPhase={"S": "full"})
    account.clock.set(account.clock.now() + HOUR)
    account.settle()
    assert account.state("job1") == "completed"
    assert account.letters.read == []


@pytest.mark.parametrize("broken", [{"jobName": {"NULL": True}}, {"goesAt": {"S": "late"}}])
def test_a_broken_note_of_an_ended_job_stops_no_tick(account: Account, broken):
    started(account)
    account.clock.set(account.clock.now() + HOUR)
    account.settle()
    (note,) = (item for item in account.items() if item["pk"]["S"] == "HISTORY")
    account.dynamodb.put_item(TableName=TABLE, Item={**note, **broken})
    account.call(add_job(TrainingJobName="other"))
    account.lambda_.events.clear()
    account.send("tick")
    account.settle()
    assert account.state("other") == "running"


def test_a_job_in_an_unknown_state_keeps_its_slot(account: Account, output):
    """It can neither be moved nor be left out: its slot stays held, and people are told once."""
    started(account)
    for key in (job_key("job1"), active_key("main", "job1")):
        rewrite(account, key, jobState={"S": "pondering"})
    account.call(add_job(TrainingJobName="other"))
    account.settle()
    for _ in range(3):
        account.clock.set(account.clock.now() + 60_000)
        account.send("tick")
    assert account.state("other") == "running"
    written = output()
    (line,) = lines(written, "left to the next pass", "ACTIVE#job1")
    assert "pondering" in line["trouble"]
    assert counted(written, "Trouble") == 1
    (letter,) = account.letters.read
    assert "job1" in letter["subject"]
    assert account.plane.calls["StopTrainingJob"] == 0
    kept = [it for it in account.items() if (it["pk"]["S"], it["sk"]["S"]) == job_key("job1")]
    assert [item["jobState"]["S"] for item in kept] == ["pondering"]


class Skewed:
    """The queue's clock, which can be anywhere; SageMaker's is right."""

    def __init__(self, account: Account) -> None:
        self._right, self.skew = account.clock, 0

    def now(self) -> int:
        return self._right.now() + self.skew


@pytest.fixture
def skewed(account: Account, monkeypatch: pytest.MonkeyPatch) -> Skewed:
    clock = Skewed(account)
    monkeypatch.setattr(app, "clock", clock)
    forget()
    return clock


def later(account: Account, milliseconds: int) -> None:
    account.clock.set(account.clock.now() + milliseconds)
    account.send("tick")
    account.settle()


@pytest.mark.parametrize("jumps", [(YEAR, 0), (-YEAR, 0), (YEAR, -YEAR, 0), (DAY, -DAY, DAY, 0)])
def test_jobs_end_despite_a_jumping_clock(account: Account, skewed: Skewed, jumps):
    """Two slots. At each jump two more jobs are submitted; each ends once."""
    names = ["before-0", "before-1"]
    for name in names:
        account.call(add_job(TrainingJobName=name))
    account.settle()
    for number, jump in enumerate(jumps):
        skewed.skew = jump
        for name in (f"job-{number}-a", f"job-{number}-b"):
            account.submit(name)
            names.append(name)
        for _ in range(4):
            later(account, 20 * 60_000)
    for _ in range(12):
        later(account, 20 * 60_000)
    states = {name: account.state(name) for name in names}
    assert states == dict.fromkeys(names, "completed")
    assert account.plane.calls["CreateTrainingJob"] == len(names)
    assert account.plane.calls["StopTrainingJob"] == 0


@pytest.mark.parametrize("knob", ["fail_internally", "refuse_creates"])
def test_a_back_off_set_by_a_wrong_clock_ends(account: Account, skewed: Skewed, knob: str):
    """Back-offs of the job (after a fault) and of the pool (after a capacity error)."""
    skewed.skew = YEAR
    setattr(account.plane.knobs, knob, 1)
    started(account)
    assert account.state("job1") in {"backoff", "pending"}
    skewed.skew = 0
    later(account, 60_000)
    assert account.state("job1") == "running"


@pytest.mark.parametrize(
    ("knobs", "role"),
    [({"denied": "sagemaker:CreateTrainingJob"}, ""), ({"lost_roles": "*"}, "execution role")],
)
def test_a_missing_right_is_counted_and_ends_no_job(account: Account, output, knobs, role):
    account.plane.knobs.turn(knobs)
    started(account)
    assert account.state("job1") == "backoff"
    written = output()
    (line, *_) = lines(written, "a right is missing")
    assert "pool main" in line["right"] and role in line["right"]
    assert counted(written, "RightsMissing") >= 1
    account.plane.knobs.turn(dict.fromkeys(knobs, ""))
    later(account, 61_000)
    assert account.state("job1") == "running"
    told = counted(output(), "RightsMissing")
    account.send("tick")
    assert counted(output(), "RightsMissing") == told, "nothing more is missing"


def test_a_denied_read_is_counted(account: Account, output):
    started(account)
    account.plane.knobs.denied = "sagemaker:ListTrainingJobs"
    account.clock.set(account.clock.now() + 301_000)
    account.send("tick")
    assert counted(output(), "RightsMissing") == 1


def test_an_intent_set_by_a_wrong_clock_is_finished(account: Account, skewed: Skewed):
    skewed.skew = YEAR
    account.plane.knobs.throttle = 100
    started(account)
    assert account.state("job1") == "starting"
    account.plane.knobs.throttle = 0
    skewed.skew = 0
    later(account, 60_000)
    assert account.state("job1") == "running"


def test_an_event_from_the_future_is_reported(account, skewed, output):
    started(account)
    skewed.skew = -DAY
    account.clock.set(account.clock.now() + HOUR)
    account.settle()
    assert account.state("job1") == "completed"
    told = lines(output(), "far ahead of the queue's clock")
    assert {line["job"] for line in told} == {"job1"}
    assert counted(output(), "Odd") == len(told) > 0
