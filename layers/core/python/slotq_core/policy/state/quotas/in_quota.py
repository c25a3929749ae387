"""The semi-preemptible jobs that are protected: those within the quotas of their projects.

A semi-preemptible job is within the quota if the project's quota holds the work that is never
evicted, the semi-preemptible jobs that started before it, and the job itself. Preemptible jobs do
not count: they take no quota from others. So a protected job stays protected as long as the quota
stays, because work that is never evicted starts only within what the protected jobs leave.

See docs/policy-decisions.md#semi-preemptible-jobs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from slotq_core.model.demand import NOTHING, Demand
from slotq_core.model.jobs import SEMI, Job, JobState
from slotq_core.model.projects import EVERYWHERE, counts_by_pool
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.state.quotas.opening import Owners, shared_resources


def in_quota(
    snapshot: Snapshot,
    beyond_budget: AbstractSet[str] = frozenset(),
    beyond_core: AbstractSet[str] = frozenset(),
) -> frozenset[str]:
    """The names of the protected jobs. `beyond_budget`: the projects without a quota, because they
    have spent a soft budget. `beyond_core`: the members of elastic gangs that count in no
    quota."""
    runs = [
        job
        for job in snapshot.active
        if job.attempt and job.state is not JobState.STOPPING and job.name not in beyond_core
    ]
    semi = [job for job in runs if job.preemptible == SEMI and job.evictable]
    if not semi or not snapshot.projects:
        return frozenset()
    quotas = _Quotas(snapshot, beyond_budget)
    _hold_fixed(quotas, snapshot, runs, beyond_core)
    protected: set[str] = set()
    for unit in _in_order(semi, snapshot):
        if quotas.hold([(job, job.attempt.pool, job.attempt.node) for job in unit if job.attempt]):
            protected.update(job.name for job in unit)
    return frozenset(protected)


def cores_beyond_quota(
    snapshot: Snapshot, cores: Iterable[Sequence[Job]], beyond_core: AbstractSet[str]
) -> set[str]:
    """Of these cores of gangs that are not preemptible, which have other members than they started
    with, the names of those that the quotas do not hold. They count behind all other work that is
    never evicted, in the order of their starts."""
    found: set[str] = set()
    quotas = _Quotas(snapshot, frozenset())
    units = sorted(cores, key=lambda core: (_last_start(core), core[0].group))
    apart = beyond_core | {job.name for core in units for job in core}
    runs = [job for job in snapshot.active if job.state is not JobState.STOPPING]
    _hold_fixed(quotas, snapshot, [job for job in runs if job.name not in apart], apart)
    for core in units:
        if not quotas.hold([(job, job.attempt.pool, "") for job in core if job.attempt]):
            found.update(job.name for job in core)
    return found


def _last_start(core: Iterable[Job]) -> int:
    return max(job.attempt.admitted_at if job.attempt else 0 for job in core)


def _hold_fixed(
    quotas: _Quotas, snapshot: Snapshot, runs: Iterable[Job], apart: AbstractSet[str]
) -> None:
    """Count what is never evicted, and what is owed to such jobs, without those `apart`."""
    for job in runs:
        if not job.evictable and job.attempt:
            quotas.hold([(job, job.attempt.pool, job.attempt.node)])
    for job in (*snapshot.active, *snapshot.waiting):
        if not job.evictable and job.claim and job.name not in apart:
            quotas.hold([(job, job.claim.pool, job.claim.node)])


def _in_order(semi: Iterable[Job], snapshot: Snapshot) -> Sequence[list[Job]]:
    """Single jobs, and members of a gang that started together, by their start, then by name. A
    member that joins later takes no protection from the others."""
    gangs = {group.name for group in snapshot.groups if group.max_parallel is None}
    units: defaultdict[tuple[int, str, bool], list[Job]] = defaultdict(list)
    for job in semi:
        in_gang, started = job.group in gangs, job.attempt.admitted_at if job.attempt else 0
        units[started, job.group if in_gang else job.name, in_gang].append(job)
    return [unit for _, unit in sorted(units.items())]


Place = tuple[Job, str, str]
"""A job with its pool and node; without a node, empty."""


class _Quotas:
    """What counts so far against the quotas of projects and departments, by scope."""

    def __init__(self, snapshot: Snapshot, beyond_budget: AbstractSet[str]) -> None:
        owners: Owners = (*snapshot.projects, *snapshot.departments)
        self._by_pool, self._resources = counts_by_pool(owners), shared_resources(owners)
        self._above = {project.name: project.department for project in snapshot.projects}
        self._projects = {
            project.name: {} if project.name in beyond_budget else project.quota
            for project in snapshot.projects
        }
        self._departments = {
            department.name: department.quota
            for department in snapshot.departments
            if department.quota is not None  # Else it is the sum of the projects' quotas.
        }
        self._held: defaultdict[tuple[str, str], Demand] = defaultdict(lambda: NOTHING)
        self._held_above: defaultdict[tuple[str, str], Demand] = defaultdict(lambda: NOTHING)
        self._nodes: set[tuple[str, str, str]] = set()
        """The nodes that count already, each with the project."""

    def hold(self, places: Sequence[Place]) -> bool:
        """Count these jobs of one project. Return whether it and its department then hold no more
        than their quotas. What is beyond the project's quota does not count in the department's."""
        amounts: defaultdict[str, Demand] = defaultdict(lambda: NOTHING)
        for job, pool, node in places:
            amounts[pool if self._by_pool else EVERYWHERE] += self._counts(job, pool, node)
        project = places[0][0].project
        above = self._above.get(project, "")
        return self._fits(project, self._projects.get(project, {}), amounts, self._held) and (
            above not in self._departments
            or self._fits(above, self._departments[above], amounts, self._held_above)
        )

    def _counts(self, job: Job, pool: str, node: str) -> Demand:
        """What the job counts. A node counts once for a project."""
        if not node:
            return job.demand
        key = job.project, pool, node
        is_new = key not in self._nodes
        self._nodes.add(key)
        return job.demand if is_new else NOTHING

    def _fits(
        self,
        owner: str,
        quota: Mapping[str, Demand],
        amounts: Mapping[str, Demand],
        held: defaultdict[tuple[str, str], Demand],
    ) -> bool:
        for scope, amount in amounts.items():
            held[owner, scope] += amount
        return not any(
            held[owner, scope].exceeds(quota.get(scope, NOTHING), self._resources, NOTHING)
            for scope in amounts
        )
