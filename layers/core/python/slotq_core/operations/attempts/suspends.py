"""Ask the scripts of evicted jobs to release their slots, and decide when a grace is over.

First the order to stop, with the end of the grace, is stored. Then the marker is written, then a
pass is requested for the end of the grace. All steps may be repeated: a later handler asks again if
the first may have died, and any pass after the grace stops a job that has not released its slots.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from slotq_core.errors import NoSuchJob, NotUnderstood
from slotq_core.model.attempts import Attempt, StopOrder
from slotq_core.model.jobs import Job
from slotq_core.policy.lifecycle.suspend import grace_ends
from slotq_core.ports.jobs import StoredJobs
from slotq_core.ports.scripts import Scripts
from slotq_core.ports.surroundings import LONGEST_DELAY, Clock, Notifier
from slotq_core.timestamps import FAR_OFF


class Suspends:
    """Asked suspends, and what this process remembers of them."""

    def __init__(
        self, jobs: StoredJobs, scripts: Scripts, notifier: Notifier, clock: Clock
    ) -> None:
        self._jobs = jobs
        self._scripts = scripts
        self._notifier = notifier
        self._clock = clock
        self._asked: dict[str, int] = {}
        """By training job the end of the grace (ms), for each script that this process has
        asked."""
        self._wakes: set[int] = set()
        """The moments (ms) for which this process has asked for a pass."""

    def in_grace(
        self, job: Job, attempt: Attempt, *, ask: Callable[[], bool] | None = None
    ) -> bool:
        """Whether to wait for the script to release the slots. Asks the script, unless this process
        has. False: stop the attempt now. `ask`: how to ask; None: by the script's marker."""
        until = grace_ends(job)
        if until is None or self._is_over(until):
            return False
        if self.has_asked(job):
            return True
        if not (ask() if ask else self._scripts.ask(self._placed(job, attempt))):
            return False
        self._remember(attempt.training_job, until)
        return True

    def is_over(self, job: Job) -> bool:
        """Whether the job's grace is over, and the queue has not called StopTrainingJob yet."""
        until = grace_ends(job)
        return until is not None and self._is_over(until)

    def has_asked(self, job: Job) -> bool:
        """Whether this process has asked the script of the live attempt, for its present grace."""
        until, name = grace_ends(job), job.attempt.training_job if job.attempt else ""
        return until is not None and self._asked.get(name) == until

    def _is_over(self, until: int) -> bool:
        """Whether a grace is over, or ends at a moment that a wrong clock has set."""
        now = self._clock.now()
        return not now < until <= now + LONGEST_DELAY + FAR_OFF

    def _remember(self, training_job: str, until: int) -> None:
        now = self._clock.now()
        self._asked = {name: end for name, end in self._asked.items() if end > now}
        self._wakes = {at for at in self._wakes if at > now}
        self._asked[training_job] = until
        at = -(-until // 1000) * 1000  # One request serves all graces that end within a second.
        if at not in self._wakes:
            self._wakes.add(at)
            self._notifier.wake_at(at)

    def _placed(self, job: Job, attempt: Attempt) -> Attempt:
        """The attempt with its checkpoint location. An earlier version did not store this while the
        attempt ran."""
        if attempt.checkpoints:
            return attempt
        try:
            config = self._jobs.request(job.name).get("CheckpointConfig") or {}
        except (NoSuchJob, NotUnderstood):
            return attempt
        place = config.get("S3Uri") if isinstance(config, dict) else None
        return replace(attempt, checkpoints=place) if isinstance(place, str) else attempt


def intent_at(order: StopOrder) -> int:
    """When (ms) the call of StopTrainingJob was due."""
    return order.at if order.grace_until is None else order.grace_until
