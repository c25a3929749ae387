"""How people share the pools: departments, projects, operators, persons, and the scheduler's
settings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from slotq_core.model.callers import Limits
from slotq_core.model.notices import Notification
from slotq_core.model.pools import Pool
from slotq_core.model.projects import Department, Project, UseOf
from slotq_core.model.users import PriorityClass, User, UserGroup
from slotq_core.timestamps import Duration

IDENTITY_CENTER = "AWSReservedSSO_*"
"""The roles that IAM Identity Center makes for its permission sets."""


class Subscription(StrEnum):
    """The rules that keep quotas honest. An operator may switch each off (`Sharing.unchecked`)."""

    PROJECTS_WITHIN_DEPARTMENT = "projects_within_department"
    """The quotas of a department's projects are together at most the department's quota. Asked when
    a project changes."""
    DEPARTMENT_ABOVE_PROJECTS = "department_above_projects"
    """The same rule, checked when the department's own quota changes."""
    PROJECT_ABOVE_RUNNING = "project_above_running"
    """A project's quota is at least the use of its running non-preemptible jobs."""
    QUOTA_WITHIN_POOLS = "quota_within_pools"
    """No quota is more than its pool has, or than all pools together have."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SchedulerSettings:
    """How often a job is tried, and at which intervals, as in NVIDIA FLARE's scheduler.

    Without settings, a job is tried whenever something changes, and is never given up.
    """

    max_jobs: int | None = None
    """The most jobs that may hold slots at once, a gang counted as one; None: no limit."""
    max_schedule_count: int | None = None
    """The number of failed attempts after which a job is given up; None: attempts are not counted,
    and the intervals do nothing."""
    min_schedule_interval: Duration = 10_000
    """The interval between the first and the second attempt (above 0). Each later interval is
    twice the one before."""
    max_schedule_interval: Duration = 600_000
    """The longest interval."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FairShare:
    """How past use counts. Quotas stay as they are."""

    half_life: Duration = 7 * 86_400_000
    """The time after which use counts half."""
    influence: int = 100
    """How much past use counts between projects, in hundredths: 0 not at all, 100 as much as the
    weights."""
    of: UseOf = UseOf.PROJECTS

    @property
    def of_projects(self) -> bool:
        return self.of is not UseOf.USERS

    @property
    def of_users(self) -> bool:
        return self.of is not UseOf.PROJECTS


@dataclass(frozen=True, kw_only=True, slots=True)
class Sharing:
    """The part of the configuration that sets who may use how much. Without projects, all jobs
    belong to one implicit project, and every caller with access to the queue may use all of it."""

    departments: tuple[Department, ...] = ()
    projects: tuple[Project, ...] = ()
    """The oldest first: an older project goes before a younger one that deserves the same."""
    operators: tuple[str, ...] = ()
    """Patterns of callers' ARNs who may do anything to any job, and change the configuration; `*`
    matches any text. Empty: IAM alone decides who may change the configuration."""
    session_roles: tuple[str, ...] = (IDENTITY_CENTER,)
    """Patterns for the roles whose sessions the identity provider names: of a role's name, or of
    its ARN as STS shows it (`arn:aws:sts::123456789012:assumed-role/NAME`). See
    `privacy.identity`."""
    classes: tuple[PriorityClass, ...] = ()
    """Empty: HFAI's, for jobs that name one."""
    users: tuple[User, ...] = ()
    user_groups: tuple[UserGroup, ...] = ()
    contact: str = ""
    """The contact for a larger quota, named in refusals. Empty: no contact."""
    weights: bool = True
    """False: weights do not count; each project's weight is its quota."""
    unchecked: frozenset[Subscription] = frozenset()
    """The rules that are switched off."""
    scheduler: SchedulerSettings | None = None
    """None: jobs are tried whenever something changes, as many at once as fit, and none is given
    up."""

    fair_share: FairShare | None = None
    """None: past use does not count."""
    notifications: tuple[Notification, ...] = ()
    """The notification rules."""

    def weighed(self) -> Sharing:
        """The sharing that plans use: without weights, every weight is the quota."""
        if self.weights:
            return self
        return replace(
            self,
            departments=tuple(replace(department, weight=None) for department in self.departments),
            projects=tuple(replace(project, weight=None) for project in self.projects),
        )

    @property
    def keeps_users_apart(self) -> bool:
        """Whether users may have limits, or their past use counts."""
        return self.limits_users or (self.fair_share is not None and self.fair_share.of_users)

    @property
    def limits_users(self) -> bool:
        """Whether users may have limits."""
        return bool(self.users or self.user_groups)

    def project(self, name: str) -> Project | None:
        return next((project for project in self.projects if project.name == name), None)


NO_SHARING = Sharing()


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """The settings of a queue, all of them in a document."""

    pools: tuple[Pool, ...]
    """As declared, without counted contents."""
    limits: Limits
    sharing: Sharing
