"""The departments and projects that the configuration names are missing: nothing is decided, all
else goes on, and an operator can mend it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import app
from slotq_core.adapters.dynamodb.layout.table import SHARING_PREFIX
from slotq_core.model.callers import Access
from slotq_core.model.demand import Demand
from slotq_core.model.projects import EVERYWHERE, Project
from tests.functional.account import TABLE, Account, add_job, forget, sample

MINUTE = 60_000


def project(*names: str) -> None:
    """Configure projects of these names."""
    sharing = app.manager().configuration
    settings, _ = sharing.settings()
    everybody = Access(admins=("*",), default_for=("*",))
    made = tuple(
        Project(name=name, quota={EVERYWHERE: Demand(slots=1)}, access=everybody) for name in names
    )
    wanted = replace(settings.sharing, projects=made)
    sharing.apply(replace(settings, sharing=wanted), by="arn:aws:iam::123456789012:user/ann")


def documents(account: Account) -> list[dict[str, Any]]:
    return [item for item in account.items() if item["sk"]["S"].startswith(SHARING_PREFIX)]


def lose(account: Account, lost: list[dict[str, Any]]) -> None:
    for item in lost:
        key = {"pk": item["pk"], "sk": item["sk"]}
        account.dynamodb.delete_item(TableName=TABLE, Key=key)
    forget()


def submitted(account: Account, name: str) -> int:
    tags = [{"Key": "slotq:project", "Value": "a"}]
    status, _ = account.call(add_job(TrainingJobName=name, Tags=tags))
    account.settle()
    return status


def test_what_runs_goes_on_and_an_operator_restores_the_rest(
    account: Account, caplog: pytest.LogCaptureFixture
) -> None:
    account.call(sample("list-jobs"))
    project("a")
    before = documents(account)
    project("a", "b")
    assert [submitted(account, name) for name in ("one", "two")] == [202, 202]
    lose(account, [item for item in documents(account) if item not in before])
    assert submitted(account, "three") == 503
    account.clock.set(account.clock.now() + 6 * MINUTE)
    assert account.send("tick")["decisions"] == 0
    assert "left to the next pass" in caplog.text
    account.completes("one")
    found = [(it["kind"], it["subject"]) for it in account.call("examine")[1]["findings"]]
    assert ("unreadable", "projects") in found
    account.clock.set(account.clock.now() + 6 * MINUTE)
    mended = account.call("mend")[1]["findings"]
    assert [it["mended"] for it in mended if it["subject"] == "projects"] == [True]
    account.settle()
    assert account.state("one") == "completed"
    assert submitted(account, "three") == 202
