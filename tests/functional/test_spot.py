"""A pool on demand and a spot pool, through the real handler: submit, show, why, history, pools and
use."""

from __future__ import annotations

from typing import Any

import pytest

from tests.functional.account import Account, add_job
from tests.functional.test_pools import set_pool
from tests.functional.test_usage import usage

P4 = "ml.p4d.24xlarge"
SPOT = {"slots": 1, "instance_type": P4, "capacity_kind": "spot", "spot_wait": 60}
ASKED = {"EnableManagedSpotTraining": True}
LIMITS = {"MaxRuntimeInSeconds": 7_200, "MaxWaitTimeInSeconds": 7_200}
SECOND = 1_000


@pytest.fixture
def account(account: Account) -> Account:
    """Two slots on demand in `main`, and one in `cheap`, which is spot."""
    status, told = account.call(set_pool(SPOT, "cheap"))
    assert status == 200, told
    return account


def submit(account: Account, name: str, pools: str = "", **changes: Any) -> tuple[int, Any]:
    tags = [{"Key": "slotq:pools", "Value": pools}] if pools else []
    return account.call(add_job(TrainingJobName=name, Tags=tags, **changes))


def later(account: Account, seconds: float) -> None:
    account.pass_time(round(seconds * SECOND))
    account.settle()


def sent(account: Account, training_job: str) -> dict[str, Any]:
    found = account.plane.job(training_job)
    assert found is not None
    return found.request


def test_a_request_for_spot_goes_to_the_spot_pool_and_waits_for_it(account: Account):
    for name in ("first", "second"):
        status, told = submit(account, name, **ASKED, StoppingCondition=LIMITS)
        assert (status, told["pools"], told["warnings"]) == (202, ["cheap"], [])
        account.settle()
    assert (account.state("first"), account.state("second")) == ("running", "pending")
    waits = account.job("second")
    assert (waits["place"], waits["reason"]["code"]) == (1, "no_free_slots")
    assert "pool cheap has 0 free of 1" in waits["reason"]["text"]
    _, told = account.call("list-pools")
    main, cheap = told["pools"]
    assert (main["used"]["slots"], cheap["used"]["slots"]) == (0, 1)
    assert (main["settings"]["capacity_kind"], main["settings"]["spot_wait"]) == ("on_demand", 0)
    assert (cheap["settings"]["capacity_kind"], cheap["settings"]["spot_wait"]) == ("spot", 60)


def test_what_sagemaker_gets_is_what_the_pool_is(account: Account):
    submit(account, "cheap-one", "cheap,main", StoppingCondition={"MaxRuntimeInSeconds": 600})
    submit(account, "dear-one", "cheap,main", StoppingCondition={"MaxRuntimeInSeconds": 600})
    account.settle()
    spot, on_demand = sent(account, "cheap-one"), sent(account, "dear-one")
    assert spot["EnableManagedSpotTraining"] is True
    assert spot["StoppingCondition"] == {"MaxRuntimeInSeconds": 600, "MaxWaitTimeInSeconds": 660}
    assert "EnableManagedSpotTraining" not in on_demand
    assert on_demand["StoppingCondition"] == {"MaxRuntimeInSeconds": 600}


def test_an_interruption_is_shown_and_its_bill_kept(account: Account):
    account.plane.knobs.turn(
        {"interrupt_spot": 1, "interrupt_after": 600, "spot_seconds": 60, "spot_price": 0.25}
    )
    submit(account, "job", "cheap", **ASKED, StoppingCondition=LIMITS)
    account.settle()
    later(account, 60)
    later(account, 600)
    shown = account.job("job")
    (attempt,) = shown["attempts"]
    assert (shown["state"], attempt["interruptions"], attempt["running_since"]) == (
        "running", 1, None,
    )  # fmt: skip
    assert attempt["interrupted_since"] is not None
    assert "interrupted" in shown["message"]
    later(account, 60)
    later(account, 3_000)
    shown = account.job("job")
    (attempt,) = shown["attempts"]
    assert (shown["state"], attempt["outcome"]) == ("completed", "completed")
    assert (attempt["capacity_kind"], attempt["trained"], attempt["billed"]) == ("spot", 3600, 900)
    _, told = usage(account, by="kind")
    (row,) = told["rows"]
    assert (row["kind"], row["group"]) == ("spot", {"kind": "spot"})
    assert (row["slot_seconds"], row["instance_seconds"]) == (3_660, 3_600)
    assert (row["saved_seconds"], row["unbilled_seconds"]) == (2_700, 0)


