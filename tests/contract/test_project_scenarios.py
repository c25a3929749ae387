"""Every scenario with projects, time sharing or scheduler settings goes the same way on DynamoDB:
the document is applied, the jobs are submitted, and what happens is what the policy alone does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slotq.simulate import load, simulate
from slotq.simulate.report import unequal
from slotq.simulate.run.live import live_record
from slotq.simulate.scenario.scenario import Scenario
from slotq_core.adapters.dynamodb.store import DynamoStore

FOLDER = Path(__file__).parents[1] / "scenarios"
SCENARIOS = {path.stem: load(path) for path in sorted(FOLDER.rglob("*.yaml"))}


def is_shared(scenario: Scenario) -> bool:
    """Whether projects, users or classes share the pools, or attempts to start are limited."""
    sliced = any(pool.time_slice is not None for pool in scenario.pools)
    shared = scenario.projects or scenario.classes or scenario.users or scenario.user_groups
    return bool(shared or sliced or scenario.shared.scheduler)


SHARED = [name for name, scenario in SCENARIOS.items() if is_shared(scenario)]


@pytest.mark.parametrize("name", SHARED)
def test_the_scenario_goes_the_same_way(client: Any, table: str, name: str) -> None:
    scenario = SCENARIOS[name]
    live = live_record(scenario, DynamoStore(client, table))
    assert unequal(simulate(scenario), live) == []
