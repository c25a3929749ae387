"""The routes of what jobs have used, and of the attempts that used it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from http import HTTPStatus

from slotq_core.api.router import Response
from slotq_core.api.signed_requests import SignedRequest, json_answer
from slotq_core.errors import InvalidRequest
from slotq_core.manager import QueueManager
from slotq_core.model.callers import Action
from slotq_core.operations.usage.report import UsageCursor
from slotq_core.operations.usage.timeline import Cursor
from slotq_core.privacy.withholding import use_as_seen
from slotq_core.timestamps import from_iso, iso
from slotq_core.usage.amounts import BY, UsageGroup
from slotq_core.usage.calendar_days import begin_of, is_day
from slotq_core.wire.views.usage import SettledView, attempts_view, usage_view


class UsageRoutes:
    def __init__(self, manager: Callable[[], QueueManager], request: SignedRequest) -> None:
        self._manager, self._request = manager, request

    def get(self) -> Response:
        query = self._request.query()
        by = _grouping(query)
        page = self._manager().usage.page(
            start=_moment("from", query),
            end=_moment("to", query),
            by=by,
            after=UsageCursor.parse(query["next"][-1]) if "next" in query else None,
            names=self._names_to_caller(),
        )
        view = usage_view(
            (page.window.start, page.window.end),
            page.totals,
            by=by,
            as_of=page.as_of,
            unreadable=page.unreadable,
            following=page.next.text() if page.next else None,
        )
        return json_answer(HTTPStatus.OK, view)

    def list_attempts(self) -> Response:
        query = self._request.query()
        page = self._manager().timeline.page(
            start=_moment("from", query),
            end=_moment("to", query),
            pool=query["pool"][-1] if "pool" in query else "",
            after=Cursor.parse(query["next"][-1]) if "next" in query else None,
        )
        sees, settled = self._sight(), None
        if page.settled is not None:
            settled = SettledView(
                attempts=page.settled.attempts,
                gone=page.settled.gone,
                unreadable=page.settled.unreadable,
                next=page.settled.next.text(),
            )
        view = attempts_view(
            (page.start, page.end),
            (use_as_seen(use, sees) for use in page.attempts),
            as_of=page.as_of,
            gone=page.gone,
            unreadable=page.unreadable,
            following=page.next.text() if page.next else None,
            settled=settled,
        )
        return json_answer(HTTPStatus.OK, view)

    def _sight(self) -> Callable[[str, str], bool]:
        """Whether the caller may see the jobs of a project and person. For many attempts: it asks
        once for each of both."""
        caller, permissions = self._request.caller(), self._manager().authorizer.now()

        @cache
        def sees(project: str, submitter: str) -> bool:
            return permissions.may_among(Action.SEE, caller, project=project, submitter=submitter)

        return sees

    def _names_to_caller(self) -> Callable[[UsageGroup], bool]:
        """Whether the caller may see whose use a group is."""
        caller, permissions = self._request.caller(), self._manager().authorizer.now()

        def names(group: UsageGroup) -> bool:
            return permissions.may_among(
                Action.SEE_PERSON, caller, project=group.project, submitter=group.submitter
            )

        return names


def _grouping(query: Mapping[str, Sequence[str]]) -> list[str]:
    """What `?by=` names (repeated, or comma separated). Raises InvalidRequest."""
    words = [word.strip() for text in query.get("by", ()) for word in text.split(",")]
    for word in words:
        if word not in BY:
            raise InvalidRequest(f"by takes any of {', '.join(BY)}, not '{word[:40]}'", field="by")
    return list(dict.fromkeys(words))


def _moment(key: str, query: Mapping[str, Sequence[str]]) -> int | None:
    """A moment or a day in UTC (ms); None if absent. Raises InvalidRequest."""
    if key not in query:
        return None
    text = query[key][-1]
    try:
        moment = begin_of(text) if is_day(text) else from_iso(text)
        iso(moment)  # In UTC it may lie in the year 10000, which has no text.
        return moment
    except (ValueError, TypeError, OverflowError):
        raise InvalidRequest(
            f"{key} takes a day or a moment such as 2026-11-20T10:30:00Z, not '{text[:40]}'",
            field=key,
        ) from None