def test_spot_that_never_comes_is_in_the_history_and_the_job_goes_on(account: Account):
    account.plane.knobs.turn({"stick_spot": 1})
    submit(account, "job", "cheap,main", StoppingCondition={"MaxRuntimeInSeconds": 7_200})
    account.settle()
    assert account.state("job") == "starting"
    later(account, 7_260)
    shown = account.job("job")
    assert (shown["state"], shown["pool"], shown["retries"]) == ("running", "main", 0)
    first, second = shown["attempts"]
    assert (first["outcome"], first["capacity_kind"]) == ("no_capacity", "spot")
    assert "maximum wait time" in first["message"]
    assert (second["pool"], second["capacity_kind"]) == ("main", "on_demand")
    _, told = account.call("list-pools")
    assert [pool["health"]["errors"] for pool in told["pools"]] == [0, 1]


REFUSED = [
    # the tag, the changes, and what the refusal names
    ("main", {**ASKED, "StoppingCondition": LIMITS}, ("main (", "cheap (", "slotq:pools")),
    ("cheap", {"EnableManagedSpotTraining": False}, ("cheap (", "EnableManagedSpotTraining")),
    ("cheap", {"CheckpointConfig": None}, ("cheap", "checkpoints")),
]


@pytest.mark.parametrize(("pools", "changes", "named"), REFUSED)
def test_a_contradiction_is_refused_with_both_sides(account: Account, pools, changes, named):
    status, told = submit(account, "job", pools, **changes)
    assert status == 400
    assert all(name in told["message"] for name in named), told
    assert account.call("list-jobs")[1]["jobs"] == []


WRONG = [
    ({"spot_wait": -1}, "spot_wait"),
    ({"capacity_kind": "cheap"}, "capacity_kind"),
]


@pytest.mark.parametrize(("settings", "named"), WRONG)
def test_wrong_settings_are_refused_by_name(account: Account, settings, named):
    status, told = account.call(set_pool({**SPOT, **settings}, "other"))
    assert (status, told["field"]) == (400, named)


QUOTAS = [
    # whose quota refuses, and what each pool learns of it
    (f"{P4} for training job usage", {"main": 1, "cheap": 0}),
    (f"{P4} for spot training job usage", {"main": 0, "cheap": 1}),
    (f"{P4} for training warm pool usage", {"main": 0, "cheap": 0}),
    ("Number of instances across all processing jobs", {"main": 0, "cheap": 0}),
    ("a limit that nobody knows", {"main": 0, "cheap": 0}),
]


@pytest.mark.parametrize(("quota", "errors"), QUOTAS)
def test_a_refusal_concerns_what_its_quota_names(account: Account, quota, errors):
    """Ada's jobs are refused in both pools; Ben's of later start wherever the quota says nothing
    of the pool."""
    account.plane.knobs.turn({"refuse_for_quota": 2, "refused_quota": quota, "match": "ada-*"})
    for pool in ("main", "cheap"):
        submit(account, f"ada-{pool}", pool)
        account.settle()
    _, told = account.call("list-pools")
    assert {pool["name"]: pool["health"]["errors"] for pool in told["pools"]} == errors
    for pool, failed in errors.items():
        submit(account, f"ben-{pool}", pool)
        account.settle()
        assert account.state(f"ben-{pool}") == ("pending" if failed else "running"), pool
