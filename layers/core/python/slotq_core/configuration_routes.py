"""The routes of the configuration: pools, limits, projects, the whole document, the record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus

from slotq_core.manager import QueueManager
from slotq_core.operations.configuring.configurator import Changed
from slotq_core.routing import Response, Router
from slotq_core.signed_requests import SignedRequest, json_answer, number, switch
from slotq_core.wire import views as wire
from slotq_core.wire.configuration import (
    OwnLimitsView,
    limits_view,
    parse_limits,
    parse_pool,
)
from slotq_core.wire.document.amending import with_project
from slotq_core.wire.document.differences import differences
from slotq_core.wire.document.views import (
    applied_view,
    configuration_view,
    parse_configuration,
    parse_project,
    projects_view,
)
from slotq_core.wire.record import Recorded, changes_view

CONFIGURATION_METHODS: Mapping[str, tuple[str, ...]] = {
    "/pools": ("GET",),
    "/pools/<name>": ("DELETE", "PATCH"),
    "/limits": ("GET", "PATCH"),
    "/configuration": ("GET", "PUT"),
    "/projects": ("GET",),
    "/projects/<name>": ("DELETE", "PATCH"),
    "/changes": ("GET",),
}
"""The methods of each path."""
MOST_CHANGES = 100
"""The largest and the default `limit` of GET /changes."""


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
        http.add("/configuration", ["GET"], self._get_configuration)
        http.add("/configuration", ["PUT"], self._apply)
        http.add("/projects", ["GET"], self._list_projects)
        http.add("/projects/<name>", ["PATCH"], self._set_project)
        http.add("/projects/<name>", ["DELETE"], self._remove_project)
        http.add("/changes", ["GET"], self._list_changes)

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
        caller, seen = self._request.caller(), self._revision("revision")
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

    def _get_configuration(self) -> Response:
        settings, revision = self._manager().configuration.settings()
        return json_answer(HTTPStatus.OK, configuration_view(settings, revision))

    def _apply(self) -> Response:
        caller, dry_run = self._request.caller(), switch("dry_run", self._request.query("dry_run"))
        settings, seen = parse_configuration(self._request.body())
        done = self._manager().configuration.apply(settings, by=caller, seen=seen, dry_run=dry_run)
        return _applied(done, dry_run=dry_run)

    def _list_projects(self) -> Response:
        manager = self._manager()
        settings, revision = manager.configuration.settings()
        used = manager.used_by_projects() if settings.sharing.projects else {}
        view = projects_view(settings.sharing.projects, used, revision=revision)
        return json_answer(HTTPStatus.OK, view)

    def _set_project(self, name: str) -> Response:
        caller, (keys, seen) = self._request.caller(), parse_project(self._request.body())
        done = self._manager().configuration.change(
            lambda now: with_project(now, name, keys), by=caller, seen=seen
        )
        return _applied(done)

    def _remove_project(self, name: str) -> Response:
        caller, seen = self._request.caller(), self._revision("revision", "move_to")
        move_to = self._request.query("revision", "move_to").get("move_to", [None])[-1]
        done = self._manager().configuration.remove_project(
            name, by=caller, seen=seen, move_to=move_to
        )
        return _applied(done)

    def _list_changes(self) -> Response:
        query = self._request.query("limit")
        limit = number("limit", query, low=1, high=MOST_CHANGES) or MOST_CHANGES
        changes = [
            Recorded(
                revision=it.revision,
                who=it.who,
                at=it.at,
                pools=(it.before, it.after),
                limits=(it.limits_before, it.limits_after),
                sharing=it.sharing,
            )
            for it in self._manager().configuration.changes(limit=limit)
        ]
        return json_answer(HTTPStatus.OK, changes_view(changes))

    def _revision(self, *known: str) -> int | None:
        return number("revision", self._request.query(*known), low=0)


def _applied(done: Changed, *, dry_run: bool = False) -> Response:
    found = differences(done.before, done.after)
    view = applied_view(found, revision=done.revision, dry_run=dry_run, moved=done.moved)
    return json_answer(HTTPStatus.OK, view)
