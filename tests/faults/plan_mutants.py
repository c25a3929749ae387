"""Broken variants of the rules for pools of training plans. The worlds that show them are small:
the scenarios of `tests/scenarios/plans`, by the policy alone, and cases of
`tests/unit/test_plan_pools.py`, by the live queue."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from slotq.simulate import load, simulate
from slotq.simulate.report import differences
from slotq_core.adapters.sagemaker import service
from slotq_core.adapters.sagemaker.sagemaker_errors import CREATE
from slotq_core.admission.instances import capacity_kinds
from slotq_core.model.capacity.schedule import Schedule
from slotq_core.model.pools import Pool
from slotq_core.operations.attempts.observing import Observing
from slotq_core.operations.configuring import configurator
from slotq_core.operations.training_plans import looks
from slotq_core.wire.capacity import plan_windows
from tests.faults.hours_mutants import Played
from tests.faults.mutants import Hunt, Mutant
from tests.faults.promises import Broken
from tests.unit import test_plan_pools as live

PLANS = "jobs use a training plan while it is there, and lose nothing to it"
_WORLDS = Path(__file__).parents[1] / "scenarios" / "plans"


def world(name: str) -> Hunt:
    """The scenario of that name, with each expectation that does not hold."""

    def hunt() -> Iterator[Played]:
        scenario = load(_WORLDS / f"{name}.yaml")
        played = Played()
        found = differences(scenario, simulate(scenario))
        played.watch.broken += [Broken(PLANS, str(difference)) for difference in found]
        yield played

    return hunt


def case(test: Callable[[], None]) -> Hunt:
    """The test, whose failure is a broken promise."""

    def hunt() -> Iterator[Played]:
        played = Played()
        try:
            test()
        except AssertionError as error:
            played.watch.broken.append(Broken(PLANS, str(error)))
        yield played

    return hunt


def _replaced(module: Any, name: str, value: Any) -> Callable[[], AbstractContextManager[Any]]:
    return lambda: patch.object(module, name, value)


def _what_cannot_be_used_closes() -> AbstractContextManager[Any]:
    """A plan that is gone stops what runs there."""
    right = plan_windows.schedule_of

    def wrong(pool: Pool) -> Schedule:
        return tuple(replace(change, keeps=False) for change in right(pool))

    return patch.object(plan_windows, "schedule_of", wrong)


MUTANTS = (
    Mutant(
        "SageMaker leaves the last 30 minutes",
        _replaced(plan_windows, "LAST_PART", 0),
        world("jobs_that_save_suspend_before_the_end"),
        PLANS,
    ),
    Mutant(
        "windows that follow one another are two",
        _replaced(plan_windows, "_joined", list),
        world("an_extended_plan_goes_on"),
        PLANS,
    ),
    Mutant(
        "a plan is there between its windows",
        _replaced(
            plan_windows,
            "_joined",
            lambda found: [replace(found[0], ends=found[-1].ends)] if found else [],
        ),
        world("a_plan_with_a_gap"),
        PLANS,
    ),
    Mutant(
        "unhealthy instances count",
        lambda: patch.object(Pool, "size", Pool.offers),
        world("an_unhealthy_instance_shrinks_the_plan"),
        PLANS,
    ),
    Mutant(
        "a plan that is gone stops what runs",
        _what_cannot_be_used_closes,
        world("a_plan_that_disappears_ends_nothing"),
        PLANS,
    ),
    Mutant(
        "any plan can be used",
        _replaced(plan_windows, "fault_in", lambda *_: ""),
        world("a_plan_that_disappears_ends_nothing"),
        PLANS,
    ),
    Mutant(
        "others' use is free",
        _replaced(looks, "others_use", lambda *_: 0),
        case(live.test_what_others_use_of_the_plan_is_not_for_the_queue),
        PLANS,
    ),
    Mutant(
        "what the operator forgets includes the plan",
        _replaced(configurator, "forgotten", lambda health: type(health)()),
        case(live.test_what_an_operator_forgets_is_not_the_plan),
        PLANS,
    ),
    Mutant(
        "a plan's refusal ends the job",
        _replaced(service, "CREATE_IN_PLAN", CREATE),
        case(live.test_a_start_that_the_plan_refuses_goes_on_to_the_next_pool),
        PLANS,
    ),
    Mutant(
        "a stop with the plan is the user's",
        lambda: patch.object(Observing, "_with_plans_end", lambda _, job, __: job),
        case(live.test_a_job_that_sagemaker_stops_with_its_plan_waits_again),
        PLANS,
    ),
    Mutant(
        "a plan is taken without being asked for",
        _replaced(capacity_kinds, "_of_kind", lambda _, pools: [*pools]),
        case(lambda: live.test_a_request_means_the_pools_that_are_bought_as_it_says({}, ("p",))),
        PLANS,
    ),
)
