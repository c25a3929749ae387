"""How a group stands as a whole, from what its members are."""

from __future__ import annotations

from typing import Any

import pytest

from slotq_core.model.groups import Group
from slotq_core.model.jobs import JobState
from slotq_core.operations.jobs.group_summary import summary_of
from tests.contract.worlds import a_job

S = JobState
ALL: dict[str, Any] = {}
TWO = {"min_members": 2}
SWEEP = {"max_parallel": 1}


@pytest.mark.parametrize(
    ("rules", "states", "state"),
    [
        (ALL, (S.PENDING, S.PENDING, S.PENDING), S.PENDING),
        (ALL, (S.HELD, S.PENDING, S.PENDING), S.PENDING),
        (ALL, (S.HELD, S.HELD, S.COMPLETED), S.HELD),
        (ALL, (S.STARTING, S.PENDING, S.FAILED), S.RUNNING),
        (ALL, (S.STOPPING, S.CANCELLED, S.CANCELLED), S.RUNNING),
        (ALL, (S.COMPLETED, S.COMPLETED, S.COMPLETED), S.COMPLETED),
        (ALL, (S.COMPLETED, S.CANCELLED, S.COMPLETED), S.COMPLETED),
        (ALL, (S.COMPLETED, S.FAILED, S.COMPLETED), S.FAILED),
        (ALL, (S.CANCELLED, S.CANCELLED, S.CANCELLED), S.CANCELLED),
        (ALL, (S.STOPPED, S.COMPLETED, S.COMPLETED), S.CANCELLED),
        (TWO, (S.COMPLETED, S.FAILED, S.COMPLETED), S.COMPLETED),
        (TWO, (S.COMPLETED, S.FAILED, S.CANCELLED), S.FAILED),
        ({**TWO, "mandatory": ("b",)}, (S.COMPLETED, S.FAILED, S.COMPLETED), S.FAILED),
        (SWEEP, (S.COMPLETED, S.CANCELLED, S.COMPLETED), S.CANCELLED),
        (SWEEP, (S.COMPLETED, S.COMPLETED, S.COMPLETED), S.COMPLETED),
        (SWEEP, (S.BACKOFF, S.COMPLETED, S.COMPLETED), S.PENDING),
    ],
)
def test_the_state_of_a_group(rules, states, state):
    jobs = [a_job(name, state=each) for name, each in zip("abc", states, strict=True)]
    group = Group(name="g", members=("a", "b", "c"), **rules)
    assert summary_of(group, jobs).state is state


@pytest.mark.parametrize(
    ("states", "state"),
    [
        ((S.COMPLETED, S.FAILED, S.CANCELLED), S.COMPLETED),
        ((S.COMPLETED, S.STOPPING, S.PENDING), S.RUNNING),
    ],
)
def test_a_sweep_whose_goal_is_met_has_completed_once_all_have_ended(states, state):
    jobs = [a_job(name, state=each) for name, each in zip("abc", states, strict=True)]
    group = Group(name="g", members=("a", "b", "c"), **SWEEP)
    assert summary_of(group, jobs, goal_met=True).state is state


@pytest.mark.parametrize(
    ("rules", "states", "lacks", "message"),
    [
        (ALL, (S.PENDING, S.PENDING, S.CANCELLED), (2, 2, ()), ""),
        (TWO, (S.COMPLETED, S.PENDING, S.BACKOFF), (1, 1, ()), ""),
        ({"mandatory": ("a", "b")}, (S.HELD, S.PENDING, S.PENDING), (3, 2, ("a",)), ""),
        ({"mandatory": ("a", "b")}, (S.COMPLETED, S.RUNNING, S.RUNNING), (2, 0, ()), ""),
        (
            TWO,
            (S.FAILED, S.FAILED, S.PENDING),
            (2, 1, ()),
            "2 of its jobs must run at once, and 1 can still run: a has failed (exit code 1)",
        ),
        (
            ALL,
            (S.FAILED, S.FAILED, S.FAILED),
            (3, 0, ()),
            "3 of its jobs must run at once, and none can still run: a has failed (exit code 1)",
        ),
        (
            {**TWO, "mandatory": ("c",)},
            (S.PENDING, S.PENDING, S.FAILED),
            (2, 2, ("c",)),
            "c has failed (exit code 1), and the gang does not run without it",
        ),
    ],
)
def test_what_a_gang_lacks(rules, states, lacks, message):
    jobs = [
        a_job(name, state=each, message="exit code 1" if each is S.FAILED else "")
        for name, each in zip("abc", states, strict=True)
    ]
    told = summary_of(Group(name="g", members=("a", "b", "c"), **rules), jobs)
    assert (told.needed, told.ready, told.missing) == lacks
    assert told.message == message


def test_a_group_without_records_has_no_state():
    told = summary_of(Group(name="g", members=("a",), max_parallel=1), [])
    assert (told.state, told.message) == (None, "")
