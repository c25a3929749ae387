"""The timeline of attempts, through the real handler: an eviction, pages, names withheld, and
hostile queries."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slotq_core.operations.usage import timeline
from slotq_core.timestamps import from_iso, iso
from slotq_core.usage.calendar_days import DAY
from tests.functional.account import NOW, Account, add_job


def attempts(account: Account, **query: str | list[str]) -> tuple[int, dict[str, Any]]:
    return account.asked("list-attempts", **query)


def test_the_sample_is_answered(account: Account):
    status, told = account.call("list-attempts")
    assert status == 200
    assert told["start"] == "2026-11-19T00:00:00.000Z"
    assert told["end"] == told["as_of"] == iso(NOW)
    assert (told["attempts"], told["next"], told["gone"], told["unreadable"]) == ([], None, 0, 0)


def test_a_life_with_an_eviction_is_told(account: Account):
    """job1 runs for ten minutes, is evicted by job2, and runs again."""
    account.call("add-job")
    account.settle()
    account.pass_time(600_000)
    account.call("add-job-urgent")
    account.settle()
    account.pass_time(600_000)
    account.completes("job2")
    for _ in range(3):
        account.send("tick")
        account.settle()
        account.pass_time(1000)
    first, urgent, again = attempts(account)[1]["attempts"]
    assert (first["job"], first["number"], first["outcome"]) == ("job1", 1, "evicted")
    assert first["evicted"]["job"] == "job2"
    assert first["evicted"]["submitter"] == urgent["submitter"]
    assert from_iso(first["ended_at"]) - from_iso(first["admitted_at"]) >= 600_000
    assert (urgent["job"], urgent["outcome"], urgent["evicted"]) == ("job2", "completed", None)
    assert (again["job"], again["number"]) == ("job1", 2)
    assert (again["ended_at"], again["outcome"], again["evicted"]) == (None, None, None)


def test_pages_follow_each_other(account: Account, monkeypatch: pytest.MonkeyPatch):
    for number in range(3):
        name = f"job-{number}"
        account.call(add_job(TrainingJobName=name))
        account.settle()
        account.pass_time(1000)
        account.completes(name)
        account.pass_time(DAY)
    window = {"from": iso(NOW), "to": iso(NOW + 3 * DAY)}
    whole = attempts(account, **window)[1]
    assert [each["job"] for each in whole["attempts"]] == ["job-0", "job-1", "job-2"]
    assert whole["next"] is None
    monkeypatch.setattr(timeline, "MOST_READS", 1)
    found, following = [], {}
    for _ in range(20):
        page = attempts(account, **window, **following)[1]
        found += page["attempts"]
        if page["next"] is None:
            break
        following = {"next": page["next"]}
    assert following
    assert found == whole["attempts"]


@pytest.mark.parametrize(
    "query",
    [
        {"from": "yesterday"},
        {"from": ""},
        {"from": "2026-11-01T00:00:00"},
        {"from": "2026-11-21"},
        {"to": "9" * 5000},
        {"to": "1970-01-01"},
        {"to": "0001-01-01T00:00:00Z"},
        {"from": "2026-11-20", "to": "2026-11-20"},
        {"next": "?"},
        {"next": "2026-11-20~0~\ud800~0"},
        {"next": "2026-11-20~" + "9" * 99 + "~~0"},
        {"next": "2026-13-20~0~~0"},
        {"by": "project"},
        {"From": "2026-11-20"},
    ],
)
def test_hostile_queries_are_refused(account: Account, query: dict[str, Any]):
    status, refused = attempts(account, **query)
    assert status == 400
    assert refused["code"] == "invalid_request"
    assert refused["field"] in {*query, "from", "to"}
    assert len(json.dumps(refused)) < 1000


@pytest.mark.parametrize(
    "query",
    [
        {"from": "0001-01-01T00:00:00Z"},
        {"from": "1970-01-01"},
        {"to": "9999-12-31T23:59:59Z"},
        {"from": "1970-01-01", "next": "1970-01-01~0~~0"},
        {"next": "9999-12-31~999999999~9999-12-31T23:59:59.999Z~9999"},
        {"next": "~999999999~~9999"},
        {"next": "2026-11-20~0~Z~9999"},
        {"pool": "'; DROP TABLE"},
        {"pool": "x" * 5000},
    ],
)
def test_extreme_queries_cost_little(account: Account, query: dict[str, Any]):
    """However long the window, only days that may hold records are read."""
    calls: list[str] = []
    query_table = account.dynamodb.meta.events
    query_table.register("before-call.dynamodb.*", lambda model, **_: calls.append(model.name))
    account.call("add-job")
    del calls[:]
    assert attempts(account, **query)[0] == 200
    assert len(calls) < 60
