"""The record of an ended attempt's use: the rule that every store applies."""

from __future__ import annotations

from dataclasses import dataclass

from slotq_core.ports.stored import Change
from slotq_core.timestamps import iso
from slotq_core.usage.attempt_use import AttemptUse, use_of
from slotq_core.usage.calendar_days import DAY, day_of

LEAST_KEPT = 7 * DAY
"""The least time (ms) for which a record is kept, however short the history is: until its day is
summed up, even if the ticks have failed for days."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EndedRecord:
    """The record that a change makes."""

    day: str
    """The day on which the end was recorded. SageMaker may have ended the training job before."""
    position: str
    """Unique, in the order of recording."""
    use: AttemptUse
    expires_at: int
    """When the record may be removed, in whole SECONDS since the epoch."""


def record_of(change: Change, history: int) -> EndedRecord | None:
    """The record for a change that ends an attempt; None for any other change. `history`: how long
    ended jobs are kept (ms)."""
    if change.ended is None:
        return None
    recorded_at, use = change.after.changed_at, use_of(change.before, change.ended)
    return EndedRecord(
        day=day_of(recorded_at),
        position=f"{iso(recorded_at)}#{use.job}#{use.number:04d}",
        use=use,
        expires_at=-((recorded_at + max(history, LEAST_KEPT)) // -1000),
    )
