"""The routes of jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from http import HTTPStatus
from math import isfinite
from typing import TYPE_CHECKING, Any

from slotq_core.api.router import Response
from slotq_core.api.signed_requests import SignedRequest, fitting_views, json_answer, number, switch
from slotq_core.api.table.of_jobs import FILTERS
from slotq_core.errors import InvalidRequest, LimitReached, Refused, SlotQError, Unavailable
from slotq_core.manager import QueueManager
from slotq_core.model.jobs import JobState, Workload
from slotq_core.model.reports import slow_save
from slotq_core.operations.status import MOST_LISTED, JobFilter, Status, warnings_of
from slotq_core.timestamps import from_iso
from slotq_core.wire.base import ErrorView
from slotq_core.wire.training.processing_request import as_sent
from slotq_core.wire.views.jobs import JobView, RequestView, job_view, queue_view, with_slow_save

if TYPE_CHECKING:
    # What reads a request is imported with the first such request: most cold starts answer another.
    from slotq_core.operations.bulk import ChangeOutcome
    from slotq_core.wire.job_changes import OutcomeView


class JobRoutes:
    def __init__(
        self,
        manager: Callable[[], QueueManager],
        request: SignedRequest,
        error_view: Callable[[SlotQError], ErrorView],
    ) -> None:
        """`error_view` shows the error that left one of several jobs unchanged."""
        self._manager, self._request, self._error_view = manager, request, error_view

    def add(self) -> Response:
        from slotq_core.wire.submission import parse_submission

        submitter, dry_run = self._request.caller(), self._request.is_dry_run()
        submission, request = parse_submission(self._request.body())
        submissions = self._manager().submissions
        if dry_run:
            status = submissions.dry_run(submission, request, submitter=submitter)
            return json_answer(HTTPStatus.OK, _view(status))
        status = submissions.submit(submission, request, submitter=submitter)
        return json_answer(HTTPStatus.ACCEPTED, _view(status))

    def add_many(self) -> Response:
        from slotq_core.operations.jobs.batches import NewMember
        from slotq_core.wire.groups.members import parse_batch
        from slotq_core.wire.job_changes import OutcomesView

        submitter, members = self._request.caller(), parse_batch(self._request.body())
        outcomes = self._manager().batches.submit(
            [NewMember(name=name, read=read) for name, read in members], submitter=submitter
        )
        for place, outcome in enumerate(outcomes):
            if isinstance(outcome.error, Refused):
                outcome.error.within(f"jobs.{place}")
        views = [self._outcome(outcome, HTTPStatus.ACCEPTED) for outcome in outcomes]
        shown = fitting_views(views)
        left = [self._outcome(_too_much(outcome)) for outcome in outcomes[len(shown) :]]
        return json_answer(HTTPStatus.OK, OutcomesView(outcomes=[*shown, *left]))

    def list_jobs(self) -> Response:
        from slotq_core.operations.jobs.listing import ListCursor, question_of

        query = self._request.query()
        states, wanted, limit = _selection(query)
        lookup, caller = self._manager().jobs, self._request.caller()
        if switch("places", query):
            if "next" in query:
                raise InvalidRequest("with places there are no further pages", field="next")
            found = lookup.first(states, wanted, limit=limit, to=caller)
        else:
            after = None
            if "next" in query:
                after = ListCursor.parse(query["next"][-1], question=question_of(states, wanted))
            found = lookup.page(states, wanted, limit=limit, after=after, to=caller)
        views = [*self._warned(lookup.with_progress(found.statuses))]
        shown = fitting_views(views)
        more, following = found.more, found.following
        if len(shown) < len(views):
            more = True
            if not switch("places", query):
                question = question_of(states, wanted)
                last = found.statuses[len(shown) - 1].job
                following = ListCursor.behind(last, question=question)
        text = following.text() if following else None
        view = queue_view(shown, more=more, following=text, examined=found.examined)
        return json_answer(HTTPStatus.OK, view, has_reports=any(job.progress for job in shown))

    def change_many(self) -> Response:
        from slotq_core.api.job_changes import change_request_of
        from slotq_core.wire.job_changes import OutcomesView, parse_changes

        caller, changes = self._request.caller(), parse_changes(self._request.body())
        outcomes = self._manager().bulk.run(
            [change_request_of(change) for change in changes], by=caller
        )
        return json_answer(
            HTTPStatus.OK, OutcomesView(outcomes=[self._outcome(outcome) for outcome in outcomes])
        )

    def _outcome(self, outcome: ChangeOutcome, success: HTTPStatus = HTTPStatus.OK) -> OutcomeView:
        """`success`: the status of the answer for one such job alone."""
        from slotq_core.wire.job_changes import OutcomeView

        error = outcome.error
        return OutcomeView(
            name=outcome.name,
            job=_view(outcome.status) if outcome.status else None,
            error=self._error_view(error) if error else None,
            status=int(_status_of(error) if error else success),
            retry_after=error.retry_after if isinstance(error, LimitReached) else None,
        )

    def get(self, name: str) -> Response:
        lookup = self._manager().jobs
        status = lookup.status(name, to=self._request.caller())
        (view,) = self._warned(lookup.with_progress([status]))
        return json_answer(HTTPStatus.OK, view, has_reports=view.progress is not None)

    def _warned(self, statuses: Iterable[Status]) -> Iterator[JobView]:
        return with_slow_saves(map(_view, statuses), self._manager().jobs.graces)

    def cancel(self, name: str) -> Response:
        return json_answer(
            HTTPStatus.OK, _view(self._manager().changes.cancel(name, by=self._request.caller()))
        )

    def amend(self, name: str) -> Response:
        from slotq_core.api.job_changes import amendment_of
        from slotq_core.wire.job_changes import parse_amendment

        caller, body = self._request.caller(), parse_amendment(self._request.body())
        status = self._manager().changes.amend(name, amendment_of(body), by=caller)
        return json_answer(HTTPStatus.OK, _view(status))

    def get_request(self, name: str) -> Response:
        stored = self._manager().jobs.request(name, by=self._request.caller())
        view = RequestView(
            name=name, request=as_sent(stored.request), withheld=list(stored.withheld)
        )
        return json_answer(HTTPStatus.OK, view)

    def views(self, statuses: Iterable[Status]) -> list[JobView]:
        """The jobs as shown, with the progress of those that run."""
        return [*map(_view, self._manager().jobs.with_progress(statuses))]


def _status_of(error: SlotQError) -> int:
    """The HTTP status of an error that left one of several jobs unchanged."""
    if isinstance(error, Refused):
        return error.status
    unavailable = isinstance(error, Unavailable)
    return HTTPStatus.SERVICE_UNAVAILABLE if unavailable else HTTPStatus.INTERNAL_SERVER_ERROR


def _too_much(outcome: ChangeOutcome) -> ChangeOutcome:
    """An outcome in the place of one that the answer has no room for."""
    from slotq_core.operations.bulk import ChangeOutcome, NotReached

    error = NotReached("this answer has no room for the job's outcome; send the job again")
    return ChangeOutcome(name=outcome.name, error=error)


def _selection(query: Mapping[str, Sequence[str]]) -> tuple[list[JobState] | None, JobFilter, int]:
    """The states, filters and limit in a query: `?state=` (repeated or comma separated; none: every
    state), FILTERS (`?project=` like `?state=`) and `?limit=`. The route itself reads `?next=` and
    `?places=`."""
    words = [word.strip() for text in query.get("state", ()) for word in text.split(",")]
    for word in words:
        if word not in tuple(JobState):
            allowed = ", ".join(JobState)
            raise InvalidRequest(f"state takes any of {allowed}, not '{word[:40]}'", field="state")
    states = [JobState(word) for word in words] if words else None
    return states, _wanted(query), number("limit", query, low=1, high=MOST_LISTED) or MOST_LISTED


def _wanted(query: Mapping[str, Sequence[str]]) -> JobFilter:
    names = (filter_.name for filter_ in FILTERS)
    fields: dict[str, Any] = {name: query[name][-1] for name in names if name in query}
    if fields.pop("project", None) is not None:
        wanted = (name.strip() for text in query["project"] for name in text.split(","))
        fields["projects"] = frozenset(wanted)
    for key in {"since", "until"} & set(fields):
        fields[key] = _moment(key, fields[key])
    return JobFilter(**fields)


def _moment(key: str, text: str) -> int:
    try:
        return from_iso(text)
    except (ValueError, TypeError, OverflowError):
        raise InvalidRequest(
            f"{key} takes a moment such as 2026-11-20T10:30:00Z, not '{text[:40]}'", field=key
        ) from None


def _view(status: Status) -> JobView:
    return job_view(
        status.job,
        place=status.place,
        place_is_lower_bound=status.place_is_lower_bound,
        reason=status.reason,
        outlook=status.outlook,
        attempts=status.attempts,
        warnings=warnings_of(status),
        report=status.report,
        eta=status.eta,
    )


def with_slow_saves(
    views: Iterable[JobView], graces: Callable[[], Mapping[str, int]]
) -> Iterator[JobView]:
    """Yield the views, with a warning where the last save was too slow for an eviction. `graces`
    gives how long (ms) each pool waits; it is called at most once, and only if a script has timed a
    save."""
    known = cache(graces)
    for view in views:
        took = _took(view)
        slow = None if took is None else slow_save(took, known().get(view.pool or "", 0))
        yield with_slow_save(view, slow) if slow else view


def _took(view: JobView) -> int | None:
    """How long the last save of a running job took (ms), if the job may be evicted."""
    saved = view.progress.saved if view.progress else None
    took = saved.took_seconds if saved else None
    evictable = view.preemptible and view.workload == Workload.TRAINING
    return round(1000 * took) if took and isfinite(took) and evictable else None
