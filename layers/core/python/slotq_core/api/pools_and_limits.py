"""The routes of pools and of the limits of callers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from http import HTTPStatus

from slotq_core.api.router import Response
from slotq_core.api.signed_requests import SignedRequest, json_answer, number
from slotq_core.manager import QueueManager
from slotq_core.wire.configuration import OwnLimitsView, limits_view, parse_limits, parse_pool
from slotq_core.wire.views.pools import PoolsView, pool_view


class PoolAndLimitRoutes:
    """The routes, bound to one manager."""

    def __init__(self, manager: Callable[[], QueueManager], request: SignedRequest) -> None:
        self._manager, self._request = manager, request

    def list_pools(self, warnings: Sequence[str] = ()) -> Response:
        manager = self._manager()
        revision = manager.configuration.revision()  # First: it is never newer than the pools.
        pools = [
            pool_view(
                pool.pool,
                now=pool.at,
                size=pool.size,
                used=pool.used,
                hours=pool.hours,
                warm=pool.warm,
            )
            for pool in manager.overview.pools()
        ]
        return json_answer(
            HTTPStatus.OK, PoolsView(pools=pools, revision=revision, warnings=[*warnings])
        )

    def set_pool(self, name: str) -> Response:
        # Looks are many, and changes few.
        from slotq_core.operations.configuring.advice import warm_warnings

        caller, (settings, seen) = self._request.caller(), parse_pool(self._request.body())
        done = self._manager().configuration.set_pool(name, settings, by=caller, seen=seen)
        changed = (pool for pool in done.after.pools if pool.name == name)
        return self.list_pools([*done.warnings, *warm_warnings(changed)])

    def remove_pool(self, name: str) -> Response:
        caller, seen = self._request.caller(), number("revision", self._request.query(), low=0)
        self._manager().configuration.remove_pool(name, by=caller, seen=seen)
        return self.list_pools()

    def get_limits(self) -> Response:
        status = self._manager().overview.limits(caller=self._request.caller())
        own = OwnLimitsView(
            caller=status.caller,
            counted_as=status.counted_as,
            waiting=status.own.waiting,
            waiting_used=status.use.waiting,
            submissions=status.own.submissions,
            submissions_used=status.use.submissions,
            priority=status.own.priority,
        )
        configuration = status.configuration
        view = limits_view(
            configuration.limits, revision=configuration.revision, own=own, use=configuration.use
        )
        return json_answer(HTTPStatus.OK, view)

    def set_limits(self) -> Response:
        caller, (settings, seen) = self._request.caller(), parse_limits(self._request.body())
        self._manager().configuration.set_limits(settings, by=caller, seen=seen)
        return self.get_limits()
