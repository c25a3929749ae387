"""Past use changes the weights that divide the surplus, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slotq_core.model.demand import Demand
from slotq_core.model.projects import EVERYWHERE, Department, PastUse, Project, UseOf
from slotq_core.model.sharing import FairShare
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.cycle import plan
from slotq_core.policy.explain.share_status import share_statuses
from slotq_core.policy.order import position, precedence
from slotq_core.policy.state.quotas.fair_shares import Sharer, by_past_use, divide
from slotq_core.policy.state.quotas.opening import opened
from tests.unit.policy.test_reasons import NOW, pool, runs, waits

HOUR = 3_600_000


def sharer(name: str, past: int, *, weight: int = 1, quota: int = 0, request: int = 64) -> Sharer:
    return Sharer(
        name=name,
        age=ord(name),
        quota=quota,
        limit=None,
        request=request,
        weight=weight,
        priority=0,
        past=past,
    )


# Weights, past use, influence, and the changed weights in parts of their sum.
TABLE = [
    ((1, 1), (32, 32), 100, (1 / 2, 1 / 2)),
    ((1, 1), (64, 0), 100, (0, 1)),
    ((1, 1), (48, 16), 100, (1 / 4, 3 / 4)),
    ((1, 1), (64, 0), 50, (1 / 4, 3 / 4)),
    ((1, 1), (64, 0), 0, (1 / 2, 1 / 2)),
    ((1, 3), (16, 48), 100, (1 / 4, 3 / 4)),
    ((1, 3), (48, 16), 100, (0, 1)),
    ((3, 1), (48, 16), 100, (3 / 4, 1 / 4)),
    ((1, 1, 1), (0, 0, 0), 100, (1 / 3, 1 / 3, 1 / 3)),
    ((1, 1, 2), (32, 32, 0), 100, (0, 0, 1)),
    ((2, 1, 1), (0, 32, 32), 50, (3 / 4, 1 / 8, 1 / 8)),
    ((0, 1), (0, 64), 100, (0, 1)),
]


@pytest.mark.parametrize(("weights", "past", "influence", "expected"), TABLE)
def test_past_use_changes_weights(
    weights: tuple[int, ...],
    past: tuple[int, ...],
    influence: int,
    expected: tuple[float, ...],
) -> None:
    everyone = [
        sharer(name, used, weight=weight)
        for name, used, weight in zip("abc", past, weights, strict=False)
    ]
    wanting = [one for one in everyone if one.weight]
    found = by_past_use(wanting, {one.name: one.weight or 0 for one in wanting}, influence)
    whole = sum(found.values())
    parts = [found.get(one.name, 0) / whole for one in everyone]
    assert parts == pytest.approx(expected)
    shares = divide(64, everyone, influence)
    assert [shares[one.name] for one in everyone] == pytest.approx(
        [64 * part for part in expected], abs=1
    )


def test_the_user_who_has_used_less_goes_first_within_the_rank() -> None:
    settings, used = FairShare(of=UseOf.USERS), {"a": {"anna": 60, "ben": 4}}
    jobs = (
        waits("first", person="anna", project="a", after=1),
        waits("second", person="ben", project="a", after=2),
        waits("third", person="carl", project="a", after=3),
        waits("high", person="anna", project="a", after=9, priority=1),
    )
    snapshot = Snapshot(
        pools=(pool(),),
        waiting=jobs,
        fair_share=settings,
        past_use=PastUse(users=used, of=UseOf.USERS),
    )
    order = sorted(jobs, key=lambda job: position(job, precedence(snapshot)))
    assert [job.name for job in order] == ["high", "third", "second", "first"]
    for of in (None, FairShare(), FairShare(of=UseOf.BOTH)):
        by = precedence(replace(snapshot, fair_share=of))
        assert bool(by.used) is (of is not None and of.of_users)


def test_a_quota_is_never_moved() -> None:
    everyone = [sharer("a", 64, quota=10), sharer("b", 0)]
    assert divide(30, everyone, 100) == {"a": 10, "b": 20}
    assert divide(8, everyone, 100) == {"a": 10, "b": 0}


def test_what_nobody_else_asks_for_is_shared_whatever_was_used() -> None:
    assert divide(30, [sharer("a", 60), sharer("b", 4, request=5)], 100) == {"a": 25, "b": 5}
    everyone = [sharer("a", 40), sharer("b", 20), sharer("c", 4, request=2)]
    assert sum(divide(30, everyone, 100).values()) == 30


def world(past: dict[str, int], **fields: Any) -> Snapshot:
    projects = (Project(name="a", weight=1), Project(name="b", weight=1))
    settings = {"projects": projects, "fair_share": FairShare(), **fields}
    at = NOW - NOW % HOUR
    parts = {EVERYWHERE: past}
    return Snapshot(past_use=PastUse(at=at, half_life=1, parts=parts), **settings)


def test_departments_divide_first_by_their_projects_use() -> None:
    projects = (
        Project(name="a", department="d", weight=1),
        Project(name="c", department="d", weight=1),
        Project(name="b", weight=1),
    )
    departments = (Department(name="d", weight=1),)
    past = {"a": 32, "b": 32}
    snapshot = world(past, projects=projects, departments=departments, pools=(pool(slots=16),))
    asked = {(name, EVERYWHERE): Demand(slots=16) for name in "abc"}
    chains = opened(snapshot, EVERYWHERE, ("slots",), asked)
    assert {name: chain[0].share.slots for name, chain in chains.items()} == {
        "a": 0,
        "c": 8,
        "b": 8,
    }
    assert {name: chain[0].due for name, chain in chains.items()} == {
        "a": 2500,
        "c": 2500,
        "b": 5000,
    }
    assert chains["a"][1].past == 32
    assert chains["a"][0].share_by_weights == Demand(slots=4)
    assert [chains[name][0].keeps.slots for name in "acb"] == [1, 9, 8]


def test_without_the_setting_or_any_use_nothing_differs() -> None:
    for snapshot in (
        world({"a": 64}, fair_share=None, pools=(pool(slots=4),)),
        world({}, pools=(pool(slots=4),)),
    ):
        asked = {(name, EVERYWHERE): Demand(slots=4) for name in "ab"}
        chains = opened(snapshot, EVERYWHERE, ("slots",), asked)
        assert [chain[0].share.slots for chain in chains.values()] == [2, 2]
        assert [chain[0].keeps.slots for chain in chains.values()] == [2, 2]


def test_a_project_shows_its_past_use_and_what_its_weight_deserves() -> None:
    waiting = waits("b1", project="b", slots=4)
    snapshot = world({"a": 48, "b": 16}, pools=(pool(slots=4),), waiting=(waiting,))
    found = {status.name: (status.past_use, status.due) for status in share_statuses(snapshot, NOW)}
    assert found == {"a": (75.0, 50.0), "b": (25.0, 50.0)}


def test_the_reason_names_past_use_and_the_plan_looks_again_after_the_hour() -> None:
    holder = runs("b0", project="b", slots=4)
    waiting = waits("a1", project="a", slots=4)
    fields: dict[str, Any] = {"pools": (pool(slots=4),), "active": (holder,), "waiting": (waiting,)}
    planned = plan(world({"a": 58, "b": 6}, **fields), NOW)
    past = "the project has 90.6 % of past use, 1.8 times the 50 % that its weight deserves"
    assert planned.reasons["a1"].text().endswith(f"(quota 0); {past}")
    assert planned.wake_at == NOW - NOW % HOUR + HOUR
    assert plan(world({"a": 58}, fair_share=None, **fields), NOW).wake_at is None


def test_a_job_that_waits_sees_why_past_use_does_not_help_it_yet() -> None:
    active = (runs("a1", project="a", since=3 * HOUR), runs("b0", project="b"))
    waiting = waits("b1", project="b", since=10)
    snapshot = world({"a": 64}, pools=(pool(slots=2),), active=active, waiting=(waiting,))
    found = plan(snapshot, NOW, waiting).outlook
    assert found is not None
    (spared,) = [each for each in found.spared if each.code == "past_use_waits"]
    assert spared.sentence() == (
        "a1 holds 1 slot of pool p: a uses 1 slot; past use moves its fair share from 1 to 0, "
        "which evicts jobs after an hour of running, for jobs that have waited for an hour, and "
        "not for small differences"
    )
    waited = waits("b1", project="b", since=2 * HOUR)
    assert plan(replace(snapshot, waiting=(waited,)), NOW).decisions
    assert not plan(snapshot, NOW).decisions
