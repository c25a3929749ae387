"""The routes of the configuration. Those of pools and limits are here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING

from slotq_core.admission.access import Action
from slotq_core.manager import QueueManager
from slotq_core.routes.signed_requests import SignedRequest, json_answer, number
from slotq_core.routing import Answer, Response, Router
from slotq_core.wire import views as wire
from slotq_core.wire.configuration import (
    OwnLimitsView,
    limits_view,
    parse_limits,
    parse_pool,
)

if TYPE_CHECKING:
    from slotq_core.routes.documents import DocumentRoutes

CONFIGURATION_ACTIONS: Mapping[str, Mapping[str, Action]] = {
    "/pools": {"GET": Action.LOOK},
    "/pools/<name>": {"DELETE": Action.OPERATE, "PATCH": Action.OPERATE},
    "/limits": {"GET": Action.LOOK, "PATCH": Action.OPERATE},
    "/configuration": {"GET": Action.LOOK, "PUT": Action.OPERATE},
    "/projects": {"GET": Action.LOOK},
    "/projects/<name>": {"DELETE": Action.OPERATE, "PATCH": Action.OPERATE},
    "/changes": {"GET": Action.LOOK},
}
"""The methods of each path, as `api.ACTIONS`."""


class ConfigurationRoutes:
    """The routes, bound to one manager."""

    def __init__(self, manager: Callable[[], QueueManager], request: SignedRequest) -> None:
        self._manager, self._request = manager, request

    def add_to(self, http: Router) -> None:
        http.add("/pools", ["GET"], self._list_pools)
        http.add("/pools/<name>", ["PATCH"], self._set_pool)
        http.add("/pools/<name>", ["DELETE"], self._remove_pool)
        http.add("/limits", ["GET"], self._get_limits)
        http.add("/limits", ["PATCH"], self._set_limits)
        http.add("/configuration", ["GET"], self._of_documents(lambda it: it.show))
        http.add("/configuration", ["PUT"], self._of_documents(lambda it: it.apply))
        http.add("/projects", ["GET"], self._of_documents(lambda it: it.list_projects))
        http.add("/projects/<name>", ["PATCH"], self._of_documents(lambda it: it.set_project))
        http.add("/projects/<name>", ["DELETE"], self._of_documents(lambda it: it.remove_project))
        http.add("/changes", ["GET"], self._of_documents(lambda it: it.list_changes))

    def _of_documents(self, route: Callable[[DocumentRoutes], Answer]) -> Answer:
        def answer(**named: str) -> Response:
            return route(self._documents)(**named)

        return answer

    def _list_pools(self) -> Response:
        manager = self._manager()
        revision = manager.configuration.revision()  # First: it is never newer than the pools.
        pools = [wire.pool_view(it.pool, size=it.size, used=it.used) for it in manager.pools()]
        return json_answer(HTTPStatus.OK, wire.PoolsView(pools=pools, revision=revision))

    def _set_pool(self, name: str) -> Response:
        caller, (settings, seen) = self._request.caller(), parse_pool(self._request.body())
        self._manager().configuration.set_pool(name, settings, by=caller, seen=seen)
        return self._list_pools()

    def _remove_pool(self, name: str) -> Response:
        caller, seen = (
            self._request.caller(),
            number("revision", self._request.query("revision"), low=0),
        )
        self._manager().configuration.remove_pool(name, by=caller, seen=seen)
        return self._list_pools()

    def _get_limits(self) -> Response:
        it = self._manager().limits(caller=self._request.caller())
        own = OwnLimitsView(
            caller=it.caller,
            counted_as=it.counted_as,
            waiting=it.own.waiting,
            waiting_used=it.use.waiting,
            submissions=it.own.submissions,
            submissions_used=it.use.submissions,
            priority=it.own.priority,
        )
        stand = it.stand
        view = limits_view(stand.limits, revision=stand.revision, own=own, use=stand.use)
        return json_answer(HTTPStatus.OK, view)

    def _set_limits(self) -> Response:
        caller, (settings, seen) = self._request.caller(), parse_limits(self._request.body())
        self._manager().configuration.set_limits(settings, by=caller, seen=seen)
        return self._get_limits()

    @cached_property
    def _documents(self) -> DocumentRoutes:
        """The routes of documents, imported with their first request: they cost a cold start more
        than what most requests need."""
        from slotq_core.routes.documents import DocumentRoutes

        return DocumentRoutes(self._manager, self._request)
