"""Every scenario with projects, time sharing or scheduler settings goes the same way on DynamoDB:
the document is applied, the jobs are submitted, and what happens is what the policy alone does.

On the engine of the fault campaign, which the contract suite proves to be exact; every third also
on DynamoDB Local, where a scenario takes eight times as long."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slotq.simulate import load, simulate
from slotq.simulate.report import unequal
from slotq.simulate.run.live import live_record
from slotq.simulate.scenario.scenario import Scenario
from slotq_core.adapters.dynamodb.store import DynamoStore, table_definition
from tests.faults.fake_dynamodb import FakeDynamo

FOLDER = Path(__file__).parents[1] / "scenarios"
SCENARIOS = {path.stem: load(path) for path in sorted(FOLDER.rglob("*.yaml"))}


def is_shared(scenario: Scenario) -> bool:
    """Whether projects, users or classes share the pools, or attempts to start are limited."""
    sliced = any(pool.time_slice is not None for pool in scenario.pools)
    shared = scenario.projects or scenario.classes or scenario.users or scenario.user_groups
    return bool(shared or sliced or scenario.shared.scheduler)


SHARED = [name for name, scenario in SCENARIOS.items() if is_shared(scenario)]


@pytest.mark.parametrize("name", SHARED)
def test_the_scenario_goes_the_same_way(name: str) -> None:
    fake = FakeDynamo()
    fake.create_table(**table_definition("queue"))
    goes_the_same_way(SCENARIOS[name], DynamoStore(fake, "queue"))


@pytest.mark.parametrize("client", ["dynamodb-local"], indirect=True)
@pytest.mark.parametrize("name", SHARED[::3])
def test_on_the_real_engine_too(client: Any, table: str, name: str) -> None:
    goes_the_same_way(SCENARIOS[name], DynamoStore(client, table))


def goes_the_same_way(scenario: Scenario, store: DynamoStore) -> None:
    live = live_record(scenario, store)
    assert unequal(simulate(scenario), live) == []
