"""What the queue and training scripts tell each other, through the jobs' checkpoint locations."""

from __future__ import annotations

from typing import Protocol

from slotq_core.model.attempts import Attempt


class Scripts(Protocol):
    """The running training scripts. No method raises for what is wrong with a user's bucket, key or
    report: the queue then knows nothing of the script."""

    def ask(self, attempt: Attempt) -> bool:
        """Ask the attempt's script to save its work and to release its slots until the end of the
        grace (`StopOrder.grace_until`). May be repeated. False: the script cannot be asked, because
        there is no place for it to look or the queue may not write there."""


class NoScripts:
    """For queues that cannot reach a script."""

    def ask(self, _attempt: Attempt) -> bool:
        return False
