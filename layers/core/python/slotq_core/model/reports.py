"""A training script's report of its attempt, and the outcome that the queue keeps of it; and the
warning of a save that takes longer than the time an eviction leaves it.

A report is untrusted input: it affects no other job, and the queue keeps only the fields below.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from slotq_core.model.attempts import Attempt, AttemptOutcome, StopCause, StopOrder
from slotq_core.timestamps import iso, lasting

MOST_STEPS = 10**15
"""The largest step that counts."""
MOST_METRICS = 20
LONGEST_TEXT = 64
"""The most characters of a metric's name, and of a metric that is a text."""

LONGEST_METRIC = 255
"""The most characters of a metric's name in SageMaker."""

MOST_FINAL = 60
"""The most final metrics of a job: SageMaker's 40, and those that its script reports."""

LARGEST_VALUE = 1e100
"""The largest absolute value of a final metric. Larger values are ignored."""

Metric = int | float | str
"""A finite number, or a printable text, such as `nan`."""

SILENT_FOR = 600_000
"""Without a step for this time (ms), and for three usual steps, the job's end is unknown."""

LONGEST_ETA = 10 * 365 * 86_400_000
"""A longer time to the end (ms) is not known: a step has taken far too long."""


def final_metrics(metrics: Mapping[str, object]) -> dict[str, float]:
    """The metrics that are numbers, of a size that can be kept."""
    return {
        name[:LONGEST_METRIC]: float(value)
        for name, value in metrics.items()
        if isinstance(value, int | float)
        and not isinstance(value, bool)
        and -LARGEST_VALUE <= value <= LARGEST_VALUE
        and (value == 0 or abs(value) >= 1 / LARGEST_VALUE)
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class Saved:
    """The last checkpoint that the script says it has saved."""

    step: int | None = None
    at: int
    """When the save was complete (ms)."""
    took: int | None = None
    """How long the save took (ms)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SuspendSeen:
    """The script's answer to a request to suspend. Moments are in ms."""

    marked: bool
    """Whether the queue's marker made the request. Otherwise it was a signal or the training job's
    status, after the stop: then no script releases."""
    acknowledged_at: int | None = None
    released_at: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """The script's report of one attempt. Its moments lie within the attempt's time: in the future
    of neither the queue nor S3."""

    step: int | None = None
    """Steps done; None: the script has reported none."""
    of: int | None = None
    """How many there are; None: unknown."""
    at: int | None = None
    """When the script reported that step (ms); set if and only if the step is."""
    began_step: int | None = None
    """The first step that this attempt reported; None: not reported."""
    began_at: int | None = None
    """When the attempt reported its first step (ms)."""
    saved: Saved | None = None
    suspend: SuspendSeen | None = None
    metrics: Mapping[str, Metric] = field(default_factory=dict)

    @property
    def alive_at(self) -> int | None:
        """The last sign of life (ms): a step or a save. None: none yet."""
        signs = [self.at, self.saved.at if self.saved else None]
        return max((at for at in signs if at is not None), default=None)

    def eta(self, now: int) -> int | None:
        """The time (ms) until the last step at the pace of this attempt, its first step excluded.
        The pace of earlier attempts does not count. None: unknown."""
        if self.step is None or self.of is None or self.at is None:
            return None
        if self.step >= self.of:
            return 0
        if self.began_step is None or self.began_at is None:
            return None
        steps, took = self.step - self.began_step, self.at - self.began_at
        silent = max(0, now - self.at)
        if steps <= 0 or took <= 0 or silent > max(SILENT_FOR, 3 * took // steps):
            return None
        left = max(0, (self.of - self.step) * took // steps - silent)
        return left if left <= LONGEST_ETA else None


MAY_GO_ON = frozenset({AttemptOutcome.EVICTED, AttemptOutcome.RELEASED, AttemptOutcome.STALLED})
"""After these outcomes the job may go on, from the step in its report."""

_RECENT = 60_000
"""A save so shortly before the stop (ms) loses nothing to speak of."""


def with_report(attempt: Attempt, report: Report) -> Attempt:
    """The ended attempt with its last report. Moments after the end are set to the end."""
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
    """A warning if the script acknowledged the queue's request to suspend and never released; else
    empty. A signal or a status reaches a script only after the stop, when no release is needed."""
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
    """The step where the job goes on after the queue stopped an attempt, and the work lost; empty
    for other attempts and for those that never ran. An attempt that reported no checkpoint may
    still have saved some if it had a place for them: the work since its start is an upper bound."""
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


STOP_GRACE = 120_000
"""How long SageMaker waits between SIGTERM and SIGKILL (ms)."""
_SPARE = 3_000
"""How much longer a `suspend_grace` should be than a save (ms): a script looks for the marker every
two seconds."""
_EVICTIONS = frozenset({StopCause.EVICTED, StopCause.YIELDED, StopCause.CLOSED, StopCause.REQUEUED})


@dataclass(frozen=True, kw_only=True, slots=True)
class SlowSave:
    """The last save of an attempt took longer than its pool's `suspend_grace`; where the pool has
    none, longer than SageMaker's stop leaves."""

    code: ClassVar[str] = "slow_save"
    took: int
    """How long the save took (ms)."""
    grace: int
    """The pool's `suspend_grace` (ms); 0: the pool stops a job at once."""

    @property
    def is_lost(self) -> bool:
        """Whether such a save is not complete when SageMaker kills the script."""
        return self.took > self.grace + STOP_GRACE

    def sentence(self) -> str:
        """The warning, with its numbers and what to do."""
        stop, took = _seconds(STOP_GRACE), _seconds(self.took)
        asked = (
            f"its pool waits only {_seconds(self.grace)} between asking a job to suspend and "
            f"stopping it, and a stopped script is killed after {stop}"
            if self.grace
            else f"an eviction kills the script {stop} after it stops it (its pool has no "
            "suspend_grace)"
        )
        then = (
            "such a save is lost, and with it the work since the one before"
            if self.is_lost
            else "such a save ends in that time only if the script outlives SIGTERM"
        )
        return (
            f"its last save took {took}: {asked}; {then}. Save less, or asynchronously "
            f"(background=True), or ask for a suspend_grace of {_seconds(self.took + _SPARE)}"
        )


def slow_save(took: int | None, grace: int) -> SlowSave | None:
    """The save that took so long (ms), if that is too long in a pool with this `suspend_grace`
    (ms)."""
    if took is None or took <= (grace or STOP_GRACE):
        return None
    return SlowSave(took=took, grace=grace)


def slow_save_of(attempt: Attempt) -> SlowSave | None:
    """The last save of an ended attempt that was evicted, if that took too long."""
    stop = attempt.stop
    if attempt.ended_at is None or stop is None or stop.cause not in _EVICTIONS:
        return None
    grace = 0 if stop.grace_until is None else stop.grace_until - stop.at
    return slow_save(attempt.save_took, grace)


def _seconds(duration: int) -> str:
    whole = duration / 1000
    return f"{whole:,.0f} s" if whole >= 10 else f"{whole:.1f} s"
