"""Messages between the queue and training scripts, through the jobs' checkpoint locations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from slotq_core.model.attempts import Attempt
from slotq_core.model.reports import Report


class Scripts(Protocol):
    """The running training scripts. Methods do not raise for faults of a user's bucket, key or
    report: the queue then knows nothing of the script."""

    def ask(self, attempt: Attempt) -> bool:
        """Ask the attempt's script to save its work and to release its slots until the end of the
        grace (`StopOrder.grace_until`). May be repeated. False: the script cannot be asked, because
        there is no place for it to look or the queue may not write there."""

    def report(self, attempt: Attempt) -> Report | None:
        """The latest report of the attempt's script; an empty report if none exists. None: it
        cannot be read now, or is invalid."""

    def reports(self, attempts: Sequence[Attempt]) -> Mapping[str, Report]:
        """The reports of several attempts by training job, read at once, in a few seconds at most.
        Those that cannot be read in this time are left out."""


class NoScripts:
    """For queues without reports of scripts."""

    def report(self, _attempt: Attempt) -> Report | None:
        return None

    def reports(self, _attempts: Sequence[Attempt]) -> Mapping[str, Report]:
        return {}

    def ask(self, _attempt: Attempt) -> bool:
        return False
