"""Sweeps through the real handler: parameters, final metrics, the goal, and retries in their
places."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

import app
from slotq.local.training.runner import WorkEnd
from slotq_core.adapters.dynamodb.layout.table import active_key, job_key
from slotq_core.operations.attempts.observing import REPORT_PATIENCE
from tests.functional.account import Account, sample
from tests.functional.test_poison import spoil

MEMBER = json.loads(sample("add-job")["body"])
OTHER = "arn:aws:iam::123456789012:user/other"
NAMES = ("a", "b", "c")
RATES = [{"lr": 0.1}, {"lr": 0.2}, {"lr": 0.3}]


def submit(account: Account, *, names: tuple[str, ...] = NAMES, **sweep: Any) -> dict[str, Any]:
    told = {
        "name": "grid",
        "max_parallel": 2,
        "template": {key: it for key, it in MEMBER.items() if key != "TrainingJobName"},
        "members": [{"TrainingJobName": name} for name in names],
        "sweep": {"parameters": RATES if names == NAMES else [], "metric": "loss", **sweep},
    }
    status, shown = account.call({**sample("submit-group"), "body": json.dumps(told)})
    assert status == 202, shown
    account.settle()
    return shown


def group(account: Account, caller: str = "") -> dict[str, Any]:
    event = {**sample("get-group"), "path": "/groups/grid"}
    if caller:
        event["requestContext"]["identity"]["userArn"] = caller
    status, shown = account.call(event)
    assert status == 200, shown
    return shown


def ends(
    account: Account, name: str, status: str = "Completed", at: int = 0, **metrics: float
) -> None:
    """The training job of that name ends, at that time (ms) or now; SageMaker's event tells these
    metrics."""
    account.plane.job(name).status = status
    event = sample("training-completed" if status == "Completed" else "training-failed")
    event["detail"]["TrainingJobName"] = name
    event["detail"]["TrainingEndTime"] = at or account.clock.now()
    event["detail"].pop("Tags", None)
    event["detail"]["FinalMetricDataList"] = [
        {"MetricName": key, "Value": value, "Timestamp": 0} for key, value in metrics.items()
    ]
    account.send(event)
    account.settle()


def retry(account: Account, name: str, caller: str = "", **more: Any) -> dict[str, Any]:
    event = {**sample("change-jobs"), "body": json.dumps({"changes": [{"name": name, **more}]})}
    if caller:
        event["requestContext"]["identity"]["userArn"] = caller
    return account.call(event)[1]["outcomes"][0]


def jobs(account: Account) -> dict[str, str]:
    return {job["name"]: job["state"] for job in group(account)["jobs"]}


def test_parameters_are_shown_to_the_person_who_submitted_them(account: Account):
    submit(account)
    sweep = group(account)["sweep"]
    assert [trial["parameters"] for trial in sweep["trials"]] == RATES
    assert [(trial["name"], trial["job"]) for trial in sweep["trials"]] == [
        (name, name) for name in NAMES
    ]
    others = group(account, OTHER)["sweep"]
    assert [trial["parameters"] for trial in others["trials"]] == [None] * 3
    assert others["metric"] == "loss"


def test_a_member_keeps_the_final_metrics_of_the_event(account: Account):
    submit(account)
    ends(account, "a", loss=0.25, accuracy=1)
    ended = group(account)["jobs"][0]
    assert (ended["state"], ended["metrics"]) == ("completed", {"loss": 0.25, "accuracy": 1.0})
    assert group(account)["jobs"][1]["metrics"] == {}


def test_a_member_whose_event_tells_no_metrics_keeps_what_sagemaker_describes(
    account: Account,
):
    submit(account)
    job = account.plane.job("a")
    job.exit = WorkEnd(metrics={"loss": 0.5})
    ends(account, "a")
    assert group(account)["jobs"][0]["metrics"] == {"loss": 0.5}


def test_a_member_that_reaches_the_goal_ends_the_sweep(account: Account):
    submit(account, goal=0.2)
    ends(account, "a", loss=0.3)
    assert jobs(account) == {"a": "completed", "b": "running", "c": "running"}
    ends(account, "b", loss=0.2)
    shown = group(account)
    assert shown["sweep"]["met_by"] == "b"
    assert shown["states"] == {"completed": 2, "cancelled": 1}


def report_of(account: Account, name: str, **metrics: float) -> None:
    """The script of the training job of that name reports these metrics."""
    told = {"version": 1, "training_job": name, "reported_at": account.clock.now(), "step": 1}
    place = account.plane.job(name).request["CheckpointConfig"]["S3Uri"].removeprefix("s3://")
    bucket, _, prefix = place.partition("/")
    key = f"{prefix.rstrip('/')}/_slotq/{name}/report.json"
    account.s3.objects[bucket, key] = json.dumps({**told, "metrics": metrics}).encode()


def test_a_goal_that_only_a_report_tells_waits_until_the_report_can_be_read(
    account: Account, monkeypatch: pytest.MonkeyPatch
):
    submit(account, goal=0.2)
    report_of(account, "a", loss=0.1)
    with monkeypatch.context() as patch:
        patch.setattr(account.s3, "get_object", slow_down)
        with pytest.raises(app.Failed, match="Unavailable"):
            ends(account, "a")
        assert jobs(account)["a"] == "running"
    ends(account, "a")  # Lambda hands a failed event over again.
    assert jobs(account) == {"a": "completed", "b": "cancelled", "c": "cancelled"}


def test_an_end_does_not_wait_for_ever_for_a_report(
    account: Account, monkeypatch: pytest.MonkeyPatch
):
    """A bucket that nobody can read keeps no slot."""
    submit(account, goal=0.2)
    monkeypatch.setattr(account.s3, "get_object", slow_down)
    with pytest.raises(app.Failed, match="Unavailable"):
        ends(account, "a")
    ended = account.clock.now()
    account.clock.set(ended + REPORT_PATIENCE)
    ends(account, "a", at=ended)
    assert jobs(account) == {"a": "completed", "b": "running", "c": "running"}


def slow_down(**_: Any) -> None:
    raise ClientError({"Error": {"Code": "SlowDown"}}, "GetObject")


def test_a_goal_is_not_reached_by_a_member_that_failed(account: Account):
    submit(account, goal=0.2)
    ends(account, "a", "Failed", loss=0.1)
    assert group(account)["sweep"]["met_by"] == ""
    assert jobs(account)["b"] == "running"


def test_a_member_that_cannot_be_read_keeps_no_other_running(account: Account):
    submit(account, goal=0.2)
    for key in (job_key("a"), active_key("main", "a")):
        spoil(account, *key)
    assert jobs(account) == {"b": "running", "c": "pending"}
    assert group(account)["members"] == 3
    ends(account, "b", loss=0.1)
    assert jobs(account) == {"b": "completed", "c": "cancelled"}


def test_no_member_starts_once_the_goal_is_reached(account: Account):
    submit(account, goal=0.2, names=(*NAMES, "d"))
    ends(account, "b", loss=0.2)
    found = {job["name"]: job for job in group(account)["jobs"]}
    assert found["d"]["attempts_begun"] == 0
    assert (found["d"]["state"], found["d"]["cause"]) == ("cancelled", "goal_reached")
    assert found["a"]["message"] == found["d"]["message"] == "b has reached the goal of sweep grid"
    assert group(account)["state"] == "completed"


@pytest.mark.parametrize("call", ["_cancel", "_change"])
def test_what_a_dead_handler_did_not_cancel_the_next_pass_does(
    account: Account, monkeypatch: pytest.MonkeyPatch, call: str
):
    submit(account, goal=0.2)

    def dies(*_: Any, **__: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(f"slotq_core.operations.jobs.sweeps.SweepGoals.{call}", dies)
        with pytest.raises(app.Failed, match="MemoryError"):
            ends(account, "a", loss=0.1)
    assert (group(account)["sweep"]["met_by"], jobs(account)["b"]) == ("a", "running")
    account.send(sample("tick"))
    account.settle()
    assert jobs(account) == {"a": "completed", "b": "cancelled", "c": "cancelled"}


def test_a_retry_that_reaches_the_goal_ends_the_sweep(account: Account):
    submit(account, goal=0.2)
    ends(account, "a", "Failed")
    assert retry(account, "a", retry=True)["job"]["name"] == "a-r2"
    account.settle()
    ends(account, "b", loss=0.3)
    ends(account, "a-r2", loss=0.1)
    shown = group(account)
    assert (shown["sweep"]["met_by"], shown["state"]) == ("a-r2", "completed")
    assert jobs(account) == {"a-r2": "completed", "b": "completed", "c": "cancelled"}


def test_a_member_that_is_tried_again_after_the_goal_is_not_cancelled_again(account: Account):
    submit(account, goal=0.2)
    ends(account, "a", loss=0.1)
    assert retry(account, "c", retry=True)["job"]["group"] == "grid"
    account.settle()
    ends(account, "c-r2", loss=0.15)
    assert jobs(account)["c-r2"] == "completed"
    assert group(account)["sweep"]["met_by"] == "a"


def test_what_comes_after_a_sweep_goes_on_when_the_goal_is_reached(account: Account):
    submit(account, goal=0.2)
    then = {**MEMBER, "TrainingJobName": "then"}
    then["Tags"] = [{"Key": "slotq:after", "Value": "group:grid"}]
    status, shown = account.call({**sample("add-job"), "body": json.dumps(then)})
    assert status == 202, shown
    ends(account, "b", "Failed")
    ends(account, "a", loss=0.1)
    assert account.state("then") in {"starting", "running"}


def test_a_retry_goes_on_for_those_after_its_sweep(account: Account):
    submit(account)
    then = {**MEMBER, "TrainingJobName": "then"}
    then["Tags"] = [{"Key": "slotq:after", "Value": "group:grid"}]
    assert account.call({**sample("add-job"), "body": json.dumps(then)})[0] == 202
    ends(account, "a", "Failed")
    retry(account, "a", retry=True)
    account.settle()
    ends(account, "b")
    ends(account, "c")
    assert account.state("then") == "pending"
    ends(account, "a-r2")
    assert account.state("then") in {"starting", "running"}


def test_a_retry_stands_in_the_place_of_its_member_under_the_same_limit(account: Account):
    submit(account)
    ends(account, "a", "Failed")
    assert retry(account, "a", retry=True)["job"]["group"] == "grid"
    account.settle()
    shown = group(account)
    assert [job["name"] for job in shown["jobs"]] == ["a-r2", "b", "c"]
    assert shown["states"] == {"pending": 1, "running": 2}
    trial = shown["sweep"]["trials"][0]
    assert (trial["name"], trial["job"], trial["state"]) == ("a", "a-r2", "pending")
    assert trial["parameters"] == {"lr": 0.1}
    ends(account, "b")
    ends(account, "a-r2", "Failed")
    assert retry(account, "a-r2", retry=True)["job"]["name"] == "a-r3"
    account.settle()
    assert [*jobs(account)] == ["a-r3", "b", "c"]


def test_a_retry_from_another_session_of_the_person_is_a_member(account: Account):
    """SDKs give each session of a role another name."""
    submit(account)
    ends(account, "a", "Failed")
    caller = "arn:aws:sts::123456789012:assumed-role/DataScientist/other"
    assert retry(account, "a", caller, retry=True)["job"]["group"] == "grid"


def test_a_retry_by_another_person_or_under_a_name_of_its_own_is_no_member(account: Account):
    submit(account)
    ends(account, "a", "Failed")
    assert retry(account, "a", retry=True, new_name="again")["job"]["group"] == ""
    assert [*jobs(account)] == ["a", "b", "c"]


def test_a_member_is_no_retry_of_another_whose_next_name_it_has(account: Account):
    """Members are often numbered: `run-r1`, `run-r2`, `run-r3`."""
    submit(account, names=("run-r2", "run-r3"))
    then = {**MEMBER, "TrainingJobName": "then"}
    then["Tags"] = [{"Key": "slotq:after", "Value": "group:grid"}]
    assert account.call({**sample("add-job"), "body": json.dumps(then)})[0] == 202
    ends(account, "run-r2", "Failed")
    assert jobs(account) == {"run-r2": "failed", "run-r3": "running"}
    again = retry(account, "run-r2", retry=True)["job"]
    assert (again["name"], again["group"]) == ("run-r4", "")
    ends(account, "run-r3")
    assert group(account)["state"] == "failed"
    assert account.state("then") == "cancelled"


def test_a_retry_whose_name_would_be_cut_stands_for_no_member(account: Account):
    """Else one job would stand for all members whose names begin alike."""
    long = "n" * 61
    submit(account, names=(f"{long}-1", f"{long}-2"))
    for number in (1, 2):
        ends(account, f"{long}-{number}", "Failed")
    assert retry(account, f"{long}-1", retry=True)["job"]["group"] == ""
    assert jobs(account) == {f"{long}-1": "failed", f"{long}-2": "failed"}
