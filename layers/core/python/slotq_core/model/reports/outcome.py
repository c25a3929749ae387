"""What an ended attempt keeps and loses, by the last report of its script."""

from __future__ import annotations

from dataclasses import replace

from slotq_core.model.attempts import Attempt, AttemptOutcome, StopOrder
from slotq_core.model.reports.report import Report
from slotq_core.timestamps import iso, lasting

MAY_GO_ON = frozenset({AttemptOutcome.EVICTED, AttemptOutcome.RELEASED, AttemptOutcome.STALLED})
"""After these outcomes the job may go on, and its report tells where."""

_RECENT = 60_000
"""A save so shortly before the stop (ms) loses nothing to speak of."""


def with_report(attempt: Attempt, report: Report) -> Attempt:
    """The ended attempt with what its script last reported. Moments after its end count as its
    end."""
    assert attempt.ended_at is not None
    after = replace(
        attempt,
        reported=attempt.reported or report.alive_at is not None,
        step=report.step,
        steps=report.of,
        warning=unreleased(report, attempt.stop, attempt.ended_at),
    )
    if report.saved is None:
        return after
    at = min(report.saved.at, attempt.ended_at)
    saved = report.saved
    return replace(after, checkpoint_at=at, saved_step=saved.step, save_took=saved.took)


def unreleased(report: Report, stop: StopOrder | None, ended_at: int) -> str:
    """Warn of a script that acknowledged the queue's request to suspend and never released; else
    empty. A signal or a status reaches a script only after the stop, when nobody need release."""
    suspend = report.suspend
    if stop is None or suspend is None or not suspend.marked:
        return ""
    if suspend.acknowledged_at is None or suspend.released_at is not None:
        return ""
    held = lasting(ended_at - suspend.acknowledged_at)
    return (
        f"its script acknowledged the request to suspend at {iso(suspend.acknowledged_at)} and "
        f"never released: it held its slots for {held} more"
    )


def resumption(attempt: Attempt) -> str:
    """Where the job goes on after an attempt that the queue stopped, and what it loses; empty for
    other attempts and for those that never ran. An attempt that reported no checkpoint may have
    saved some all the same, if it had a place for them: its work since the start is the most that
    it can lose."""
    ran_from, ended = attempt.running_since, attempt.ended_at
    if attempt.outcome not in MAY_GO_ON or ran_from is None or ended is None:
        return ""
    if attempt.checkpoint_at is None:
        work = f"{lasting(ended - ran_from)} of work"
        if attempt.checkpoints:
            return f"loses up to {work}: it reported no checkpoint"
        return f"loses {work}: it has no CheckpointConfig"
    ago = max(0, ended - attempt.checkpoint_at)
    step = attempt.saved_step
    place = "its last checkpoint" if step is None else f"step {step:,}"
    if ago < _RECENT:
        return f"resumes from {place}, saved {lasting(ago)} before the stop"
    return f"resumes from {place} and loses {lasting(ago)} of work"
