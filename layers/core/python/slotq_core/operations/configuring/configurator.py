"""Change the configuration, and record author, time, before and after of each change.

Every change goes through `change`: a function computes the wanted configuration from the current
one. The commit is conditioned on the revision that the function saw, so concurrent changes never
overwrite each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from slotq_core.admission.access import Permissions
from slotq_core.admission.configuration import references, reservations, subscription
from slotq_core.admission.configuration.subscription import Held, SettingsInUse
from slotq_core.admission.instances.instance_contents import declared
from slotq_core.admission.roles_and_plans import ANY_PLAN, ANY_ROLE, ExecutionRoles, TrainingPlans
from slotq_core.errors import (
    Conflict,
    InvalidRequest,
    Misconfigured,
    NoSuchPool,
    NoSuchProject,
    Outdated,
    Unavailable,
)
from slotq_core.model.notices import NotificationMode
from slotq_core.model.pools import Pool
from slotq_core.model.sharing import Settings, Sharing
from slotq_core.operations.configuring.advice import check_reach
from slotq_core.operations.configuring.jobs_in_need import (
    check_kinds,
    check_pools,
    check_projects,
    living_jobs,
    of_another_kind,
)
from slotq_core.operations.configuring.moving import Mover
from slotq_core.policy.lifecycle.pool_health import forgotten
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Configuration, ConfigurationChange
from slotq_core.ports.surroundings import Clock
from slotq_core.ports.training import SageMakerService
from slotq_core.spelling import unknown
from slotq_core.timestamps import iso
from slotq_core.wire.limits_definition import limits_from
from slotq_core.wire.pool_definition import (
    FORGET_LIMIT,
    MOST_POOLS,
    check_declared,
    check_name,
    check_together,
    defined,
    following,
)

if TYPE_CHECKING:
    from slotq_core.operations.training_plans.checks import PlanChecks

_TRIES = 5

Planned = Callable[[Settings], Settings]
"""Returns the wanted configuration for the current one. May raise Refused."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AppliedSettings:
    """A change of the configuration. Both sides are equal if nothing had to change."""

    before: Settings
    after: Settings
    revision: int
    """The current revision: a new one only if something was written."""
    moved: int = 0
    """Jobs that were moved to another project."""
    warnings: tuple[str, ...] = ()
    """What the training plans of pools were accepted with, as sentences."""


