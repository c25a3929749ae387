"""Broken variants of the rules for reservations. The worlds that show them are small: the scenarios
of `tests/scenarios/reservations`, by the policy alone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from slotq_core.model.demand import NOTHING
from slotq_core.policy.lifecycle.hours import closing, reservations
from slotq_core.policy.state.eligibility import Eligibility
from slotq_core.policy.state.quotas.reservation_rights import ReservationRights
from slotq_core.policy.turn.gang_turn import GangTurn
from tests.faults.hours_mutants import world
from tests.faults.mutants import Hunt, Mutant

RESERVED = "reserved slots are there for their project"
Change = Callable[[], AbstractContextManager[Any]]


def _world(name: str) -> Hunt:
    return world(name, "reservations", RESERVED)


def _rights(name: str, value: Any) -> Change:
    return lambda: patch.object(ReservationRights, name, value)


def _clash(change: Callable[..., Any]) -> Change:
    """Replace what keeps jobs from reserved slots by a function of the right one and its
    arguments."""
    right = reservations.clash
    return lambda: patch.object(reservations, "clash", lambda *of: change(right, *of))


def _drains_hold_everybody_back() -> AbstractContextManager[Any]:
    right = Eligibility.closed_to

    def wrong(self: Eligibility, *of: Any) -> bool:
        with patch.object(ReservationRights, "cover", lambda *_: False):
            return right(self, *of)

    return patch.object(Eligibility, "closed_to", wrong)


def _only_what_runs_counts(self: ReservationRights, project: str, pool: str) -> int:
    return sum(job.demand.slots for job in self._rooms[pool].jobs.running(project))


def _in_all(rights: ReservationRights) -> list[dict[str, int]]:
    return [*rights._slots.values()]


def _with_every_right(right: Callable[..., None]) -> Callable[..., None]:
    return lambda self, rooms, now, _: right(self, rooms, now, frozenset())


AHEAD = "what_cannot_be_evicted_ends_before"
MUTANTS = (
    Mutant("nothing is kept out", _clash(lambda *_: None), _world(AHEAD), RESERVED),
    Mutant(
        "what may be evicted is kept out",
        _clash(
            lambda right, pool, jobs, *more: right(
                pool, [replace(job, preemptible=False) for job in jobs], *more
            )
        ),
        _world("nobody_is_evicted_for_idle_slots"),
        RESERVED,
    ),
    Mutant(
        "a stop takes no time",
        lambda: patch.object(reservations, "LONGEST_STOP", 0),
        _world(AHEAD),
        RESERVED,
    ),
    Mutant(
        "jobs there do not count",
        _clash(lambda right, pool, jobs, slots, begin, _: right(pool, jobs, slots, begin)),
        _world(AHEAD),
        RESERVED,
    ),
    Mutant(
        "use outside the queue does not count",
        _clash(lambda right, pool, *of: right(replace(pool, foreign=NOTHING), *of)),
        _world("use_outside_the_queue_counts"),
        RESERVED,
    ),
    Mutant(
        "no pass wakes when a reservation begins",
        lambda: patch.object(closing, "moments_of", lambda *_: ()),
        _world("reserved_slots_are_taken_for_waiting_jobs"),
        RESERVED,
    ),
    Mutant(
        "a reservation gives no right",
        _rights("cover", lambda *_: False),
        _world("reserved_slots_are_taken_for_waiting_jobs"),
        RESERVED,
    ),
    Mutant(
        "a right without end",
        _rights("cover", lambda self, job, pool: self.of(job.project, pool) > 0),
        _world("no_more_than_is_reserved"),
        RESERVED,
    ),
    Mutant(
        "slots coming free do not count",
        _rights("held", _only_what_runs_counts),
        _world("what_comes_free_counts"),
        RESERVED,
    ),
    Mutant(
        "a right in every pool",
        _rights(
            "of", lambda self, project, _: max(s.get(project, 0) for s in self._slots.values())
        ),
        _world("another_pool_is_not_reserved"),
        RESERVED,
    ),
    Mutant(
        "anybody gives to a reservation",
        _rights("may_give", lambda *_: True),
        _world("two_reservations_each_keep_theirs"),
        RESERVED,
    ),
    Mutant(
        "what is reserved is reclaimed",
        _rights("may_give", lambda *_: True),
        _world("a_reservation_protects_what_it_gave"),
        RESERVED,
    ),
    Mutant(
        "quotas do not bind beyond the end",
        _rights("cover_whole_run", ReservationRights.cover),
        _world("quotas_do_not_bind_on_reserved_slots"),
        RESERVED,
    ),
    Mutant(
        "quotas bind",
        _rights("cover_whole_run", lambda *_: False),
        _world("quotas_do_not_bind_on_reserved_slots"),
        RESERVED,
    ),
    Mutant(
        "a spent budget gives a right",
        lambda: patch.object(
            ReservationRights, "__init__", _with_every_right(ReservationRights.__init__)
        ),
        _world("a_spent_budget_gives_no_right"),
        RESERVED,
    ),
    Mutant(
        "drains hold everybody back",
        _drains_hold_everybody_back,
        _world("a_drain_of_others_does_not_hold_it_up"),
        RESERVED,
    ),
    Mutant(
        "a gang has no right",
        lambda: patch.object(GangTurn, "_on_reserved", lambda _: []),
        _world("a_gang_takes_reserved_slots"),
        RESERVED,
    ),
)
