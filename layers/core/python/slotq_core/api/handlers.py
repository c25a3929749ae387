"""The functions that answer the routes, bound to one manager. Those of jobs come with the API; each
other group is imported with its first request: it costs a cold start more than most requests need.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from slotq_core.api.jobs import JobRoutes
from slotq_core.api.signed_requests import SignedRequest
from slotq_core.errors import SlotQError
from slotq_core.manager import QueueManager
from slotq_core.wire.views.errors import ErrorView

if TYPE_CHECKING:
    from slotq_core.api.documents import DocumentRoutes
    from slotq_core.api.groups import GroupRoutes
    from slotq_core.api.pools_and_limits import PoolAndLimitRoutes
    from slotq_core.api.queue import QueueRoutes
    from slotq_core.api.usage import UsageRoutes


class Handlers:
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
