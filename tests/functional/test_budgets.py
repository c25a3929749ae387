"""A project's budget, through the real handler: set, spent, warned of, seen, and its reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

import app
from slotq_core.adapters.eventbridge import BUDGET_TYPE
from slotq_core.timestamps import iso
from slotq_core.usage.calendar_days import next_month
from tests.functional.account import NOW, Account, forget
from tests.functional.sharing import OPERATOR, OWNER, request, share, submit
from tests.functional.test_bad_days import counted


@pytest.fixture
def account(account: Account, monkeypatch: pytest.MonkeyPatch) -> Account:
    monkeypatch.setenv("SLOTQ_ANNOUNCE", "1")
    forget()
    share()
    return account


def set_budget(account: Account, budget: Any) -> tuple[int, dict[str, Any]]:
    body = {"budget": budget}
    return account.call(request("PATCH", "/projects/vision", by=OPERATOR, body=body))


def heard(account: Account) -> list[dict[str, Any]]:
    entries = account.announced.entries
    return [json.loads(each["Detail"]) for each in entries if each["DetailType"] == BUDGET_TYPE]


def seen(account: Account) -> dict[str, Any]:
    _, view = account.call(request("GET", "/projects", by=OPERATOR))
    (found,) = (each for each in view["projects"] if each["name"] == "vision")
    return dict(found["budget"])


def tick_after(account: Account, minutes: int) -> None:
    account.clock.set(account.clock.now() + minutes * 60_000)
    account.settle()
    account.send("tick")
    account.settle()


def state(account: Account, name: str) -> str:
    return str(account.call(request("GET", f"/jobs/{name}", by=OWNER))[1]["state"])


def test_a_hard_budget_from_its_setting_to_its_reset(account: Account, output: Any) -> None:
    """Two slots, jobs of an hour, and a budget of an hour and a half: spent after 45 minutes."""
    assert set_budget(account, {"slot_hours": 1.5, "beyond": "hard"})[0] == 200
    for name in ("first", "second", "third"):
        assert submit(account, name, "vision", by=OWNER)[0] == 202
        account.settle()
    tick_after(account, 10)
    assert (seen(account)["spent_slot_seconds"], heard(account)) == (1200, [])
    for minutes in (30, 1, 1):
        tick_after(account, minutes)
    (warning,) = heard(account)
    assert warning["project"] == "vision"
    assert (warning["slot_seconds"], warning["spent_slot_seconds"]) == (5400, 4800)
    assert (warning["beyond"], warning["resets_at"]) == ("hard", iso(next_month(NOW)))
    assert counted(output(), "BudgetWarning") == 1
    tick_after(account, 30)
    tick_after(account, 1)
    states = [state(account, name) for name in ("first", "second", "third")]
    assert states == ["completed", "completed", "pending"]
    assert 7200 <= seen(account)["spent_slot_seconds"] < 9000
    _, job = account.call(request("GET", "/jobs/third", by=OWNER))
    assert job["reason"]["code"] == "budget_spent"
    assert job["reason"]["numbers"]["until"] == next_month(NOW)
    assert job["outlook"]["earliest"] == seen(account)["resets_at"] == iso(next_month(NOW))
    account.clock.set(next_month(NOW))
    tick_after(account, 0)
    assert state(account, "third") == "running"
    assert seen(account)["spent_slot_seconds"] == 0


def test_a_raised_budget_counts_at_once(account: Account) -> None:
    set_budget(account, {"slot_hours": 0.5, "beyond": "hard"})
    submit(account, "first", "vision", by=OWNER)
    account.settle()
    tick_after(account, 31)
    submit(account, "second", "vision", by=OWNER)
    account.settle()
    assert state(account, "second") == "pending"
    set_budget(account, {"slot_hours": 2, "beyond": "hard"})
    account.settle()
    assert state(account, "second") == "running"
    assert len(heard(account)) == 1


def test_a_budget_is_taken_away_by_null(account: Account) -> None:
    set_budget(account, 5)
    assert seen(account)["beyond"] == "soft"
    set_budget(account, None)
    _, view = account.call(request("GET", "/projects", by=OPERATOR))
    assert [each["budget"] for each in view["projects"]] == [None, None]
    assert app.manager().passes.run().budget_warnings == ()


@pytest.mark.parametrize(
    ("budget", "where"),
    [
        (0, "budget.slot_hours"),
        ("much", "budget.slot_hours"),
        ({"beyond": "hard"}, "budget.slot_hours"),
        ({"slot_hours": 1, "beyond": "never"}, "budget.beyond"),
        ({"slot_hours": 1, "month": 2}, "budget.month"),
    ],
)
def test_a_wrong_budget_is_refused_with_its_place(
    account: Account, budget: Any, where: str
) -> None:
    status, body = set_budget(account, budget)
    assert status == 400
    assert where in json.dumps(body)
