"""A pool on demand and a pool of a training plan, through the real handler: set, submit, the tick's
look, pools, why, and the document."""

from __future__ import annotations

from typing import Any

import pytest

from slotq.local.training.plan_documents import read_plans
from slotq.local.training.plane import Plane
from tests.functional.account import Account, add_job
from tests.functional.test_pools import set_pool

P4 = "ml.p4d.24xlarge"
ARN = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/june"
BOUGHT = {"slots": 2, "instance_type": P4, "capacity_kind": "plan", "plan_arn": ARN}
HOUR = 3600


def declare(plane: Plane, now: int, *, begins: int = 0, **fields: Any) -> None:
    window = {"from": begins, "to": begins + 9 * 24 * HOUR, "instances": 1}
    plan = {"name": "june", "instance_type": P4, "windows": [window], **fields}
    plane.set_plans(read_plans({"plans": [plan]}, now=now))


@pytest.fixture
def account(account: Account) -> Account:
    """Two slots on demand in `main`, and a plan of one instance in `june`, from in two hours on."""
    declare(account.plane, account.clock.now(), begins=2 * HOUR)
    status, told = account.call(set_pool(BOUGHT, "june"))
    assert status == 200, told
    assert told["warnings"] == [
        "pool june has 2 slots, and its training plan at most 1: it offers what the plan has"
    ]
    return account


def pool_of_the_plan(account: Account) -> dict[str, Any]:
    _, told = account.call("list-pools")
    (found,) = [pool for pool in told["pools"] if pool["name"] == "june"]
    return found


def submit(account: Account, name: str) -> None:
    tags = [{"Key": "slotq:pools", "Value": "june"}]
    status, told = account.call(add_job(TrainingJobName=name, Tags=tags))
    assert (status, told.get("pools")) == (202, ["june"])
    account.settle()


def later(account: Account, seconds: int) -> None:
    account.pass_time(1000 * seconds)
    account.settle()
    account.send("tick")
    account.settle()


def test_a_job_waits_for_its_plan_and_runs_there(account: Account):
    submit(account, "job")
    waits = account.job("job")
    assert waits["reason"]["code"] == "pool_not_yet_open"
    assert waits["reason"]["text"] == "pool june opens at 12:30 UTC, 20 Nov"
    closed = pool_of_the_plan(account)
    assert (closed["size"]["slots"], closed["hours"]["cause"]) == (0, "plan")
    assert closed["health"]["plan"]["status"] == "scheduled"
    later(account, 2 * HOUR)
    assert account.state("job") == "running"
    sent = account.plane.job("job")
    assert sent is not None
    assert sent.request["ResourceConfig"]["TrainingPlanArn"] == ARN
    opened = pool_of_the_plan(account)
    plan = opened["health"]["plan"]
    assert (opened["size"]["slots"], plan["status"], plan["in_use"]) == (1, "active", 0)
    later(account, 60)
    assert pool_of_the_plan(account)["health"]["plan"]["in_use"] == 1


def test_a_plan_that_is_gone_is_said_everywhere(account: Account):
    account.plane.set_plans([])
    later(account, 60)
    submit(account, "job")
    gone = "SageMaker knows no training plan june in this account and region"
    assert account.job("job")["reason"]["text"] == f"pool june has no slots: {gone}"
    shown = pool_of_the_plan(account)
    assert (shown["hours"]["why"], shown["health"]["plan"]["status"]) == (gone, "not_found")
    _, told = account.call("examine")
    assert ("plan_unusable", "june") in [(it["kind"], it["subject"]) for it in told["findings"]]


def test_the_document_has_the_plan_and_refuses_a_wrong_one(account: Account):
    _, document = account.call("get-configuration")
    (pool,) = [pool for pool in document["configuration"]["pools"] if pool["name"] == "june"]
    assert (pool["capacity_kind"], pool["plan_arn"]) == ("plan", ARN)
    status, told = account.call(set_pool({"instance_type": "ml.g5.xlarge"}, "june"))
    assert (status, told["field"]) == (400, "plan_arn")
    assert told["message"] == (
        "pool 'june': its training plan june has ml.p4d.24xlarge, and the pool ml.g5.xlarge"
    )
