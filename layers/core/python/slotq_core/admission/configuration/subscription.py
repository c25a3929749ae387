"""The rules that keep quotas honest (`Subscription`), with their numbers, per pool and resource.

A change is refused only for numbers that it makes worse. So an earlier exception, or a change of
capacity, never blocks another change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import NamedTuple

from slotq_core.admission.instances.instance_contents import counting
from slotq_core.errors import Oversubscribed
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.pools import Pool
from slotq_core.model.projects import EVERYWHERE, Amounts, Department, Project
from slotq_core.model.sharing import Settings, Sharing, Subscription

Held = Mapping[str, Mapping[str, Demand]]
"""The amounts that jobs hold: by project, then by pool."""

MOST_LISTED = 50
"""The most numbers that a refusal lists."""

_NOTHING = Demand()


@dataclass(frozen=True, kw_only=True, slots=True)
class SettingsInUse:
    """The input of the rules: the settings, and what runs under them."""

    settings: Settings
    held: Held = field(default_factory=dict)
    """The amounts held by running jobs that may not be evicted."""

    @property
    def sharing(self) -> Sharing:
        return self.settings.sharing


class Number(NamedTuple):
    """One number that has a bound. The rule is broken where `amount` is above `bound`."""

    path: str
    """The path in the document."""
    said: str
    """The sentence, with the numbers."""
    amount: int
    bound: int

    @property
    def excess(self) -> int:
        return max(0, self.amount - self.bound)


Key = tuple[str, str, str]
"""The owner of a quota, a scope (a pool or `EVERYWHERE`) and a resource."""
Numbers = dict[Key, Number]


def check(before: SettingsInUse, after: SettingsInUse) -> None:
    """Raises Oversubscribed with every number that the change raises above its bound, or further
    above it."""
    faults = [
        (number.path, f"{number.said} (rule {rule.value})")
        for rule, look in _RULES.items()
        if rule not in after.sharing.unchecked
        for number in _made_worse(rule, look(before), look(after))
    ]
    if faults:
        listed = tuple(faults[:MOST_LISTED])
        raise Oversubscribed(_message(faults), field=faults[0][0], faults=listed)


def held_by_fixed(active: Iterable[Job], pools: Iterable[Pool]) -> Held:
    """Return the amounts held by jobs that may not be evicted, by project and pool. Stopping jobs
    do not count.

    Of jobs on nodes, the node counts once for its project; where projects share the pool's nodes,
    the parts of all the project's jobs there, rounded up.
    """
    shared = {pool.name for pool in pools if pool.nodes and pool.nodes.shared}
    fixed = [job for job in active if not job.evictable and job.state is not JobState.STOPPING]
    held: dict[str, dict[str, Demand]] = {job.project: {} for job in fixed}
    for project, pool, amount in (*_whole(fixed, shared), *_parts(fixed, shared)):
        held[project][pool] = held[project].get(pool, _NOTHING) + amount
    return held


def _whole(jobs: Iterable[Job], shared: AbstractSet[str]) -> Iterator[tuple[str, str, Demand]]:
    """Yield what jobs hold in whole instances, by project and pool: each node once."""
    nodes: set[tuple[str, str, str]] = set()
    for job in jobs:
        node = _node(job)
        if node is None:
            yield from ((job.project, pool, demand) for pool, demand in job.holds)
        elif node[0] not in shared and (job.project, *node) not in nodes:
            nodes.add((job.project, *node))
            yield job.project, node[0], job.demand


def _parts(jobs: Iterable[Job], shared: AbstractSet[str]) -> Iterator[tuple[str, str, Demand]]:
    """Yield what jobs hold together of nodes that projects share, by project and pool."""
    sums: dict[tuple[str, str], dict[str, Fraction]] = {}
    for job in jobs:
        node = _node(job)
        if node is not None and node[0] in shared and job.attempt:
            mine, part = sums.setdefault((job.project, node[0]), {}), job.attempt.part_of_slot
            for name, amount in job.demand.items():
                mine[name] = mine.get(name, Fraction()) + Fraction(amount * part[0], part[1])
    for (project, pool), amounts in sums.items():
        yield project, pool, Demand({name: ceil(amount) for name, amount in amounts.items()})


def _node(job: Job) -> tuple[str, str] | None:
    """The pool and the name of the job's node; None: it has whole instances."""
    attempt = job.attempt
    return (attempt.pool, attempt.node) if attempt and attempt.part_of_slot else None


def moved(held: Held, name: str, to: str) -> Held:
    """Return the amounts after the jobs of one project have moved to another."""
    rest = {project: pools for project, pools in held.items() if project != name}
    mine, other = held.get(name, {}), held.get(to, {})
    together = {
        pool: mine.get(pool, _NOTHING) + other.get(pool, _NOTHING) for pool in {**mine, **other}
    }
    return {**rest, to: together}


def _made_worse(rule: Subscription, before: Numbers, after: Numbers) -> Iterator[Number]:
    for key, number in after.items():
        was = before.get(key)
        if number.excess > (was.excess if was else 0) and _asked(rule, was, number):
            yield number


def _asked(rule: Subscription, was: Number | None, number: Number) -> bool:
    """Whether to check the rule. Two rules check the same numbers; which one applies depends on who
    changed them."""
    match rule:
        case Subscription.PROJECTS_WITHIN_DEPARTMENT:
            return was is None or number.amount > was.amount
        case Subscription.DEPARTMENT_ABOVE_PROJECTS:
            return was is not None and number.bound < was.bound
    return True


