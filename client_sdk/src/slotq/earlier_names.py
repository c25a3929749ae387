"""QueueClient's methods under their names of version 0.2.

They go with version 0.4; type checkers mark them, and Python warns where a script's own code calls
one. This is the one class with more than 15 public methods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from typing_extensions import deprecated

if TYPE_CHECKING:
    from slotq.groups.group_calls import GroupCalls
    from slotq.jobs.job_calls import JobCalls
    from slotq.queue_calls import (
        ConfigurationCalls,
        PoolCalls,
        ProjectCalls,
        ServiceCalls,
        UsageCalls,
    )
    from slotq.sweeps.sweep import Sweep, SweepCalls
    from slotq_core.wire.configuration import LimitsView
    from slotq_core.wire.document.views import AppliedView, ConfigurationView, QuotasView
    from slotq_core.wire.groups.views import GroupView
    from slotq_core.wire.job_changes import OutcomeView
    from slotq_core.wire.record import ChangeView
    from slotq_core.wire.scenario.views import ScenarioView
    from slotq_core.wire.views.about import AboutView, FindingView, MeView
    from slotq_core.wire.views.jobs import JobView
    from slotq_core.wire.views.pools import PoolsView
    from slotq_core.wire.views.usage import AttemptsPageView


class EarlierNames(Protocol):
    """The earlier names, for a client with these facets."""

    @property
    def jobs(self) -> JobCalls: ...
    @property
    def groups(self) -> GroupCalls: ...
    @property
    def sweeps(self) -> SweepCalls: ...
    @property
    def pools(self) -> PoolCalls: ...
    @property
    def projects(self) -> ProjectCalls: ...
    @property
    def configuration(self) -> ConfigurationCalls: ...
    @property
    def usage(self) -> UsageCalls: ...
    @property
    def service(self) -> ServiceCalls: ...

    @deprecated("use queue.jobs.view: job goes with version 0.4")
    def job(self, name: str) -> JobView:
        return self.jobs.view(name)

    @deprecated("use queue.jobs.cancel: cancel goes with version 0.4")
    def cancel(self, name: str) -> JobView:
        return self.jobs.cancel(name)

    @deprecated("use queue.jobs.request: request goes with version 0.4")
    def request(self, name: str) -> dict[str, Any]:
        return self.jobs.request(name)

    @deprecated("use queue.jobs.hold: hold goes with version 0.4")
    def hold(self, name: str) -> JobView:
        return self.jobs.hold(name)

    @deprecated("use queue.jobs.release: release goes with version 0.4")
    def release(self, name: str) -> JobView:
        return self.jobs.release(name)

    @deprecated("use queue.jobs.requeue: requeue goes with version 0.4")
    def requeue(self, name: str) -> JobView:
        return self.jobs.requeue(name)

    @deprecated("use queue.jobs.set_priority: set_priority goes with version 0.4")
    def set_priority(self, name: str, priority: int | str) -> JobView:
        return self.jobs.set_priority(name, priority)

    @deprecated("use queue.jobs.move: move goes with version 0.4")
    def move(self, name: str, pools: str | Iterable[str]) -> JobView:
        return self.jobs.move(name, pools)

    @deprecated("use queue.jobs.transfer: transfer goes with version 0.4")
    def transfer(self, name: str, project: str) -> JobView:
        return self.jobs.transfer(name, project)

    @deprecated("use queue.jobs.add_tags: add_tags goes with version 0.4")
    def add_tags(self, name: str, tags: Mapping[str, str]) -> dict[str, str]:
        return self.jobs.add_tags(name, tags)

    @deprecated("use queue.jobs.clone: clone goes with version 0.4")
    def clone(
        self,
        name: str,
        new_name: str,
        *,
        priority: int | str | None = None,
        project: str | None = None,
        resume: bool = False,
    ) -> JobView:
        return self.jobs.clone(name, new_name, priority=priority, project=project, resume=resume)

    @deprecated("use queue.jobs.retry: retry goes with version 0.4")
    def retry(
        self,
        name: str,
        new_name: str | None = None,
        *,
        priority: int | str | None = None,
        project: str | None = None,
    ) -> JobView:
        return self.jobs.retry(name, new_name, priority=priority, project=project)

    @deprecated("use queue.jobs.change: change goes with version 0.4")
    def change(self, changes: Sequence[Mapping[str, Any]]) -> list[OutcomeView]:
        return self.jobs.change(changes)

    @deprecated("use queue.groups.submit: submit_group goes with version 0.4")
    def submit_group(
        self,
        name: str,
        members: Iterable[Mapping[str, Any]],
        *,
        max_parallel: int,
        sweep: Mapping[str, Any] | None = None,
        dry_run: bool = False,
    ) -> GroupView:
        return self.groups.submit(
            name, members, max_parallel=max_parallel, sweep=sweep, dry_run=dry_run
        )

    @deprecated("use queue.groups.submit_gang: submit_gang goes with version 0.4")
    def submit_gang(
        self,
        name: str,
        members: Iterable[Mapping[str, Any]],
        *,
        min_members: int | None = None,
        mandatory: Iterable[str] = (),
        same_pool: bool = False,
        elastic: bool = False,
        ends_with: str | None = None,
        sites: Mapping[str, str] | None = None,
        heartbeat_seconds: int | None = None,
        dry_run: bool = False,
    ) -> GroupView:
        return self.groups.submit_gang(
            name,
            members,
            min_members=min_members,
            mandatory=mandatory,
            same_pool=same_pool,
            elastic=elastic,
            ends_with=ends_with,
            sites=sites,
            heartbeat_seconds=heartbeat_seconds,
            dry_run=dry_run,
        )

    @deprecated("use queue.groups.clone: clone_group goes with version 0.4")
    def clone_group(
        self,
        name: str,
        new_name: str,
        *,
        priority: int | str | None = None,
        project: str | None = None,
        resume: bool = False,
    ) -> GroupView:
        return self.groups.clone(name, new_name, priority=priority, project=project, resume=resume)

    @deprecated("use queue.groups.view: group goes with version 0.4")
    def group(self, name: str, *, attempts: bool = False) -> GroupView:
        return self.groups.view(name, attempts=attempts)

    @deprecated("use queue.sweeps.submit: sweep goes with version 0.4")
    def sweep(
        self,
        name: str,
        request: Mapping[str, Any],
        space: Any,
        *,
        max_parallel: int,
        trials: int | None = None,
        seed: int = 0,
        first: int = 1,
        objective: str | Mapping[str, Any] | None = None,
        halving: Mapping[str, Any] | None = None,
    ) -> Sweep:
        return self.sweeps.submit(
            name,
            request,
            space,
            max_parallel=max_parallel,
            trials=trials,
            seed=seed,
            first=first,
            objective=objective,
            halving=halving,
        )

    @deprecated("use queue.sweeps.get: get_sweep goes with version 0.4")
    def get_sweep(self, name: str) -> Sweep:
        return self.sweeps.get(name)

    @deprecated("use queue.pools.set: set_pool goes with version 0.4")
    def set_pool(
        self, name: str, settings: Mapping[str, Any], *, revision: int | None = None
    ) -> PoolsView:
        return self.pools.set(name, settings, revision=revision)

    @deprecated("use queue.pools.remove: remove_pool goes with version 0.4")
    def remove_pool(self, name: str, *, revision: int | None = None) -> PoolsView:
        return self.pools.remove(name, revision=revision)

    @deprecated("use queue.projects.set: set_project goes with version 0.4")
    def set_project(
        self, name: str, keys: Mapping[str, Any], *, revision: int | None = None
    ) -> AppliedView:
        return self.projects.set(name, keys, revision=revision)

    @deprecated("use queue.projects.remove: remove_project goes with version 0.4")
    def remove_project(
        self, name: str, *, move_to: str | None = None, revision: int | None = None
    ) -> AppliedView:
        return self.projects.remove(name, move_to=move_to, revision=revision)

    @deprecated("use queue.configuration.limits: limits goes with version 0.4")
    def limits(self) -> LimitsView:
        return self.configuration.limits()

    @deprecated("use queue.configuration.set_limits: set_limits goes with version 0.4")
    def set_limits(self, settings: Mapping[str, Any], *, revision: int | None = None) -> LimitsView:
        return self.configuration.set_limits(settings, revision=revision)

    @deprecated("use queue.configuration.document: document goes with version 0.4")
    def document(self) -> ConfigurationView:
        return self.configuration.document()

    @deprecated("use queue.configuration.apply: apply goes with version 0.4")
    def apply(
        self, document: Mapping[str, Any], *, revision: int | None = None, dry_run: bool = False
    ) -> AppliedView:
        return self.configuration.apply(document, revision=revision, dry_run=dry_run)

    @deprecated("use queue.configuration.quotas: quotas goes with version 0.4")
    def quotas(self, user: str | None = None) -> QuotasView:
        return self.configuration.quotas(user)

    @deprecated("use queue.configuration.changes: changes goes with version 0.4")
    def changes(self, *, limit: int | None = None) -> list[ChangeView]:
        return self.configuration.changes(limit=limit)

    @deprecated("use queue.usage.attempts: attempts goes with version 0.4")
    def attempts(
        self,
        *,
        start: datetime | None = None,
        end: datetime | None = None,
        pool: str = "",
        said: Callable[[AttemptsPageView], None] = lambda _: None,
    ) -> AttemptsPageView:
        return self.usage.attempts(start=start, end=end, pool=pool, said=said)

    @deprecated("use queue.service.about: about goes with version 0.4")
    def about(self) -> AboutView:
        return self.service.about()

    @deprecated("use queue.service.me: me goes with version 0.4")
    def me(self) -> MeView:
        return self.service.me()

    @deprecated("use queue.service.scenario: scenario goes with version 0.4")
    def scenario(self) -> ScenarioView:
        return self.service.scenario()

    @deprecated("use queue.service.doctor: doctor goes with version 0.4")
    def doctor(self, *, fix: bool = False) -> list[FindingView]:
        return self.service.doctor(fix=fix)
