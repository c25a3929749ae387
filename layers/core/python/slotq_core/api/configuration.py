"""The routes of the configuration: which there are, and what each asks of the caller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from slotq_core.admission.access import Action
from slotq_core.api.router import Answer, Response, Router
from slotq_core.api.signed_requests import SignedRequest
from slotq_core.manager import QueueManager

if TYPE_CHECKING:
    from slotq_core.api.documents import DocumentRoutes
    from slotq_core.api.pools_and_limits import PoolAndLimitRoutes

CONFIGURATION_ACTIONS: Mapping[str, Mapping[str, Action]] = {
    "/pools": {"GET": Action.LOOK},
    "/pools/<name>": {"DELETE": Action.OPERATE, "PATCH": Action.OPERATE},
    "/limits": {"GET": Action.LOOK, "PATCH": Action.OPERATE},
    "/configuration": {"GET": Action.LOOK, "PUT": Action.OPERATE},
    "/projects": {"GET": Action.LOOK},
    "/projects/<name>": {"DELETE": Action.OPERATE, "PATCH": Action.OPERATE},
    "/quota": {"GET": Action.LOOK},
    "/changes": {"GET": Action.LOOK},
}
"""The methods of each path, as `api.ACTIONS`."""


class ConfigurationRoutes:
    """The routes, bound to one manager."""

    def __init__(self, manager: Callable[[], QueueManager], request: SignedRequest) -> None:
        self._manager, self._request = manager, request

    def add_to(self, http: Router) -> None:
        http.add("/pools", ["GET"], self._of_settings(lambda it: it.list_pools))
        http.add("/pools/<name>", ["PATCH"], self._of_settings(lambda it: it.set_pool))
        http.add("/pools/<name>", ["DELETE"], self._of_settings(lambda it: it.remove_pool))
        http.add("/limits", ["GET"], self._of_settings(lambda it: it.get_limits))
        http.add("/limits", ["PATCH"], self._of_settings(lambda it: it.set_limits))
        http.add("/configuration", ["GET"], self._of_documents(lambda it: it.show))
        http.add("/configuration", ["PUT"], self._of_documents(lambda it: it.apply))
        http.add("/projects", ["GET"], self._of_documents(lambda it: it.list_projects))
        http.add("/projects/<name>", ["PATCH"], self._of_documents(lambda it: it.set_project))
        http.add("/projects/<name>", ["DELETE"], self._of_documents(lambda it: it.remove_project))
        http.add("/quota", ["GET"], self._of_documents(lambda it: it.list_quotas))
        http.add("/changes", ["GET"], self._of_documents(lambda it: it.list_changes))

    def _of_settings(self, route: Callable[[PoolAndLimitRoutes], Answer]) -> Answer:
        def answer(**named: str) -> Response:
            return route(self._settings)(**named)

        return answer

    def _of_documents(self, route: Callable[[DocumentRoutes], Answer]) -> Answer:
        def answer(**named: str) -> Response:
            return route(self._documents)(**named)

        return answer

    @cached_property
    def _settings(self) -> PoolAndLimitRoutes:
        """The routes of pools and limits, imported with their first request, as those of documents
        are: they cost a cold start more than what most requests need."""
        from slotq_core.api.pools_and_limits import PoolAndLimitRoutes

        return PoolAndLimitRoutes(self._manager, self._request)

    @cached_property
    def _documents(self) -> DocumentRoutes:
        """The routes of documents, imported with their first request: they cost a cold start more
        than what most requests need."""
        from slotq_core.api.documents import DocumentRoutes

        return DocumentRoutes(self._manager, self._request)
