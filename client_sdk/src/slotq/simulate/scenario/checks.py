"""Rules across the sections of a scenario. Each check yields its faults and their places.

To add a rule, add a function here and a line in `CHECKS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf
from typing import TYPE_CHECKING, Any

from slotq.simulate.scenario.faults import Fault, Loc, listed
from slotq.simulate.scenario.sections import (
    DepartmentSpec,
    ProjectSpec,
    UserGroupSpec,
    UserSpec,
    WhySpec,
)
from slotq_core.admission.dependencies import circle
from slotq_core.model import outlook, reasons
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import JobState
from slotq_core.model.reasons import codes
from slotq_core.model.users import AUTO

if TYPE_CHECKING:
    from slotq.simulate.scenario.scenario import Scenario

Check = Callable[["Scenario"], Iterable[Fault]]

NAMED = (
    "pools",
    "projects",
    "departments",
    "classes",
    "users",
    "user_groups",
    "groups",
    "jobs",
)
"""The sections whose entries have names. Each name may occur once."""

REASONS = codes(reasons, reasons.Reason)
SPARED = codes(outlook, outlook.Spared)
"""The codes that say why a job waits and why holders of slots are not evicted for it."""

STATES = (*(state.value for state in JobState), "refused", "not submitted")


def there_is_a_pool(scenario: Scenario) -> Iterator[Fault]:
    if not scenario.pools:
        yield Fault(("pools",), "at least one is needed")


def names_are_unique(scenario: Scenario) -> Iterator[Fault]:
    for section in NAMED:
        first: dict[str, int] = {}
        for place, entry in enumerate(getattr(scenario, section)):
            if first.setdefault(entry.name, place) != place:
                yield Fault(
                    (section, place, "name"),
                    f"'{entry.name}' exists already, as {section}[{first[entry.name]}]",
                )


def projects_are_of_departments(scenario: Scenario) -> Iterator[Fault]:
    departments = [department.name for department in scenario.departments]
    for place, project in enumerate(scenario.projects):
        if project.department and project.department not in departments:
            yield _unknown(
                ("projects", place, "department"), "department", project.department, departments
            )


def classes_demote_downwards(scenario: Scenario) -> Iterator[Fault]:
    classes = {each.name: each for each in scenario.classes}
    for place, each in enumerate(scenario.classes):
        where = ("classes", place, "demote_to")
        if not each.demote_to:
            continue
        if AUTO in (each.name, each.demote_to):
            yield Fault(
                where,
                (
                    "the queue chooses the class of AUTO at each admission: nothing demotes to or "
                    "from it"
                ),
            )
        elif each.demote_to not in classes:
            yield _unknown(where, "class", each.demote_to, classes)
        elif circle := _circle(each.name, lambda name: classes[name].demote_to, classes):
            yield Fault(where, f"classes demote in a circle: {' -> '.join(circle)}")
        elif classes[each.demote_to].value >= each.value:
            yield Fault(where, f"'{each.demote_to}' is not lower: a class demotes to a lower one")


def jobs_name_pools_that_there_are(scenario: Scenario) -> Iterator[Fault]:
    pools = {pool.name for pool in scenario.pools}
    for place, job in enumerate(scenario.jobs):
        named: list[tuple[Loc, str]] = [(("pools", i), name) for i, name in enumerate(job.pools)]
        named += [(("parts", name), name) for name in job.parts]
        named += [(("pool",), job.pool)] if job.pool is not None else []
        for where, name in named:
            if name not in pools:
                yield _unknown(("jobs", place, *where), "pool", name, pools)
        for index, name in enumerate(job.pools):
            if name in job.pools[:index]:
                yield Fault(("jobs", place, "pools", index), f"pool '{name}' occurs twice")


def jobs_name_what_there_is(scenario: Scenario) -> Iterator[Fault]:
    projects = {project.name for project in scenario.projects}
    classes = {*scenario.known_classes, AUTO}
    groups = {group.name for group in scenario.groups}
    for place, job in enumerate(scenario.jobs):
        if job.project is not None and job.project not in projects:
            yield _unknown(("jobs", place, "project"), "project", job.project, projects)
        if isinstance(job.priority, str) and job.priority not in classes:
            yield _unknown(("jobs", place, "priority"), "class", job.priority, classes)
        if job.group is not None and job.group not in groups:
            yield _unknown(("jobs", place, "group"), "group", job.group, groups)


def limits_name_what_there_is(scenario: Scenario) -> Iterator[Fault]:
    groups = {group.name for group in scenario.user_groups}
    for place, user in enumerate(scenario.users):
        for index, name in enumerate(user.groups):
            if name not in groups:
                yield _unknown(("users", place, "groups", index), "user group", name, groups)
    owners: dict[str, Sequence[UserSpec | UserGroupSpec]] = {
        "users": scenario.users,
        "user_groups": scenario.user_groups,
    }
    for section, entries in owners.items():
        for place, entry in enumerate(entries):
            where = (section, place, "limits")
            for pool, limits in entry.limits.items():
                if pool not in scenario.pool_names:
                    yield _unknown((*where, pool), "pool", pool, scenario.pool_names)
                for its in limits:
                    if its not in scenario.known_classes:
                        yield _unknown((*where, pool, its), "class", its, scenario.known_classes)


def turns_come_to_an_end(scenario: Scenario) -> Iterator[Fault]:
    """With time slices, jobs without an end would take turns for ever."""
    sliced = any(pool.time_slice is not None for pool in scenario.pools)
    if sliced and scenario.until is None and any(job.runtime is None for job in scenario.jobs):
        yield Fault(
            (), ("until is needed: with time slices, jobs without a runtime take turns for ever")
        )


def changes_are_of_what_there_is(scenario: Scenario) -> Iterator[Fault]:
    for place, pool in enumerate(scenario.pools):
        named: list[tuple[Loc, Demand]] = [(("pools", place, "foreign"), pool.foreign)]
        for index, change in enumerate(pool.changes):
            where: Loc = ("pools", place, "changes", index)
            named.append(((*where, "capacity"), change.capacity or Demand()))
            named.append(((*where, "foreign"), change.foreign or Demand()))
        for where, amounts in named:
            for resource in amounts:
                if resource not in pool.capacity:
                    yield _unknown((*where, resource), "resource", resource, pool.capacity)


def groups_are_whole(scenario: Scenario) -> Iterator[Fault]:
    """A gang has members, includes its mandatory ones, and belongs to one project."""
    for place, group in enumerate(scenario.groups):
        members = [job for job in scenario.jobs if job.group == group.name]
        names = [job.name for job in members]
        projects = sorted({job.project or "" for job in members})
        if not members:
            yield Fault(("groups", place, "name"), f"group '{group.name}' has no members")
        for index, name in enumerate(group.mandatory):
            if members and name not in names:
                where = ("groups", place, "mandatory", index)
                yield Fault(where, f"'{name}' is not a member; the members are {listed(names)}")
        if members and (group.min_members or 0) > len(members):
            yield Fault(
                ("groups", place, "min_members"),
                f"it has {len(members)} members, fewer than {group.min_members}",
            )
        if len(projects) > 1 and group.max_parallel is None:
            yield Fault(
                ("groups", place, "name"),
                f"a gang belongs to one project; its members belong to {listed(projects)}",
            )


def dependencies_end(scenario: Scenario) -> Iterator[Fault]:
    """Dependencies name other jobs of the file and form no circle. A gang starts as one, so its
    name stands for its members here."""
    jobs = {job.name for job in scenario.jobs}
    sweeps = {group.name for group in scenario.groups if group.max_parallel is not None}
    units = {
        job.name: f"gang {job.group}" if job.group and job.group not in sweeps else job.name
        for job in scenario.jobs
    }
    after: dict[str, set[str]] = {}
    for place, job in enumerate(scenario.jobs):
        for index, name in enumerate(job.after):
            where = ("jobs", place, "after", index)
            if name not in jobs:
                yield _unknown(where, "job", name, jobs)
                continue
            after.setdefault(units[job.name], set()).add(units[name])
    if found := circle(after):
        places = [place for place, job in enumerate(scenario.jobs) if units[job.name] == found[0]]
        yield Fault(
            ("jobs", places[0], "after"),
            f"the jobs depend on each other in a circle: {' -> '.join(found)}",
        )


def what_runs_at_the_start_fits(scenario: Scenario) -> Iterator[Fault]:
    room = {pool.name: pool.capacity - pool.foreign for pool in scenario.pools}
    for place, job in enumerate(scenario.jobs):
        if job.at is None or job.running_since is None:
            continue
        for pool, needed in job.held_in(job.at).items():
            if pool not in room:
                continue
            if not needed.within(room[pool]):
                yield Fault(
                    ("jobs", place, "running_since"),
                    f"job '{job.name}' needs {_amounts(needed)}, but pool '{pool}' has only "
                    f"{_amounts(room[pool])} left for what runs at the start",
                )
            room[pool] -= needed


def quotas_are_of_one_kind(scenario: Scenario) -> Iterator[Fault]:
    """ "Numeric quotas … over all pools together; … per-pool maps, per pool; the two are not
    mixed." """
    first: tuple[bool, str] | None = None
    for where, name, quota in quotas(scenario):
        keys = [key for key in quota if key not in scenario.resources] if _map(quota) else []
        for key in keys:
            if key not in scenario.pool_names:
                known = [*scenario.pool_names, *scenario.resources]
                yield _unknown((*where, key), "pool or resource", key, known)
        if keys and len(keys) < len(quota):
            yield Fault(where, "its keys are either all pools or all resources")
        for pool, resource in _inner(quota):
            if resource not in scenario.resources:
                yield _unknown((*where, pool, resource), "resource", resource, scenario.resources)
        by_pool = bool(keys)
        if quota == {} or (where[-1] == "quota" and not quota):
            continue  # An empty quota or a quota of 0 has no kind. A limit of 0 has one.
        if first is None:
            first = by_pool, name
        elif first[0] != by_pool:
            kind = "by pool" if first[0] else "over all pools together"
            yield Fault(
                where,
                (f"all quotas and limits must have the same form: that of {first[1]} is {kind}"),
            )


