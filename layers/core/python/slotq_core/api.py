"""The HTTP API of the manager: its routes, and each refusal as an `ErrorView`.

Imported only at the first API call: pydantic and the views cost more than the rest of a cold start.
`slotq_core.openapi` describes these routes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from slotq_core.admission.access import Action
from slotq_core.errors import (
    Conflict,
    InvalidRequest,
    LimitReached,
    Refused,
    SlotQError,
    Unavailable,
)
from slotq_core.manager import QueueManager
from slotq_core.model.jobs import JobState
from slotq_core.operations.status import MOST_LISTED, Status, Wanted, warnings_of
from slotq_core.routes.about import ABOUT_ACTIONS, AboutRoutes
from slotq_core.routes.configuration import CONFIGURATION_ACTIONS, ConfigurationRoutes
from slotq_core.routes.groups import GROUP_ACTIONS, GroupRoutes
from slotq_core.routes.scenario import SCENARIO_ACTIONS, ScenarioRoutes
from slotq_core.routes.signed_requests import (
    SignedRequest,
    fitting_views,
    json_answer,
    number,
    switch,
)
from slotq_core.routes.slow_saves import with_slow_saves
from slotq_core.routes.usage import USAGE_ACTIONS, UsageRoutes
from slotq_core.routing import Response, Router
from slotq_core.timestamps import from_iso
from slotq_core.wire.views.errors import ErrorView, FaultView
from slotq_core.wire.views.jobs import JobView, RequestView, job_view, queue_view

if TYPE_CHECKING:
    # What reads a request is imported with the first such request: most cold starts answer another.
    from slotq_core.operations.bulk import Outcome
    from slotq_core.wire.bulk_changes import OutcomeView

ACTIONS: Mapping[str, Mapping[str, Action]] = {
    "/add-job": {"POST": Action.SUBMIT},
    "/jobs": {"GET": Action.SEE, "PATCH": Action.CHANGE},
    "/jobs/<name>": {"DELETE": Action.CHANGE, "GET": Action.SEE, "PATCH": Action.CHANGE},
    "/jobs/<name>/request": {"GET": Action.SEE},
    **GROUP_ACTIONS,
    **CONFIGURATION_ACTIONS,
    **USAGE_ACTIONS,
    **SCENARIO_ACTIONS,
    **ABOUT_ACTIONS,
}
"""Each path with its methods, and what each is to the caller's rights (`admission.access.NEEDED`).
OPERATE is checked before the route; what concerns a job is checked where the job is known."""
METHODS: Mapping[str, tuple[str, ...]] = {path: (*actions,) for path, actions in ACTIONS.items()}
"""The methods of each path."""
UNAVAILABLE, INTERNAL_ERROR = "unavailable", "internal_error"
"""The codes of the queue's own errors."""
OTHER = "OTHER"
"""Stands for every method that is not listed here."""
ALL_METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", OTHER)
MOST_JOBS = MOST_LISTED
"""The largest and the default `limit` of GET /jobs."""
FILTERS = ("project", "submitter", "pool", "since", "until")
"""The other filters of GET /jobs (`Wanted`). `since` and `until` are ISO 8601 moments."""


