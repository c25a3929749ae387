"""The routes of the queue itself: the whole of it as data, its release, its caller, its records."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING

from slotq_core import __version__
from slotq_core.api.router import Response
from slotq_core.api.signed_requests import SignedRequest, json_answer
from slotq_core.errors import NoSuchNode
from slotq_core.manager import QueueManager
from slotq_core.operations.jobs.listing import MOST_ANSWER
from slotq_core.wire.views.about import (
    AboutView,
    DoctorView,
    FindingView,
    MembershipView,
    MeView,
    NodeReportView,
)

if TYPE_CHECKING:
    from slotq_core.ports.stored import Finding


class QueueRoutes:
    def __init__(self, manager: Callable[[], QueueManager], request: SignedRequest) -> None:
        self._manager, self._request = manager, request

    def scenario(self) -> Response:
        # Pages of the scenario need what most of these routes do not.
        from slotq_core.wire.scenario.pages import ScenarioCursor, scenario_page

        query, manager = self._request.query(), self._manager()
        after = ScenarioCursor.parse(query["next"][-1]) if "next" in query else None
        settings, revision = manager.configuration.settings()
        queue = manager.queue_snapshots.read(to=self._request.caller())
        view = scenario_page(queue, settings, revision, after, most=MOST_ANSWER)
        text = view.model_dump_json(exclude_defaults=True)
        return Response(status=int(HTTPStatus.OK), body=text, has_reports=bool(queue.etas))

    def nodes(self) -> Response:
        from slotq_core.wire.views.nodes import NodesView, node_view  # Few queues have nodes.

        found = self._manager().queue_snapshots.nodes(to=self._request.caller())
        views = [
            node_view(
                status.node,
                status.pool,
                jobs=status.jobs,
                claimants=status.claimants,
                sees=status.sees,
            )
            for status in found
        ]
        return json_answer(HTTPStatus.OK, NodesView(nodes=views))

    def about(self) -> Response:
        view = AboutView(slotq=__version__, caller=self._request.caller(), dry_runs=True)
        return json_answer(HTTPStatus.OK, view)

    def me(self) -> Response:
        caller, permissions = self._request.caller(), self._manager().authorizer.now()
        people = permissions.people
        projects = [
            MembershipView(
                name=membership.project,
                role=membership.role.name.lower(),
                default=membership.default,
            )
            for membership in permissions.memberships(caller)
        ]
        view = MeView(
            caller=caller,
            person=people.person(caller),
            why=people.why(caller),
            projects=projects,
            shared=bool(permissions.sharing.projects),
            operates=permissions.may_operate(caller),
        )
        return json_answer(HTTPStatus.OK, view)

    def look_at_node(self, pool: str, name: str) -> Response:
        nodes = self._manager().periodic.nodes
        if nodes is None:
            raise NoSuchNode("this deployment keeps no nodes", field="name")
        number = nodes.look_at(pool, name)
        return json_answer(HTTPStatus.OK, NodeReportView(number=number))

    def examine(self) -> Response:
        return _findings(self._manager().doctor.examine_if_due())

    def mend(self) -> Response:
        return _findings(self._manager().doctor.examine_if_due(fix=True))


def _findings(found: Iterable[Finding]) -> Response:
    views = [
        FindingView(
            kind=finding.kind, subject=finding.subject, text=finding.text, mended=finding.mended
        )
        for finding in found
    ]
    return json_answer(HTTPStatus.OK, DoctorView(findings=views))
