"""A job's warnings, each told once. A slow save's has other numbers after each save: the first
counts."""

from __future__ import annotations

from collections.abc import Callable

from slotq.jobs.notices import Trouble, one_line
from slotq_core.model.reports.slow_save import SlowSave
from slotq_core.wire.views.jobs import JobView


class Warned:
    """Remembers what it has told."""

    def __init__(self, say: Callable[[str], object]) -> None:
        self._say = say
        self._told: set[tuple[str, str]] = set()

    def tell(self, job: JobView, *, submitted: bool = False) -> None:
        """Say the job's new warnings as trouble; those of its submission only where it is the
        answer to that."""
        codes = {job.slow_save.text: SlowSave.code} if job.slow_save else {}
        for warning in job.warnings if submitted else job.news:
            key = (job.name, codes.get(warning, warning))
            if key not in self._told:
                self._told.add(key)
                self._say(Trouble(f"{job.name}: warning: {one_line(warning)}"))
