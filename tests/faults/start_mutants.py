"""Broken variants of the rules about what a start costs. The worlds that show them are small: the
scenarios of `tests/scenarios/starts`, by the policy alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from slotq.simulate import load, simulate
from slotq.simulate.report import differences
from slotq_core.model.pools import Pool
from slotq_core.policy.lifecycle import apply
from slotq_core.policy.state import candidates, pool_jobs
from slotq_core.policy.state.candidates import Candidate
from tests.faults.hours_mutants import Played, _Watch
from tests.faults.mutants import Hunt, Mutant
from tests.faults.promises import Broken

STARTS = "an eviction costs its victim's work and one start"
_WORLDS = Path(__file__).parents[1] / "scenarios" / "starts"


def world(name: str) -> Hunt:
    """The scenario of that name, with each expectation that does not hold."""

    def hunt() -> Iterator[Played]:
        scenario = load(_WORLDS / f"{name}.yaml")
        found = differences(scenario, simulate(scenario))
        yield Played(_Watch([Broken(STARTS, str(difference)) for difference in found]))

    return hunt


def _of(module: Any, name: str, value: Any) -> Callable[[], AbstractContextManager[Any]]:
    return lambda: patch.object(module, name, value)


def _auto(length: Callable[[Pool], int]) -> Callable[[], AbstractContextManager[Any]]:
    return lambda: patch.object(Pool, "auto_protection", property(length))


def _protects_while_it_starts(job: Any, pool: Pool, *others: Any) -> Any:
    if job.attempt is not None and job.attempt.running_since is None and pool.auto_protection:
        return True, None
    return candidates.protection(job, pool, *others)


def _protects_once_it_runs(job: Any, pool: Pool, *others: Any) -> Any:
    if job.attempt is not None and job.attempt.running_since is None:
        return False, None
    return candidates.protection(job, pool, *others)


PAID, AUTO = "who_paid_does_not_pay_again", "auto_protects_for_a_start"
WHOLE, POOLS = "whole_starts_are_compared", "the_pool_where_a_start_costs_less"
TEN = "auto_protects_for_ten_minutes_at_most"
MUTANTS = (
    Mutant(
        "a start costs nothing",
        _of(candidates, "_in_starts", lambda _, work, __: work),
        world(WHOLE),
        STARTS,
    ),
    Mutant(
        "costs are not rounded",
        _of(candidates, "_in_starts", lambda _, work, start: work + start),
        world(PAID),
        STARTS,
    ),
    Mutant(
        "starts are counted, whatever they take",
        _of(candidates, "_in_starts", lambda _, work, start: -(-(work + start) // max(1, start))),
        world(POOLS),
        STARTS,
    ),
    Mutant("who paid pays again", _of(candidates, "_lately", lambda *_: 0), world(PAID), STARTS),
    Mutant(
        "nobody notes who paid",
        _of(apply, "_with_eviction", lambda victim, _: victim.evicted_at),
        world(PAID),
        STARTS,
    ),
    Mutant(
        "sets are compared without evictions",
        _of(Candidate, "paid", 0),
        world(PAID),
        STARTS,
    ),
    Mutant("auto protects nobody", _auto(lambda _: 0), world(AUTO), STARTS),
    Mutant(
        "auto protects without an end",
        _auto(lambda pool: pool.health.start_time if pool.min_runtime < 0 else 0),
        world(TEN),
        STARTS,
    ),
    Mutant(
        "auto protects until the job runs",
        _of(pool_jobs, "protection", _protects_while_it_starts),
        world(TEN),
        STARTS,
    ),
    Mutant(
        "auto protects only what runs",
        _of(pool_jobs, "protection", _protects_once_it_runs),
        world(AUTO),
        STARTS,
    ),
    Mutant(
        "auto protects for ten minutes where no start is known",
        _auto(lambda pool: 600_000 if pool.min_runtime < 0 else 0),
        world("auto_without_data_protects_nobody"),
        STARTS,
    ),
)  # fmt: skip
