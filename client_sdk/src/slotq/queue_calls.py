"""Calls beside jobs, groups and sweeps: `queue.pools`, `queue.projects` and `queue.configuration`;
`queue.usage`, who held slots when; `queue.service`, the queue itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from slotq.cost.used import Used
from slotq.errors import ExaminedLately, InvalidRequest, NoSuchPool, Outdated
from slotq.jobs.rendering import PoolList
from slotq.transport.connection import ConnectedCalls, below, stated
from slotq_core.spelling import unknown
from slotq_core.timestamps import from_iso, zoned
from slotq_core.usage.amounts import Totals, merge
from slotq_core.wire.configuration import LimitsView
from slotq_core.wire.document.views import (
    AppliedView,
    ConfigurationView,
    ProjectsView,
    QuotasView,
)
from slotq_core.wire.record import ChangesView, ChangeView
from slotq_core.wire.scenario.views import ScenarioView
from slotq_core.wire.views.about import AboutView, DoctorView, FindingView, MeView
from slotq_core.wire.views.nodes import NodesView, NodeView
from slotq_core.wire.views.pools import (
    PoolReservationView,
    PoolsView,
    PoolView,
    reservations_view,
)
from slotq_core.wire.views.usage import AttemptsPageView, HeldSlotsView, UsagePageView, totals_in


class PoolCalls(ConnectedCalls):
    """Pools by name. `queue.pools()` lists them."""

    def __call__(self) -> list[PoolView]:
        """The pools in their order, with their use and health."""
        return PoolList(self.view().pools)

    def view(self) -> PoolsView:
        """The pools, with the revision of the configuration."""
        return self._read(PoolsView, "GET", "/pools")

    def nodes(self) -> list[NodeView]:
        """The nodes of every pool, with the jobs on their GPUs. A job that the caller may not see
        has no name."""
        return self._read(NodesView, "GET", "/nodes").nodes

    def set(
        self, name: str, settings: Mapping[str, Any], *, revision: int | None = None
    ) -> PoolsView:
        """Change a pool's settings, or create a pool with `slots` and `instance_type`; other
        settings stay. Durations are in seconds, None removes one (`PoolSettingsView` lists all
        settings). `slots` or `forget_limit: True` also forgets the capacity limit that SageMaker's
        refusals have shown.

        `revision`: what this was decided on. Raises InvalidRequest, NoSuchPool, Outdated (there is
        another revision by now). The same settings again are no error.
        """
        body = stated(settings, revision)
        return self._read(PoolsView, "PATCH", below("/pools", name), body=body)

    def remove(self, name: str, *, revision: int | None = None) -> PoolsView:
        """Raises NoSuchPool, Outdated, PoolInUse (jobs run there, or wait for it alone) and
        InvalidRequest for the last pool."""
        query = stated({}, revision) or None
        return self._read(PoolsView, "DELETE", below("/pools", name), query=query)

    def reservations(self) -> list[PoolReservationView]:
        """The reservations of all pools that have not ended."""
        return reservations_view(self.view()).reservations

    def reserve(
        self,
        project: str,
        slots: int,
        begins: str | datetime,
        ends: str | datetime,
        *,
        pool: str | None = None,
    ) -> PoolsView:
        """Set slots of a pool aside for a project. `pool` may be left out if there is one only.
        Times name a zone: `2026-12-01 20:00 Europe/Berlin`, or ISO 8601 with an offset.

        Raises InvalidRequest (such as more than the pool has), NoSuchPool, NoSuchProject and
        Outdated (somebody else has changed the configuration meanwhile).
        """
        view = self.view()
        found = _chosen(view, pool)
        added = {"project": project, "slots": slots, "begins": _text(begins), "ends": _text(ends)}
        present = [entry.model_dump() for entry in found.settings.reservations]
        settings = {"reservations": [*present, added]}
        return self.set(found.name, settings, revision=view.revision)

    def cancel_reservation(
        self, project: str, begins: str | datetime | None = None, *, pool: str | None = None
    ) -> PoolsView:
        """Cancel the reservation of the project that begins at that time; without a time its only
        one in the pool. Raises InvalidRequest, NoSuchPool and Outdated."""
        view = self.view()
        found = _chosen(view, pool)
        name = found.name
        theirs = [entry for entry in found.reserved if entry.project == project]
        at = None if begins is None else _text(begins)
        gone = [entry for entry in theirs if at is None or _begins_at(entry, at)]
        if len(gone) != 1:
            begin = ", ".join(zoned(from_iso(entry.begins), entry.zone) for entry in theirs)
            what = f"those of project '{project}' begin at {begin}" if begin else "it has none"
            raise InvalidRequest(
                f"pool '{name}': say which reservation of project '{project}' to cancel: {what}",
                field="reservations",
            )
        kept = [entry for entry in found.reserved if entry is not gone[0]]
        fields = {"project", "slots", "begins", "ends", "zone"}
        settings = {"reservations": [entry.model_dump(include=fields) for entry in kept]}
        return self.set(name, settings, revision=view.revision)


def _chosen(view: PoolsView, name: str | None) -> PoolView:
    """The pool of that name; without a name the only one. Raises NoSuchPool and InvalidRequest."""
    names = [pool.name for pool in view.pools]
    if name is None and len(names) != 1:
        raise InvalidRequest(f"say which pool: {', '.join(names)}", field="pool")
    found = next((pool for pool in view.pools if name in {None, pool.name}), None)
    if found is None:
        raise NoSuchPool(unknown("pool", name or "", names), field="pool")
    return found


def _text(moment: str | datetime) -> str:
    return moment if isinstance(moment, str) else moment.isoformat()


def _begins_at(entry: PoolReservationView, text: str) -> bool:
    """Whether the reservation begins at that time. Raises InvalidRequest for another text."""
    from slotq_core.wire.capacity.reservations import moment

    try:
        at, _ = moment(text, entry.zone)
    except ValueError as error:
        raise InvalidRequest(str(error), field="begins") from None
    return at == from_iso(entry.begins)


class ProjectCalls(ConnectedCalls):
    """Projects by name. `queue.projects()` shows them all."""

    def __call__(self) -> ProjectsView:
        """The projects, the oldest first, with what their jobs hold."""
        return self._read(ProjectsView, "GET", "/projects")

    def set(
        self, name: str, keys: Mapping[str, Any], *, revision: int | None = None
    ) -> AppliedView:
        """Change keys of a project's entry in the document, or add a project. None is a key's
        default; keys that are not named stay. `revision`: what this was decided on. Raises
        InvalidRequest, Oversubscribed, Outdated."""
        body = stated(keys, revision)
        return self._read(AppliedView, "PATCH", below("/projects", name), body=body)

    def remove(
        self, name: str, *, move_to: str | None = None, revision: int | None = None
    ) -> AppliedView:
        """Remove a project. `move_to`: the project that its jobs shall have. Raises NoSuchProject,
        ProjectInUse (it has jobs, and `move_to` is None), Oversubscribed, Outdated."""
        query = stated({} if move_to is None else {"move_to": move_to}, revision) or None
        return self._read(AppliedView, "DELETE", below("/projects", name), query=query)


class ConfigurationCalls(ConnectedCalls):
    """The configuration as a whole, its history, and the limits of callers."""

    def __call__(self) -> PoolsView:
        """The pools, with the revision of the configuration: `pools.view()`."""
        return PoolCalls(self._connection).view()

    def document(self) -> ConfigurationView:
        """The whole configuration as one document, with its revision."""
        return self._read(ConfigurationView, "GET", "/configuration")

    def apply(
        self,
        document: Mapping[str, Any],
        *,
        revision: int | None = None,
        dry_run: bool = False,
    ) -> AppliedView:
        """Replace the whole configuration by a document; return what has changed. What it leaves
        out gets its default, and the same document again changes nothing.

        `revision`: what this was decided on; None replaces whatever there is. `dry_run`: only say
        what would change. Raises InvalidRequest and Oversubscribed, with every fault in `faults`;
        PoolInUse, ProjectInUse, Outdated.
        """
        body = stated({"configuration": document}, revision)
        query = {"dry_run": "true"} if dry_run else None
        return self._read(AppliedView, "PUT", "/configuration", body=body, query=query)

    def changes(self, *, limit: int | None = None) -> list[ChangeView]:
        """The changes of the configuration, the latest first: who, when, before, after."""
        query = None if limit is None else {"limit": limit}
        return self._read(ChangesView, "GET", "/changes", query=query).changes

    def limits(self) -> LimitsView:
        """The limits on callers, and this caller's use of them."""
        return self._read(LimitsView, "GET", "/limits")

    def set_limits(self, settings: Mapping[str, Any], *, revision: int | None = None) -> LimitsView:
        """Change the limits (`LimitSettingsView` lists them); other limits stay, and 0 is no limit.
        `revision`: what this was decided on. Raises InvalidRequest, Outdated."""
        return self._read(LimitsView, "PATCH", "/limits", body=stated(settings, revision))

    def quotas(self, user: str | None = None) -> QuotasView:
        """The slots that a user holds and may hold, by pool and class. `user`: a person as in
        `service.me().person`, or `everyone`; None: the caller. Raises NotPermitted for others
        unless the caller is an operator."""
        query = None if user is None else {"user": user}
        return self._read(QuotasView, "GET", "/quota", query=query)


