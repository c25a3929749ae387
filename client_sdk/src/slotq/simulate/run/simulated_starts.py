"""Starts that take time on a virtual clock: an attempt has its slots and waits for instances."""

from __future__ import annotations

from collections.abc import Mapping

from slotq.simulate.run.agenda import Agenda, Due
from slotq_core.model.jobs import Job


class SimulatedStarts:
    """The attempts of a run that wait for their instances. Starts on warm instances take no time,
    nor do those on nodes."""

    def __init__(self, start_times: Mapping[str, int], agenda: Agenda) -> None:
        """`start_times`: how long a start takes (ms), by pool."""
        self._start_times, self._agenda = start_times, agenda
        self._ready_at: dict[str, tuple[int, int]] = {}
        """By job, the number of its attempt, and when (ms) that has its instances."""

    def waits(self, job: Job, now: int) -> bool:
        """Whether the job's attempt has yet to wait for its instances."""
        number, at = self._ready_at.get(job.name, (0, 0))
        return job.attempt is not None and job.attempt.number == number and now < at

    def start(self, job: Job, now: int) -> bool:
        """Let an accepted attempt wait for its instances. Returns whether it has to."""
        attempt = job.attempt
        if attempt is None or attempt.warm_from or attempt.node:
            return False
        at = attempt.admitted_at + max(self._start_times.get(pool, 0) for pool, _ in job.holds)
        if at <= now or self.waits(job, now):
            return at > now
        self._ready_at[job.name] = attempt.number, at
        self._agenda.put(at, Due.INSTANCES, job.name, attempt.number)
        return True
