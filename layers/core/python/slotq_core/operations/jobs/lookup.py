"""Look jobs up: one job or a list, as a caller may see them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from slotq_core import names
from slotq_core.errors import NoSuchJob
from slotq_core.model.jobs import WAITING_STATES, Job, JobState
from slotq_core.operations import status
from slotq_core.operations.authorize import Authorizer
from slotq_core.operations.jobs.explanation import explained_list
from slotq_core.operations.scripts.progress import Progress
from slotq_core.operations.status import ANY_JOB, MOST_LISTED, MOST_LOOKED_AT, Status, Wanted
from slotq_core.policy.plan import Plan
from slotq_core.ports.scripts import Scripts
from slotq_core.ports.store import Store
from slotq_core.ports.surroundings import Clock
from slotq_core.privacy.disclosure import Shown, shown
from slotq_core.privacy.identity import BY_DEFAULT


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
        found = self._store.job_and_attempts(name) if names.is_legal(name) else None
        if found is None or not self._authorizer.sees(found[0], by=to):
            raise no_such_job(name)
        job, attempts = found
        if job.terminal or job.active:
            return Status(job=job, attempts=attempts)
        now = self._clock.now()
        world = self._store.load(now)
        known = status.looked_into(job, world, now)
        return replace(known, attempts=attempts)

    def with_progress(self, statuses: Iterable[Status]) -> list[Status]:
        """These statuses with the progress of those jobs that run. Never raises."""
        return self._progress.of(statuses)

    def statuses(
        self,
        states: Iterable[JobState] | None = None,
        wanted: Wanted = ANY_JOB,
        *,
        to: str | None = None,
    ) -> list[Status]:
        """The wanted jobs in these states (None: any) that caller `to` may see (None: all), in the
        queue's order. Raises NoSuchProject for a project that is not known to `to` and has none of
        them.

        With more jobs than `Wanted.looks_at`, only the latest of each state are examined, and no
        job has a place: the queue is never read whole. `status` tells the place of one job.
        """
        asked, limit = tuple(JobState if states is None else states), wanted.looks_at
        found = self._store.jobs(asked, limit=limit, projects=wanted.projects)
        people = self._store.configuration().people if wanted.submitter else BY_DEFAULT
        sees = self._authorizer.sight(found, by=to)
        if sees is not None and limit <= len(found) < MOST_LOOKED_AT:
            limit = MOST_LOOKED_AT  # Others' jobs must not crowd the caller's out.
            found = self._store.jobs(asked, limit=limit, projects=wanted.projects)
        jobs = [job for job in found if wanted.has(job, people) and (sees is None or sees(job))]
        if empty := (wanted.projects or frozenset()) - {job.project for job in jobs} - {""}:
            self._authorizer.check_known(empty, to=to)
        if not any(job.waits for job in jobs):
            return status.statuses(jobs, Plan(), None)
        waiting = status.all_waiting(found, asked, limit) if wanted.projects is None else None
        if waiting is None:
            others = self._store.jobs(WAITING_STATES, limit=MOST_LISTED)
            waiting = status.all_waiting(others, WAITING_STATES, MOST_LISTED)
        now = self._clock.now()
        world = self._store.load(now)
        jobs = status.as_loaded(jobs, world, asked)
        waiting = waiting and status.as_loaded(waiting, world, WAITING_STATES)
        planned = explained_list(world, now, jobs, waiting)
        return status.statuses(jobs, planned, waiting, world.snapshot.yields)

    def graces(self) -> Mapping[str, int]:
        """How long (ms) each pool waits between asking a job to suspend and stopping it."""
        return {pool.name: pool.suspend_grace for pool in self._store.configuration().pools}

    def request(self, name: str, *, by: str) -> Shown:
        """The part of the job's current CreateTrainingJob request that `by` may see, with its
        project as a tag: whoever submits it again stays in the project. Raises NoSuchJob."""
        job = self.found(name, to=by)
        request = names.with_project(self._store.request(job.name), job.project)
        people = self._store.configuration().people
        return shown(request, submitter=job.submitter, to=by, people=people)

    def found(self, name: str, *, to: str | None = None) -> Job:
        """The job, if `to` may see it (None: the queue itself). Raises NoSuchJob: nobody learns
        whether a job that is not theirs to see exists."""
        job = self._store.job(name) if names.is_legal(name) else None
        if job is None or not self._authorizer.sees(job, by=to):
            raise no_such_job(name)
        return job


def no_such_job(name: str) -> NoSuchJob:
    return NoSuchJob(f"there is no job '{name[: names.LONGEST]}'", field="name")