class UsageCalls(ConnectedCalls):
    """The past. `queue.usage(…)` adds up what jobs have used."""

    def __call__(
        self,
        *,
        start: datetime | None = None,
        end: datetime | None = None,
        by: Sequence[str] = (),
        said: Callable[[UsagePageView], None] = lambda _: None,
    ) -> Used:
        """What jobs have used from `start` to before `end` (default: this month so far), by any of
        `project`, `submitter`, `pool` and `class`. Each attempt counts once, to the millisecond.

        `said` hears each page. Raises InvalidRequest if the window is empty, or begins or ends
        within a day of which the queue no longer keeps single attempts.
        """
        query = _window(start, end)
        if by:
            query["by"] = ",".join(by)
        totals: Totals = {}
        unreadable = 0
        while True:
            page = self._read(UsagePageView, "GET", "/usage", query=query or None)
            said(page)
            unreadable += page.unreadable
            merge(totals, totals_in(page.rows))
            if page.next is None:
                break
            query |= {"from": page.start, "to": page.end, "next": page.next}
        return Used(
            start=page.start,
            end=page.end,
            as_of=page.as_of,
            by=tuple(by),
            totals=totals,
            unreadable=unreadable,
        )

    def attempts(
        self,
        *,
        start: datetime | None = None,
        end: datetime | None = None,
        pool: str = "",
        said: Callable[[AttemptsPageView], None] = lambda _: None,
    ) -> AttemptsPageView:
        """The attempts that held slots from `start` to before `end` (default: the last day), in one
        pool or in all: those that ended, then those that go on. All pages as one.

        `said` hears each page. Raises InvalidRequest if the window is empty.
        """
        query = _window(start, end)
        if pool:
            query["pool"] = pool
        found: list[HeldSlotsView] = []
        gone = unreadable = 0
        while True:
            page = self._read(AttemptsPageView, "GET", "/attempts", query=query or None)
            said(page)
            found += page.attempts
            gone, unreadable = gone + page.gone, unreadable + page.unreadable
            if page.next is None:
                break
            query |= {"from": page.start, "to": page.end, "next": page.next}
        sums = {"gone": gone, "unreadable": unreadable, "settled": None}
        return page.model_copy(update={"attempts": found, **sums})


