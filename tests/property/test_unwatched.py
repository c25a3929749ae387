"""Without a watcher a simulation makes no plan only because a job runs: the events are the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slotq.simulate import simulate
from slotq.simulate.scenario.scenario import Scenario
from tests.property.test_budgets import budgeted
from tests.property.test_narrow import with_projects, without_projects


@given(st.one_of(budgeted(), with_projects, without_projects))
def test_a_watched_simulation_has_the_same_events(scenario: Scenario) -> None:
    assert simulate(scenario).events == simulate(scenario, lambda *_: None).events
