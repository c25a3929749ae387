"""Broken variants of backfill where a pool drains. The worlds that show them are scenarios of
`tests/scenarios/drains`, by the policy alone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from slotq_core.model.demand import NOTHING, Demand
from slotq_core.policy.actions import backfill
from slotq_core.policy.actions.backfill import Backfill
from slotq_core.policy.actions.reserve import pool_to_drain
from slotq_core.policy.lifecycle.hours import runtimes
from slotq_core.policy.state.eligibility import Eligibility
from slotq_core.policy.turn import blocked
from tests.faults.hours_mutants import world
from tests.faults.mutants import Mutant

PASSING = "only jobs that cannot delay it pass a job that a pool drains for"

Change = Callable[[], AbstractContextManager[Any]]


def _answers(name: str, answer: Any) -> Change:
    return lambda: patch.object(Backfill, name, lambda *_, **__: answer)


def _moment(**wrong: Any) -> Change:
    right = Backfill._moment
    return lambda: patch.object(
        Backfill, "_moment", lambda *args, **kind: replace(right(*args, **kind), **wrong)
    )


def _replaced(name: str, value: Any) -> Change:
    return lambda: patch.object(backfill, name, value)


def _answers_of_limits() -> AbstractContextManager[Any]:
    return patch.object(Eligibility, "drain_is_outdated", lambda *_: False)


def _by_missing_slots() -> AbstractContextManager[Any]:
    return patch.object(
        blocked, "pool_to_drain", lambda job, rooms, _: pool_to_drain(job, rooms, None)
    )


SHORT = "a_short_job_passes_a_drain"
OVER = "what_a_drain_leaves_over"
EVICTED = "who_may_be_evicted_passes_a_drain"
PROTECTED = "a_protected_job_passes_no_near_drain"
UNBOUND = "nobody_passes_by_a_bound_beside_who_has_none"
NO_QUOTA = "who_could_not_be_taken_back_waits"
QUOTA = "work_beyond_a_quota_passes_a_drain"
LIMIT = "who_passes_a_drain_uses_up_no_limit"
FIRST = "the_pool_that_fits_first_drains"
MUTANTS = tuple(
    Mutant(name, change, world(scenario, "drains", PASSING), PASSING)
    for name, scenario, change in (
        ("any job passes by its bound", SHORT, _answers("_ends_before", True)),
        ("no job passes by its bound", SHORT, _answers("_ends_before", False)),
        ("a start takes no time", SHORT, lambda: patch.object(runtimes, "START", 0)),
        ("all is left over", OVER, _moment(left_over=Demand(slots=9))),
        ("nothing is left over", OVER, _moment(left_over=NOTHING)),
        ("a moment is named beside what has no bound", UNBOUND, _moment(named=True)),
        ("any job may be evicted then", EVICTED, _answers("_is_evicted_then", True)),
        ("no job may be evicted then", EVICTED, _answers("_is_evicted_then", False)),
        ("ranks do not matter", EVICTED, _replaced("outranks", lambda *_: True)),
        ("a moment may be near", EVICTED, _replaced("STARTS_AWAY", 0)),
        ("no protection counts", PROTECTED, _replaced("longest_protection", lambda *_: 0)),
        ("quotas do not matter", NO_QUOTA, _answers("_within_quota", True)),
        ("no job is ever within its quota", QUOTA, _answers("_within_quota", False)),
        ("limits may be used up", LIMIT, _answers_of_limits),
        ("the pool with fewest missing slots drains", FIRST, _by_missing_slots),
    )
)