def _within_pools(current: SettingsInUse) -> Numbers:
    """No quota is more than its pools have."""
    capacity = _capacity(counting(current.settings.pools, current.sharing))
    numbers: Numbers = {}
    for path, owner in _owners(current.sharing):
        kind = type(owner).__name__.lower()
        for scope, quota in (owner.quota or {}).items():
            for resource in quota:
                has = capacity.get(scope, _NOTHING)[resource]
                said = (
                    f"{kind} '{owner.name}' has a quota of {quota[resource]} {resource} "
                    f"{_in(scope)}, which {'has' if scope else 'have'} {has}"
                )
                key = (f"{kind} {owner.name}", scope, resource)
                numbers[key] = Number(f"{path}.quota{_of(scope)}", said, quota[resource], has)
    return numbers


def _above_running(current: SettingsInUse) -> Numbers:
    """No project's quota is below the use of its running jobs that may not be evicted."""
    by_scope, resources = _scoped(current), _resources(current.sharing)
    numbers: Numbers = {}
    for place, project in enumerate(current.sharing.projects):
        for scope, held in by_scope(current.held.get(project.name, {})).items():
            for resource in resources:
                quota = project.quota.get(scope, _NOTHING)
                said = (
                    f"project '{project.name}' has a quota of {quota[resource]} {resource} "
                    f"{_in(scope)}, and its running jobs that may not be evicted hold "
                    f"{held[resource]}"
                )
                path = f"projects[{place}].quota{_of(scope)}"
                key = (project.name, scope, resource)
                numbers[key] = Number(path, said, held[resource], quota[resource])
    return numbers


def _of_departments(
    path_of: Callable[[Sharing, Department], str],
) -> Callable[[SettingsInUse], Numbers]:
    def look(current: SettingsInUse) -> Numbers:
        """The quotas of a department's projects are together at most the department's."""
        sharing, resources = current.sharing, _resources(current.sharing)
        numbers: Numbers = {}
        for department in sharing.departments:
            within = [
                project for project in sharing.projects if project.department == department.name
            ]
            asked = _sum(project.quota for project in within)
            quota = asked if department.quota is None else department.quota
            path = f"{path_of(sharing, department)}.quota"
            for scope in {**asked, **quota}:
                for resource in resources:
                    amount = asked.get(scope, _NOTHING)[resource]
                    bound = quota.get(scope, _NOTHING)[resource]
                    said = (
                        f"department '{department.name}' has a quota of {bound} {resource} "
                        f"{_in(scope)}, and its projects have {amount} together"
                    )
                    key = (department.name, scope, resource)
                    numbers[key] = Number(path, said, amount, bound)
        return numbers

    return look


def _first_project(sharing: Sharing, department: Department) -> str:
    """Return the path of the department's first project with a quota."""
    places = (
        place
        for place, project in enumerate(sharing.projects)
        if project.department == department.name and any(project.quota.values())
    )
    return f"projects[{next(places, 0)}]"


def _itself(sharing: Sharing, department: Department) -> str:
    return f"departments[{sharing.departments.index(department)}]"


_RULES: Mapping[Subscription, Callable[[SettingsInUse], Numbers]] = {
    Subscription.QUOTA_WITHIN_POOLS: _within_pools,
    Subscription.PROJECTS_WITHIN_DEPARTMENT: _of_departments(_first_project),
    Subscription.DEPARTMENT_ABOVE_PROJECTS: _of_departments(_itself),
    Subscription.PROJECT_ABOVE_RUNNING: _above_running,
}


def _owners(sharing: Sharing) -> Iterator[tuple[str, Project | Department]]:
    for place, project in enumerate(sharing.projects):
        yield f"projects[{place}]", project
    for place, department in enumerate(sharing.departments):
        yield f"departments[{place}]", department


def _resources(sharing: Sharing) -> tuple[str, ...]:
    """Return the resources that count in quotas, as in plans: those that a quota names."""
    quotas = (owner.quota or {} for _, owner in _owners(sharing))
    named = {name for by_scope in quotas for quota in by_scope.values() for name in quota}
    return tuple(sorted(named)) or ("slots",)


def _scoped(current: SettingsInUse) -> Callable[[Mapping[str, Demand]], Mapping[str, Demand]]:
    """Return a function from amounts by pool to amounts by the scopes of the quotas."""
    owners = [owner for _, owner in _owners(current.sharing)]
    scopes = {scope for owner in owners for scope in (*(owner.quota or {}), *owner.limit)}
    if scopes - {EVERYWHERE}:
        return lambda by_pool: by_pool
    return lambda by_pool: {EVERYWHERE: Demand.total(by_pool.values())} if by_pool else {}


def _capacity(pools: Iterable[Pool]) -> Mapping[str, Demand]:
    by_pool = {pool.name: pool.capacity for pool in pools}
    return {**by_pool, EVERYWHERE: Demand.total(by_pool.values())}


def _sum(quotas: Iterable[Amounts]) -> Amounts:
    return Demand.totals((scope, own, 1) for quota in quotas for scope, own in quota.items())


def _in(scope: str) -> str:
    return f"in pool {scope}" if scope else "over all pools"


def _of(scope: str) -> str:
    return f".{scope}" if scope else ""


def _message(faults: list[tuple[str, str]]) -> str:
    if len(faults) == 1:
        return faults[0][1]
    lines = [f"  {path}: {message}" for path, message in faults[:MOST_LISTED]]
    return "\n".join([f"{len(faults)} numbers do not agree:", *lines])
