"""Every scenario holds in the policy alone, and the queue itself does the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from slotq.simulate import load, simulate
from slotq.simulate.report import differences, unequal
from slotq.simulate.run.live import live_record
from slotq_core.adapters.dynamodb.store import DynamoStore, table_definition
from slotq_core.adapters.memory.store import MemoryStore
from slotq_core.policy.turn.revisit import Revisit
from slotq_core.ports.store import Store
from tests.faults.fake_dynamodb import FakeDynamo
from tests.property.in_vain import nobody_starts_in_vain

FILES = sorted(Path(__file__).parent.rglob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_scenario_holds(path: Path) -> None:
    scenario = load(path)
    assert scenario.expect
    assert differences(scenario, simulate(scenario, nobody_starts_in_vain())) == []


def on_dynamodb() -> DynamoStore:
    """A store on the engine of the fault campaign, which the contract suite proves to be exact."""
    engine = FakeDynamo()
    engine.create_table(**table_definition("t"))
    return DynamoStore(engine, "t")


@pytest.mark.parametrize("make_store", [MemoryStore, on_dynamodb])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_queue_itself_follows_the_scenario(path: Path, make_store: Callable[[], Store]) -> None:
    scenario = load(path)
    live = live_record(scenario, make_store())
    assert unequal(simulate(scenario), live) == []
    assert differences(scenario, live) == []


def test_a_start_evicted_by_the_next_plan_would_be_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No plan starts a job that the next plan of the moment evicts. If one did, here because
    nothing is tried again, the first test above would fail."""
    scenario = load(Path(__file__).parent / "one_plan" / "above_its_share_in_the_same_plan.yaml")
    simulate(scenario, nobody_starts_in_vain())
    monkeypatch.setattr(Revisit, "at_the_end", lambda _: [])
    with pytest.raises(AssertionError, match="a2"):
        simulate(scenario, nobody_starts_in_vain())


def test_a_wrong_expectation_is_reported() -> None:
    """So the tests above can fail."""
    scenario = load(FILES[0])
    wrong = scenario.model_copy(
        update={
            "expect": tuple(e.model_copy(update={"at": 0, "started": {}}) for e in scenario.expect)
        }
    )
    assert differences(wrong, simulate(wrong))
