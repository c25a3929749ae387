"""The routes of the whole configuration as a document, of projects, and of the record."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from slotq_core.api.router import Response
from slotq_core.api.signed_requests import SignedRequest, json_answer, number
from slotq_core.api.table.of_settings import MOST_CHANGES
from slotq_core.manager import QueueManager
from slotq_core.operations.configuring.advice import (
    notification_warnings,
    scheduler_warnings,
    warm_warnings,
)
from slotq_core.operations.configuring.configurator import AppliedSettings
from slotq_core.operations.overview import NO_SHARERS
from slotq_core.privacy.identity import People
from slotq_core.wire.document.amending import with_project
from slotq_core.wire.document.differences import differences
from slotq_core.wire.document.values import EVERYONE
from slotq_core.wire.document.views import (
    applied_view,
    configuration_view,
    parse_configuration,
    parse_project,
    projects_view,
    quotas_view,
)
from slotq_core.wire.record import Recorded, changes_view


class DocumentRoutes:
    """The routes, bound to one manager."""

    def __init__(self, manager: Callable[[], QueueManager], request: SignedRequest) -> None:
        self._manager, self._request = manager, request

    def show(self) -> Response:
        settings, revision = self._manager().configuration.settings()
        return json_answer(HTTPStatus.OK, configuration_view(settings, revision))

    def apply(self) -> Response:
        caller, dry_run = self._request.caller(), self._request.is_dry_run()
        settings, seen = parse_configuration(self._request.body())
        done = self._manager().configuration.apply(settings, by=caller, seen=seen, dry_run=dry_run)
        return self._applied(done, dry_run=dry_run)

    def list_projects(self) -> Response:
        manager = self._manager()
        settings, revision = manager.configuration.settings()
        sharers = manager.overview.sharers() if settings.sharing.projects else NO_SHARERS
        view = projects_view(
            settings, sharers.held, sharers.standings, sharers.budgets, revision=revision
        )
        return json_answer(HTTPStatus.OK, view)

    def set_project(self, name: str) -> Response:
        caller, (keys, seen) = self._request.caller(), parse_project(self._request.body())
        done = self._manager().configuration.change(
            lambda now: with_project(now, name, keys), by=caller, seen=seen
        )
        return self._applied(done)

    def remove_project(self, name: str) -> Response:
        caller, query = self._request.caller(), self._request.query()
        seen, move_to = number("revision", query, low=0), query.get("move_to", [None])[-1]
        done = self._manager().configuration.remove_project(
            name, by=caller, seen=seen, move_to=move_to
        )
        return self._applied(done)

    def list_quotas(self) -> Response:
        """What the caller holds of the caller's limits; of others for operators alone."""
        caller, query = self._request.caller(), self._request.query()
        manager = self._manager()
        sharing = manager.configuration.settings()[0].sharing
        person = People(session_roles=sharing.session_roles).person(caller)
        user = query.get("user", [person])[-1]
        if user != person:
            manager.authorizer.check_operates(by=caller)
        quotas = manager.overview.user_quotas(None if user == EVERYONE else user)
        return json_answer(HTTPStatus.OK, quotas_view(quotas, sharing.contact))

    def list_changes(self) -> Response:
        query = self._request.query()
        limit = number("limit", query, low=1, high=MOST_CHANGES) or MOST_CHANGES
        changes = [
            Recorded(
                revision=change.revision,
                who=change.who,
                at=change.at,
                pools=(change.before, change.after),
                limits=(change.limits_before, change.limits_after),
                sharing=change.sharing,
            )
            for change in self._manager().configuration.changes(limit=limit)
        ]
        return json_answer(HTTPStatus.OK, changes_view(changes))

    def _applied(self, done: AppliedSettings, *, dry_run: bool = False) -> Response:
        """The answer to a change, with warnings about scheduling and notifications."""
        mode = self._manager().configuration.notification_mode
        warnings = [
            *scheduler_warnings(done.after),
            *done.warnings,
            *warm_warnings(done.after.pools),
            *notification_warnings(done.after, mode),
        ]
        view = applied_view(
            differences(done.before, done.after),
            revision=done.revision,
            dry_run=dry_run,
            moved=done.moved,
            warnings=warnings,
        )
        return json_answer(HTTPStatus.OK, view)
