"""`queue.jobs`: calls that list, show, submit and change jobs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from slotq.errors import (
    InvalidRequest,
    NameTaken,
    NoDryRuns,
    NotAllowed,
    RequestWithheld,
    TooLate,
    TooManySubmissions,
    UnexpectedAnswer,
)
from slotq.jobs.rendering import JobList
from slotq.jobs.submission import (
    collector_of,
    jsonable,
    settings_tags,
    with_dependencies,
    with_tags,
)
from slotq.jobs.verbs import Value, VerbsByName, change_of
from slotq.transport.answers import error_of_one
from slotq.transport.connection import ConnectedCalls
from slotq_core import names
from slotq_core.model.jobs import JobState
from slotq_core.wire.body import MAX_BODY
from slotq_core.wire.training.processing_request import renamed
from slotq_core.wire.views.about import AboutView
from slotq_core.wire.views.jobs import JobView, QueueView, RequestView

if TYPE_CHECKING:  # `slotq ls` need not wait for what only changes use.
    from slotq_core.wire.job_changes import OutcomeView
    from slotq_core.wire.verbs import Verb

MOST_AT_ONCE = 1_000
"""Largest number of jobs in one answer of the queue."""


class SubmissionCalls(ConnectedCalls):
    """What submissions of jobs and of groups have in common."""

    def _prepared(self, requests: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """The requests with the client's settings and the dependencies of its `after` blocks."""
        client = self._connection
        return [with_dependencies(with_tags(request, client.tags), client) for request in requests]

    def _query(self, *, dry_run: bool) -> Mapping[str, object] | None:
        """The query of a submission. Raises NoDryRuns if the queue would store the job: an earlier
        release ignores unknown parameters."""
        if not dry_run:
            return None
        if self._connection.knows_dry_runs is None:
            try:
                self._connection.knows_dry_runs = self._read(AboutView, "GET", "/version").dry_runs
            except NotAllowed:
                self._connection.knows_dry_runs = False
        if not self._connection.knows_dry_runs:
            raise NoDryRuns(
                "the queue cannot say what would come of a submission: it is of an earlier "
                "release, or you may not ask for its release (GET /version)"
            )
        return {"dry_run": "true"}

    def _request(self, name: str) -> RequestView:
        return self._read(RequestView, "GET", f"{_path(name)}/request")

    def _whole_request(self, name: str, *, resume: bool) -> Mapping[str, Any]:
        """The request to submit again. Raises NotAllowed if the queue does not show the whole
        request."""
        from slotq_core.wire.resubmission import check_shown

        kept = self._request(name)
        try:
            check_shown(name, kept.withheld)
        except RequestWithheld as refused:
            raise NotAllowed(refused.message) from None
        return kept.request if resume else names.without_provided_checkpoints(kept.request)


