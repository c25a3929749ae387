"""Lists of jobs in pages. The cost of a page grows with the page, not with the queue. Lambda
answers with at most 6 MB, so a page also ends where its text gets long.

The pages go through the states: first jobs that hold slots, then those that wait, then those that
wait for a time or are held, then the ended ones. Within a state the earliest entry comes first, of
ended jobs the latest. A job that changes its state between two pages may be in both or in neither.

A cursor names only a job that the previous page has shown. Where a page ends among jobs that the
caller may not see, the cursor contains a time.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Self

from slotq_core import names
from slotq_core.errors import InvalidRequest
from slotq_core.model.attempts import Attempt
from slotq_core.model.jobs import WAITING_STATES, Job, JobState
from slotq_core.operations.status import MOST_LOOKED_AT, JobFilter, Status
from slotq_core.ports.jobs import StoredJobs
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
            or not (found[4] == "" or names.is_job(found[4]))
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


S = JobState
ORDER = (S.RUNNING, S.STARTING, S.STOPPING, S.PREEMPTED, S.PENDING, S.BACKOFF, S.HELD)
ENDED = (S.COMPLETED, S.FAILED, S.CANCELLED, S.STOPPED)


@dataclass(frozen=True, kw_only=True, slots=True)
class JobPage:
    """The jobs of one page."""

    jobs: tuple[Job, ...]
    """At most as many as asked for. Fewer, even none, while `next` is given: most jobs that were
    examined are others."""
    next: ListCursor | None
    """Where the next page begins; None: this is the last page."""
    waiting: tuple[Job, ...] | None
    """Every waiting job of the queue; None: the page need not have seen all of them."""
    examined: int
    """How many jobs were read and looked at."""


class Walk:
    """The reading of one page."""

    def __init__(
        self,
        jobs: StoredJobs,
        states: Collection[JobState] | None,
        wanted: JobFilter,
        is_shown: Callable[[Job], bool],
    ) -> None:
        """`is_shown`: whether the caller wants the job and may see it."""
        self._jobs, self._wanted, self._is_shown = jobs, wanted, is_shown
        self._question = question_of(states, wanted)
        asked = set(JobState if states is None else states)
        self._states = [state for state in (*ORDER, *ENDED) if state in asked]
        self._in_projects: tuple[Job, ...] | None = None
        self._lines_asked = False

    def page(self, limit: int, after: ListCursor | None) -> JobPage:
        """Read one page of at most `limit` jobs, or of about MOST_TEXT. It examines at most
        MOST_LOOKED_AT, and the rest of those that entered at the last one's moment.

        The first read includes the cursor's job and two jobs behind the page: one shows whether
        more exist, the other whether the first is alone at its entry time.
        """
        shown: list[Job] = []
        examined: list[Job] = []
        text = 0
        for job in self._behind(after, at_once=limit + 3):
            previous = examined[-1] if examined else None
            if previous and len(examined) >= MOST_LOOKED_AT and not _together(previous, job):
                return self._stopped(shown, self._cursor(previous, name=""), len(examined))
            examined.append(job)
            if self._is_shown(job):
                if len(shown) == limit or text >= MOST_TEXT:
                    end = self._cursor(shown[-1], name=shown[-1].name)
                    return self._stopped(shown, end, len(examined))
                shown.append(job)
                text += text_of(job)
        every = (
            after is None
            and self._wanted.projects is None
            and WAITING_STATES.issubset(self._states)
        )
        waiting = tuple(job for job in examined if job.waits) if every else None
        return JobPage(jobs=tuple(shown), next=None, waiting=waiting, examined=len(examined))

    def _behind(self, after: ListCursor | None, *, at_once: int) -> Iterator[Job]:
        """The jobs of the states behind the cursor, in the order of the pages."""
        order = (*ORDER, *ENDED)
        begin = order.index(after.state) if after else 0
        for state in self._states:
            if order.index(state) >= begin:
                mark = after.mark if after and after.state is state else None
                yield from self._of_state(state, mark, at_once)

    def _of_state(self, state: JobState, mark: Mark | None, at_once: int) -> Iterator[Job]:
        projects = self._wanted.projects
        if projects is not None and state in WAITING_STATES:
            waiting = self._waiting_in(projects)
            if waiting is not None:
                found = [job for job in waiting if job.state is state]
                found.sort(key=lambda job: (job.entry_time, job.name))
                return (job for job in found if mark is None or _is_behind(job, mark))
        return self._jobs.by_entry(state, after=mark, latest_first=state in ENDED, at_once=at_once)

    def _waiting_in(self, projects: frozenset[str]) -> tuple[Job, ...] | None:
        """Jobs that wait in these projects, which have lines of their own; None: not known."""
        if not self._lines_asked:
            self._lines_asked = True
            self._in_projects = self._jobs.waiting_in(projects, limit=MOST_LOOKED_AT)
        return self._in_projects

    def _stopped(self, shown: list[Job], following: ListCursor, examined: int) -> JobPage:
        return JobPage(jobs=tuple(shown), next=following, waiting=None, examined=examined)

    def _cursor(self, last: Job, *, name: str) -> ListCursor:
        mark = Mark(entry_time=last.entry_time, name=name)
        return ListCursor(question=self._question, state=last.state, mark=mark)


def _together(one: Job, other: Job) -> bool:
    return (one.state, one.entry_time) == (other.state, other.entry_time)


def _is_behind(job: Job, mark: Mark) -> bool:
    """Whether a living job comes behind the mark."""
    if not mark.name:
        return job.entry_time > mark.entry_time
    return (job.entry_time, job.name) > (mark.entry_time, mark.name)
