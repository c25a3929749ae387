"""Broken variants of the protection by quotas. The worlds that show them are scenarios of
`tests/scenarios/semi_preemptible`, by the policy alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from slotq_core.model.jobs import Job
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.actions.backfill import Backfill
from slotq_core.policy.state.quotas import in_quota
from slotq_core.policy.state.quotas.accounts import Accounts
from tests.faults.hours_mutants import world
from tests.faults.mutants import Mutant

PROTECTED = "a quota protects semi-preemptible jobs within it, and no others"

Change = Callable[[], AbstractContextManager[Any]]
Units = Sequence[list[Job]]


def _answers(answer: bool) -> Change:
    return lambda: patch.object(in_quota._Quotas, "hold", lambda *_: answer)


def _ordered(change: Callable[[Units], Units]) -> Change:
    right = in_quota._in_order
    return lambda: patch.object(in_quota, "_in_order", lambda *of: change(right(*of)))


def _seen(change: Callable[[Snapshot], Snapshot]) -> Change:
    """Let the quotas see another snapshot."""
    right = in_quota.in_quota
    return lambda: patch.object(in_quota, "in_quota", lambda seen, *of: right(change(seen), *of))


def _first_fit() -> AbstractContextManager[Any]:
    """What does not fit counts no more."""
    right = in_quota._Quotas.hold

    def wrong(self: in_quota._Quotas, places: Any) -> bool:
        held = self._held.copy()
        fits = right(self, places)
        if not fits:
            self._held = held
        return fits

    return patch.object(in_quota._Quotas, "hold", wrong)


def _no_budgets() -> AbstractContextManager[Any]:
    right = in_quota.in_quota
    return patch.object(in_quota, "in_quota", lambda seen, *_: right(seen))


def _is_not_fixed() -> AbstractContextManager[Any]:
    right = Accounts.__init__

    def wrong(self: Accounts, *of: Any, **more: Any) -> None:
        more.pop("may_evict")
        right(self, *of, **more)

    return patch.object(Accounts, "__init__", wrong)


def _all_as_preemptible(name: str) -> Change:
    """Let one rule take a semi-preemptible job for a preemptible one."""
    return lambda: patch.object(Job, name, property(lambda job: job.evictable))


STAYS = "within_its_quota_it_stays"
GIVES = "beyond_its_quota_it_gives_back"
GANG = "a_gang_within_its_quota_stays"
MUTANTS = tuple(
    Mutant(name, change, world(scenario, "semi_preemptible", PROTECTED), PROTECTED)
    for name, scenario, change in (
        ("no quota protects", STAYS, _answers(answer=False)),
        ("any quota protects", GIVES, _answers(answer=True)),
        ("the last start comes first", STAYS, _ordered(lambda units: [*reversed(units)])),
        (
            "members count one by one",
            GANG,
            _ordered(lambda units: [[job] for unit in units for job in unit]),
        ),
        ("a smaller job fills the gap", "a_larger_one_before_it_takes_the_quota", _first_fit),
        (
            "work that is never evicted takes no quota",
            "work_that_is_never_evicted_comes_first",
            _seen(
                lambda seen: replace(
                    seen, active=tuple(job for job in seen.active if job.evictable)
                )
            ),
        ),
        ("a spent budget protects", "a_soft_budget_ends_the_protection", _no_budgets),
        ("protection takes no quota", "work_that_is_never_evicted_waits_for_it", _is_not_fixed),
        (
            "it passes drains",
            "it_passes_no_drain_that_it_might_outlast",
            _all_as_preemptible("always_evictable"),
        ),
        (
            "it may take the quota of who is drained for",
            "it_takes_no_quota_from_who_is_drained_for",
            lambda: patch.object(Backfill, "_might_take_quota", lambda *_: False),
        ),
        (
            "it keeps out of no reservation",
            "it_keeps_out_of_slots_reserved_for_others",
            _all_as_preemptible("always_evictable"),
        ),
    )
)
