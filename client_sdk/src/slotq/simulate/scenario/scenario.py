"""The scenario file: a world, its submissions and the expected results (DESIGN 6.2).

The file counts in seconds, all other code in milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

from pydantic import model_validator

from slotq.simulate.scenario.checks import CHECKS
from slotq.simulate.scenario.contents import Contents
from slotq.simulate.scenario.faults import refuse
from slotq.simulate.scenario.sections import (
    ChangeSpec,
    DepartmentSpec,
    GroupSpec,
    JobSpec,
    PoolSpec,
    ProjectSpec,
)
from slotq_core.model.demand import Demand
from slotq_core.model.groups import Group
from slotq_core.model.jobs import Submission
from slotq_core.model.pools import Pool
from slotq_core.model.projects import EVERYWHERE, Amounts, Department, Project
from slotq_core.model.snapshot import Snapshot
from slotq_core.model.users import AUTO, AUTO_VALUE
from slotq_core.policy.state.user_limits import Rights

INSTANCE_TYPE = "ml.m5.large"
"""The one instance type of all scenarios: pools differ by name alone."""


class Scenario(Contents):
    """The world, its submissions and the expected results, all of which agree."""

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        faults = [fault for check in CHECKS for fault in check(self)]
        if faults:
            refuse(*faults)
        return self

    @property
    def rights(self) -> Rights:
        """The user limits that submissions must respect."""
        world = self.configuration()
        return Rights(world.classes, world.users, world.user_groups)

    def class_of(self, job: JobSpec) -> str:
        """The job's priority class, or the default class if it names none. Empty: a number
        instead."""
        if job.priority is None:
            return AUTO if self.classes else ""
        return job.priority if isinstance(job.priority, str) else ""

    def priority_of(self, job: JobSpec) -> int:
        """The job's priority as a number."""
        its = self.class_of(job)
        if not its:
            return job.priority if isinstance(job.priority, int) else 0
        return AUTO_VALUE if its == AUTO else self.known_classes[its].value

    def configuration(self) -> Snapshot:
        """The world before the first job."""
        return Snapshot(
            pools=tuple(_pool(spec) for spec in self.pools),
            projects=tuple(self._project(spec) for spec in self.projects),
            departments=tuple(self._department(spec) for spec in self.departments),
            classes=tuple(spec.priority_class() for spec in self.classes),
            users=tuple(spec.user() for spec in self.users),
            user_groups=tuple(spec.group() for spec in self.user_groups),
            scheduler=self.scheduler.settings(),
            groups=tuple(self._group(spec) for spec in self.groups),
        )

    def changes(self) -> Iterator[tuple[int, str, ChangeSpec]]:
        """The changes of pools in order of time: when, in which pool, and what."""
        every = ((each.at, pool.name, each) for pool in self.pools for each in pool.changes)
        yield from sorted(every, key=lambda change: change[0])

    def asks(self) -> dict[int | str, set[str]]:
        """The jobs whose wait the scenario asks about, by moment."""
        found: dict[int | str, set[str]] = {}
        for each in self.expect:
            found.setdefault(each.at, set()).update(why.job for why in each.why)
        return {at: names for at, names in found.items() if names}

    def submission(self, job: JobSpec) -> Submission:
        return Submission(
            name=job.name,
            instance_type="",
            demand=job.needed,
            pools=tuple(job.parts) or job.pools or self.pool_names,
            parts=tuple(job.parts.items()),
            priority=self.priority_of(job),
            priority_class=self.class_of(job),
            preemptible=job.preemptible,
            min_runtime=job.min_runtime,
            retries=job.retries,
            workload=job.workload,
            project=job.project or "",
            group=job.group or "",
            checkpoints=job.checkpoint,
            after=job.after,
            role=job.role,
        )

    def _group(self, spec: GroupSpec) -> Group:
        return Group(
            name=spec.name,
            members=tuple(job.name for job in self.jobs if job.group == spec.name),
            min_members=spec.min_members,
            mandatory=spec.mandatory,
            same_pool=spec.same_pool,
            max_parallel=spec.max_parallel,
        )

    def _project(self, spec: ProjectSpec) -> Project:
        return Project(
            name=spec.name,
            department=spec.department,
            quota=self._amounts(spec.quota),
            weight=spec.weight,
            limit=self._scopes(spec.limit),
            priority=spec.priority,
            over_quota=spec.over_quota,
            min_runtime=spec.min_runtime,
        )

    def _department(self, spec: DepartmentSpec) -> Department:
        return Department(
            name=spec.name,
            quota=None if spec.quota is None else self._amounts(spec.quota),
            weight=spec.weight,
            limit=self._scopes(spec.limit),
            priority=spec.priority,
            over_quota=spec.over_quota,
            fairness=spec.fairness,
        )

    def _amounts(self, quota: int | dict[str, Any] | None) -> Amounts:
        return {scope: Demand(amounts) for scope, amounts in self._scopes(quota).items()}

    def _scopes(self, quota: int | dict[str, Any] | None) -> dict[str, dict[str, int]]:
        """Amounts by scope (all pools together, or one pool), then by resource."""
        if quota is None or quota == {}:
            return {}
        if isinstance(quota, int):
            return {EVERYWHERE: {"slots": quota}}
        if set(quota) <= set(self.resources):
            return {EVERYWHERE: dict(quota)}
        return {
            pool: dict(amount) if isinstance(amount, dict) else {"slots": amount}
            for pool, amount in quota.items()
        }


def _pool(spec: PoolSpec) -> Pool:
    return Pool(
        name=spec.name,
        instance_type=INSTANCE_TYPE,
        capacity=spec.capacity,
        properties=spec.properties,
        foreign=spec.foreign,
        count_foreign=True,
        state=spec.state,
        reserve_after=spec.reserve_after,
        min_runtime=spec.min_runtime,
        max_min_runtime=spec.max_min_runtime,
        suspend_grace=spec.suspend_grace,
        open=spec.open,
        time_slice=spec.time_slice,
        consolidate=spec.consolidate,
    )
