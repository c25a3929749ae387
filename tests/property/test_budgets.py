"""Budgets on random scenarios: a hard one is never overrun by a start, and without budgets nothing
is different."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from slotq.simulate import simulate
from slotq.simulate.report import unequal
from slotq.simulate.run.live import live_record
from slotq.simulate.scenario.scenario import Scenario
from slotq_core.model.projects import Beyond, Spending
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.cycle import plan
from slotq_core.policy.plan import Evict, Move, Plan, Start
from slotq_core.policy.state.quotas.budgets import budgets_of
from slotq_core.wire.document.sections import BudgetSection
from tests.property.first_jobs import plan_from_first_jobs
from tests.property.in_vain import nobody_starts_in_vain
from tests.property.test_projects import worlds


@st.composite
def budgeted(draw: st.DrawFn) -> Scenario:
    """A world of projects, some with a budget that its jobs may spend."""
    scenario = draw(worlds())
    sections = st.builds(
        BudgetSection,
        slot_hours=st.sampled_from([0.0001, 0.005, 0.02, 0.1]),
        beyond=st.sampled_from(Beyond),
    )
    projects = tuple(
        each.model_copy(update={"budget": draw(st.none() | sections)}) for each in scenario.projects
    )
    return scenario.model_copy(update={"projects": projects})


@given(budgeted())
def test_nothing_starts_beyond_a_hard_budget(scenario: Scenario) -> None:
    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        spent = {
            name
            for name, each in budgets_of(snapshot, now).items()
            if each.is_spent and each.budget.beyond is Beyond.HARD
        }
        for decision in planned.decisions:
            match decision:
                case Start(job=job):
                    assert job.project not in spent
                case Evict(beneficiary=job):
                    assert job.project not in spent
                case Move(beneficiary=job, moved=moved):
                    assert not spent & {job.project, *(each.project for each, _ in moved)}
        for job in snapshot.waiting:
            known = planned.reasons.get(job.name) or planned.closed.get(job.project)
            assert job.project not in spent or planned.decisions or known

    simulate(scenario, watch)


@given(budgeted())
def test_what_is_kept_back_changes_nothing_for_others(scenario: Scenario) -> None:
    """The plan is that of a world in which the jobs of a project beyond a hard budget do not
    wait."""

    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        spent = {
            name
            for name, each in budgets_of(snapshot, now).items()
            if each.is_spent and each.budget.beyond is Beyond.HARD
        }
        if not any(job.claim for job in snapshot.waiting if job.project in spent):
            others = tuple(job for job in snapshot.waiting if job.project not in spent)
            assert plan(replace(snapshot, waiting=others), now).decisions == planned.decisions

    simulate(scenario, watch)


@given(worlds())
def test_without_budgets_spending_means_nothing(scenario: Scenario) -> None:
    told = Spending(slot_ms={each.name: 10**12 for each in scenario.projects})

    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        other = plan(replace(snapshot, spent=told), now)
        assert (other.decisions, dict(other.reasons), other.wake_at) == (
            planned.decisions,
            dict(planned.reasons),
            planned.wake_at,
        )

    simulate(scenario, watch)


@given(budgeted())
def test_the_first_jobs_of_each_line_are_enough(scenario: Scenario) -> None:
    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        assert plan_from_first_jobs(snapshot, now).decisions == plan(snapshot, now).decisions

    simulate(scenario, watch)


@given(budgeted())
def test_the_queue_itself_does_the_same(scenario: Scenario) -> None:
    assert unequal(simulate(scenario), live_record(scenario)) == []


@given(budgeted())
def test_nobody_starts_to_be_evicted(scenario: Scenario) -> None:
    simulate(scenario, nobody_starts_in_vain())
