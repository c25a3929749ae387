"""How far running jobs are, by their scripts' reports, for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from slotq_core.model.attempts import Attempt
from slotq_core.model.reports.report import Report
from slotq_core.operations.status import Status
from slotq_core.ports.scripts import Scripts
from slotq_core.ports.surroundings import Clock

KEPT = 5_000
"""How long (ms) a report, or that there was none, answers further requests of this process."""

_NEVER: tuple[int, Report | None] = (0, None)


class Progress:
    """Reports of running attempts, each read at most once in `KEPT`."""

    def __init__(self, scripts: Scripts, clock: Clock) -> None:
        self._scripts, self._clock = scripts, clock
        self._known: dict[str, tuple[int, Report | None]] = {}
        """When each was read, and what it said, by training job."""

    def of(self, statuses: Iterable[Status]) -> list[Status]:
        """The statuses, with the reports of those jobs that run. Never raises: without S3 nobody
        knows the progress, and that is all."""
        shown = list(statuses)
        attempts = [attempt for status in shown if (attempt := _running(status)) is not None]
        self._read(attempts)
        return [self._with_report(status) for status in shown]

    def _with_report(self, status: Status) -> Status:
        attempt = _running(status)
        read_at, report = self._known.get(attempt.training_job, _NEVER) if attempt else _NEVER
        if report is None or report.alive_at is None:
            return status
        return replace(status, report=report, eta=report.eta(read_at))

    def _read(self, attempts: Sequence[Attempt]) -> None:
        now = self._clock.now()
        self._known = {
            name: known for name, known in self._known.items() if 0 <= now - known[0] < KEPT
        }
        asked = [attempt for attempt in attempts if attempt.training_job not in self._known]
        found = self._scripts.reports(asked) if asked else {}
        for attempt in asked:
            self._known[attempt.training_job] = now, found.get(attempt.training_job)


def _running(status: Status) -> Attempt | None:
    attempt = status.job.attempt
    return attempt if attempt is not None and attempt.running_since is not None else None
