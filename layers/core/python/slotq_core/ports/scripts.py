"""What the queue and training scripts tell each other, through the jobs' checkpoint locations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from slotq_core.model.attempts import Attempt
from slotq_core.model.reports.report import Report


class Scripts(Protocol):
    """The running training scripts. No method raises for what is wrong with a user's bucket, key or
    report: the queue then knows nothing of the script."""

    def report(self, attempt: Attempt) -> Report | None:
        """What the attempt's script has reported last; an empty report if there is none. None: it
        cannot be read now, or is no report."""

    def reports(self, attempts: Sequence[Attempt]) -> Mapping[str, Report]:
        """The reports of several attempts by training job, read at once, in a few seconds at most.
        Those that cannot be read in this time are left out."""


class NoScripts:
    """For queues that never hear of a script."""

    def report(self, _attempt: Attempt) -> Report | None:
        return None

    def reports(self, _attempts: Sequence[Attempt]) -> Mapping[str, Report]:
        return {}
