"""Where a page of jobs begins.

A cursor names only a job that the page before has shown. Where a page ends among jobs that the
caller may not see, the cursor tells a moment.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from slotq_core import names
from slotq_core.errors import InvalidRequest
from slotq_core.model.jobs import Job, JobState
from slotq_core.operations.status import Wanted
from slotq_core.ports.stored import Mark
from slotq_core.timestamps import from_iso, iso

_CURSOR = re.compile(r"([0-9a-f]{8})~([a-z]{1,20})~([0-9TZ:.-]{24})~([0-9A-Za-z-]{0,63})")


def question_of(states: Iterable[JobState] | None, wanted: Wanted) -> str:
    """A digest of what a list is asked for. The pages of another list go in another order."""
    asked = sorted(states) if states is not None else ["any"]
    filters = (
        sorted(wanted.projects) if wanted.projects is not None else None,
        wanted.submitter,
        wanted.pool,
        wanted.since,
        wanted.until,
    )
    return hashlib.sha256(repr((asked, filters)).encode()).hexdigest()[:8]


@dataclass(frozen=True, kw_only=True, slots=True)
class ListCursor:
    """How far the pages of one list have come."""

    question: str
    """What the list is asked for (`question_of`)."""
    state: JobState
    mark: Mark

    @classmethod
    def behind(cls, job: Job, *, question: str) -> Self:
        """The cursor of a page that ends with this job."""
        mark = Mark(entry_time=job.entry_time, name=job.name)
        return cls(question=question, state=job.state, mark=mark)

    def text(self) -> str:
        """The cursor as the API tells it."""
        return f"{self.question}~{self.state}~{iso(self.mark.entry_time)}~{self.mark.name}"

    @classmethod
    def parse(cls, text: str, *, question: str) -> Self:
        """Raises InvalidRequest if no page has answered this, or only one of another list."""
        found = _CURSOR.fullmatch(text)
        moment = _moment(found[3]) if found else None
        if (
            found is None
            or moment is None
            or found[2] not in tuple(JobState)
            or not (found[4] == "" or names.is_legal(found[4]))
        ):
            raise InvalidRequest("next takes what the page before answered as next", field="next")
        if found[1] != question:
            raise InvalidRequest(
                "next belongs to another list: repeat the states and filters of the page before",
                field="next",
            )
        mark = Mark(entry_time=moment, name=found[4])
        return cls(question=question, state=JobState(found[2]), mark=mark)


def _moment(text: str) -> int | None:
    """The moment (ms); None unless `iso` wrote the text."""
    try:
        moment = from_iso(text)
        return moment if iso(moment) == text else None
    except (ValueError, TypeError, OverflowError):
        return None
