"""A short form of the campaign (`make faults` is the whole): every scenario, every case, a little
chaos. What it leaves out is chosen by the stride, so that each kind of fault is still tried."""

from __future__ import annotations

import pytest

from tests.faults import chaos, crashes, interleavings
from tests.faults.interleavings import CASES
from tests.faults.mutants import MUTANTS, caught
from tests.faults.scenarios import SCENARIOS

STRIDE = 61
"""Of so many crash points one is tried."""
QUICK = (
    "no condition on the ledger",
    "a name may be given twice",
    "names by chance",
    "slots come free at the stop",
    "a create is never confirmed",
    "an evicted job enters anew",
    "nothing is reconciled",
    "no transaction",
)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_scenario_survives_its_crashes(scenario):
    calls, world = crashes.count_calls(scenario)
    assert world.watch.broken == []
    for crash in list(crashes.crash_points(calls))[len(scenario.name) :: STRIDE]:
        world = crashes.run(scenario, crash)
        assert not world.watch.broken, f"{crash}: {world.watch.broken}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_handlers_at_once(case):
    for schedule, world in interleavings.exhaustively(case, 8):
        assert not world.watch.broken, f"{schedule.taken}: {world.watch.broken}"


def test_chaos():
    world = chaos.run(seed=1, count=15)
    assert world.watch.broken == []
    assert world.weather.count["killed"] > 0
    assert world.weather.count["events_lost"] > 0


@pytest.mark.parametrize("name", QUICK)
def test_the_campaign_catches(name):
    """Each safeguard, broken on purpose. All of them are hunted by `make faults`."""
    assert caught(next(mutant for mutant in MUTANTS if mutant.name == name)) is not None


def test_the_same_seed_gives_the_same_run():
    first, again = chaos.run(seed=3, count=8), chaos.run(seed=3, count=8)
    assert first.history == again.history
