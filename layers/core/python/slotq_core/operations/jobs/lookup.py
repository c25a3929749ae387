"""Look jobs up: one job or a list, as a caller may see them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from slotq_core import names
from slotq_core.errors import NoSuchJob
from slotq_core.model.attempts import Attempt
from slotq_core.model.jobs import ACTIVE_STATES, WAITING_STATES, Job, JobState
from slotq_core.model.reports import Report
from slotq_core.operations import status
from slotq_core.operations.authorize import Authorizer
from slotq_core.operations.jobs.explanation import (
    QueueInOrder,
    explained_list,
    explained_snapshot,
)
from slotq_core.operations.jobs.listing import JobPage, ListCursor, Walk, fitting
from slotq_core.operations.status import ANY_JOB, MOST_LISTED, MOST_LOOKED_AT, JobFilter, Status
from slotq_core.policy.order import precedence
from slotq_core.policy.plan import Plan
from slotq_core.ports.scripts import Scripts
from slotq_core.ports.store import Store
from slotq_core.ports.surroundings import Clock
from slotq_core.privacy.disclosure import Shown, shown
from slotq_core.privacy.identity import BY_DEFAULT

LEAST_IN_ORDER = 400
"""How many jobs a list with places examines one by one at least, before it reads them all."""
LEAST_CALLS, JOBS_A_CALL = 20, 4
"""A list with places reads lines so often at least, and once for so many jobs of its limit: many
lines that take turns in the order cannot make it expensive."""

KEPT = 5_000
"""How long (ms) this process caches a report, or its absence."""

_NEVER: tuple[int, Report | None] = (0, None)


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedJobs:
    """Some jobs of a list."""

    statuses: list[Status]
    more: bool
    """Whether there may be others."""
    following: ListCursor | None
    """Where the next page begins; None: there is none."""
    examined: int
    """How many jobs were read and looked at."""


def _page(statuses: list[Status], page: JobPage) -> ListedJobs:
    return ListedJobs(
        statuses=statuses,
        more=page.next is not None,
        following=page.next,
        examined=page.examined,
    )


class JobLookup:
    """The jobs, as callers see them."""

    def __init__(
        self, store: Store, clock: Clock, authorizer: Authorizer, scripts: Scripts
    ) -> None:
        self._store, self._clock, self._authorizer = store, clock, authorizer
        self._progress = Progress(scripts, clock)

    def status(self, name: str, *, to: str | None = None) -> Status:
        """One job with its place, reason, outlook and attempts, as caller `to` may see it (None:
        the queue's owner). Raises NoSuchJob."""
        found = self._store.jobs.with_attempts(name) if names.is_job(name) else None
        if found is None or not self._authorizer.sees(found[0], by=to):
            raise no_such_job(name)
        job, attempts = found
        if job.terminal or job.active:
            return Status(job=job, attempts=attempts)
        now = self._clock.now()
        world = self._store.worlds.load(now)
        known = status.looked_into(job, world, now)
        return replace(known, attempts=attempts)

    def with_progress(self, statuses: Iterable[Status]) -> list[Status]:
        """These statuses with the progress of those jobs that run. Never raises."""
        return self._progress.of(statuses)

    def statuses(
        self,
        states: Iterable[JobState] | None = None,
        wanted: JobFilter = ANY_JOB,
        *,
        to: str | None = None,
    ) -> list[Status]:
        """The wanted jobs in these states (None: any) that caller `to` may see (None: all), in the
        queue's order, with their places. The cost grows with the queue; that of `page` does not.
        Raises NoSuchProject for a project that is not known to `to` and has none of them.

        With more jobs than `JobFilter.looks_at`, only the latest of each state are examined, and no
        job has a place: the queue is never read whole. `status` reports the place of one job.
        """
        return self._whole(states, wanted, limit=wanted.looks_at, to=to)[0]

    def first(
        self,
        states: Iterable[JobState] | None,
        wanted: JobFilter,
        *,
        limit: int,
        to: str | None = None,
    ) -> ListedJobs:
        """The first of `statuses`, with their places. The cost grows with `limit`, and not with
        what else waits, unless most jobs that wait are not wanted, or not shown to the caller: then
        up to MOST_LOOKED_AT are examined. Where very many lines take turns in the order, the last
        of these are the next by entry, without places."""
        if wanted.projects is not None:
            return self._first_of_all(states, wanted, limit=limit, to=to)
        asked = frozenset(JobState if states is None else states)
        people = self._store.configuration.read().people if wanted.submitter else BY_DEFAULT
        sees = self._lazy_sight(to)
        now = self._clock.now()
        world = self._store.worlds.load(now)
        queue = QueueInOrder(world, calls=max(LEAST_CALLS, limit // JOBS_A_CALL))

        def is_shown(job: Job) -> bool:
            return job.state in asked and wanted.has(job, people) and sees(job)

        jobs = [job for job in world.snapshot.active if is_shown(job)]
        waiting: list[Job] = []
        if asked & WAITING_STATES:
            for job in queue:
                waiting.append(job)
                if is_shown(job):
                    jobs.append(job)
                if len(jobs) > limit:
                    break
                if len(waiting) >= max(2 * limit, LEAST_IN_ORDER):
                    return self._first_of_all(states, wanted, limit=limit, to=to)
        cut, examined = queue.cut, len(world.snapshot.active) + len(waiting)
        if queue.cut:
            page = Walk(self._store.jobs, asked, wanted, is_shown).page(limit, None)
            jobs += page.jobs
            examined += page.examined
        elif len(jobs) <= limit:
            others, cut = self._others(asked - ACTIVE_STATES, is_shown, waiting, limit - len(jobs))
            jobs += others
            examined += len(others)
        planned = explained_snapshot(world, queue.snapshot(), now) if waiting else Plan()
        found = status.statuses(
            jobs, planned, waiting, precedence(world.snapshot), unfinished=world.unfinished
        )
        first = fitting(found, limit)
        return ListedJobs(
            statuses=first, more=cut or len(found) > len(first), following=None, examined=examined
        )

    def _first_of_all(
        self, states: Iterable[JobState] | None, wanted: JobFilter, *, limit: int, to: str | None
    ) -> ListedJobs:
        """The first out of MOST_LOOKED_AT, which are all read."""
        found, cut, examined = self._whole(states, wanted, limit=MOST_LOOKED_AT, to=to)
        first = fitting(found, limit)
        return ListedJobs(
            statuses=first, more=cut or len(found) > len(first), following=None, examined=examined
        )

    def _others(
        self,
        asked: frozenset[JobState],
        is_shown: Callable[[Job], bool],
        waiting: Sequence[Job],
        room: int,
    ) -> tuple[list[Job], bool]:
        """The jobs in these states that are in no line, as many as there is room for and one more,
        and whether there may be others. `waiting`: the jobs in lines. Reads more only if most of
        what it finds is not shown."""
        known = {job.name: job.version for job in waiting}
        for most in (min(len(waiting) + room + 1, MOST_LOOKED_AT), MOST_LOOKED_AT):
            found = self._store.jobs.in_states(asked, limit=most) if asked else ()
            others = [job for job in found if known.get(job.name, -1) < job.version]
            others = [job for job in others if is_shown(job)]
            cut = len(found) >= most
            if not cut or len(others) > room:
                break
        return others, cut

    def _whole(
        self, states: Iterable[JobState] | None, wanted: JobFilter, *, limit: int, to: str | None
    ) -> tuple[list[Status], bool, int]:
        """The jobs, whether only the latest `limit` of all were examined, and how many were."""
        asked = tuple(JobState if states is None else states)
        found = self._store.jobs.in_states(asked, limit=limit, projects=wanted.projects)
        people = self._store.configuration.read().people if wanted.submitter else BY_DEFAULT
        sees = self._authorizer.sight(found, by=to)
        if sees is not None and limit <= len(found) < MOST_LOOKED_AT:
            limit = MOST_LOOKED_AT  # Others' jobs must not crowd the caller's out.
            found = self._store.jobs.in_states(asked, limit=limit, projects=wanted.projects)
        jobs = [job for job in found if wanted.has(job, people) and (sees is None or sees(job))]
        self._check_projects(jobs, wanted, to)
        cut = len(found) >= limit
        if not any(job.waits for job in jobs):
            return status.statuses(jobs, Plan(), None), cut, len(found)
        waiting = status.all_waiting(found, asked, limit) if wanted.projects is None else None
        if waiting is None:
            others = self._store.jobs.in_states(WAITING_STATES, limit=MOST_LISTED)
            waiting = status.all_waiting(others, WAITING_STATES, MOST_LISTED)
        return self._explained(jobs, waiting, asked), cut, len(found)

    def page(
        self,
        states: Iterable[JobState] | None = None,
        wanted: JobFilter = ANY_JOB,
        *,
        limit: int = MOST_LISTED,
        after: ListCursor | None = None,
        to: str | None = None,
    ) -> ListedJobs:
        """At most `limit` of the wanted jobs that caller `to` may see, in the queue's order. The
        other arguments and errors: as of `statuses`.

        Where one page holds all jobs, they have places, as long as few enough wait. Else the pages
        follow `listing.ORDER`, and no job has a place.
        """
        asked = tuple(JobState if states is None else states)
        people = self._store.configuration.read().people if wanted.submitter else BY_DEFAULT
        sees = self._lazy_sight(to)
        walk = Walk(
            self._store.jobs,
            states if states is None else asked,
            wanted,
            lambda job: wanted.has(job, people) and sees(job),
        )
        found = walk.page(limit, after)
        jobs = [*found.jobs]
        waiting = None if found.waiting is None else [*found.waiting]
        if after is None and (found.next is None or not jobs):
            self._check_projects(jobs, wanted, to)
        if not any(job.waits for job in jobs):
            return _page(status.statuses(jobs, Plan(), None), found)
        if waiting is None and after is None and found.next is None:
            others = self._store.jobs.in_states(WAITING_STATES, limit=MOST_LISTED)
            waiting = status.all_waiting(others, WAITING_STATES, MOST_LISTED)
        return _page(self._explained(jobs, waiting, asked), found)

    def _explained(
        self, jobs: list[Job], waiting: list[Job] | None, asked: tuple[JobState, ...]
    ) -> list[Status]:
        """The jobs in the queue's order, with reasons. `waiting`: as of `status.statuses`."""
        now = self._clock.now()
        world = self._store.worlds.load(now)
        jobs = status.as_loaded(jobs, world, asked)
        waiting = waiting and status.as_loaded(waiting, world, WAITING_STATES)
        planned = explained_list(world, now, jobs, waiting)
        return status.statuses(
            jobs, planned, waiting, precedence(world.snapshot), unfinished=world.unfinished
        )

    def _check_projects(self, jobs: Iterable[Job], wanted: JobFilter, to: str | None) -> None:
        """Raises NoSuchProject for a wanted project without jobs here that `to` does not know."""
        if empty := (wanted.projects or frozenset()) - {job.project for job in jobs} - {""}:
            self._authorizer.check_known(empty, to=to)

    def _lazy_sight(self, to: str | None) -> Callable[[Job], bool]:
        """A test for the jobs that `to` may see. It reads the configuration with the first job
        whose answer depends on it."""
        tests: list[Callable[[Job], bool] | None] = []

        def sees(job: Job) -> bool:
            if to is None or not job.project:
                return True
            if not tests:
                tests.append(self._authorizer.sight([job], by=to))
            return tests[0] is None or tests[0](job)

        return sees

    def graces(self) -> Mapping[str, int]:
        """How long (ms) each pool waits between asking a job to suspend and stopping it."""
        return {pool.name: pool.suspend_grace for pool in self._store.configuration.read().pools}

    def request(self, name: str, *, by: str) -> Shown:
        """The part of the job's current CreateTrainingJob request that `by` may see. The project is
        a tag of this request, so submitting it again keeps the project. Raises NoSuchJob."""
        job = self.found(name, to=by)
        request = names.with_project(self._store.jobs.request(job.name), job.project)
        people = self._store.configuration.read().people
        return shown(request, submitter=job.submitter, to=by, people=people)

    def found(self, name: str, *, to: str | None = None) -> Job:
        """The job, if `to` may see it (None: the queue itself). Else raises NoSuchJob, whether the
        job exists or not."""
        job = self._store.jobs.get(name) if names.is_job(name) else None
        if job is None or not self._authorizer.sees(job, by=to):
            raise no_such_job(name)
        return job


def no_such_job(name: str) -> NoSuchJob:
    return NoSuchJob(f"there is no job '{name[: names.LONGEST]}'", field="name")


class Progress:
    """Reports of running attempts, each read at most once in `KEPT`."""

    def __init__(self, scripts: Scripts, clock: Clock) -> None:
        self._scripts, self._clock = scripts, clock
        self._known: dict[str, tuple[int, Report | None]] = {}
        """When each was read, and what it said, by training job."""

    def of(self, statuses: Iterable[Status]) -> list[Status]:
        """The statuses, with the reports of running jobs. Never raises: without S3 only the
        progress is missing."""
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
