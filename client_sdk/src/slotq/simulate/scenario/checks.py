"""Rules across the sections of a scenario. Each check yields its faults and their places.

To add a rule, add a function here and a line in `CHECKS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from slotq.simulate.scenario import contents
from slotq.simulate.scenario.contents import Contents
from slotq.simulate.scenario.sections import JobSpec
from slotq_core.admission.dependencies import circle
from slotq_core.admission.instances.instance_contents import properties_of
from slotq_core.admission.requirements import needs_of
from slotq_core.errors import Refused
from slotq_core.model.demand import Demand
from slotq_core.model.groups import end_of, member_fault
from slotq_core.model.jobs import GROUP_END
from slotq_core.spelling import listed
from slotq_core.wire import traits
from slotq_core.wire.document import checks
from slotq_core.wire.document.faults import DocumentFault, unknown
from slotq_core.wire.pool_definition import misdeclared

Check = Callable[[Contents], Iterable[DocumentFault]]


def turns_come_to_an_end(scenario: Contents) -> Iterator[DocumentFault]:
    """With time slices, jobs without an end would take turns for ever."""
    sliced = any(pool.time_slice is not None for pool in scenario.pools)
    if sliced and scenario.until is None and any(job.runtime is None for job in scenario.jobs):
        yield DocumentFault(
            (), ("until is needed: with time slices, jobs without a runtime take turns for ever")
        )


def budgets_come_to_an_end(scenario: Contents) -> Iterator[DocumentFault]:
    """A job without an end would spend the budgets of all months to come."""
    has_budget = any(project.budget for project in scenario.projects)
    if has_budget and scenario.until is None and any(job.runtime is None for job in scenario.jobs):
        yield DocumentFault(
            (), ("until is needed: with budgets, jobs without a runtime spend them month by month")
        )


def past_use_comes_to_an_end(scenario: Contents) -> Iterator[DocumentFault]:
    """Where past use counts, a job without an end is looked at each hour for ever."""
    counts = scenario.fair_share is not None
    if counts and scenario.until is None and any(job.runtime is None for job in scenario.jobs):
        yield DocumentFault(
            (), "until is needed: with fair_share, jobs without a runtime are looked at each hour"
        )


def groups_are_whole(scenario: Contents) -> Iterator[DocumentFault]:
    """A gang has members, includes its mandatory ones, and belongs to one project."""
    for place, group in enumerate(scenario.groups):
        members = [job for job in scenario.jobs if job.group == group.name]
        names = [job.name for job in members]
        projects = sorted({job.project or "" for job in members})
        if not members:
            yield DocumentFault(("groups", place, "name"), f"group '{group.name}' has no members")
        rules: list[tuple[tuple[str | int, ...], str]]
        rules = [(("mandatory", index), name) for index, name in enumerate(group.mandatory)]
        rules += [(("ends_with",), group.ends_with)] if group.ends_with else []
        for rule, name in rules:
            if members and name not in names:
                where = ("groups", place, *rule)
                yield DocumentFault(
                    where, f"'{name}' is not a member; the members are {listed(names)}"
                )
        if members and (group.min_members or 0) > len(members):
            yield DocumentFault(
                ("groups", place, "min_members"),
                f"it has {len(members)} members, fewer than {group.min_members}",
            )
        for member in members if group.elastic else ():
            if fault := member_fault(member.gpus, member.workload):
                yield DocumentFault(("groups", place, "elastic"), f"'{member.name}': {fault}")
        if len(projects) > 1 and group.max_parallel is None:
            yield DocumentFault(
                ("groups", place, "name"),
                f"a gang belongs to one project; its members belong to {listed(projects)}",
            )


def dependencies_end(scenario: Contents) -> Iterator[DocumentFault]:
    """Dependencies name other jobs of the file, or groups, and form no circle. A gang starts as
    one, so a dependency on a member is one on the gang. A queue's groups are submitted whole, so a
    dependent of a group enters after all its members."""
    jobs = {job.name: job for job in scenario.jobs}
    sweeps = {group.name for group in scenario.groups if group.max_parallel is not None}
    members = {
        end_of(group.name): [job for job in scenario.jobs if job.group == group.name]
        for group in scenario.groups
    }
    units = {
        job.name: f"gang {job.group}" if job.group and job.group not in sweeps else job.name
        for job in scenario.jobs
    }
    after: dict[str, set[str]] = {}
    for place, job in enumerate(scenario.jobs):
        for key, index, name in _awaited(job):
            where = ("jobs", place, key, index)
            if name in jobs:
                after.setdefault(units[job.name], set()).add(units[name])
            elif name not in members:
                yield unknown(where, *_kind(name), [*jobs, *members])
            for member in members.get(name, ()):
                after.setdefault(units[job.name], set()).add(units[member.name])
                if _comes_later(member, job):
                    yield DocumentFault(
                        where, f"its member '{member.name}' is submitted after this job"
                    )
    if found := circle(after):
        places = [place for place, job in enumerate(scenario.jobs) if units[job.name] == found[0]]
        yield DocumentFault(
            ("jobs", places[0], "after"),
            f"the jobs depend on each other in a circle: {' -> '.join(found)}",
        )


def _awaited(job: JobSpec) -> Iterator[tuple[str, int, str]]:
    """What the job comes after, each with its key and place."""
    for key in ("after", "after_any"):
        for index, name in enumerate(getattr(job, key)):
            yield key, index, name


def _kind(name: str) -> tuple[str, str]:
    if name.startswith(GROUP_END):
        return "group", name.removeprefix(GROUP_END)
    return "job", name


def _comes_later(member: JobSpec, job: JobSpec) -> bool:
    if member.submit_at is None or job.submit_at is None:
        return False
    return member.submit_at > job.submit_at


def pools_declare_what_instances_contain(scenario: Contents) -> Iterator[DocumentFault]:
    for place, spec in enumerate(scenario.pools):
        pool = spec.pool
        for fault in misdeclared(pool):
            key = "capacity" if fault.setting == "resources" else fault.setting
            yield DocumentFault(("pools", place, key, fault.name), f"the pool {fault.said}")
        for index, change in enumerate(spec.changes):
            before, pool = {fault.name for fault in misdeclared(pool)}, change.applied(pool)
            for fault in misdeclared(pool):
                if fault.name not in before:
                    where = ("pools", place, "changes", index, "capacity", fault.name)
                    yield DocumentFault(where, f"the pool then {fault.said}")


def what_runs_at_the_start_fits(scenario: Contents) -> Iterator[DocumentFault]:
    pools = {spec.name: spec.pool for spec in scenario.pools}
    room = {pool.name: pool.capacity - pool.foreign for pool in pools.values()}
    for place, job in enumerate(scenario.jobs):
        if job.at is None or job.running_since is None:
            continue
        for pool, asked in job.held_in(job.at).items():
            if pool not in room:
                continue
            named = [pools[pool]]
            try:
                needs = needs_of(asked, (), pools=[*pools.values()], named=named)
            except Refused as error:
                yield DocumentFault(("jobs", place, "demand"), error.message)
                continue
            need = needs.counted(named).whole
            for name in need.missing_in(named[0]):
                (asked_name, wanted), *_ = traits.decoded({name: need.requires[name]}).items()
                has = traits.decoded(properties_of(named[0])).get(asked_name, 0)
                yield DocumentFault(
                    ("jobs", place, "running_since"),
                    f"job '{job.name}' needs {asked_name} of {traits.written(wanted)}, but "
                    f"pool '{pool}' has {traits.written(has)}",
                )
            needed = need.demand
            if not needed.within(room[pool]):
                yield DocumentFault(
                    ("jobs", place, "running_since"),
                    f"job '{job.name}' needs {_amounts(needed)}, but pool '{pool}' has only "
                    f"{_amounts(room[pool])} left for what runs at the start",
                )
            room[pool] -= needed


def reservations_fit(scenario: Contents) -> Iterator[DocumentFault]:
    """Reservations are no more than their pool has, and a pool with nodes has none."""
    for place, pool in enumerate(scenario.pools):
        if not pool.reservations:
            continue
        from slotq_core.wire.capacity.reservations import NO_NODES, fault_of

        if pool.nodes is not None:
            yield DocumentFault(("pools", place, "nodes"), NO_NODES)
        if fault := fault_of(pool.pool.reservations, pool.capacity.slots):
            yield DocumentFault(("pools", place, "reservations"), fault)


CHECKS: tuple[Check, ...] = (
    *checks.CHECKS,
    contents.names_are_unique,
    contents.jobs_name_pools_that_there_are,
    contents.jobs_name_what_there_is,
    pools_declare_what_instances_contain,
    reservations_fit,
    turns_come_to_an_end,
    budgets_come_to_an_end,
    past_use_comes_to_an_end,
    contents.changes_are_of_what_there_is,
    groups_are_whole,
    dependencies_end,
    what_runs_at_the_start_fits,
    contents.expectations_name_what_there_is,
    contents.questions_name_what_there_is,
)


def _amounts(amounts: Demand) -> str:
    return ", ".join(f"{amounts[name]} {name}" for name in {"slots": 0, **amounts})
