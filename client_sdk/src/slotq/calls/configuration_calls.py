"""`queue.pools`, `queue.projects`, `queue.configuration`: how the queue is set up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slotq.jobs.rendering import PoolList
from slotq.transport.connection import ConnectedCalls, below, stated
from slotq_core.wire.configuration import LimitsView
from slotq_core.wire.document.views import (
    AppliedView,
    ConfigurationView,
    ProjectsView,
    QuotasView,
)
from slotq_core.wire.record import ChangesView, ChangeView
from slotq_core.wire.views.pools import PoolsView, PoolView


class PoolCalls(ConnectedCalls):
    """Pools by name. `queue.pools()` lists them."""

    def __call__(self) -> list[PoolView]:
        """The pools in their order, with what is used of them and what was learned of them."""
        return PoolList(self.view().pools)

    def view(self) -> PoolsView:
        """The pools, with the revision of the configuration that they are of."""
        return self._read(PoolsView, "GET", "/pools")

    def set(
        self, name: str, settings: Mapping[str, Any], *, revision: int | None = None
    ) -> PoolsView:
        """Change a pool's settings, or make a pool of `slots` and `instance_type`; what is not
        named stays. Durations are seconds, None is none (`PoolSettingsView` has all there is).
        `forget_limit: True` among them, or `slots`, makes the queue forget what SageMaker's
        refusals have shown of the pool.

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
        ProjectInUse (it has jobs, and `move_to` is not given), Oversubscribed, Outdated."""
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
        """What callers may ask of the queue, and what this one has used of it."""
        return self._read(LimitsView, "GET", "/limits")

    def set_limits(self, settings: Mapping[str, Any], *, revision: int | None = None) -> LimitsView:
        """Change the limits (`LimitSettingsView` has all there is); what is not named stays, and 0
        is no limit. `revision`: what this was decided on. Raises InvalidRequest, Outdated."""
        return self._read(LimitsView, "PATCH", "/limits", body=stated(settings, revision))

    def quotas(self, user: str | None = None) -> QuotasView:
        """What a user holds of the slots that the user may hold, by pool and class. `user`: a
        person as in `service.me().person`, or `everyone`; None: the caller. Raises NotPermitted for
        others unless the caller is an operator."""
        query = None if user is None else {"user": user}
        return self._read(QuotasView, "GET", "/quota", query=query)
