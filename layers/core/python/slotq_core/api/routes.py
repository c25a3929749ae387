"""The HTTP API of the manager: the table of routes, and each refusal as an `ErrorView`.

Imported only at the first API call: pydantic and the views cost more than the rest of a cold start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from slotq_core.api.jobs import JobRoutes
from slotq_core.api.router import Answer, Response, Router
from slotq_core.api.signed_requests import SignedRequest, json_answer
from slotq_core.api.table.of_jobs import JOB_ROUTES
from slotq_core.api.table.of_queue import QUEUE_ROUTES
from slotq_core.api.table.of_settings import SETTING_ROUTES
from slotq_core.api.table.route import Route
from slotq_core.api.tags import Question, Tags, tags_in
from slotq_core.errors import Conflict, LimitReached, Refused, SlotQError, Unavailable
from slotq_core.manager import QueueManager
from slotq_core.model.callers import Action
from slotq_core.ports.surroundings import QueueVersion
from slotq_core.wire.base import ErrorView, FaultView

if TYPE_CHECKING:
    from slotq_core.api.documents import DocumentRoutes
    from slotq_core.api.groups import GroupRoutes
    from slotq_core.api.pools_and_limits import PoolAndLimitRoutes
    from slotq_core.api.queue import QueueRoutes
    from slotq_core.api.usage import UsageRoutes

ROUTES: tuple[Route, ...] = (*JOB_ROUTES, *SETTING_ROUTES, *QUEUE_ROUTES)

METHODS: Mapping[str, tuple[str, ...]] = {
    path: tuple(sorted(route.method for route in ROUTES if route.path == path))
    for path in dict.fromkeys(route.path for route in ROUTES)
}
"""The methods of each path."""

_ROUTES: Mapping[tuple[str, str], Route] = {(route.path, route.method): route for route in ROUTES}

UNAVAILABLE, INTERNAL_ERROR = "unavailable", "internal_error"
"""The codes of the queue's own errors."""
OTHER = "OTHER"
"""Any method that is not listed here."""
ALL_METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", OTHER)


class Handlers:
    """The functions that answer, bound to one manager. Those of jobs are imported with the API, any
    other group with its first request, to keep cold starts short."""

    def __init__(
        self,
        manager: Callable[[], QueueManager],
        request: SignedRequest,
        error_view: Callable[[SlotQError], ErrorView],
    ) -> None:
        """`error_view` shows the error that left one of several jobs unchanged."""
        self._manager, self._request = manager, request
        self.jobs: JobRoutes = JobRoutes(manager, request, error_view)

    @cached_property
    def groups(self) -> GroupRoutes:
        from slotq_core.api.groups import GroupRoutes

        return GroupRoutes(self._manager, self._request, self.jobs.views)

    @cached_property
    def pools_and_limits(self) -> PoolAndLimitRoutes:
        from slotq_core.api.pools_and_limits import PoolAndLimitRoutes

        return PoolAndLimitRoutes(self._manager, self._request)

    @cached_property
    def documents(self) -> DocumentRoutes:
        from slotq_core.api.documents import DocumentRoutes

        return DocumentRoutes(self._manager, self._request)

    @cached_property
    def usage(self) -> UsageRoutes:
        from slotq_core.api.usage import UsageRoutes

        return UsageRoutes(self._manager, self._request)

    @cached_property
    def queue(self) -> QueueRoutes:
        from slotq_core.api.queue import QueueRoutes

        return QueueRoutes(self._manager, self._request)


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
        self._http = http = Router(not_found=_no_route, before=self._check)
        self._request = SignedRequest(http)
        self._handlers = Handlers(manager, self._request, self._error_of)
        self._tags = Tags(self._version)
        for route in ROUTES:
            http.add(route.path, [route.method], self._answer_of(route))
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

    def _answer_of(self, route: Route) -> Answer:
        def answer(**named: str) -> Response:
            return route.handler(self._handlers)(**named)

        def tagged(**named: str) -> Response:
            return self._tags.answer(self._question(), lambda: answer(**named))

        return tagged if route.tagged else answer

    def _version(self) -> tuple[QueueVersion, int]:
        return self._manager().overview.version()

    def _question(self) -> Question:
        request = self._request
        tags = tags_in(request.header("If-None-Match"))
        return Question(
            caller=request.caller(), path=request.path, query=request.query(), tags=tags
        )

    def _check(self, path: str, method: str) -> None:
        """Check that the caller is known, what can be checked before a job is, and the query.
        Raises NotSigned, NotPermitted and InvalidRequest."""
        route = _ROUTES.get((path, method))
        if route is None:
            return  # The answer names the methods that there are.
        caller = self._request.caller()
        if route.action is Action.OPERATE:
            self._manager().authorizer.check_operates(by=caller)
        if route.known is not None:
            self._request.check_query(route.known)

    def _error_of(self, error: SlotQError) -> ErrorView:
        """The error that left one of several jobs unchanged."""
        from slotq_core.operations.bulk import NotReached

        if isinstance(error, Refused):
            return _refusal(error)
        if isinstance(error, NotReached):
            return ErrorView(code=UNAVAILABLE, message=str(error))
        self._unexpected(error)
        return ErrorView(code=INTERNAL_ERROR, message=self._failure())

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
