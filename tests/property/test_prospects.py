"""When a turn is known to bring nothing, the skipped steps would indeed bring nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotq.simulate import simulate
from slotq.simulate.scenario.scenario import Scenario
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy import cycle
from slotq_core.policy.cycle import plan
from slotq_core.policy.plan import Plan
from slotq_core.policy.turn import gang_turn
from tests.property import (
    test_consolidation,
    test_gangs,
    test_projects,
    test_resources,
    test_time_sharing,
)
from tests.property.worlds import NOW, snapshots


def without_the_bound(snapshot: Snapshot, now: int) -> Plan:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cycle, "has_prospects", lambda *_: True)
        patch.setattr(gang_turn, "gang_has_prospects", lambda *_: True)
        return plan(snapshot, now)


@given(snapshots())
def test_a_plan_is_the_same_without_the_bound(snapshot: Snapshot) -> None:
    assert plan(snapshot, NOW) == without_the_bound(snapshot, NOW)


@given(
    st.one_of(
        test_consolidation.crowded(),
        test_projects.worlds(),
        test_gangs.worlds(),
        test_resources.worlds(),
        test_time_sharing.worlds(),
    )
)
def test_a_plan_is_the_same_without_the_bound_in_every_kind_of_world(scenario: Scenario) -> None:
    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        assert planned == without_the_bound(snapshot, now)

    simulate(scenario, watch)
