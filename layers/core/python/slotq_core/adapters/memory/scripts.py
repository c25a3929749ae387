"""Training scripts in memory: what they have written, as bytes, and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slotq_core.adapters.scripts import report_in
from slotq_core.model.attempts import Attempt
from slotq_core.model.reports import Report
from slotq_core.ports.surroundings import Clock


class MemoryScripts:
    """The fake of `ports.Scripts`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._written: dict[str, tuple[bytes, int]] = {}
        self.reads = 0
        self.out_of_reach = False
        """Whether nothing can be read or written, as if S3 did not answer."""
        self.asked: list[str] = []
        """The training jobs whose scripts were asked to release, once for each time."""

    def ask(self, attempt: Attempt) -> bool:
        if self.out_of_reach or not attempt.checkpoints:
            return False
        self.asked.append(attempt.training_job)
        return True

    def write(self, training_job: str, content: bytes) -> None:
        """Write the attempt's report now, as its script would."""
        self._written[training_job] = content, self._clock.now()

    def report(self, attempt: Attempt) -> Report | None:
        if not attempt.checkpoints:
            return None
        self.reads += 1
        if self.out_of_reach:
            return None
        if attempt.training_job not in self._written:
            return Report()
        content, written = self._written[attempt.training_job]
        return report_in(content, attempt, latest=min(written, self._clock.now()))

    def reports(self, attempts: Sequence[Attempt]) -> Mapping[str, Report]:
        found = ((attempt.training_job, self.report(attempt)) for attempt in attempts)
        return {name: report for name, report in found if report is not None}
