"""The route of the whole queue, for those who want to reckon on with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus

from slotq_core.admission.access import Action
from slotq_core.manager import QueueManager
from slotq_core.operations.listing.cursor import MOST_ANSWER
from slotq_core.routes.signed_requests import SignedRequest
from slotq_core.routing import Response, Router

SCENARIO_ACTIONS: Mapping[str, Mapping[str, Action]] = {"/scenario": {"GET": Action.LOOK}}
"""The methods of each path, as `api.ACTIONS`."""


class ScenarioRoutes:
    def __init__(self, manager: Callable[[], QueueManager], request: SignedRequest) -> None:
        self._manager, self._request = manager, request

    def add_to(self, http: Router) -> None:
        http.add("/scenario", ["GET"], self._get)

    def _get(self) -> Response:
        # Imported with the first use: most cold starts answer another route.
        from slotq_core.wire.scenario.pages import ScenarioCursor, scenario_page

        query, manager = self._request.query("next"), self._manager()
        after = ScenarioCursor.parse(query["next"][-1]) if "next" in query else None
        settings, revision = manager.configuration.settings()
        queue = manager.as_it_stands.read(to=self._request.caller())
        view = scenario_page(queue, settings, revision, after, most=MOST_ANSWER)
        return Response(status=int(HTTPStatus.OK), body=view.model_dump_json(exclude_defaults=True))