class JobCalls(SubmissionCalls, VerbsByName):
    """Jobs by name. `queue.jobs(…)` lists them."""

    def __call__(
        self,
        states: str | Iterable[str] | None = None,
        *,
        limit: int | None = None,
        project: str | Iterable[str] | None = None,
        submitter: str | None = None,
        pool: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        places: bool = False,
    ) -> JobList:
        """Jobs in the order of the queue: running, then waiting by place, then ended. At most
        `limit` (default: 1,000); `more` of the list says whether there are others.

        If the queue has more than 1,000 jobs, or more than `limit`, waiting jobs come by entry
        time, without their places. A limit above 1,000 takes several requests. With `places` the
        first `limit` (at most 1,000) come by place however many wait, and cost what is shown.

        `states` and `project`: one or several (None: all). `submitter`: an ARN (one's own:
        `service.me().person`), or a part of it between slashes; `pool`: where a job runs or,
        before, may run; `since`, `until`: when it entered. Raises InvalidRequest for an unknown
        state, and NoSuchProject.
        """
        query: dict[str, object] = {
            key: moment.astimezone(UTC).isoformat()
            for key, moment in (("since", since), ("until", until))
            if moment is not None
        }
        named = project if project is None or isinstance(project, str) else ",".join(project)
        wanted = {"project": named, "submitter": submitter, "pool": pool}
        query |= {key: text for key, text in wanted.items() if text is not None}
        if states is not None:
            query["state"] = _states(states)
            if not query["state"]:
                return JobList()
        if limit is not None:
            query["limit"] = min(limit, MOST_AT_ONCE)
        if places:
            query["places"] = "true"
        most = MOST_AT_ONCE if limit is None else limit
        found: dict[str, JobView] = {}
        examined = 0
        while True:
            page = self._read(QueueView, "GET", "/jobs", query=query)
            for job in page.jobs:
                found.pop(job.name, None)  # Its state has changed since the previous page.
                found[job.name] = job
            examined += page.examined
            if page.next is None or len(found) >= most:
                break
            query |= {"next": page.next, "limit": min(most - len(found), MOST_AT_ONCE)}
        jobs = JobList(found.values())
        jobs.more, jobs.examined = page.more, examined
        return jobs

    def submit(self, request: Mapping[str, Any], *, dry_run: bool = False) -> JobView:
        """Put a CreateTrainingJob request into the queue (`QueueClient.submit`)."""
        (prepared,) = self._prepared([request])
        batch = collector_of(self._connection)
        if batch is not None and not dry_run:
            return batch.collect(self._checked(prepared))
        return self._put(prepared, dry_run=dry_run)

    def _checked(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The request in JSON form. Raises InvalidRequest with every fault that is found here."""
        request = jsonable(request)
        size = len(json.dumps(request).encode())
        if size > MAX_BODY:
            raise InvalidRequest(
                f"the request has {size:,} bytes, and the limit is {MAX_BODY:,}: move "
                "large values (hyperparameters, environment) to S3"
            )
        from slotq.jobs.sagemaker_model import check

        check(request)
        return {**request}

    def _put(self, request: Mapping[str, Any], *, dry_run: bool = False) -> JobView:
        body = json.dumps(self._checked(request)).encode()
        query = self._query(dry_run=dry_run)
        return self._patiently(
            lambda: self._read(JobView, "POST", "/add-job", query=query, body=body),
            TooManySubmissions,
        )

    def view(self, name: str) -> JobView:
        """One job with its attempts, place and reason. Raises NoSuchJob."""
        return self._read(JobView, "GET", _path(name))

    def request(self, name: str) -> dict[str, Any]:
        """The job's CreateTrainingJob request, with the tags of today. Raises NoSuchJob.

        If another person submitted the job, fields that may hold secrets are missing
        (`HyperParameters`, `Environment` and more).
        """
        return self._request(name).request

    def do(self, name: str, verb: Verb, value: Value = None) -> JobView:
        """Any verb of the table. Raises NoSuchJob, TooLate, and what the verb's method does."""
        if verb.key == "cancel":
            return self._cancelled(name)
        attempt = self.view(name).attempts_begun if verb.of_attempt else 0
        return self._amend(name, **change_of(verb, value, attempt=attempt))

    def _cancelled(self, name: str) -> JobView:
        """Cancelling a cancelled job is no error: the first answer may have been lost."""
        try:
            return self._read(JobView, "DELETE", _path(name))
        except TooLate:
            job = self.view(name)
            if job.state == "cancelled":
                return job
            raise

    def add_tags(self, name: str, tags: Mapping[str, str]) -> dict[str, str]:
        """Add tags to the job and to all its later attempts; returns all its tags. Queue settings
        are tags too. Raises NoSuchJob, TooLate (it has ended), InvalidRequest."""
        self._amend(name, tags=tags)
        return {tag["Key"]: tag["Value"] for tag in self.request(name).get("Tags") or ()}

    def clone(
        self,
        name: str,
        new_name: str,
        *,
        priority: int | str | None = None,
        project: str | None = None,
        resume: bool = False,
    ) -> JobView:
        """Submit a job's request once more under another name, for this caller; in its project,
        unless `project` names another. Raises NoSuchJob, what `submit` raises, and NotAllowed if
        the caller may not see the whole request.

        The clone finds the first job's checkpoints if the request names their place. A place that
        the queue provided belongs to the first job alone, unless the clone is to `resume` its work.
        """
        again = self._whole_request(name, resume=resume)
        request = renamed(again, new_name)
        tags = settings_tags(priority=priority, project=project)
        return self._put(with_tags(request, tags, override=True))

    def retry(
        self,
        name: str,
        new_name: str | None = None,
        *,
        priority: int | str | None = None,
        project: str | None = None,
    ) -> JobView:
        """Submit the request of a job that has ended without completing once more. Raises
        NoSuchJob, InvalidRequest (it has not ended, or has completed), and what `submit` raises.

        A name is used once, so the retry is another job: `new_name`, else the first free one of
        `<name>-r2`, `<name>-r3` … . It goes on from the first job's checkpoints. Without a
        `new_name` the retry of a member of your sweep replaces the member in the sweep.
        """
        return _retried(
            self,
            name,
            new_name,
            priority=priority,
            project=project,
            patiently=lambda call: self._patiently(call, TooManySubmissions),
        )

    def change(self, changes: Sequence[Mapping[str, Any]]) -> list[OutcomeView]:
        """Change up to 100 jobs in one request, each as if alone: `{"name": …, "cancel": True}`,
        `{"name": …, "retry": True}` with `new_name` and `tags` of the new job, or any of `held`,
        `tags` and `give_up`; `states`: only while it is in one of these.

        Returns an outcome for each, in this order; the error `unavailable` means that the queue had
        no time for this change. Raises InvalidRequest for a malformed change, and then changes
        nothing.
        """
        from slotq_core.wire.job_changes import OutcomesView

        return self._read(OutcomesView, "PATCH", "/jobs", body={"changes": [*changes]}).outcomes

    def _amend(self, name: str, **changes: Any) -> JobView:
        return self._read(JobView, "PATCH", _path(name), body=changes)


def _states(wanted: str | Iterable[str]) -> list[str]:
    """The states in a comma-separated text or an iterable. Raises InvalidRequest for an unknown
    state."""
    states = wanted.split(",") if isinstance(wanted, str) else [*wanted]
    for state in states:
        if state not in tuple(JobState):
            raise InvalidRequest(
                f"state takes any of {', '.join(JobState)}, not {state!r}", field="state"
            )
    return states


def _path(name: str) -> str:
    if not names.is_job(name):
        raise InvalidRequest(f"{name!r} cannot be a job's name: use {names.RULE}", field="name")
    return "/jobs/" + quote(name, safe="")


Patiently = Callable[[Callable[[], JobView]], JobView]
"""Makes a call again when the caller may submit again."""


def _retried(
    jobs: JobCalls,
    name: str,
    new_name: str | None = None,
    *,
    priority: int | str | None = None,
    project: str | None = None,
    patiently: Patiently,
) -> JobView:
    """Submit the job's request again under `new_name`, or else under its next free name.

    Raises NoSuchJob, InvalidRequest (the job has not ended, or has completed), NameTaken, and what
    a submission raises. Two concurrent retries give the same job: while that job lives, submitting
    the same request under its name again returns the job.
    """
    from slotq_core.wire.resubmission import all_taken, check_retryable, names_to_try

    job = jobs.view(name)
    check_retryable(name, job.state)
    if new_name is not None:
        return jobs.clone(name, new_name, priority=priority, project=project, resume=True)
    if job.group:
        tags = settings_tags(priority=priority, project=project)
        with suppress(NotAllowed, UnexpectedAnswer):  # The caller may not change jobs in bulk.
            return patiently(lambda: _in_its_group(jobs, name, tags))
    for candidate in names_to_try(name):
        try:
            return jobs.clone(name, candidate, priority=priority, project=project, resume=True)
        except NameTaken:
            continue
    raise all_taken(name)


def _in_its_group(jobs: JobCalls, name: str, tags: Mapping[str, str]) -> JobView:
    (outcome,) = jobs.change([{"name": name, "retry": True, "tags": tags}])
    if outcome.error is not None:
        raise error_of_one(outcome.error)
    assert outcome.job is not None
    return outcome.job
