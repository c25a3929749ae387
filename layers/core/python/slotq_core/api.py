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

from slotq_core import wire
from slotq_core.amending import Amendment, Revision
from slotq_core.errors import (
    ClassNotAllowed,
    Conflict,
    InvalidRequest,
    NameTaken,
    NeverFits,
    NoSuchJob,
    PlanNotAllowed,
    Refused,
    RoleNotAllowed,
    TooLate,
    Unavailable,
)
from slotq_core.explaining import Status
from slotq_core.manager import QueueManager
from slotq_core.model import JobState
from slotq_core.ports import Finding, Request

STATUS_OF: Mapping[type[Refused], HTTPStatus] = {
    InvalidRequest: HTTPStatus.BAD_REQUEST,
    NeverFits: HTTPStatus.BAD_REQUEST,
    ClassNotAllowed: HTTPStatus.BAD_REQUEST,
    RoleNotAllowed: HTTPStatus.BAD_REQUEST,
    PlanNotAllowed: HTTPStatus.BAD_REQUEST,
    NoSuchJob: HTTPStatus.NOT_FOUND,
    NameTaken: HTTPStatus.CONFLICT,
    TooLate: HTTPStatus.CONFLICT,
}
METHODS: Mapping[str, tuple[str, ...]] = {
    "/add-job": ("POST",),
    "/jobs": ("GET",),
    "/jobs/<name>": ("DELETE", "GET", "PATCH"),
    "/jobs/<name>/request": ("GET",),
    "/pools": ("GET",),
    "/doctor": ("GET", "POST"),
}
"""What each path answers to."""
ALL_METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")
MOST_JOBS = 1000
"""The largest and the default `limit` of GET /jobs."""


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
        states, limit = _selection(self._http.current_event.resolved_query_string_parameters)
        jobs = self._manager().statuses(states)[:limit]
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
        pools = [
            wire.pool_view(it.pool, size=it.size, used=it.used) for it in self._manager().pools()
        ]
        return _json(HTTPStatus.OK, wire.PoolsView(pools=pools))

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


def _selection(query: Mapping[str, Sequence[str]]) -> tuple[list[JobState] | None, int]:
    """`?state=` (repeated or comma separated; none: every state) and `?limit=`."""
    for key in query:
        if key not in {"state", "limit"}:
            raise InvalidRequest(f"'{key}' is not known here; use state or limit", field=key)
    words = [word.strip() for text in query.get("state", ()) for word in text.split(",")]
    for word in words:
        if word not in tuple(JobState):
            allowed = ", ".join(JobState)
            raise InvalidRequest(f"state takes any of {allowed}, not '{word[:40]}'", field="state")
    limit = query.get("limit", [str(MOST_JOBS)])[-1]
    if not (limit.isascii() and limit.isdigit() and 1 <= int(limit[:9]) <= MOST_JOBS):
        raise InvalidRequest(
            f"limit takes an integer from 1 to {MOST_JOBS:,}, not '{limit[:40]}'", field="limit"
        )
    return [JobState(word) for word in words] if words else None, int(limit)


def _amendment(body: wire.AmendmentBody) -> Amendment:
    """Its tags are read as a submission's are, together with the tags that it leaves."""

    def revise(request: Request) -> Revision:
        before, _ = wire.parse_submission(request)
        after, revised = wire.parse_submission(wire.retagged(request, body.tags))
        return Revision(request=revised, before=before, after=after)

    return Amendment(held=body.held, revise=revise if body.tags else None)


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
