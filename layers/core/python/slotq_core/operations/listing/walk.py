"""Read one page of jobs.

The pages go through the states: first jobs that hold slots, then those that wait, then those that
wait for a time or are held, then the ended ones. Within a state the earliest entry comes first, of
ended jobs the latest. A job that changes its state between two pages may be in both or in neither.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from slotq_core.model.jobs import WAITING_STATES, Job, JobState
from slotq_core.operations.listing.cursor import MOST_TEXT, ListCursor, question_of, text_of
from slotq_core.operations.status import MOST_LOOKED_AT, JobFilter
from slotq_core.ports.jobs import StoredJobs
from slotq_core.ports.stored import Mark

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
                return self._stopped(shown, self._cursor(previous, name=""))
            examined.append(job)
            if self._is_shown(job):
                if len(shown) == limit or text >= MOST_TEXT:
                    return self._stopped(shown, self._cursor(shown[-1], name=shown[-1].name))
                shown.append(job)
                text += text_of(job)
        every = (
            after is None
            and self._wanted.projects is None
            and WAITING_STATES.issubset(self._states)
        )
        waiting = tuple(job for job in examined if job.waits) if every else None
        return JobPage(jobs=tuple(shown), next=None, waiting=waiting)

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

    def _stopped(self, shown: list[Job], following: ListCursor) -> JobPage:
        return JobPage(jobs=tuple(shown), next=following, waiting=None)

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