class Routes:
    """The routes, bound to one manager."""

    def __init__(
        self, manager: Callable[[], QueueManager], *, unexpected: Callable[[Exception], None]
    ) -> None:
        """`manager` is called in each request, so that a queue whose set-up fails can still answer.

        `unexpected` receives each error that becomes a 500 or 503.
        """
        self._manager = manager
        self._unexpected = unexpected
        self._http = http = Router(not_found=_no_route, before=self._authorize)
        self._request = SignedRequest(http)
        http.add("/add-job", ["POST"], self._add_job)
        http.add("/jobs", ["GET"], self._list_jobs)
        http.add("/jobs", ["PATCH"], self._change_jobs)
        http.add("/jobs/<name>", ["GET"], self._get_job)
        http.add("/jobs/<name>", ["DELETE"], self._cancel_job)
        http.add("/jobs/<name>", ["PATCH"], self._amend_job)
        http.add("/jobs/<name>/request", ["GET"], self._get_request)
        GroupRoutes(manager, self._request, self._views).add_to(http)
        ConfigurationRoutes(manager, self._request).add_to(http)
        UsageRoutes(manager, self._request).add_to(http)
        ScenarioRoutes(manager, self._request).add_to(http)
        AboutRoutes(manager, self._request).add_to(http)
        for path, methods in METHODS.items():
            others = [method for method in ALL_METHODS if method not in methods]
            http.add(path, others, _wrong_method(methods))
        http.on_error(Refused, _refused)
        http.on_error(Unavailable, self._unavailable)
        http.on_error(Conflict, self._unavailable)
        http.on_error(Exception, self._failed)

    def answer(self, event: Mapping[str, Any], context: Any) -> dict[str, Any]:
        """The answer to one event of API Gateway's REST proxy integration, in its format."""
        if not _as_matched(event):
            event = {**event, "path": "/"}
        if event["httpMethod"] not in ALL_METHODS:
            event = {**event, "httpMethod": OTHER}
        return self._http.resolve(dict(event), context)

    def _authorize(self, path: str, method: str) -> None:
        """Check that the caller is known, and what can be checked before a job is. Raises NotSigned
        and NotPermitted."""
        action = ACTIONS[path].get(method)
        if action is None:
            return  # The answer names the methods that there are.
        caller = self._request.caller()
        if action is Action.OPERATE:
            self._manager().authorizer.check_operates(by=caller)

    def _add_job(self) -> Response:
        from slotq_core.wire.submission import parse_submission

        submitter, dry_run = self._request.caller(), self._request.is_dry_run()
        submission, request = parse_submission(self._request.body())
        submissions = self._manager().submissions
        if dry_run:
            status = submissions.dry_run(submission, request, submitter=submitter)
            return json_answer(HTTPStatus.OK, _view(status))
        status = submissions.submit(submission, request, submitter=submitter)
        return json_answer(HTTPStatus.ACCEPTED, _view(status))

    def _list_jobs(self) -> Response:
        from slotq_core.operations.listing.cursor import ListCursor, question_of

        query = self._http.request.query
        states, wanted, limit = _selection(query)
        lookup, caller, following = self._manager().jobs, self._request.caller(), None
        if switch("places", query):
            if "next" in query:
                raise InvalidRequest("with places there are no further pages", field="next")
            jobs, more = lookup.first(states, wanted, limit=limit, to=caller)
        else:
            after = None
            if "next" in query:
                after = ListCursor.parse(query["next"][-1], question=question_of(states, wanted))
            jobs, following = lookup.page(states, wanted, limit=limit, after=after, to=caller)
            more = following is not None
        views = [*self._warned(lookup.with_progress(jobs))]
        shown = fitting_views(views)
        if len(shown) < len(views):
            more = True
            if not switch("places", query):
                question = question_of(states, wanted)
                following = ListCursor.behind(jobs[len(shown) - 1].job, question=question)
        text = following.text() if following else None
        return json_answer(HTTPStatus.OK, queue_view(shown, more=more, following=text))

    def _change_jobs(self) -> Response:
        from slotq_core.routes.job_changes import wish_of
        from slotq_core.wire.bulk_changes import OutcomesView, parse_changes

        self._request.query()
        caller, changes = self._request.caller(), parse_changes(self._request.body())
        outcomes = self._manager().bulk.run([wish_of(it) for it in changes], by=caller)
        return json_answer(
            HTTPStatus.OK, OutcomesView(outcomes=[self._outcome(it) for it in outcomes])
        )

    def _outcome(self, outcome: Outcome) -> OutcomeView:
        from slotq_core.wire.bulk_changes import OutcomeView

        job = _view(outcome.status) if outcome.status else None
        error = self._error_of(outcome.error) if outcome.error else None
        return OutcomeView(name=outcome.name, job=job, error=error)

    def _error_of(self, error: SlotQError) -> ErrorView:
        """The error that left one of several jobs unchanged."""
        from slotq_core.operations.bulk import NotReached

        if isinstance(error, Refused):
            return _refusal(error)
        if isinstance(error, NotReached):
            return ErrorView(code=UNAVAILABLE, message=str(error))
        self._unexpected(error)
        return ErrorView(code=INTERNAL_ERROR, message=self._failure())

    def _get_job(self, name: str) -> Response:
        lookup = self._manager().jobs
        status = lookup.status(name, to=self._request.caller())
        (view,) = self._warned(lookup.with_progress([status]))
        return json_answer(HTTPStatus.OK, view)

    def _warned(self, statuses: Iterable[Status]) -> Iterator[JobView]:
        return with_slow_saves(map(_view, statuses), self._manager().jobs.graces)

    def _cancel_job(self, name: str) -> Response:
        self._request.query()
        return json_answer(
            HTTPStatus.OK, _view(self._manager().changes.cancel(name, by=self._request.caller()))
        )

    def _amend_job(self, name: str) -> Response:
        from slotq_core.routes.job_changes import amendment_of
        from slotq_core.wire.amendment import parse_amendment

        self._request.query()
        caller, body = self._request.caller(), parse_amendment(self._request.body())
        status = self._manager().changes.amend(name, amendment_of(body), by=caller)
        return json_answer(HTTPStatus.OK, _view(status))

    def _get_request(self, name: str) -> Response:
        it = self._manager().jobs.request(name, by=self._request.caller())
        view = RequestView(name=name, request=dict(it.request), withheld=list(it.withheld))
        return json_answer(HTTPStatus.OK, view)

    def _views(self, statuses: Iterable[Status]) -> list[JobView]:
        """The jobs as shown, with the progress of those that run."""
        return [*map(_view, self._manager().jobs.with_progress(statuses))]

    def _unavailable(self, error: Exception) -> Response:
        self._unexpected(error)
        message = "a service that the queue needs does not answer; send the same request again"
        return _error(HTTPStatus.SERVICE_UNAVAILABLE, UNAVAILABLE, message)

    def _failed(self, error: Exception) -> Response:
        """Answer 500 without the error's details. The log has them under the request's id."""
        self._unexpected(error)
        return _error(HTTPStatus.INTERNAL_SERVER_ERROR, INTERNAL_ERROR, self._failure())

    def _failure(self) -> str:
        request_id = getattr(self._http.request.context, "aws_request_id", "unknown")
        return f"the queue failed; its log has the details under request {request_id}"


