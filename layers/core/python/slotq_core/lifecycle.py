"""The legal transitions of a job: one table, which every state change obeys.

             ┌────────────── backoff ◄──────────────┐
             ▼                  ▲                   │
submit ─► pending ──────► starting ──► running ──► stopping
             ▲  preempted ─┘    │          │          │
             │     ▲            │          │          │
             │     └────────────┴──────────┴──────────┤ evicted: waits again
             └──────────── retry ─────────────────────┤
                                                      ▼
                               completed · failed · cancelled · stopped

Any job that has not ended may be cancelled. With scheduler settings, a waiting job also backs off
between attempts to start, and fails after the last.

A user may hold a job that waits or backs off (`held`). The job waits again when released. A job
whose project asks for approval begins as held, and a start that its project forbids ends in held.
So does a job whose script releases its slots too often without being asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

from slotq_core.errors import IllegalTransition
from slotq_core.model.jobs import ACTIVE_STATES, TERMINAL_STATES, WAITING_STATES, Job, JobState
from slotq_core.model.users import AUTO, AUTO_VALUE

T = TypeVar("T")
S = JobState

_ENDS = frozenset(TERMINAL_STATES)
_WAITS_AGAIN = frozenset({S.PENDING, S.PREEMPTED, S.BACKOFF})

BEGINNINGS = frozenset({S.PENDING, S.HELD})
"""The states of a new job."""

TRANSITIONS: Mapping[JobState, frozenset[JobState]] = {
    # With scheduler settings a job backs off between attempts to start, and finally fails.
    S.PENDING: frozenset({S.STARTING, S.BACKOFF, S.FAILED, S.CANCELLED, S.HELD}),
    S.PREEMPTED: frozenset({S.STARTING, S.BACKOFF, S.FAILED, S.CANCELLED, S.HELD}),
    S.BACKOFF: frozenset({S.PENDING, S.PREEMPTED, S.CANCELLED, S.HELD}),
    S.HELD: frozenset({S.PENDING, S.PREEMPTED, S.CANCELLED}),
    # A start can be refused (back-off, failed), forbidden by the project (held), overtaken by the
    # user, or end before anyone saw it run.
    S.STARTING: _ENDS | _WAITS_AGAIN | {S.RUNNING, S.STOPPING, S.HELD},
    # A script that releases its slots again and again is held.
    S.RUNNING: _ENDS | _WAITS_AGAIN | {S.STOPPING, S.HELD},
    # A stopping job still works and may complete: then it is completed.
    S.STOPPING: _ENDS | _WAITS_AGAIN,
    S.COMPLETED: frozenset(),
    S.FAILED: frozenset(),
    S.CANCELLED: frozenset(),
    S.STOPPED: frozenset(),
}


def check(before: Job | None, after: Job) -> None:
    """Refuse an illegal transition. A change within one non-terminal state is always legal.

    Raises IllegalTransition, which means a bug in the caller, never a user's mistake.
    """
    if before is None:
        if after.state not in BEGINNINGS:
            raise IllegalTransition(f"{after.name}: no job begins as {after.state}")
        return
    if before.state is after.state and not before.terminal:
        return
    if after.state not in TRANSITIONS[before.state]:
        raise IllegalTransition(
            f"{after.name}: {before.state} -> {after.state} is not a legal move"
        )


def move(job: Job, state: JobState, *, at: int, **fields: object) -> Job:
    """The job in its next state, with further fields changed. No other code changes a state.

    Fields that belong to a state end with it: the claim when the job stops waiting, `not_before`
    with the back-off, the attempt with the active states. An AUTO job loses its class when it waits
    again. Raises IllegalTransition.
    """
    kept: dict[str, object] = {"state": state, "changed_at": at, "cause": ""}
    if state not in WAITING_STATES:
        kept["claim"] = None
    if state is not S.BACKOFF:
        kept["not_before"] = None
    if state not in ACTIVE_STATES:
        kept["attempt"] = None
    if job.auto and state in _WAITS_AGAIN:
        kept |= {"priority": AUTO_VALUE, "priority_class": AUTO, "admitted_class": ""}
    after = copied(job, **(kept | fields))
    check(job, after)
    return after


def copied(value: T, /, **new: Any) -> T:
    """The value with some fields changed: `dataclasses.replace` in a third of the time, for a
    frozen dataclass with slots and without `__post_init__`. Raises KeyError for an unknown
    field."""
    kind: Any = type(value)
    old, puts = _fields_of(kind)
    copy: T = object.__new__(kind)
    for put, had in zip(puts.values(), old(value), strict=True):
        put(copy, had)
    for name, has in new.items():
        puts[name](copy, has)
    return copy


@cache
def _fields_of(
    kind: Any,
) -> tuple[Callable[[object], tuple[Any, ...]], dict[str, Callable[[object, object], None]]]:
    """A function that reads all fields of such a value, and a setter for each field."""
    names = [field.name for field in fields(kind)]
    read = attrgetter(*names) if len(names) > 1 else lambda value: (getattr(value, names[0]),)
    return read, {name: getattr(kind, name).__set__ for name in names}
