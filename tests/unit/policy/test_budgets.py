"""What a project has spent, when that turns, and what a plan makes of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slotq_core.gpu_amounts import WHOLE
from slotq_core.model.attempts import Attempt
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Claim, Job, JobState
from slotq_core.model.pools import Pool
from slotq_core.model.projects import (
    EVERYWHERE,
    HOUR,
    Beyond,
    Budget,
    Department,
    Project,
    Spending,
    hours,
)
from slotq_core.model.reasons import BudgetSpent
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.cycle import plan
from slotq_core.policy.explain.share_status import share_statuses
from slotq_core.policy.plan import DropClaim, Evict, Move, Start
from slotq_core.policy.state.quotas.budgets import budgets_of
from slotq_core.timestamps import from_iso

MONTH = from_iso("2026-11-01T00:00:00+00:00")
NEXT = from_iso("2026-12-01T00:00:00+00:00")
NOW = MONTH + 10 * HOUR
HARD, SOFT = Beyond.HARD, Beyond.SOFT


def project(name: str, quota: int = 2, beyond: Beyond = SOFT, **fields: Any) -> Project:
    budget = Budget(slot_ms=10 * HOUR, beyond=beyond)
    return Project(name=name, quota={EVERYWHERE: Demand(slots=quota)}, budget=budget, **fields)


def waits(name: str, **fields: Any) -> Job:
    return Job(
        name=name,
        state=JobState.PENDING,
        priority=fields.pop("priority", 0),
        entry_time=NOW - 1000,
        demand=Demand(slots=fields.pop("slots", 1)),
        pools=fields.pop("pools", ("p",)),
        project=fields.pop("project", "a"),
        **fields,
    )


def runs(name: str, since: int, pool: str = "p", **fields: Any) -> Job:
    attempt = Attempt(
        number=1,
        training_job=name,
        token="t",
        pool=pool,
        instance_type="ml.test",
        admitted_at=since,
        created=True,
        running_since=since,
    )
    return replace(waits(name, **fields), state=JobState.RUNNING, attempt=attempt, attempts=1)


def on_a_node(job: Job, gpus: int, of: int) -> Job:
    """The running job with GPUs of a node in place of a slot."""
    ids = tuple(range(gpus))
    attempt = replace(job.attempt, node="n1", node_generation=1, gpu_ids=ids, node_gpus=of)
    return replace(job, attempt=attempt, gpus=WHOLE * gpus, tenant="t")


def world(
    *projects: Project,
    active: tuple[Job, ...] = (),
    waiting: tuple[Job, ...] = (),
    spent: int = 0,
    slots: int = 4,
    **fields: Any,
) -> Snapshot:
    """`spent`: slot-hours of attempts of project a that have ended."""
    pools = tuple(
        Pool(name=name, instance_type="ml.test", capacity=Demand(slots=slots)) for name in "p"
    )
    return Snapshot(
        pools=fields.pop("pools", pools),
        projects=projects,
        active=active,
        waiting=waiting,
        spent=fields.pop("told", Spending(month=MONTH, slot_ms={"a": spent * HOUR})),
        **fields,
    )


def test_what_is_spent_is_what_ended_and_what_runs_within_the_month() -> None:
    active = (
        runs("a1", NOW - 2 * HOUR, slots=3),
        runs("a2", MONTH - 5 * HOUR),
        runs("b1", NOW - HOUR, project="b"),
        runs("c1", NOW - HOUR, project="c"),
    )
    found = budgets_of(
        world(project("a"), project("b"), Project(name="c"), active=active, spent=1), NOW
    )
    assert found.keys() == {"a", "b"}
    assert (found["a"].spent, found["a"].held) == ((1 + 6 + 10) * HOUR, 4)
    assert (found["b"].spent, found["b"].held) == (HOUR, 1)
    assert {each.resets_at for each in found.values()} == {NEXT}


def test_a_job_on_a_node_spends_its_part_of_the_slot() -> None:
    """One GPU of eight, two of four and a whole instance spend 1.625 slot-hours an hour."""
    active = (
        on_a_node(runs("a1", NOW - 2 * HOUR), 1, 8),
        on_a_node(runs("a2", NOW - 2 * HOUR), 2, 4),
        runs("a3", NOW - 2 * HOUR),
    )
    (found,) = budgets_of(world(project("a"), active=active), NOW).values()
    assert (found.spent, found.held / found.per) == (2 * 1.625 * HOUR, 1.625)
    assert found.reaches(found.spent + 13 * HOUR, NOW) == NOW + 8 * HOUR


@pytest.mark.parametrize("now", [MONTH - 1, NEXT])
def test_another_months_spending_counts_for_nothing(now: int) -> None:
    told = Spending(month=MONTH, slot_ms={"a": 100 * HOUR}, warned=frozenset({"a"}))
    (standing,) = budgets_of(world(project("a"), told=told), now).values()
    assert (standing.spent, standing.warned, standing.is_spent) == (0, False, False)


@pytest.mark.parametrize(
    ("spent", "wakes_in"),
    [(0, 4), (7, 0.5), (8, 1), (9, 0.5), (10, None)],
    ids=["before 80 %", "just before", "at 80 %", "behind", "spent"],
)
def test_a_plan_wakes_when_a_budget_turns(spent: int, wakes_in: float | None) -> None:
    """Two slots are held: 80 % of ten slot-hours are reached, and then the whole."""
    active = tuple(runs(name, NOW) for name in ("a1", "a2"))
    planned = plan(world(project("a"), active=active, spent=spent), NOW)
    assert planned.wake_at == (None if wakes_in is None else NOW + int(wakes_in * HOUR))


def test_a_spent_budget_wakes_with_the_month_if_somebody_waits() -> None:
    spent = world(project("a", beyond=HARD), waiting=(waits("a1"),), spent=10)
    assert plan(spent, NOW).wake_at == NEXT
    assert plan(replace(spent, waiting=()), NOW).wake_at is None
    late = runs("a2", NEXT - HOUR)
    assert plan(world(project("a"), active=(late,)), NEXT - HOUR).wake_at == NEXT


@pytest.mark.parametrize(
    ("beyond", "spent", "starts"),
    [(HARD, 9, True), (HARD, 10, False), (SOFT, 9, True), (SOFT, 10, True)],
)
def test_who_starts_on_idle_slots(beyond: Beyond, spent: int, starts: bool) -> None:
    planned = plan(world(project("a", beyond=beyond), waiting=(waits("a1"),), spent=spent), NOW)
    assert [type(each) for each in planned.decisions] == ([Start] if starts else [])
    why = planned.reasons.get("a1")
    assert starts or why == BudgetSpent(
        project="a", spent=36_000, budget=36_000, until=NEXT, beyond="hard"
    )


def test_a_hard_budget_keeps_nobody_else_waiting() -> None:
    """Its jobs ask for no share, keep no claim and let no pool drain."""
    first = waits(
        "a1", priority=50, slots=4, claim=Claim(pool="p", amount=Demand(slots=4), since=NOW)
    )
    others = tuple(waits(f"b{n}", project="b") for n in range(4))
    pool = Pool(name="p", instance_type="ml.test", capacity=Demand(slots=4), reserve_after=0)
    spent = world(
        project("a", beyond=HARD), project("b"), waiting=(first, *others), spent=10, pools=(pool,)
    )
    assert plan(spent, NOW).decisions == (DropClaim(job=first),)
    planned = plan(replace(spent, waiting=(replace(first, claim=None), *others)), NOW)
    assert [each.job.name for each in planned.decisions if isinstance(each, Start)] == [
        each.name for each in others
    ]
    assert {each.name: each.share for each in share_statuses(spent, NOW)} == {"a": 0, "b": 4}


@pytest.mark.parametrize(
    ("beyond", "spent", "given"), [(SOFT, 0, False), (SOFT, 10, True), (HARD, 10, False)]
)
def test_only_beyond_a_soft_budget_what_runs_within_quota_is_given_back(
    beyond: Beyond, spent: int, given: bool
) -> None:
    active = tuple(runs(f"a{n}", NOW - 1, slots=2) for n in range(2))
    b1 = waits("b1", project="b", slots=2)
    planned = plan(
        world(
            project("a", quota=4, beyond=beyond),
            project("b"),
            active=active,
            waiting=(b1,),
            spent=spent,
        ),
        NOW,
    )
    assert [type(each) for each in planned.decisions] == ([Evict] if given else [])


def test_beyond_a_soft_budget_the_weight_stays() -> None:
    """The surplus is divided by it: by default, by the quota as configured."""
    waiting = tuple(waits(f"{name}{n}", project=name) for name in "ab" for n in range(8))
    spent = world(
        project("a", quota=2),
        Project(name="b", quota={EVERYWHERE: Demand(slots=2)}),
        waiting=waiting,
        spent=10,
        slots=8,
    )
    found = {each.name: (each.quota, each.share) for each in share_statuses(spent, NOW)}
    assert found == {"a": (0, 3), "b": (2, 5)}


def test_a_department_keeps_its_quota() -> None:
    """Its other projects may use what the spent one no longer deserves."""
    spent = world(
        project("a", department="d"),
        Project(name="b", department="d", quota={EVERYWHERE: Demand(slots=2)}),
        departments=(Department(name="d", over_quota=False),),
        active=(runs("a1", NOW, slots=2),),
        waiting=(waits("b1", project="b", slots=2),),
        spent=10,
    )
    found = {each.name: each.quota for each in share_statuses(spent, NOW)}
    assert found == {"a": 0, "b": 2, "d": 4}
    assert [type(each) for each in plan(spent, NOW).decisions] == [Start]


def test_beyond_a_budget_a_closed_pool_stays_open_to_the_project() -> None:
    """Who may use a pool is a matter of the configuration, not of the month."""
    pool = Pool(name="p", instance_type="ml.test", capacity=Demand(slots=1), open=False)
    planned = plan(world(project("a"), waiting=(waits("a1"),), spent=10, pools=(pool,)), NOW)
    assert [type(each) for each in planned.decisions] == [Start]


@pytest.mark.parametrize(("spent", "moves"), [(0, True), (10, False)])
def test_no_job_moves_that_could_not_start_again(spent: int, moves: bool) -> None:
    pools = tuple(
        Pool(name=name, instance_type="ml.test", capacity=Demand(slots=1), consolidate=True)
        for name in "pq"
    )
    planned = plan(
        world(
            project("a", beyond=HARD),
            Project(name="b", quota={EVERYWHERE: Demand(slots=1)}),
            active=(runs("a1", NOW - 1, pools=("p", "q")),),
            waiting=(waits("b1", project="b"),),
            spent=spent,
            pools=pools,
        ),
        NOW,
    )
    assert any(isinstance(each, Move) for each in planned.decisions) == moves


@pytest.mark.parametrize(
    ("slot_ms", "text"),
    [(0, "0"), (HOUR, "1"), (HOUR // 4, "0.25"), (500 * HOUR + 1, "500"), (1800, "0")],
)
def test_slot_hours_are_written_as_people_do(slot_ms: int, text: str) -> None:
    assert hours(slot_ms) == text
