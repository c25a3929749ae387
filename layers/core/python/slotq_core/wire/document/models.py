"""Sections to model. A document counts in seconds, the model in milliseconds."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any, TypeVar

from slotq_core.model.callers import Access
from slotq_core.model.demand import Demand
from slotq_core.model.notices import Notification
from slotq_core.model.projects import EVERYWHERE, Amounts, Budget, Department, Prescription, Project
from slotq_core.model.sharing import FairShare, SchedulerSettings
from slotq_core.model.users import PriorityClass, User, UserGroup
from slotq_core.wire.document.sections import (
    BudgetSection,
    ClassSection,
    DepartmentSection,
    FairShareSection,
    NotificationSection,
    ProjectSection,
    RequestsSection,
    SchedulerSection,
    Section,
    UserGroupSection,
    UserSection,
)

T = TypeVar("T")


def project_of(section: ProjectSection, resources: Collection[str]) -> Project:
    """Return the project. `resources`: those of all pools. They distinguish a quota's keys from
    names of pools."""
    return _made(
        Project,
        section,
        quota=amounts(section.quota, resources),
        limit=_limit(section.limit, resources),
        budget=_budget(section.budget),
        access=_made(Access, section),
        requests=_prescription(section.requests),
    )


def department_of(section: DepartmentSection, resources: Collection[str]) -> Department:
    return _made(
        Department,
        section,
        quota=None if section.quota is None else amounts(section.quota, resources),
        limit=_limit(section.limit, resources),
    )


def class_of(section: ClassSection) -> PriorityClass:
    return _made(PriorityClass, section)


def user_group_of(section: UserGroupSection) -> UserGroup:
    return _made(UserGroup, section)


def user_of(section: UserSection) -> User:
    return _made(User, section)


def scheduler_of(section: SchedulerSection) -> SchedulerSettings | None:
    """Return the settings; None if they are the defaults, which change nothing."""
    settings = _made(SchedulerSettings, section)
    return None if settings == SchedulerSettings() else settings


def fair_share_of(section: FairShareSection | None) -> FairShare | None:
    return None if section is None else _made(FairShare, section)


def notification_of(section: NotificationSection) -> Notification:
    return _made(
        Notification,
        section,
        project=section.about.get("project", ""),
        person=section.about.get("person", ""),
        events=tuple(dict.fromkeys(section.events)),
        receiver=section.to,
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
    """Whether the keys are pools: they have amounts as values, or are not resources."""
    return any(isinstance(own, Mapping) or key not in resources for key, own in quota.items())


def _budget(section: BudgetSection | None) -> Budget | None:
    if section is None:
        return None
    return Budget(slot_ms=section.slot_hours, beyond=section.beyond)


def _prescription(section: RequestsSection) -> Prescription:
    by_class = {kind.value: types for kind, types in section.instance_types.items()}
    return _made(Prescription, section, instance_types=by_class)


def _made(kind: type[T], section: Section, **others: Any) -> T:
    """The record of this kind from a section. `others`: fields with another form in the section."""
    own = {field.name for field in fields(kind)} & section.__class__.model_fields.keys()  # type: ignore[arg-type]
    return kind(**{name: getattr(section, name) for name in own - others.keys()}, **others)