def expectations_name_what_there_is(scenario: Scenario) -> Iterator[Fault]:
    jobs = {job.name for job in scenario.jobs}
    projects = {project.name for project in scenario.projects}
    until = inf if scenario.until is None else scenario.until
    for place, expected in enumerate(scenario.expect):
        if not isinstance(expected.at, str) and expected.at > until:
            yield Fault(("expect", place, "at"), "that is after until: the run ends before")
        for key in ("states", "started", "evictions"):
            for name in getattr(expected, key):
                if name not in jobs:
                    yield _unknown(("expect", place, key, name), "job", name, jobs)
        for name in expected.running_slots:
            if name not in projects:
                yield _unknown(("expect", place, "running_slots", name), "project", name, projects)
        for name, state in expected.states.items():
            if state not in STATES:
                yield _unknown(("expect", place, "states", name), "state", state, STATES)


def questions_name_what_there_is(scenario: Scenario) -> Iterator[Fault]:
    jobs = {job.name for job in scenario.jobs}
    for place, expected in enumerate(scenario.expect):
        for index, why in enumerate(expected.why):
            yield from _unknown_in(("expect", place, "why", index), why, jobs)


def _unknown_in(where: Loc, why: WhySpec, jobs: Iterable[str]) -> Iterator[Fault]:
    if why.job not in jobs:
        yield _unknown((*where, "job"), "job", why.job, jobs)
    for name in why.reserved:
        if name not in jobs:
            yield _unknown((*where, "reserved", name), "job", name, jobs)
    if why.reason is not None and why.reason not in REASONS:
        yield _unknown((*where, "reason"), "reason", why.reason, REASONS)
    for code in why.evictions:
        if code not in SPARED:
            yield _unknown((*where, "evictions", code), "cause", code, SPARED)


