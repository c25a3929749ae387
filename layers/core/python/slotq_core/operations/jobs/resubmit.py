"""Retry an ended job: submit its request again under another name, as a job of the caller's.

The caller must have the right to see the whole request, as for a clone by the client. The new
submission passes every check of a submission: form, project, role, priority and limits.
"""

from __future__ import annotations

from dataclasses import replace

from slotq_core import names
from slotq_core.errors import NameTaken
from slotq_core.model.jobs import Job
from slotq_core.operations.amend import ChangedJob, Retry
from slotq_core.operations.jobs.submissions import Submissions
from slotq_core.operations.jobs.sweeps import sweep_of_retry
from slotq_core.ports.store import Store
from slotq_core.privacy.disclosure import shown
from slotq_core.wire.resubmission import all_taken, check_retryable, check_shown, names_to_try


class Resubmitter:
    """Retries, over the store and the submission of a job. The retry of a sweep's member belongs to
    the sweep, unless the retry names another name."""

    def __init__(self, store: Store, submissions: Submissions) -> None:
        self._store, self._submissions = store, submissions

    def retry(self, job: Job, wanted: Retry, *, by: str) -> ChangedJob:
        """Submit the job's request under `wanted.new_name`, else under the next free name, in the
        job's current project unless the retry names another.

        Two concurrent retries give the same job: while that job lives, submitting the same request
        under its name again returns that job. Raises InvalidRequest (the job has not ended, or has
        completed), RequestWithheld, NameTaken, and what a submission raises.
        """
        check_retryable(job.name, job.state)
        people = self._store.configuration.read().people
        request = names.with_project(self._store.jobs.request(job.name), job.project)
        seen = shown(request, submitter=job.submitter, to=by, people=people)
        check_shown(job.name, seen.withheld)

        def submit(name: str) -> ChangedJob:
            submission, request = wanted.renamed(seen.request, name)
            sweep = None
            if wanted.new_name is None:
                sweep = sweep_of_retry(submission, job, self._store.groups, by=by, people=people)
            if sweep is None:
                return self._submissions.stored(submission, request, by)
            submission = replace(submission, group=job.group)
            return self._submissions.stored(submission, request, by, followed=sweep.has_goal)

        if wanted.new_name is not None:
            return submit(wanted.new_name)
        for name in names_to_try(job.name):
            try:
                return submit(name)
            except NameTaken:
                continue
        raise all_taken(job.name)
