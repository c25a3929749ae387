"""The routes of groups of jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING

from slotq_core.api.router import Response
from slotq_core.api.signed_requests import (
    SignedRequest,
    fitting_views,
    json_answer,
    number,
    switch,
)
from slotq_core.manager import QueueManager
from slotq_core.operations.status import Status

if TYPE_CHECKING:
    from slotq_core.admission.groups import NewGroup
    from slotq_core.operations.jobs.group_lookup import GroupStatus
    from slotq_core.wire.groups.group_submission import GroupText
    from slotq_core.wire.groups.views import GroupSummaryView
    from slotq_core.wire.views.jobs import JobView


class GroupRoutes:
    def __init__(
        self,
        manager: Callable[[], QueueManager],
        request: SignedRequest,
        views: Callable[[Iterable[Status]], Iterable[JobView]],
    ) -> None:
        """`views` shows jobs, with the summary of those that run."""
        self._manager, self._request, self._views = manager, request, views

    def submit(self) -> Response:
        # Imported with the first use: most cold starts answer another route.
        from slotq_core.wire.groups.group_submission import read_group

        submitter, dry_run = self._request.caller(), self._request.is_dry_run()
        text, groups = read_group(self._request.body()), self._manager().groups
        groups.check_room(text.body.name, submitter=submitter)
        wanted = _new_group(text)
        if dry_run:
            return self._answer(HTTPStatus.OK, groups.dry_run(wanted, submitter=submitter))
        return self._answer(HTTPStatus.ACCEPTED, groups.submit(wanted, submitter=submitter))

    def get(self, name: str) -> Response:
        query = self._request.query()
        with_attempts = switch("attempts", query)
        start = number("next", query, low=1) or 0
        status = self._manager().group_lookup.status(
            name, to=self._request.caller(), with_attempts=with_attempts
        )
        return self._answer(HTTPStatus.OK, status, start)

    def list_groups(self) -> Response:
        from slotq_core.wire.groups.views import GroupsView

        ended = switch("ended", self._request.query())
        lookup = self._manager().group_lookup
        found, examined = lookup.all(to=self._request.caller(), ended=ended)
        views = [*map(_summary, found)]
        shown = fitting_views(views)
        left_out = len(views) - len(shown)
        view = GroupsView(groups=[*shown], left_out=left_out, examined=examined)
        return json_answer(HTTPStatus.OK, view)

    def _answer(self, code: HTTPStatus, status: GroupStatus, start: int = 0) -> Response:
        """The page that starts at this place. The first page includes the sweep."""
        from slotq_core.wire.groups.sweep import sweep_view
        from slotq_core.wire.groups.views import group_view

        page, following = status.page(start)
        shows_sweep = start == 0 and status.stored.sweep is not None
        shown = status.members if shows_sweep else page
        jobs = dict(zip(shown, self._views(shown.values()), strict=True))
        sweep = (
            sweep_view(status.stored, jobs, shows_parameters=status.own) if shows_sweep else None
        )
        beside = group_view(_summary(status), [], status.reason, status.result, sweep=sweep)
        views = fitting_views([jobs[name] for name in page], beside=beside)
        if len(views) < len(page):
            following = status.stored.group.members.index([*page][len(views)])
        text = None if following is None else str(following)
        view = beside.model_copy(update={"jobs": [*views], "next": text})
        return json_answer(code, view, has_reports=any(job.progress for job in jobs.values()))


def _new_group(text: GroupText) -> NewGroup:
    from slotq_core.admission.groups import NewGroup
    from slotq_core.wire.groups.sweep import sweep_in

    body = text.body
    sweep = sweep_in(body.sweep, len(body.members)) if body.sweep else None
    members, digest = text.members()
    return NewGroup(
        name=body.name,
        members=members,
        digest=digest,
        max_parallel=body.max_parallel,
        sweep=sweep,
        **(body.gang.rules if body.gang else {}),
    )


def _summary(status: GroupStatus) -> GroupSummaryView:
    from slotq_core.wire.groups.views import gang_view, summary_view

    summary, group = status.summary, status.stored.group
    return summary_view(
        status.stored,
        (member.job.state for member in status.members.values()),
        gang=gang_view(group, needed=summary.needed, ready=summary.ready, missing=summary.missing)
        if group.max_parallel is None
        else None,
        state=summary.state or "",
        message=summary.message,
    )