CHECKS: tuple[Check, ...] = (
    there_is_a_pool,
    names_are_unique,
    projects_are_of_departments,
    classes_demote_downwards,
    jobs_name_pools_that_there_are,
    jobs_name_what_there_is,
    limits_name_what_there_is,
    turns_come_to_an_end,
    changes_are_of_what_there_is,
    groups_are_whole,
    dependencies_end,
    what_runs_at_the_start_fits,
    quotas_are_of_one_kind,
    expectations_name_what_there_is,
    questions_name_what_there_is,
)


def quotas(scenario: Scenario) -> Iterator[tuple[Loc, str, Any]]:
    """Every quota and limit of the file: its place, its owner and its value."""
    owners: Sequence[tuple[str, Sequence[ProjectSpec | DepartmentSpec]]] = (
        ("projects", scenario.projects),
        ("departments", scenario.departments),
    )
    for section, entries in owners:
        for place, owner in enumerate(entries):
            for key in ("quota", "limit"):
                value = getattr(owner, key)
                if value is not None:
                    yield (section, place, key), f"'{owner.name}'", value


def _map(quota: Any) -> bool:
    return isinstance(quota, dict)


def _inner(quota: Any) -> Iterator[tuple[str, str]]:
    for pool, amounts in quota.items() if _map(quota) else ():
        for resource in amounts if _map(amounts) else ():
            yield pool, resource


def _circle(start: str, after: Callable[[str], str], known: Iterable[str]) -> list[str]:
    """The path from the start back to the start, if there is one."""
    path = [start]
    while (name := after(path[-1])) and name in known:
        if name == start:
            return [*path, name]
        if name in path:
            return []  # The circle lies further on, and is reported there.
        path.append(name)
    return []


def _unknown(where: Loc, what: str, name: str, known: Iterable[str]) -> Fault:
    return Fault(where, f"there is no {what} '{name}'; these exist: {listed(sorted(known))}")


def _amounts(amounts: Demand) -> str:
    return ", ".join(f"{amounts[name]} {name}" for name in {"slots": 0, **amounts})
