"""The legal transitions of a job: one table, read by everything that changes a state.

             ┌────────────── backoff ◄──────────────┐
             ▼                  ▲                   │
submit ─► pending ──────► starting ──► running ──► stopping
             ▲  preempted ─┘    │          │          │
             │     ▲            │          │          │
             │     └────────────┴──────────┴──────────┤ evicted: waits again
             └──────────── retry ─────────────────────┤
                                                      ▼
                               completed · failed · cancelled · stopped

Whatever has not ended may be cancelled. Where there are scheduler settings, a job that waits also
backs off between attempts to start it, and fails after the last.

Whatever waits can be `held` by its user, and waits again when it is released.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from slotq_core.errors import IllegalTransition
from slotq_core.model.jobs import ACTIVE_STATES, TERMINAL_STATES, WAITING_STATES, Job, JobState
from slotq_core.model.users import AUTO, AUTO_VALUE

S = JobState

_ENDS = frozenset(TERMINAL_STATES)
_WAITS_AGAIN = frozenset({S.PENDING, S.PREEMPTED, S.BACKOFF})

TRANSITIONS: Mapping[JobState, frozenset[JobState]] = {
    # With scheduler settings a job backs off between attempts to start it, and is given up at last.
    S.PENDING: frozenset({S.STARTING, S.BACKOFF, S.FAILED, S.CANCELLED, S.HELD}),
    S.PREEMPTED: frozenset({S.STARTING, S.BACKOFF, S.FAILED, S.CANCELLED, S.HELD}),
    S.BACKOFF: frozenset({S.PENDING, S.PREEMPTED, S.CANCELLED, S.HELD}),
    S.HELD: frozenset({S.PENDING, S.PREEMPTED, S.CANCELLED}),
    # A start can be refused (back-off, failed), overtaken by the user, or end before it was seen
    # running.
    S.STARTING: _ENDS | _WAITS_AGAIN | {S.RUNNING, S.STOPPING},
    S.RUNNING: _ENDS | _WAITS_AGAIN | {S.STOPPING},
    # Work goes on while a job is stopping, and may complete: then it is completed.
    S.STOPPING: _ENDS | _WAITS_AGAIN,
    S.COMPLETED: frozenset(),
    S.FAILED: frozenset(),
    S.CANCELLED: frozenset(),
    S.STOPPED: frozenset(),
}


def check(before: Job | None, after: Job) -> None:
    """Refuse a change that no rule allows; a change within one state is always allowed.

    Raises IllegalTransition, which is a bug in the caller and never a user's mistake.
    """
    if before is None:
        if after.state is not S.PENDING:
            raise IllegalTransition(f"{after.name}: a job begins as pending, not {after.state}")
        return
    if before.state is after.state and not before.terminal:
        return
    if after.state not in TRANSITIONS[before.state]:
        raise IllegalTransition(
            f"{after.name}: {before.state} -> {after.state} is not a legal move"
        )


def move(job: Job, state: JobState, *, at: int, **fields: object) -> Job:
    """The job in its next state, with further fields changed; the only way a state changes.

    What belongs to one kind of state goes with it: a claim ends when the job stops waiting, a
    back-off's time with the back-off, the live attempt with the active states, and with them an
    AUTO job's class. Raises IllegalTransition.
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
    after: Job = replace(job, **(kept | fields))  # type: ignore[arg-type]
    check(job, after)
    return after
