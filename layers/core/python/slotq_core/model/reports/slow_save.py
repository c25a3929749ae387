"""A save that takes longer than the time an eviction leaves it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slotq_core.model.attempts import Attempt, StopCause

STOP_GRACE = 120_000
"""How long SageMaker waits between SIGTERM and SIGKILL (ms)."""
_SPARE = 3_000
"""How much longer a `suspend_grace` should be than a save (ms): a script looks for the marker every
two seconds."""
_EVICTIONS = frozenset({StopCause.EVICTED, StopCause.YIELDED, StopCause.REQUEUED})


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