def _window(start: datetime | None, end: datetime | None) -> dict[str, object]:
    moments = {"from": start, "to": end}
    return {
        key: moment.astimezone(UTC).isoformat()
        for key, moment in moments.items()
        if moment is not None
    }


class ServiceCalls(ConnectedCalls):
    """The queue itself: its release, its callers, its health, its snapshot."""

    def about(self) -> AboutView:
        """The queue's release, and whom it takes the caller for."""
        return self._read(AboutView, "GET", "/version")

    def me(self) -> MeView:
        """The person behind the caller, and how the queue decided it."""
        return self._read(MeView, "GET", "/me")

    def doctor(self, *, fix: bool = False) -> list[FindingView]:
        """Find records of the queue that disagree with each other or with SageMaker; with `fix`,
        mend those that one look suffices for. For operators. If another caller has just asked, it
        reports that and waits."""
        method = "POST" if fix else "GET"
        return self._patiently(
            lambda: self._read(DoctorView, method, "/doctor").findings, ExaminedLately
        )

    def scenario(self) -> ScenarioView:
        """A snapshot of the whole queue, as the next pass sees it, for simulations (`slotq
        whatif`). Jobs that the caller may not see have stand-in names.

        A long queue has several pages, all of one moment. If the queue changes too fast for that,
        returns the first page alone; its `left_out` is the number of missing jobs.
        """
        return whole_scenario(self._scenario_page)

    def _scenario_page(self, following: str | None) -> ScenarioView:
        query = None if following is None else {"next": following}
        return self._read(ScenarioView, "GET", "/scenario", query=query)


TRIES = 4
"""How often to read all pages, if the queue changes between two of them."""


def whole_scenario(page: Callable[[str | None], ScenarioView]) -> ScenarioView:
    """The queue in all its pages. `page` reads the page of a cursor; None: the first.

    All pages are of one moment: if the queue changes in between, they are read again. After `TRIES`
    returns the first page, which counts the jobs that it leaves out.
    """
    for _ in range(TRIES):
        first = page(None)
        try:
            return _with_the_rest(first, page)
        except Outdated:
            continue
    return first.model_copy(update={"next": None})


def _with_the_rest(first: ScenarioView, page: Callable[[str | None], ScenarioView]) -> ScenarioView:
    jobs, groups, yields = [*first.jobs], [*first.groups], [*first.yields]
    last = first
    while last.next is not None:
        last = page(last.next)
        jobs += last.jobs
        groups += last.groups
        yields += last.yields
    return first.model_copy(
        update={
            "jobs": jobs,
            "groups": groups,
            "yields": yields,
            "left_out": last.left_out,
            "next": None,
        }
    )
