"""State changes announced as events: after the commit, in order, and without delaying anything."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from slotq_core.adapters.eventbridge import DETAIL_TYPE, SOURCE, detail
from slotq_core.lifecycle import TRANSITIONS
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from tests.functional.account import HOUR, TABLE, Account, forget


@pytest.fixture
def account(account: Account, monkeypatch: pytest.MonkeyPatch) -> Account:
    monkeypatch.setenv("SLOTQ_ANNOUNCE", "1")
    forget()
    return account


def heard(account: Account, job: str = "job1") -> list[dict[str, Any]]:
    details = [json.loads(entry["Detail"]) for entry in account.announced.entries]
    return [detail for detail in details if detail["job"] == job]


def test_every_state_change_is_announced_once_in_order(account: Account):
    account.call("add-job")
    account.settle()
    account.call("add-job-urgent")
    account.settle()
    account.clock.set(account.clock.now() + HOUR)
    account.settle()
    account.clock.set(account.clock.now() + HOUR)
    account.settle()
    told = heard(account)
    states = [event["to"] for event in told]
    assert states == [
        *("pending", "starting", "running", "stopping", "preempted"),
        *("starting", "running", "completed"),
    ]
    assert told[0]["from"] is None
    for before, after in pairwise(told):
        assert after["from"] == before["to"]
        assert JobState(after["to"]) in TRANSITIONS[JobState(before["to"])]
        assert after["job_version"] > before["job_version"]
    assert told[-1]["training_job"].startswith("job1-qstamp-2-")
    assert {event["queue"] for event in told} == {TABLE}
    kinds = {(entry["Source"], entry["DetailType"]) for entry in account.announced.entries}
    assert kinds == {(SOURCE, DETAIL_TYPE)}


def test_an_announcement_has_nothing_of_the_request(account: Account):
    account.call("add-job")
    account.settle()
    sent = json.dumps(account.announced.entries)
    for content in ("sagemaker_program", "epochs", "RoleArn", "pytorch-training", "s3://"):
        assert content not in sent


@pytest.mark.parametrize("refuses", [EndpointConnectionError(endpoint_url="x"), KeyError("bug")])
def test_an_unreachable_bus_stops_nothing(account: Account, output, refuses):
    account.announced.refuses = refuses
    assert account.call("add-job")[0] == 202
    account.settle()
    assert account.state("job1") == "running"
    assert '"NotAnnounced"' in output()
    account.announced.refuses = None
    account.clock.set(account.clock.now() + HOUR)
    account.settle()
    assert [event["to"] for event in heard(account)] == ["completed"], (
        "what is lost is not sent late"
    )


def test_a_refused_submission_and_a_repeated_event_announce_nothing(account: Account):
    account.call("add-job")
    account.call("add-job")
    account.send("pass")
    account.send("training-in-progress")
    account.send("training-in-progress")
    assert [event["to"] for event in heard(account)] == ["pending", "starting", "running"]


def test_nothing_is_announced_when_announcements_are_off(account: Account, monkeypatch):
    monkeypatch.delenv("SLOTQ_ANNOUNCE")
    forget()
    account.call("add-job")
    account.settle()
    assert account.announced.entries == []


def test_the_events_page_describes_an_event():
    page = (Path(__file__).parents[2] / "docs" / "events.md").read_text()
    job = Job(
        name="j",
        state=JobState.PENDING,
        priority=0,
        entry_time=0,
        demand=Demand(slots=1),
        pools=("p",),
    )
    for name in detail("q", None, job):
        assert f"| `{name}` |" in page
    assert SOURCE in page
    assert DETAIL_TYPE in page
