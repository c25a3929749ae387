"""The HTTP API over the manager: its routes, and every refusal as an `ErrorView`.

Imported on the first API call only: pydantic and the views cost more than the rest of a cold start.
`slotq_core.openapi` writes down what is here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response
from pydantic import BaseModel

from slotq_core import __version__, wire
from slotq_core.amending import Amendment, Revision
from slotq_core.errors import (
    ClassNotAllowed,
    Conflict,
    InvalidRequest,
    NameTaken,
    NeverFits,
    NoSuchJob,
    NoSuchPool,
    Outdated,
    PlanNotAllowed,
    PoolInUse,
    Refused,
    RoleNotAllowed,
    TooLate,
    Unavailable,
)
from slotq_core.explaining import MOST_LISTED, Status, Wanted
from slotq_core.manager import QueueManager
from slotq_core.model import JobState
from slotq_core.moments import from_iso
from slotq_core.ports import Finding, Request
from slotq_core.wire_configuration import ChangesView, change_view, parse_pool

STATUS_OF: Mapping[type[Refused], HTTPStatus] = {
    InvalidRequest: HTTPStatus.BAD_REQUEST,
    NeverFits: HTTPStatus.BAD_REQUEST,
    ClassNotAllowed: HTTPStatus.BAD_REQUEST,
    RoleNotAllowed: HTTPStatus.BAD_REQUEST,
    PlanNotAllowed: HTTPStatus.BAD_REQUEST,
    NoSuchJob: HTTPStatus.NOT_FOUND,
    NoSuchPool: HTTPStatus.NOT_FOUND,
    PoolInUse: HTTPStatus.CONFLICT,
    Outdated: HTTPStatus.CONFLICT,
    NameTaken: HTTPStatus.CONFLICT,
    TooLate: HTTPStatus.CONFLICT,
}
METHODS: Mapping[str, tuple[str, ...]] = {
    "/add-job": ("POST",),
    "/jobs": ("GET",),
    "/jobs/<name>": ("DELETE", "GET", "PATCH"),
    "/jobs/<name>/request": ("GET",),
    "/pools": ("GET",),
    "/pools/<name>": ("DELETE", "PATCH"),
    "/changes": ("GET",),
    "/version": ("GET",),
    "/doctor": ("GET", "POST"),
}
"""What each path answers to."""
ALL_METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")
MOST_JOBS = MOST_LISTED
"""The largest and the default `limit` of GET /jobs."""
MOST_CHANGES = 100
"""The largest and the default `limit` of GET /changes."""
FILTERS = ("project", "submitter", "pool", "since", "until")
"""What else keeps jobs out of GET /jobs (`Wanted`); the last two are ISO 8601 moments."""


class NotSigned(Refused):
    """The request does not say who signed it."""

    code = "not_signed"


class Routes:
    """The routes, bound to one manager.

    One request at a time, as in Lambda: the resolver keeps the request that it works on.
    """

    def __init__(
        self, manager: Callable[[], QueueManager], *, unexpected: Callable[[Exception], None]
    ) -> None:
        """`manager` is asked for in each request: a queue that cannot be set up answers too.

        `unexpected` is told of each error that becomes an answer of 500 or 503.
        """
        self._manager = manager
        self._unexpected = unexpected
        self._http = http = APIGatewayRestResolver(debug=False)
        http.post("/add-job")(self._add_job)
        http.get("/jobs")(self._list_jobs)
        http.get("/jobs/<name>")(self._get_job)
        http.delete("/jobs/<name>")(self._cancel_job)
        http.patch("/jobs/<name>")(self._amend_job)
        http.get("/jobs/<name>/request")(self._get_request)
        http.get("/pools")(self._list_pools)
        http.patch("/pools/<name>")(self._set_pool)
        http.delete("/pools/<name>")(self._remove_pool)
        http.get("/changes")(self._list_changes)
        http.get("/version")(self._about)
        http.get("/doctor")(self._examine)
        http.post("/doctor")(self._mend)
        for path, methods in METHODS.items():
            others = [method for method in ALL_METHODS if method not in methods]
            http.route(path, method=others)(_wrong_method(methods))
        http.not_found(_no_route)
        http.exception_handler(Refused)(_refused)
        http.exception_handler([Unavailable, Conflict])(self._unavailable)
        http.exception_handler(Exception)(self._failed)

    def answer(self, event: Mapping[str, Any], context: Any) -> dict[str, Any]:
        """The answer to one event of API Gateway's REST proxy integration, in its format."""
        return self._http.resolve(dict(event), context)

    def _add_job(self) -> Response[str]:
        submitter = self._caller()
        submission, request = wire.parse_submission(self._body())
        status = self._manager().submit(submission, request, submitter=submitter)
        return _json(HTTPStatus.ACCEPTED, _view(status))

    def _list_jobs(self) -> Response[str]:
        query = self._http.current_event.resolved_query_string_parameters
        states, wanted, limit = _selection(query)
        jobs = self._manager().statuses(states, wanted)[:limit]
        return _json(HTTPStatus.OK, wire.queue_view(_view(status) for status in jobs))

    def _get_job(self, name: str) -> Response[str]:
        return _json(HTTPStatus.OK, _view(self._manager().status(name)))

    def _cancel_job(self, name: str) -> Response[str]:
        return _json(HTTPStatus.OK, _view(self._manager().cancel(name, by=self._caller())))

    def _amend_job(self, name: str) -> Response[str]:
        caller, body = self._caller(), wire.parse_amendment(self._body())
        status = self._manager().amend(name, _amendment(body), by=caller)
        return _json(HTTPStatus.OK, _view(status))

    def _get_request(self, name: str) -> Response[str]:
        it = self._manager().request(name, by=self._caller())
        view = wire.RequestView(name=name, request=dict(it.request), withheld=list(it.withheld))
        return _json(HTTPStatus.OK, view)

    def _list_pools(self) -> Response[str]:
        manager = self._manager()
        revision = manager.configuration.revision()  # First: it is never newer than the pools.
        pools = [wire.pool_view(it.pool, size=it.size, used=it.used) for it in manager.pools()]
        return _json(HTTPStatus.OK, wire.PoolsView(pools=pools, revision=revision))

    def _set_pool(self, name: str) -> Response[str]:
        caller, (settings, seen) = self._caller(), parse_pool(self._body())
        self._manager().configuration.set_pool(name, settings, by=caller, seen=seen)
        return self._list_pools()

    def _remove_pool(self, name: str) -> Response[str]:
        caller, seen = self._caller(), _number("revision", self._query("revision"), low=0)
        self._manager().configuration.remove_pool(name, by=caller, seen=seen)
        return self._list_pools()

    def _list_changes(self) -> Response[str]:
        limit = _number("limit", self._query("limit"), low=1, high=MOST_CHANGES) or MOST_CHANGES
        changes = [
            change_view(it.revision, who=it.who, at=it.at, before=it.before, after=it.after)
            for it in self._manager().configuration.changes(limit=limit)
        ]
        return _json(HTTPStatus.OK, ChangesView(changes=changes))

    def _query(self, *known: str) -> Mapping[str, Sequence[str]]:
        """The query's parameters. Raises InvalidRequest for one that is not known here."""
        query = self._http.current_event.resolved_query_string_parameters
        for key in query:
            if key not in known:
                raise InvalidRequest(f"'{key}' is not known here; use {known[0]}", field=key)
        return query

    def _about(self) -> Response[str]:
        about = wire.AboutView(slotq=__version__, caller=self._caller())
        return _json(HTTPStatus.OK, about)

    def _examine(self) -> Response[str]:
        return _findings(self._manager().doctor())

    def _mend(self) -> Response[str]:
        self._caller()
        return _findings(self._manager().doctor(fix=True))

    def _caller(self) -> str:
        """Who signed the request: API Gateway says so, and nothing in the request can."""
        context = self._http.current_event.raw_event.get("requestContext") or {}
        caller = (context.get("identity") or {}).get("userArn")
        if not isinstance(caller, str) or not caller:
            raise NotSigned("the request must be signed by an IAM principal (AWS Signature V4)")
        return caller

    def _body(self) -> str:
        try:
            return self._http.current_event.decoded_body or ""
        except ValueError:
            raise InvalidRequest("the body is not text in UTF-8") from None

    def _unavailable(self, error: Exception) -> Response[str]:
        self._unexpected(error)
        message = "a service that the queue needs does not answer now; send the same request again"
        return _error(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", message)

    def _failed(self, error: Exception) -> Response[str]:
        """Says nothing of the error itself: the log has it, under the request's id."""
        self._unexpected(error)
        request_id = getattr(self._http.lambda_context, "aws_request_id", "unknown")
        message = f"the queue has failed; its log says more of request {request_id}"
        return _error(HTTPStatus.INTERNAL_SERVER_ERROR, "internal_error", message)


def _selection(query: Mapping[str, Sequence[str]]) -> tuple[list[JobState] | None, Wanted, int]:
    """`?state=` (repeated or comma separated; none: every state), `?limit=` and FILTERS."""
    for key in query:
        if key not in {"state", "limit", *FILTERS}:
            known = ", ".join(("state", *FILTERS))
            raise InvalidRequest(f"'{key}' is not known here; use {known} or limit", field=key)
    words = [word.strip() for text in query.get("state", ()) for word in text.split(",")]
    for word in words:
        if word not in tuple(JobState):
            allowed = ", ".join(JobState)
            raise InvalidRequest(f"state takes any of {allowed}, not '{word[:40]}'", field="state")
    states = [JobState(word) for word in words] if words else None
    return states, _wanted(query), _number("limit", query, low=1, high=MOST_JOBS) or MOST_JOBS


def _wanted(query: Mapping[str, Sequence[str]]) -> Wanted:
    given: dict[str, Any] = {key: query[key][-1] for key in FILTERS if key in query}
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


def _number(
    key: str, query: Mapping[str, Sequence[str]], *, low: int, high: int = 10**9
) -> int | None:
    """A whole number of the query; None where it is not there."""
    text = query[key][-1] if key in query else None
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and low <= int(text[:10]) <= high):
        raise InvalidRequest(
            f"{key} takes an integer from {low:,} to {high:,}, not '{text[:40]}'", field=key
        )
    return int(text)