def _as_matched(event: Mapping[str, Any]) -> bool:
    """Whether the path is the one that API Gateway matched to its resource and that IAM authorised.

    Gateway and IAM see the path before decoding, and this code sees it decoded. To them,
    `/jobs/a%2Frequest` is the job `a%2Frequest`. Behind a proxy resource there is nothing to
    compare.
    """
    path, resource = str(event.get("path") or "/"), str(event.get("resource") or "/{proxy+}")
    if not path.isprintable():
        return False
    there, matched = path.rstrip("/").split("/"), resource.rstrip("/").split("/")
    return "{proxy+}" in matched or (
        len(there) == len(matched)
        and all(
            name.startswith("{") or name == part for name, part in zip(matched, there, strict=True)
        )
    )


def _selection(query: Mapping[str, Sequence[str]]) -> tuple[list[JobState] | None, Wanted, int]:
    """The states, filters and limit in a query: `?state=` (repeated or comma separated; none: every
    state), FILTERS (`?project=` like `?state=`) and `?limit=`. The route itself reads `?next=` and
    `?places=`."""
    for key in query:
        if key not in {"state", *FILTERS, "limit", "next", "places"}:
            known = ", ".join(("state", *FILTERS, "limit", "next"))
            raise InvalidRequest(
                f"there is no parameter '{key[:40]}' here; use {known} or places", field=key[:40]
            )
    words = [word.strip() for text in query.get("state", ()) for word in text.split(",")]
    for word in words:
        if word not in tuple(JobState):
            allowed = ", ".join(JobState)
            raise InvalidRequest(f"state takes any of {allowed}, not '{word[:40]}'", field="state")
    states = [JobState(word) for word in words] if words else None
    return states, _wanted(query), number("limit", query, low=1, high=MOST_JOBS) or MOST_JOBS


def _wanted(query: Mapping[str, Sequence[str]]) -> Wanted:
    given: dict[str, Any] = {key: query[key][-1] for key in FILTERS if key in query}
    if given.pop("project", None) is not None:
        names = (name.strip() for text in query["project"] for name in text.split(","))
        given["projects"] = frozenset(names)
    for key in {"since", "until"} & set(given):
        given[key] = _moment(key, given[key])
    return Wanted(**given)


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


def _error(status: HTTPStatus, code: str, message: str, field: str = "") -> Response:
    return json_answer(status, ErrorView(code=code, message=message, field=field))


def _refused(error: Refused) -> Response:
    answer = json_answer(HTTPStatus(error.status), _refusal(error))
    if isinstance(error, LimitReached):
        answer.headers["Retry-After"] = str(error.retry_after)
    return answer


def _refusal(error: Refused) -> ErrorView:
    faults = [FaultView(path=path, message=message) for path, message in error.faults]
    return ErrorView(code=error.code, message=error.message, field=error.field, faults=faults)


def _no_route(_: Exception) -> Response:
    known = ", ".join(METHODS)
    return _error(HTTPStatus.NOT_FOUND, "no_such_route", f"there are only the paths {known}")


def _wrong_method(allowed: Sequence[str]) -> Callable[..., Response]:
    def wrong_method(**_: str) -> Response:
        message = f"use {' or '.join(allowed)} here"
        answer = _error(HTTPStatus.METHOD_NOT_ALLOWED, "no_such_method", message)
        answer.headers["Allow"] = ", ".join(allowed)
        return answer

    return wrong_method
