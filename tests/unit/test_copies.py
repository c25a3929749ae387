"""Changed copies of frozen values."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace

import pytest

from slotq_core.lifecycle import copied
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.plan import DropClaim

JOB = Job(
    name="j", state=JobState.PENDING, priority=3, entry_time=5, demand=Demand(slots=2), pools=("p",)
)


def test_a_copy_is_what_replace_makes() -> None:
    after = copied(JOB, priority=4, message="later")
    assert after == replace(JOB, priority=4, message="later")
    assert JOB.priority == 3
    with pytest.raises(FrozenInstanceError):
        after.priority = 5  # type: ignore[misc]


def test_every_field_is_copied() -> None:
    snapshot = Snapshot(pools=(), waiting=(JOB,), behind={"j": 2})
    after = copied(snapshot, active=())
    assert all(getattr(after, each.name) == getattr(snapshot, each.name) for each in fields(after))


def test_an_unknown_field_is_an_error() -> None:
    with pytest.raises(KeyError):
        copied(JOB, rank=1)


def test_a_value_of_one_field_is_copied() -> None:
    after = copied(DropClaim(job=JOB), job=replace(JOB, name="k"))
    assert after == DropClaim(job=replace(JOB, name="k"))
