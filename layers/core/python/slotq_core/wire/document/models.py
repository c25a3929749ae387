"""Sections to model. A document counts in seconds, the model in milliseconds."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from slotq_core.model.access import Access
from slotq_core.model.demand import Demand
from slotq_core.model.notices.rules import Notification
from slotq_core.model.prescriptions import Prescription
from slotq_core.model.projects import EVERYWHERE, Amounts, Budget, Department, Project
from slotq_core.model.sharing import SchedulerSettings
from slotq_core.model.users import PriorityClass, User, UserGroup
from slotq_core.wire.document.sections import (
    BudgetSection,
    ClassSection,
    DepartmentSection,
    NotificationSection,
    ProjectSection,
    RequestsSection,
    SchedulerSection,
    UserGroupSection,
    UserSection,
)


def project_of(section: ProjectSection, resources: Collection[str]) -> Project:
    """Return the project. `resources`: those of all pools, which tell the keys of a quota from
    pools."""
    return Project(
        name=section.name,
        department=section.department,
        quota=amounts(section.quota, resources),
        weight=section.weight,
        limit=_limit(section.limit, resources),
        priority=section.priority,
        over_quota=section.over_quota,
        min_runtime=section.min_runtime,
        budget=_budget(section.budget),
        pools=section.pools,
        access=Access(
            viewers=section.viewers,
            members=section.members,
            admins=section.admins,
            default_for=section.default_for,
        ),
        requests=_prescription(section.requests),
    )


def department_of(section: DepartmentSection, resources: Collection[str]) -> Department:
    return Department(
        name=section.name,
        quota=None if section.quota is None else amounts(section.quota, resources),
        weight=section.weight,
        limit=_limit(section.limit, resources),
        priority=section.priority,
        over_quota=section.over_quota,
        fairness=section.fairness,
    )


def class_of(section: ClassSection) -> PriorityClass:
    return PriorityClass(**section.model_dump())


def user_group_of(section: UserGroupSection) -> UserGroup:
    return UserGroup(name=section.name, limits=section.limits, members=section.members)


def user_of(section: UserSection) -> User:
    return User(name=section.name, limits=section.limits, groups=section.groups)


def scheduler_of(section: SchedulerSection) -> SchedulerSettings | None:
    """Return the settings; None if they are the defaults, which change nothing."""
    settings = SchedulerSettings(**section.model_dump())
    return None if settings == SchedulerSettings() else settings


def notification_of(section: NotificationSection) -> Notification:
    return Notification(
        name=section.name,
        project=section.about.get("project", ""),
        person=section.about.get("person", ""),
        events=tuple(dict.fromkeys(section.events)),
        receiver=section.to,
        stuck_after=section.stuck_after,
        digest=section.digest,
    )


def amounts(quota: int | dict[str, Any] | None, resources: Collection[str]) -> Amounts:
    return {scope: Demand(own) for scope, own in scopes(quota, resources).items()}


def _limit(
    limit: int | dict[str, Any] | None, resources: Collection[str]
) -> dict[str, dict[str, int]]:
    """Return the amounts by scope. A scope without any has no limit, and is left out."""
    return {scope: own for scope, own in scopes(limit, resources).items() if own}


def scopes(
    quota: int | dict[str, Any] | None, resources: Collection[str]
) -> dict[str, dict[str, int]]:
    """Return amounts by scope (all pools together, or one pool), then by resource."""
    if quota is None or quota == {}:
        return {}
    if isinstance(quota, int):
        return {EVERYWHERE: {"slots": quota}}
    if not by_pool(quota, resources):
        return {EVERYWHERE: dict(quota)}
    return {
        pool: dict(amount) if isinstance(amount, dict) else {"slots": amount}
        for pool, amount in quota.items()
    }


def by_pool(quota: Mapping[str, Any], resources: Collection[str]) -> bool:
    """Whether the keys are pools: amounts stand only in pools, and so do keys that are no
    resources."""
    return any(isinstance(own, Mapping) or key not in resources for key, own in quota.items())


def _budget(section: BudgetSection | None) -> Budget | None:
    if section is None:
        return None
    return Budget(slot_ms=section.slot_hours, beyond=section.beyond)


def _prescription(section: RequestsSection) -> Prescription:
    own = {name: getattr(section, name) for name in RequestsSection.model_fields}
    by_class = {kind.value: types for kind, types in section.instance_types.items()}
    return Prescription(**{**own, "instance_types": by_class})
