"""The sections of a scenario together, and the names that they refer to.

Each name occurs once, and what is referred to is there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property
from math import inf
from typing import Any

from pydantic import Field, model_validator

from slotq.simulate.scenario.sections import (
    Expectation,
    GroupSpec,
    InterruptionSpec,
    JobSpec,
    NodesSpec,
    PlanWindowSpec,
    PoolSpec,
    WhySpec,
)
from slotq_core.model import reasons
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import JobState
from slotq_core.model.reasons import codes, outlook
from slotq_core.model.users import AUTO, Classes, classes_of
from slotq_core.spelling import as_known
from slotq_core.wire.document import checks
from slotq_core.wire.document.checks import resources_of
from slotq_core.wire.document.contents import SECTIONS as CONFIGURED
from slotq_core.wire.document.faults import DocumentFault, Loc, unknown
from slotq_core.wire.document.models import class_of
from slotq_core.wire.document.sections import (
    ClassSection,
    DepartmentSection,
    FairShareSection,
    LimitsSection,
    NotificationSection,
    PeopleSection,
    Principals,
    ProjectSection,
    SchedulerSection,
    Section,
    SharingSection,
    UserGroupSection,
    UserSection,
)
from slotq_core.wire.document.values import Duration

DEFAULT_PROJECT = "default"
"""The project of jobs that name none, if the scenario has projects: quota 0, weight 0."""

SECTIONS: dict[str, type[Section]] = {
    **CONFIGURED,
    "pools": PoolSpec,
    "pools.nodes": NodesSpec,
    "pools.plan_windows": PlanWindowSpec,
    "groups": GroupSpec,
    "jobs": JobSpec,
    "jobs.interruptions": InterruptionSpec,
    "expect": Expectation,
}


class Contents(Section):
    pools: tuple[PoolSpec, ...]
    projects: tuple[ProjectSection, ...] = ()
    departments: tuple[DepartmentSection, ...] = ()
    limits: LimitsSection = Field(default={})
    """Of a queue only, as are operators, people and notifications."""
    operators: Principals = ()
    people: PeopleSection = PeopleSection()
    sharing: SharingSection = SharingSection()
    fair_share: FairShareSection | None = None
    classes: tuple[ClassSection, ...] = ()
    users: tuple[UserSection, ...] = ()
    user_groups: tuple[UserGroupSection, ...] = ()
    scheduler: SchedulerSection = SchedulerSection()
    notifications: tuple[NotificationSection, ...] = ()
    groups: tuple[GroupSpec, ...] = ()
    jobs: tuple[JobSpec, ...] = ()
    until: Duration | None = None
    expect: tuple[Expectation, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _default_project(cls, data: Any) -> Any:
        """Put jobs without a project into the default project, if the scenario has projects."""
        if not isinstance(data, dict) or not data.get("projects"):
            return data
        if not isinstance(data["projects"], list) or not isinstance(data.get("jobs"), list):
            return data
        jobs = [
            {"project": DEFAULT_PROJECT, **job} if isinstance(job, dict) else job
            for job in data["jobs"]
        ]
        projects = list(data["projects"])
        names = [project.get("name") for project in projects if isinstance(project, dict)]
        if DEFAULT_PROJECT not in names and any(
            isinstance(job, dict) and job.get("project") == DEFAULT_PROJECT for job in jobs
        ):
            projects.append({"name": DEFAULT_PROJECT, "quota": 0, "weight": 0})
        return {**data, "projects": projects, "jobs": jobs}

    @property
    def pool_names(self) -> tuple[str, ...]:
        return tuple(pool.name for pool in self.pools)

    @property
    def resources(self) -> tuple[str, ...]:
        """The resources of the pools: `slots` first."""
        return resources_of(self.pools)

    @cached_property
    def known_classes(self) -> Classes:
        """The configured classes, else HFAI's. Without AUTO."""
        return classes_of(map(class_of, self.classes))


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


def names_are_unique(scenario: Contents) -> Iterator[DocumentFault]:
    yield from checks.names_are_unique(scenario, NAMED)


