"""The routes of groups of jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING

from slotq_core.admission.access import Action
from slotq_core.manager import QueueManager
from slotq_core.model.jobs import Job
from slotq_core.routes.signed_requests import SignedRequest, json_answer
from slotq_core.routing import Response, Router
from slotq_core.wire.views import JobView

if TYPE_CHECKING:
    from slotq_core.operations.jobs.groups import GroupStatus

GROUP_ACTIONS: Mapping[str, Mapping[str, Action]] = {
    "/groups": {"POST": Action.SUBMIT},
    "/groups/<name>": {"GET": Action.SEE},
}
"""The methods of each path, as `api.ACTIONS`."""


class GroupRoutes:
    def __init__(
        self,
        manager: Callable[[], QueueManager],
        request: SignedRequest,
        view: Callable[[Job], JobView],
    ) -> None:
        self._manager, self._request, self._view = manager, request, view

    def add_to(self, http: Router) -> None:
        http.add("/groups", ["POST"], self._submit)
        http.add("/groups/<name>", ["GET"], self._get)

    def _submit(self) -> Response:
        # Imported with the first use: most cold starts answer another route.
        from slotq_core.operations.jobs.groups import NewGroup
        from slotq_core.wire.groups.submission import parse_group

        submitter = self._request.caller()
        body, members, digest = parse_group(self._request.body())
        wanted = NewGroup(
            name=body.name, max_parallel=body.max_parallel, members=members, digest=digest
        )
        status = self._manager().groups.submit(wanted, submitter=submitter)
        return self._answer(HTTPStatus.ACCEPTED, status)

    def _get(self, name: str) -> Response:
        status = self._manager().groups.status(name, to=self._request.caller())
        return self._answer(HTTPStatus.OK, status)

    def _answer(self, code: HTTPStatus, status: GroupStatus) -> Response:
        from slotq_core.wire.groups.views import group_view

        return json_answer(code, group_view(status.stored, [*map(self._view, status.jobs)]))
