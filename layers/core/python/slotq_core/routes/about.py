"""The routes about the queue itself and about its caller."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING

from slotq_core.admission.access import Action
from slotq_core.manager import QueueManager
from slotq_core.routes.signed_requests import SignedRequest, json_answer
from slotq_core.routing import Response, Router
from slotq_core.version import __version__

if TYPE_CHECKING:
    from slotq_core.ports.stored import Finding

ABOUT_ACTIONS: Mapping[str, Mapping[str, Action]] = {
    "/version": {"GET": Action.LOOK},
    "/me": {"GET": Action.LOOK},
    "/doctor": {"GET": Action.OPERATE, "POST": Action.OPERATE},
}
"""The methods of each path, as `api.ACTIONS`."""


class AboutRoutes:
    """The answers' models are imported with the first such request."""

    def __init__(self, manager: Callable[[], QueueManager], request: SignedRequest) -> None:
        self._manager, self._request = manager, request

    def add_to(self, http: Router) -> None:
        http.add("/version", ["GET"], self._about)
        http.add("/me", ["GET"], self._me)
        http.add("/doctor", ["GET"], self._examine)
        http.add("/doctor", ["POST"], self._mend)

    def _about(self) -> Response:
        from slotq_core.wire.views.about import AboutView

        view = AboutView(slotq=__version__, caller=self._request.caller(), dry_runs=True)
        return json_answer(HTTPStatus.OK, view)

    def _me(self) -> Response:
        from slotq_core.wire.views.about import MembershipView, MeView

        caller, permissions = self._request.caller(), self._manager().authorizer.now()
        people = permissions.people
        projects = [
            MembershipView(name=it.project, role=it.role.name.lower(), default=it.default)
            for it in permissions.memberships(caller)
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

    def _examine(self) -> Response:
        return _findings(self._manager().doctor.examine_if_due())

    def _mend(self) -> Response:
        self._request.query()
        return _findings(self._manager().doctor.examine_if_due(fix=True))


def _findings(found: Iterable[Finding]) -> Response:
    from slotq_core.wire.views.about import DoctorView, FindingView

    views = [
        FindingView(kind=it.kind, subject=it.subject, text=it.text, mended=it.mended)
        for it in found
    ]
    return json_answer(HTTPStatus.OK, DoctorView(findings=views))
