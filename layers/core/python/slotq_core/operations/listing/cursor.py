"""Where a page of jobs begins, and how many jobs one answer holds: Lambda answers with at most 6
MB.

A cursor names only a job that the previous page has shown. Where a page ends among jobs that the
caller may not see, the cursor contains a time.

Most jobs take about a kilobyte. One that comes after others names them several times.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Self

from slotq_core import names
from slotq_core.errors import InvalidRequest
from slotq_core.model.attempts import Attempt
from slotq_core.model.jobs import Job, JobState
from slotq_core.operations.status import JobFilter, Status
from slotq_core.ports.stored import Mark
from slotq_core.timestamps import from_iso, iso

_CURSOR = re.compile(r"([0-9a-f]{8})~([a-z]{1,20})~([0-9TZ:.-]{24})~([0-9A-Za-z-]{0,63})")


def question_of(states: Iterable[JobState] | None, wanted: JobFilter) -> str:
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
        """The cursor, in the API's form."""
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


MOST_ANSWER = 1_000_000
"""The most bytes of one page of any answer."""

MOST_TEXT = 2_000_000
"""About how many characters an answer has at most of what only some jobs have."""

_OF_A_REPORT = 2_000
_OF_A_METRIC = 25
_OF_AN_ATTEMPT = 1_000


def text_of(job: Job) -> int:
    """About how many characters an answer has of the job, besides what it has of every job."""
    named = sum(len(name) + 4 for name in (*job.depends_on, *job.waits_for))
    metrics = sum(len(name) + _OF_A_METRIC for name, _ in job.metrics)
    report = _OF_A_REPORT if job.active and job.reports else 0
    return 2 * named + len(json.dumps(job.message)) + metrics + report


def text_of_attempt(attempt: Attempt) -> int:
    """About how many characters an answer has of the attempt."""
    texts = (attempt.message, attempt.warning, attempt.artifact, attempt.checkpoints)
    return _OF_AN_ATTEMPT + len(json.dumps(texts))


def fitting(found: Sequence[Status], limit: int) -> list[Status]:
    """Return the first of these, at most `limit`, that fit into one answer."""
    texts = (
        text_of(status.job) + sum(map(text_of_attempt, status.attempts)) for status in found[:limit]
    )
    before = accumulate(texts, initial=0)
    return [status for status, text in zip(found[:limit], before, strict=False) if text < MOST_TEXT]
