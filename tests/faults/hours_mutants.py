"""Broken variants of the rules for pools with hours. The worlds that show them are small: the
scenarios of `tests/scenarios/hours`, by the policy alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from slotq.errors import EndlessDecisions
from slotq.simulate import load, simulate
from slotq.simulate.report import differences
from slotq_core.policy.lifecycle.hours import closing
from slotq_core.policy.lifecycle.hours.closing import Closing
from slotq_core.policy.plan import Close
from slotq_core.wire.capacity import opening_hours
from tests.faults.mutants import Hunt, Mutant
from tests.faults.promises import Broken

HOURS = "a pool's hours cut nothing off that must not be interrupted"
WORLDS = Path(__file__).parents[1] / "scenarios"


@dataclass
class _Watch:
    broken: list[Broken] = field(default_factory=list)


@dataclass
class Played:
    """One scenario, played."""

    watch: _Watch = field(default_factory=_Watch)


def world(name: str, folder: str = "hours", promise: str = HOURS) -> Hunt:
    """The scenario of that name, with each expectation that does not hold."""

    def hunt() -> Iterator[Played]:
        scenario = load(WORLDS / folder / f"{name}.yaml")
        try:
            found = [str(fault) for fault in differences(scenario, simulate(scenario))]
        except EndlessDecisions as error:
            found = [str(error)]
        yield Played(_Watch([Broken(promise, fault) for fault in found]))

    return hunt


def _replaced(name: str, value: Any) -> Callable[[], AbstractContextManager[Any]]:
    return lambda: patch.object(closing, name, value)


def _no_claim_is_given_up() -> AbstractContextManager[Any]:
    right = closing.closings

    def wrong(*args: Any) -> Iterator[Close]:
        return (decision for decision in right(*args) if isinstance(decision, Close))

    return patch.object(closing, "closings", wrong)


def _windows_that_touch_are_two() -> AbstractContextManager[Any]:
    return patch.object(opening_hours, "_merged", list)


def _fresh(change: Callable[[], AbstractContextManager[Any]]) -> Any:
    """The change without what was computed before or under it."""

    def changed() -> AbstractContextManager[Any]:
        opening_hours._of_day.cache_clear()
        return change()

    return changed


GAP = "a_job_that_does_not_fit_the_window_waits"
MUTANTS = (
    Mutant("any job may be cut off", _replaced("loses", lambda _: False), world(GAP), HOURS),
    Mutant("no job may be cut off", _replaced("loses", lambda _: True), world(GAP), HOURS),
    Mutant(
        "a job is taken to run for no time",
        _replaced("may_run_for", lambda _: 0),
        world(GAP),
        HOURS,
    ),
    Mutant(
        "a pool keeps nothing out",
        lambda: patch.object(Closing, "keeps_out", lambda *_: False),
        world(GAP),
        HOURS,
    ),
    Mutant(
        "nothing stops when a pool closes",
        _replaced("_to_stop", lambda *_: []),
        world("a_pool_opens_and_closes"),
        HOURS,
    ),
    Mutant(
        "no pass wakes at a change",
        _replaced("closing_times", lambda *_: ()),
        world("a_pool_opens_and_closes"),
        HOURS,
    ),
    Mutant(
        "a gang stops in part",
        _replaced("_together", lambda jobs, *_: jobs),
        world("a_gang_stops_whole"),
        HOURS,
    ),
    Mutant(
        "a member that saves is looked at alone",
        lambda: patch.object(
            Closing, "keeps_out", lambda self, jobs, slots: closing._cut(
                self._pool, jobs[:1], slots, self._now, self._fixed
            ) is not None
        ),
        world("a_gang_stops_whole"),
        HOURS,
    ),
    Mutant(
        "claims outlive the window",
        _no_claim_is_given_up,
        world("claims_end_with_the_window"),
        HOURS,
    ),
    Mutant(
        "windows that touch are two",
        _fresh(_windows_that_touch_are_two),
        world("a_window_goes_on_over_midnight"),
        HOURS,
    ),
)  # fmt: skip