def jobs_name_pools_that_there_are(scenario: Contents) -> Iterator[DocumentFault]:
    pools = {pool.name for pool in scenario.pools}
    for place, job in enumerate(scenario.jobs):
        named: list[tuple[Loc, str]] = [(("pools", i), name) for i, name in enumerate(job.pools)]
        named += [(("parts", name), name) for name in job.parts]
        named += [(("pool",), job.pool)] if job.pool is not None else []
        for where, name in named:
            if name not in pools:
                yield unknown(("jobs", place, *where), "pool", name, pools)
        for index, name in enumerate(job.pools):
            if name in job.pools[:index]:
                yield DocumentFault(("jobs", place, "pools", index), f"pool '{name}' occurs twice")


def jobs_name_what_there_is(scenario: Contents) -> Iterator[DocumentFault]:
    projects = {project.name for project in scenario.projects}
    classes = {*scenario.known_classes, AUTO}
    groups = {group.name for group in scenario.groups}
    for place, job in enumerate(scenario.jobs):
        if job.project is not None and job.project not in projects:
            yield unknown(("jobs", place, "project"), "project", job.project, projects)
        if isinstance(job.priority, str) and as_known(job.priority, classes) is None:
            yield unknown(("jobs", place, "priority"), "class", job.priority, classes)
        if job.group is not None and job.group not in groups:
            yield unknown(("jobs", place, "group"), "group", job.group, groups)


def changes_are_of_what_there_is(scenario: Contents) -> Iterator[DocumentFault]:
    for place, pool in enumerate(scenario.pools):
        named: list[tuple[Loc, Demand]] = [(("pools", place, "foreign"), pool.foreign)]
        for index, change in enumerate(pool.changes):
            where: Loc = ("pools", place, "changes", index)
            named.append(((*where, "capacity"), change.capacity or Demand()))
            named.append(((*where, "foreign"), change.foreign or Demand()))
        for where, amounts in named:
            for resource in amounts:
                if resource not in pool.capacity:
                    yield unknown((*where, resource), "resource", resource, pool.capacity)


def expectations_name_what_there_is(scenario: Contents) -> Iterator[DocumentFault]:
    jobs = {job.name for job in scenario.jobs}
    projects = {project.name for project in scenario.projects}
    until = inf if scenario.until is None else scenario.until
    known = {
        **dict.fromkeys(("states", "started", "evictions"), ("job", jobs)),
        **dict.fromkeys(("running_slots", "warned"), ("project", projects)),
    }
    for place, expected in enumerate(scenario.expect):
        if not isinstance(expected.at, str) and expected.at > until:
            yield DocumentFault(("expect", place, "at"), "that is after until: the run ends before")
        for key, (what, there) in known.items():
            for name in getattr(expected, key):
                if name not in there:
                    yield unknown(("expect", place, key, name), what, name, there)
        for name, state in expected.states.items():
            if state not in STATES:
                yield unknown(("expect", place, "states", name), "state", state, STATES)


def questions_name_what_there_is(scenario: Contents) -> Iterator[DocumentFault]:
    jobs = {job.name for job in scenario.jobs}
    for place, expected in enumerate(scenario.expect):
        for index, why in enumerate(expected.why):
            yield from _unknown_in(("expect", place, "why", index), why, jobs)


def _unknown_in(where: Loc, why: WhySpec, jobs: Collection[str]) -> Iterator[DocumentFault]:
    if why.job not in jobs:
        yield unknown((*where, "job"), "job", why.job, jobs)
    for name in why.reserved:
        if name not in jobs:
            yield unknown((*where, "reserved", name), "job", name, jobs)
    if why.reason is not None and why.reason not in REASONS:
        yield unknown((*where, "reason"), "reason", why.reason, REASONS)
    if why.also is not None and why.also not in REASONS:
        yield unknown((*where, "also"), "reason", why.also, REASONS)
    if why.head is not None and why.head not in jobs:
        yield unknown((*where, "head"), "job", why.head, jobs)
    for code in why.evictions:
        if code not in SPARED:
            yield unknown((*where, "evictions", code), "cause", code, SPARED)
