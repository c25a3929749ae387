"""Items of the table broken at random: no pass stops, no pool is overfilled, other jobs
continue."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import app
from slotq_core.adapters.dynamodb.store import DynamoStore
from tests.attack.worlds import budget, busy, renewed
from tests.functional.account import TABLE, Account, add_job, sample

Value = Mapping[str, Any]
VALUES: st.SearchStrategy[Value] = st.sampled_from(
    [
        {"S": ""},
        {"S": "suspended"},
        {"S": "9" * 40},
        {"S": "2026-11-20"},
        {"S": "\U0001f600" * 200},
        {"N": "-1"},
        {"N": "0"},
        {"N": "1e20"},
        {"N": "3.5"},
        {"N": "9" * 38},
        {"NULL": True},
        {"BOOL": True},
        {"B": b"\xff\xfe"},
        {"L": []},
        {"L": [{"N": "1"}]},
        {"M": {}},
        {"M": {"slots": {"N": "-5"}}},
        {"M": {"slots": {"N": "9" * 30}}},
        {"SS": ["a"]},
    ]
)
"""What a newer release, a person or a bug may have written."""

KEYS = {"pk", "sk"}
INDEXED = {"jobState", "entryTime"}
"""These must be text: otherwise the item is not in the index, or DynamoDB refuses it."""


def places(item: Mapping[str, Any], path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The path of each attribute of an item, within maps too."""
    found = []
    for name, value in item.items():
        found.append((*path, name))
        if "M" in value:
            found += places(value["M"], (*path, name))
    return found


def put(item: dict[str, Any], path: tuple[str, ...], value: Value | None) -> None:
    *way, last = path
    for name in way:
        item = item[name]["M"]
    if value is None:
        del item[last]
    else:
        item[last] = value


def spoil(account: Account, draw: st.DataObject) -> tuple[str, str]:
    """Remove or change one attribute of one item. Returns the item's key."""
    full = [item for item in account.items() if item.keys() > KEYS]
    items = sorted(full, key=lambda item: (item["pk"]["S"], item["sk"]["S"]))
    item = draw.draw(st.sampled_from(items), label="item")
    may_go = [path for path in places(item) if path[0] not in KEYS]
    path = draw.draw(st.sampled_from(may_go), label="attribute")
    value = draw.draw(st.none() | VALUES, label="value")
    if path[0] in INDEXED and len(path) == 1 and value is not None and not value.get("S"):
        value = {"S": "odd"}
    put(item, path, value)
    account.dynamodb.put_item(TableName=TABLE, Item=item)
    return item["pk"]["S"], item["sk"]["S"]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Examine an inconsistent pool again without waiting in between."""
    defaults = DynamoStore.__init__.__kwdefaults__ or {}
    assert "pause" in defaults
    monkeypatch.setitem(defaults, "pause", lambda _: None)


@budget(10)
@given(draw=st.data())
def test_a_broken_item_stops_nothing_else(account: Account, draw: st.DataObject):
    """Every trigger is handled, and every view is answered from readable items or refused with the
    unreadable one named. SageMaker is never asked for more than the pool has."""
    busy(renewed(account))
    for _ in range(draw.draw(st.integers(1, 3), label="items")):
        spoil(account, draw)
    for minutes in range(3):
        account.clock.set(account.clock.now() + (1 + minutes) * 61_000)
        account.send("tick")
        account.settle()
    running = [job for job in account.plane.jobs() if job.status == "InProgress"]
    assert len(running) <= 2
    look(account)
    with suppress(app.Failed):  # Of an unreadable job: Lambda tries again.
        account.send("training-completed")
    account.settle()
    look(account)
    account.call("mend")
    account.settle()
    look(account)
    late = account.call(add_job(TrainingJobName="late", Tags=[{"Key": "priority", "Value": "9"}]))
    assert late[0] in {202, 400}, late


def look(account: Account) -> None:
    # The queue examines itself at most once a minute.
    account.clock.set(account.clock.now() + 61_000)
    for event in ("list-jobs", "list-pools", "examine"):
        status, answer = account.call(event)
        assert status == 200, (event, answer)
    for name in ("job1", "bystander", "job2", "waiting"):
        for event, tail in (("get-job", ""), ("get-request", "/request")):
            status, answer = account.call({**sample(event), "path": f"/jobs/{name}{tail}"})
            assert status in {200, 404} or answer["code"] == "internal_error", (name, answer)
