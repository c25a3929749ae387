"""Without a watcher a simulation makes no plan only because a job runs: the events are the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slotq.simulate import simulate
from slotq.simulate.scenario.scenario import Scenario
from tests.property import (
    test_budgets,
    test_consolidation,
    test_everything,
    test_flow,
    test_gangs,
    test_moves_and_limits,
    test_projects,
    test_resources,
    test_time_sharing,
)


@given(
    st.one_of(
        test_budgets.budgeted(),
        test_consolidation.crowded(),
        test_everything.worlds(),
        test_flow.worlds(),
        test_gangs.worlds(),
        test_moves_and_limits.worlds(),
        test_projects.worlds(),
        test_resources.worlds(),
        test_time_sharing.worlds(),
    )
)
def test_a_watched_simulation_has_the_same_events(scenario: Scenario) -> None:
    assert simulate(scenario).events == simulate(scenario, lambda *_: None).events
