"""What jobs have used, through the real handler: a life with an eviction, ticks, pages, and hostile
queries."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slotq_core.operations.usage import report
from slotq_core.timestamps import from_iso, iso
from slotq_core.usage.calendar_days import DAY
from tests.functional.account import HOUR, NOW, TABLE, Account, add_job, sample


def usage(account: Account, **query: str | list[str]) -> tuple[int, dict[str, Any]]:
    return account.asked("get-usage", **query)


def test_the_sample_is_answered(account: Account):
    status, told = account.call("get-usage")
    assert status == 200
    assert told["start"] == "2026-11-01T00:00:00.000Z"
    assert told["end"] == told["as_of"] == iso(NOW)
    assert told["by"] == ["project", "pool"]
    assert (told["rows"], told["next"], told["unreadable"]) == ([], None, 0)


def test_a_life_with_an_eviction_is_told(account: Account):
    """job1 runs for ten minutes, is evicted by job2, and runs again."""
    account.call("add-job")
    account.settle()
    started = account.clock.now()
    account.pass_time(600_000)
    account.call("add-job-urgent")
    account.settle()
    (row,) = usage(account)[1]["rows"]
    assert row["group"] == {}
    assert row["instance_type"] == "ml.p4d.24xlarge"
    account.pass_time(600_000)
    account.settle()
    account.completes("job2")
    for _ in range(3):
        account.send("tick")
        account.settle()
        account.pass_time(1000)
    by_class = usage(account, by="class,submitter")[1]["rows"]
    assert {row["group"]["class"] for row in by_class} == {"training"}
    (row,) = usage(account)[1]["rows"]
    assert (row["jobs"], row["evictions_given"], row["evictions_taken"]) == (2, 1, 1)
    assert 0 < row["lost_seconds"] <= row["slot_seconds"]
    assert row["waits"]["count"] == row["attempts"] == 3
    assert row["waits"]["total_seconds"] > 0
    assert account.clock.now() > started


def waited(account: Account) -> float:
    """How long (s) all jobs waited for their starts."""
    account.pass_time(1)  # A start at the window's very end does not count yet.
    (row,) = usage(account)[1]["rows"]
    return float(row["waits"]["total_seconds"])


HALF = HOUR // 2
"""Jobs of this account would end by themselves after an hour."""


def half_an_hour_later_ends(account: Account, name: str) -> None:
    account.pass_time(HALF)
    account.plane.advance()
    account.completes(name)
    account.settle()


@pytest.mark.parametrize("kind", ["after", "after-any"])
def test_the_wait_for_other_jobs_is_no_wait_for_slots(account: Account, kind: str):
    """Slots are free when `train` may start: a long job before it does not make the queue slow."""
    account.call(add_job(TrainingJobName="prepare"))
    tag = {"Key": f"slotq:{kind}", "Value": "prepare"}
    account.call(add_job(TrainingJobName="train", Tags=[tag]))
    account.settle()
    half_an_hour_later_ends(account, "prepare")
    assert account.state("train") in {"starting", "running"}
    assert waited(account) < 60


def test_the_wait_for_slots_after_other_jobs_counts(account: Account):
    """`train` may start after half an hour, and its slots are free after an hour."""
    for name in ("prepare", "before", "behind"):
        account.call(add_job(TrainingJobName=name))
        account.settle()
    tag = {"Key": "slotq:after", "Value": "prepare"}
    account.call(add_job(TrainingJobName="train", Tags=[tag]))
    account.settle()
    half_an_hour_later_ends(account, "prepare")
    half_an_hour_later_ends(account, "before")
    assert account.state("train") in {"starting", "running"}
    # `behind` has waited for half an hour, too.
    assert waited(account) == pytest.approx(2 * HALF / 1000, abs=60)


def test_the_wait_before_a_release_is_no_wait_for_slots(account: Account):
    for name in ("before", "other", "train"):
        account.call(add_job(TrainingJobName=name))
        account.settle()

    def hold(held: bool) -> None:
        event = sample("change-jobs")
        event["body"] = json.dumps({"changes": [{"name": "train", "held": held}]})
        status, told = account.call(event)
        assert status == 200, told

    hold(True)
    half_an_hour_later_ends(account, "before")
    hold(False)
    account.settle()
    assert account.state("train") in {"starting", "running"}
    assert waited(account) < 60


def test_days_that_are_over_are_added_up_by_the_tick(account: Account):
    account.call("add-job")
    account.settle()
    account.pass_time(HOUR)
    account.plane.advance()
    account.completes("job1")
    before = usage(account, to="2026-11-21")[1]["rows"]
    account.pass_time(2 * DAY)
    account.send("tick")
    kinds = {item["pk"]["S"] for item in account.items()}
    assert {"ENDED#2026-11-20", "USAGE", "USAGE#2026-11-20"} <= kinds
    for item in account.items():
        if item["pk"]["S"].startswith("ENDED#"):
            key = {name: item[name] for name in ("pk", "sk")}
            account.dynamodb.delete_item(TableName=TABLE, Key=key)
    assert usage(account, to="2026-11-21")[1]["rows"] == before
    status, refused = usage(account, to="2026-11-20T12:00:00Z")
    assert (status, refused["code"], refused["field"]) == (400, "invalid_request", "from")


def test_pages_follow_each_other(account: Account, monkeypatch: pytest.MonkeyPatch):
    for number in range(3):
        name = f"job-{number}"
        account.call(add_job(TrainingJobName=name))
        account.settle()
        account.completes(name)
        account.pass_time(DAY)
    whole = usage(account)[1]
    assert whole["next"] is None
    monkeypatch.setattr(report, "PAGE_BUDGET", 0)
    found, following = 0.0, {}
    for _ in range(40):
        page = usage(account, **following)[1]
        found += sum(row["slot_seconds"] for row in page["rows"])
        if page["next"] is None:
            break
        following = {"next": page["next"]}
    assert page["next"] is None
    assert page["as_of"] == whole["as_of"]
    assert found == sum(row["slot_seconds"] for row in whole["rows"])


@pytest.mark.parametrize(
    "query",
    [
        {"from": "yesterday"},
        {"from": ""},
        {"from": "2026-11-01T00:00:00"},
        {"to": "9" * 5000},
        {"to": "2026-11-20T10:30:00+99:00"},
        {"from": "9999-12-31T23:59:59-14:00"},
        {"from": "2026-11-20", "to": "2026-11-20"},
        {"from": "2026-11-21", "to": "2026-11-20"},
        {"by": "project,colour"},
        {"by": ""},
        {"by": ["project", "'; DROP TABLE"]},
        {"next": "?"},
        {"next": ""},
        {"next": "2026-11-20~0~0~\ud800~0"},
        {"next": "2026-11-20~-1~0~~0"},
        {"next": "2026-11-31~0~0~~0"},
        {"next": "2026-11-20~" + "9" * 99 + "~0~~0"},
        {"next": "2026-11-20~0~1~2026-11-20T10:30:00.000Z#job1#0001"},
        {"limit": "5"},
        {"From": "2026-11-20"},
    ],
)
def test_hostile_queries_are_refused(account: Account, query: dict[str, Any]):
    status, refused = usage(account, **query)
    assert status == 400
    assert refused["code"] == "invalid_request"
    assert refused["field"] in {"from", "to", "by", "next", "limit", "From"}
    assert len(json.dumps(refused)) < 1000


@pytest.mark.parametrize(
    "query",
    [
        {"from": "0001-01-01T00:00:00Z"},
        {"from": "1970-01-01"},
        {"from": "9999-12-31"},
        {"to": "9999-12-31T23:59:59Z"},
        {"from": "1970-01-01", "next": "1970-01-01~0~0~~0"},
        {"next": "9999-12-31~999999999~999999999~ZZZ~9999"},
        {"by": "project," * 500 + "pool"},
        {"by": ["project", "pool", "class", "submitter"]},
    ],
)
def test_extreme_queries_cost_little(account: Account, query: dict[str, Any]):
    """However long the window, only days that may hold records are read."""
    calls: list[str] = []
    query_table = account.dynamodb.meta.events
    query_table.register("before-call.dynamodb.*", lambda model, **_: calls.append(model.name))
    account.call("add-job")
    del calls[:]
    status, told = usage(account, **query)
    assert status == 200
    assert len(calls) < 50
    assert from_iso(told["start"]) >= from_iso("2000-01-01T00:00:00Z")
