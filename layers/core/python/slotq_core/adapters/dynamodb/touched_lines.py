"""The lines that this process touched lately, so that a submission to one of them saves a call.

A touch keeps a line from being removed: a pass removes one that it finds empty and untouched for
`loading.LINE_KEPT`, an hour. A submission that relies on a touch of at most KEPT_FOR commits within
a minute of it, so long before any pass may remove the line. The clocks of both sides may differ by
the rest of the hour.
"""

from __future__ import annotations

from slotq_core.model.jobs import Job
from slotq_core.policy.lines import line_of

KEPT_FOR = 600_000
"""How long a touch saves the next one (ms): far less than `loading.LINE_KEPT`."""

MOST_KEPT = 10_000
"""Most lines that are remembered, some megabytes of names. When there are more, all are forgotten:
each costs one call again."""


class TouchedLines:
    """By line, when a submission of this process touched it last, by the submission's own clock."""

    def __init__(self) -> None:
        self._at: dict[str, int] = {}

    def lately(self, job: Job) -> bool:
        """Whether the line of a new job was touched within KEPT_FOR before it entered."""
        touched = self._at.get(line_of(job))
        return touched is not None and 0 <= job.entry_time - touched < KEPT_FOR

    def note(self, job: Job) -> None:
        if len(self._at) >= MOST_KEPT:
            self._at.clear()
        self._at[line_of(job)] = job.entry_time