def _amendment(body: wire.AmendmentBody) -> Amendment:
    """Its tags are read as a submission's are, together with the tags that it leaves."""

    def revise(request: Request) -> Revision:
        before, _ = wire.parse_submission(request)
        after, revised = wire.parse_submission(wire.retagged(request, body.tags))
        return Revision(request=revised, before=before, after=after)

    return Amendment(held=body.held, give_up=body.give_up, revise=revise if body.tags else None)


def _view(status: Status) -> wire.JobView:
    return wire.job_view(
        status.job,
        place=status.place,
        reason=status.reason,
        outlook=status.outlook,
        attempts=status.attempts,
    )


def _findings(found: Sequence[Finding]) -> Response[str]:
    views = [
        wire.FindingView(kind=it.kind, subject=it.subject, text=it.text, mended=it.mended)
        for it in found
    ]
    return _json(HTTPStatus.OK, wire.DoctorView(findings=views))


def _json(status: HTTPStatus, body: BaseModel) -> Response[str]:
    return Response(int(status), content_type="application/json", body=body.model_dump_json())


def _error(status: HTTPStatus, code: str, message: str, field: str = "") -> Response[str]:
    return _json(status, wire.ErrorView(code=code, message=message, field=field))


def _refused(error: Refused) -> Response[str]:
    if isinstance(error, NotSigned):
        return _error(HTTPStatus.FORBIDDEN, error.code, error.message)
    status = STATUS_OF.get(type(error), HTTPStatus.BAD_REQUEST)
    return _error(status, error.code, error.message, error.field)


def _no_route(_: Exception) -> Response[str]:
    known = ", ".join(f"{' or '.join(methods)} {path}" for path, methods in METHODS.items())
    return _error(HTTPStatus.NOT_FOUND, "no_such_route", f"there is only {known}")


def _wrong_method(allowed: Sequence[str]) -> Callable[..., Response[str]]:
    def wrong_method(**_: str) -> Response[str]:
        message = f"use {' or '.join(allowed)} here"
        answer = _error(HTTPStatus.METHOD_NOT_ALLOWED, "no_such_method", message)
        answer.headers["Allow"] = ", ".join(allowed)
        return answer

    return wrong_method
