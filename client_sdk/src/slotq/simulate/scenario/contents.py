"""The sections of a scenario together, as `checks` needs them."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from pydantic import Field, model_validator

from slotq.simulate.scenario.sections import (
    Expectation,
    GroupSpec,
    JobSpec,
    PoolSpec,
)
from slotq_core.model.users import Classes, classes_of
from slotq_core.wire.document.checks import resources_of
from slotq_core.wire.document.contents import SECTIONS as CONFIGURED
from slotq_core.wire.document.models import class_of
from slotq_core.wire.document.sections import (
    ClassSection,
    DepartmentSection,
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
    "groups": GroupSpec,
    "jobs": JobSpec,
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
        names = [each.get("name") for each in projects if isinstance(each, dict)]
        if DEFAULT_PROJECT not in names and any(
            isinstance(job, dict) and job.get("project") == DEFAULT_PROJECT for job in jobs
        ):
            projects.append({"name": DEFAULT_PROJECT, "quota": 0, "weight": 0})
        return {**data, "projects": projects, "jobs": jobs}

    @property
    def pool_names(self) -> tuple[str, ...]:
        return tuple(pool.name for pool in self.pools)

    @cached_property
    def property_names(self) -> frozenset[str]:
        """The names that a demand requires of a pool, and takes nothing of."""
        return frozenset(name for pool in self.pools for name in pool.properties)

    @property
    def resources(self) -> tuple[str, ...]:
        """The resources of the pools: `slots` first."""
        return resources_of(self.pools)

    @cached_property
    def known_classes(self) -> Classes:
        """The configured classes, else HFAI's. Without AUTO."""
        return classes_of(map(class_of, self.classes))
