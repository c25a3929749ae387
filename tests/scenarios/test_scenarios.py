"""Every scenario holds on the policy alone, and the queue itself does just the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from slotq.errors import ScenarioError
from slotq.simulate import load, simulate
from slotq.simulate.report import differences, unequal
from slotq.simulate.run.live import live_record
from slotq_core.policy.turn.turn_order import TurnOrder
from tests.property.in_vain import nobody_starts_in_vain

FILES = sorted(Path(__file__).parent.rglob("*.yaml"))

_AFTER = "jobs that come after others"
_PARTS = "jobs over several pools at once"
_GRACE = "jobs that are asked before they are stopped"
NOT_LIVE_YET = {
    "a_cancel_ends_the_grace": _GRACE,
    "after": _AFTER,
    "after_a_failure": _AFTER,
    "after_asks_for_no_share": _AFTER,
    "asked_before_it_is_stopped": _GRACE,
    "auto_over_several_pools": _PARTS,
    "parts_over_two_pools": _PARTS,
    "parts_that_never_fit": _PARTS,
    "sweep_of_two_projects": _PARTS,
}
"""What the manager and the store do not carry yet, by scenario. Everything else runs both ways."""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_holds(path: Path) -> None:
    scenario = load(path)
    assert scenario.expect
    assert differences(scenario, simulate(scenario, nobody_starts_in_vain())) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_queue_itself_does_the_same(path: Path) -> None:
    scenario = load(path)
    if missing := NOT_LIVE_YET.get(path.stem):
        with pytest.raises(ScenarioError, match=missing):
            live_record(scenario)
        return
    live = live_record(scenario)
    assert unequal(simulate(scenario), live) == []
    assert differences(scenario, live) == []


def test_one_that_is_started_to_be_evicted_at_once_would_be_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A plan starts nobody whom the next one of that moment evicts. Were one to do so all the same,
    here because nobody is asked again, the first test above would tell."""
    scenario = load(
        Path(__file__).parent
        / "one_plan"
        / "who_outranks_comes_when_a_lower_one_takes_what_is_idle.yaml"
    )
    simulate(scenario, nobody_starts_in_vain())
    monkeypatch.setattr(TurnOrder, "_unblock", lambda *_: None)
    with pytest.raises(AssertionError, match="j2"):
        simulate(scenario, nobody_starts_in_vain())


def test_an_expectation_that_does_not_hold_is_told() -> None:
    """So that the tests above can fail."""
    scenario = load(FILES[0])
    wrong = scenario.model_copy(
        update={
            "expect": tuple(e.model_copy(update={"at": 0, "started": {}}) for e in scenario.expect)
        }
    )
    assert differences(wrong, simulate(wrong))
