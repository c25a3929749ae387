"""Gangs of up to two hundred members on a real table, through the real handler."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import app
from slotq_core.admission.groups import NewGroup
from slotq_core.wire.submission import parse_submission
from tests.functional.account import HOUR, Account, add_job, forget, sample

MEMBER = json.loads(sample("add-job")["body"])
HUNDREDS = [f"m{number:03d}" for number in range(200)]


def with_slots(account: Account, slots: int) -> None:
    event = {**sample("set-pool"), "path": "/pools/main"}
    kind = MEMBER["ResourceConfig"]["InstanceType"]
    event["body"] = json.dumps({"instance_type": kind, "slots": slots})
    status, told = account.call(event)
    assert status == 200, told


def submit(account: Account, *names: str, **rules: Any) -> None:
    """Submit as the handler does. The shape of a body is not this test's matter."""
    bodies = [{**MEMBER, "TrainingJobName": name} for name in names]
    parsed = [parse_submission(json.dumps(body)) for body in bodies]
    members = tuple((replace(submission, group="gang"), body) for submission, body in parsed)
    wanted = NewGroup(name="gang", members=members, digest="d", **rules)
    app.manager().groups.submit(wanted, submitter="ann")
    account.settle()


def states(account: Account) -> dict[str, int]:
    status, told = account.call({**sample("get-group"), "path": "/groups/gang"})
    assert status == 200, told
    found: dict[str, int] = told["states"]
    return found


def test_two_hundred_members_start_together_or_not_at_all(account: Account) -> None:
    with_slots(account, 200)
    account.call(add_job(TrainingJobName="other"))
    account.settle()
    submit(account, *HUNDREDS)
    assert states(account) == {"pending": 200}
    account.completes("other")
    assert states(account) == {"running": 200}
    account.clock.set(account.clock.now() + HOUR)
    account.settle()
    assert states(account) == {"completed": 200}


def test_a_cold_container_knows_what_has_become_of_a_gang(account: Account) -> None:
    """The rest of a gang starts again although fewer are left than it needed at first."""
    with_slots(account, 2)
    submit(account, "a", "b")
    account.completes("a")
    high = {"TrainingJobName": "high", "Tags": [{"Key": "priority", "Value": "5"}]}
    two = {**MEMBER["ResourceConfig"], "InstanceCount": 2}
    account.call(add_job(**high, ResourceConfig=two))
    account.settle()
    assert (states(account), account.state("high")) == ({"completed": 1, "preempted": 1}, "running")
    forget()
    account.completes("high")
    assert states(account) == {"completed": 1, "running": 1}