class Configurator:
    """Changes the configuration for operators."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        wake: Callable[[], None],
        *,
        permissions: Callable[[Sharing], Permissions] = lambda sharing: Permissions(
            sharing=sharing
        ),
        notification_mode: NotificationMode = NotificationMode.OFF,
        roles: ExecutionRoles = ANY_ROLE,
        plans: TrainingPlans = ANY_PLAN,
        training: SageMakerService | None = None,
    ) -> None:
        """Set up the configurator. `wake` is called after each change, because a change may allow
        new decisions. `permissions` gives what callers may do under a configuration.
        `notification_mode`: whether this deployment sends notifications. `roles`: those that
        training jobs may run under. `plans`: the training plans that they may use, which `training`
        describes; without it no plan is checked."""
        self._roles, self._plans, self._training = roles, plans, training
        self.notification_mode = notification_mode
        self._store, self._clock, self._wake = store, clock, wake
        self._permissions = permissions
        self._mover = Mover(store, clock)

    def revision(self) -> int:
        """Return the revision of the configuration. Each change raises the revision."""
        return self._store.configuration.read().revision

    def settings(self) -> tuple[Settings, int]:
        """Return all settings, and their revision."""
        configuration = self._store.configuration.read()
        return _settings(configuration), configuration.revision

    def changes(self, *, limit: int) -> tuple[ConfigurationChange, ...]:
        """Return the recorded changes, the latest first."""
        return self._store.configuration.changes(limit=limit)

    def apply(
        self, settings: Settings, *, by: str, seen: int | None = None, dry_run: bool = False
    ) -> AppliedSettings:
        """Replace the whole configuration, as `change` does. Raises InvalidRequest for a webhook
        that this queue may not call."""
        check_reach(settings, self.notification_mode)
        return self.change(lambda _: settings, by=by, seen=seen, dry_run=dry_run)

    def set_pool(
        self, name: str, settings: Mapping[str, Any], *, by: str, seen: int | None = None
    ) -> AppliedSettings:
        """Give a pool these settings, as `pool_definition.defined` reads them. A new pool comes
        last. With `slots`, or a true `FORGET_LIMIT`, forget what capacity errors have shown of the
        pool. Raises what `change` raises, InvalidRequest, and NoSuchPool (the pool does not exist
        and the settings are too few to create one)."""
        values = {key: value for key, value in settings.items() if key != FORGET_LIMIT}

        def planned(now: Settings) -> Settings:
            before = _pool(now, name)
            if before is None and not {"slots", "instance_type"} <= values.keys():
                raise NoSuchPool(
                    f"{_no_pool(name, now)}; a new one needs slots and instance_type", field="name"
                )
            after = defined(name, values, before)
            reservations.check_to_come(before, after, self._clock.now())
            if before is not None:
                after = following(before, after, named=values)
            pools = [after if pool.name == name else pool for pool in now.pools]
            return replace(now, pools=(*pools, *([] if before else [after])))

        changed = self.change(planned, by=by, seen=seen)
        if settings.get(FORGET_LIMIT) or "slots" in values:
            self._forget_limit(name)
        return changed

    def _forget_limit(self, pool: str) -> None:
        before = self._store.health.get(pool)
        after = forgotten(before)
        if after != before:
            self._store.health.set(pool, after)
            self._wake()

    def remove_pool(self, name: str, *, by: str, seen: int | None = None) -> AppliedSettings:
        """Remove a pool. Raises what `change` raises, NoSuchPool, and InvalidRequest for the last
        pool."""

        def planned(now: Settings) -> Settings:
            if _pool(now, name) is None:
                raise NoSuchPool(_no_pool(name, now), field="name")
            rest = tuple(pool for pool in now.pools if pool.name != name)
            if not rest:
                raise InvalidRequest(
                    f"{name} is the last pool: drain it, or give it 0 slots", field="name"
                )
            return replace(now, pools=rest)

        return self.change(planned, by=by, seen=seen)

    def set_limits(
        self, settings: Mapping[str, Any], *, by: str, seen: int | None = None
    ) -> AppliedSettings:
        """Change these limits, as `limits_definition.limits_from` reads them; the other limits
        stay. Raises what `change` raises, and InvalidRequest."""

        def planned(now: Settings) -> Settings:
            return replace(now, limits=limits_from(settings, now.limits))

        return self.change(planned, by=by, seen=seen)

    def remove_project(
        self, name: str, *, by: str, seen: int | None = None, move_to: str | None = None
    ) -> AppliedSettings:
        """Remove a project, after moving its jobs to `move_to`. Raises what `change` raises,
        NoSuchProject, and InvalidRequest. An interrupted removal can be repeated, even if only jobs
        are left."""

        def planned(now: Settings) -> Settings:
            if now.sharing.project(name) is None:
                raise NoSuchProject(_no_project(name, now), field="name")
            rest = tuple(project for project in now.sharing.projects if project.name != name)
            return replace(now, sharing=replace(now.sharing, projects=rest))

        if move_to is None:
            return self.change(planned, by=by, seen=seen)
        return self._move_and_remove(name, move_to, planned, by=by, seen=seen)

    def _move_and_remove(
        self, name: str, to: str, planned: Planned, *, by: str, seen: int | None
    ) -> AppliedSettings:
        now, revision = self.settings()
        if now.sharing.project(to) is None or to == name:
            what = "another project is needed" if to == name else _no_project(to, now)
            raise InvalidRequest(f"move_to: {what}", field="move_to")
        if now.sharing.project(name) is None:
            moved = self._mover.move(name, to, by=by)
            if not moved:
                raise NoSuchProject(_no_project(name, now), field="name")
            self._wake()
            return AppliedSettings(before=now, after=now, revision=revision, moved=moved)
        if seen not in {None, revision}:
            raise _outdated(revision, seen, self._last())
        self._check(now, planned(now), moved=(name, to))
        moved = self._mover.move(name, to, by=by)
        done = self.change(planned, by=by, seen=seen)
        late = self._mover.move(name, to, by=by)  # Submissions that had read the old configuration.
        if late:
            self._wake()
        return replace(done, moved=moved + late)

    def change(
        self, planned: Planned, *, by: str, seen: int | None = None, dry_run: bool = False
    ) -> AppliedSettings:
        """Change the configuration to what `planned` returns. The same again changes nothing.

        That is no error with an older `seen` either if `by` made the last change: the first answer
        may have been lost. A change may be in sight before its record, so the record's revision
        counts too. With `dry_run`, find all that would be refused, and write nothing.
        Raises Outdated (`seen` is given, and the revision is another one), InvalidRequest,
        PoolInUse, ProjectInUse, Oversubscribed and Unavailable.
        """
        checks: PlanChecks | None = None
        for _ in range(_TRIES):
            configuration = self._store.configuration.read()
            now, revision = _settings(configuration), configuration.revision
            after, last = planned(now), self._last()
            if after != now:
                after = reservations.without_ended(after, self._clock.now())
            is_current = seen in {None, revision}
            made_it = last is not None and (last.who, last.revision) == (by, revision)
            if after == now and (is_current or made_it):
                return AppliedSettings(before=now, after=now, revision=revision)
            if not is_current:
                raise _outdated(revision, seen, last)
            self._permissions(now.sharing).check_keeps_operating(after.sharing, by)
            self._check(now, after)
            checks = checks or self._plan_checks(after)
            if checks is not None:
                checks.check(now.pools, after.pools)
            try:
                self._write(now, after, by=by, seen=revision, dry_run=dry_run)
            except Conflict:
                continue
            warnings = tuple(checks.warnings(now.pools, after.pools)) if checks else ()
            done = AppliedSettings(before=now, after=after, revision=revision, warnings=warnings)
            if dry_run:
                return done
            if checks is not None:
                checks.keep(now.pools, after.pools, self._store.health)
            self._wake()
            for name in _resized(now, after):
                self._forget_limit(name)
            return replace(done, revision=revision + 1)
        raise Unavailable("somebody else is changing the configuration; try again")

    def _plan_checks(self, after: Settings) -> PlanChecks | None:
        if self._training is None or all(not pool.plan_arn for pool in after.pools):
            return None
        from slotq_core.operations.training_plans.checks import PlanChecks  # Few pools have plans.

        return PlanChecks(self._training, self._clock.now())

    def _write(self, now: Settings, after: Settings, *, by: str, seen: int, dry_run: bool) -> None:
        try:
            self._store.configuration.change(
                after.pools if after.pools != now.pools else None,
                limits=after.limits if after.limits != now.limits else None,
                sharing=after.sharing if after.sharing != now.sharing else None,
                who=by,
                now=self._clock.now(),
                seen=seen,
                dry_run=dry_run,
            )
        except Misconfigured as error:
            raise InvalidRequest(str(error), field="pools") from None

    def _check(self, now: Settings, after: Settings, moved: tuple[str, str] | None = None) -> None:
        """Raises what `change` raises for contradictions with jobs, pools and quotas. `moved`: the
        jobs of one project are about to move to another."""
        if (after.pools, after.sharing) == (now.pools, now.sharing):
            return
        if len(after.pools) > MOST_POOLS:
            raise InvalidRequest(f"a queue has at most {MOST_POOLS:,} pools", field="pools")
        if after.pools != now.pools:
            check_together(after.pools)
            check_declared(now.pools, after.pools)
            self._roles.check_nodes(now.pools, after.pools)
            self._plans.check_pools(now.pools, after.pools)
        references.check(now, after)
        reservations.check(now, after, self._clock.now())
        self._check_jobs(now, after, moved)
        held: Held = {}
        if after.sharing.projects and after.sharing != now.sharing:
            active = self._store.worlds.load(self._clock.now()).snapshot.active
            held = subscription.held_by_fixed(active, now.pools)
        subscription.check(
            SettingsInUse(settings=now, held=held),
            SettingsInUse(settings=after, held=subscription.moved(held, *moved) if moved else held),
        )

    def _check_jobs(self, now: Settings, after: Settings, moved: tuple[str, str] | None) -> None:
        """Look at all jobs if a pool or a project goes, or a pool is bought in another way."""
        rest = {pool.name for pool in after.pools}
        pools = [pool for pool in now.pools if pool.name not in rest]
        projects = {project.name for project in now.sharing.projects}
        projects -= {project.name for project in after.sharing.projects} | set(moved or ())
        turned = of_another_kind(now.pools, after.pools)
        if pools or projects or turned:
            world = self._store.worlds.load_all(self._clock.now())
            jobs = living_jobs(self._store.jobs, world)
            check_projects(projects, jobs)
            check_kinds(turned, jobs)
            if pools:
                check_pools(pools, rest, jobs, world)

    def _last(self) -> ConfigurationChange | None:
        return next(iter(self._store.configuration.changes(limit=1, sharing=False)), None)


def _settings(configuration: Configuration) -> Settings:
    pools = tuple(declared(pool) for pool in configuration.pools)
    return Settings(pools=pools, limits=configuration.limits, sharing=configuration.sharing)


def _outdated(revision: int, seen: int | None, last: ConfigurationChange | None) -> Outdated:
    by = f" ({last.who} changed it at {iso(last.at)})" if last else ""
    return Outdated(
        f"the configuration is now at revision {revision}{by}, not {seen}: read it again, then "
        "repeat the change",
        field="revision",
    )


def _resized(before: Settings, after: Settings) -> list[str]:
    """The pools that have another number of slots."""
    slots = {pool.name: pool.capacity.slots for pool in before.pools}
    return [
        pool.name
        for pool in after.pools
        if slots.get(pool.name, pool.capacity.slots) != pool.capacity.slots
    ]


def _pool(now: Settings, name: str) -> Pool | None:
    check_name(name)
    return next((pool for pool in now.pools if pool.name == name), None)


def _no_pool(name: str, now: Settings) -> str:
    return unknown("pool", name, [pool.name for pool in now.pools])


def _no_project(name: str, now: Settings) -> str:
    return unknown("project", name, [project.name for project in now.sharing.projects])
