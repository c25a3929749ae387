"""Model to document: a queue's configuration as the document that would make it.

What has its default is left out. `doubled` are names that a pool and a resource share: quotas are
written so that one cannot be taken for the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields
from enum import StrEnum
from typing import Any

from slotq_core.model.callers import NO_LIMITS, Limits
from slotq_core.model.notices import JobEvent, Notification, Receiver
from slotq_core.model.pools import AUTO, Pool
from slotq_core.model.projects import (
    EVERYWHERE,
    HOUR,
    Amounts,
    Beyond,
    Budget,
    Department,
    Prescription,
    Project,
)
from slotq_core.model.sharing import NO_SHARING, FairShare, SchedulerSettings, Settings, Sharing
from slotq_core.model.users import PriorityClass, User, UserGroup
from slotq_core.wire.document.checks import resources_of
from slotq_core.wire.document.receivers import ALL
from slotq_core.wire.document.sections import (
    ClassSection,
    DepartmentSection,
    NodesSection,
    PoolSection,
    ProjectSection,
    RequestsSection,
    SchedulerSection,
    Section,
    UserGroupSection,
    UserSection,
)
from slotq_core.wire.document.values import EVERYONE
from slotq_core.wire.limits_definition import limit_settings
from slotq_core.wire.nodes.node_rules import NodeShare
from slotq_core.wire.pool_definition import AUTOMATIC, gpus_in, reservations_of

Entry = dict[str, Any]

_EMPTY: Mapping[str, tuple[Any, ...]] = {"quota": (), "nodes": ()}
"""By key, the empty values to leave out; other keys leave out `[]` and `{}`. An empty quota is
written: a department without the key has the sum of its projects' quotas. So are the defaults of
nodes: a pool without the key has none."""


def written(settings: Settings) -> Entry:
    """Return the document; `contents.read` makes the same settings of it."""
    sharing = settings.sharing
    doubled = doubled_names(settings.pools)
    sections: Entry = {
        "pools": [pool_entry(pool) for pool in settings.pools],
        "departments": [
            department_entry(department, doubled) for department in sharing.departments
        ],
        "projects": [project_entry(project, doubled) for project in sharing.projects],
        **time_sharing_entries(sharing),
        "limits": limits_entry(settings.limits),
        **whole_sections(sharing),
        "notifications": [notification_entry(rule) for rule in sharing.notifications],
    }
    return {name: section for name, section in sections.items() if section or name == "pools"}


def doubled_names(pools: Iterable[Pool]) -> frozenset[str]:
    """Return the names that a pool and a resource of the pools share."""
    sections = [PoolSection.model_validate(pool_entry(pool)) for pool in pools]
    return frozenset(resources_of(sections)).intersection(section.name for section in sections)


def time_sharing_entries(sharing: Sharing) -> dict[str, list[Entry]]:
    """Return the entries of classes, user groups and users."""
    return {
        "classes": [class_entry(priority_class) for priority_class in sharing.classes],
        "user_groups": [user_group_entry(group) for group in sharing.user_groups],
        "users": [user_entry(user) for user in sharing.users],
    }


def class_entry(priority_class: PriorityClass) -> Entry:
    return _entry(ClassSection, priority_class)


def user_group_entry(group: UserGroup) -> Entry:
    return _entry(UserGroupSection, group, members=_principals(group.members))


def user_entry(user: User) -> Entry:
    return _entry(UserSection, user)


def notification_entry(rule: Notification) -> Entry:
    """Return a notification's entry."""
    named = {"project": rule.project, "person": rule.person}
    entry: Entry = {
        "name": rule.name,
        "for": {key: name for key, name in named.items() if name} or ALL,
        "to": _receiver(rule.receiver),
    }
    if rule.events != tuple(JobEvent):
        entry["events"] = [event.value for event in rule.events]
    if rule.stuck_after is not None:
        entry["stuck_after"] = _seconds(rule.stuck_after)
    if rule.digest is not None:
        entry["digest"] = rule.digest.value
    return entry


def _receiver(receiver: Receiver) -> Entry:
    return {
        receiver.channel: receiver.place,
        **({"secret": receiver.secret} if receiver.secret else {}),
    }


def whole_sections(sharing: Sharing) -> Entry:
    """Return the sections that have no named entries."""
    return {
        "operators": _principals(sharing.operators),
        "people": _people(sharing),
        "scheduler": _scheduler(sharing.scheduler),
        "sharing": _switches(sharing),
        "fair_share": _fair_share(sharing.fair_share),
    }


def project_entry(project: Project, doubled: Collection[str] = ()) -> Entry:
    """Return a project's entry."""
    return _entry(
        ProjectSection,
        project,
        quota=_quota(project.quota, doubled),
        limit=_limit(project.limit, doubled),
        budget=_budget(project.budget),
        viewers=_principals(project.access.viewers),
        members=_principals(project.access.members),
        admins=_principals(project.access.admins),
        default_for=_principals(project.access.default_for),
        requests=_requests(project.requests),
    )


def department_entry(department: Department, doubled: Collection[str] = ()) -> Entry:
    """Return a department's entry."""
    quota = department.quota
    return _entry(
        DepartmentSection,
        department,
        quota=None if quota is None else _quota(quota, doubled),
        limit=_limit(department.limit, doubled),
    )


def pool_entry(pool: Pool) -> Entry:
    """Return a pool's entry."""
    protects = AUTOMATIC if pool.min_runtime == AUTO else _seconds(pool.min_runtime)
    return _entry(
        PoolSection,
        pool,
        capacity=_amount(_declared(pool)),
        nodes=_nodes(pool),
        reservations=reservations_of(pool),
        min_runtime=protects,
    )


def _nodes(pool: Pool) -> Entry | None:
    """Return how the pool keeps nodes. The GPUs that SlotQ knows are left out."""
    rules = pool.nodes
    if rules is None:
        return None
    known = rules.gpus == gpus_in(pool)
    networks = {"subnets": [*rules.subnets], "security_groups": [*rules.security_groups]}
    return _entry(
        NodesSection,
        rules,
        gpus=0 if known else rules.gpus,
        share=NodeShare.POOL.value if rules.shared else NodeShare.PROJECT,
        vpc=networks if rules.subnets else {},
    )


def _declared(pool: Pool) -> Mapping[str, int]:
    return {name: n for name, n in pool.capacity.items() if name not in pool.contents}


def _requests(prescription: Prescription) -> Entry:
    return _entry(RequestsSection, prescription)


def limits_entry(limits: Limits) -> Entry:
    """Return the limits that differ from the defaults."""
    default = limit_settings(NO_LIMITS)
    settings = limit_settings(limits)
    rules = [
        {k: v for k, v in rule.items() if v is not None and v is not False}
        for rule in settings["callers"]
    ]
    return {k: v for k, v in {**settings, "callers": rules}.items() if v != default[k]}


def _budget(budget: Budget | None) -> Any:
    """Return a budget as people write it: a number if it is soft."""
    if budget is None:
        return None
    whole, rest = divmod(budget.slot_ms, HOUR)
    slot_hours = budget.slot_ms / HOUR if rest else whole
    if budget.beyond is Beyond.SOFT:
        return slot_hours
    return {"slot_hours": slot_hours, "beyond": budget.beyond.value}


def _scheduler(settings: SchedulerSettings | None) -> Entry:
    return _entry(SchedulerSection, settings or SchedulerSettings())


def _fair_share(settings: FairShare | None) -> Entry:
    """Return the settings with their defaults: an empty section would read as none."""
    if settings is None:
        return {}
    influence = settings.influence / 100 if settings.influence % 100 else settings.influence // 100
    found = {"half_life": _seconds(settings.half_life), "influence": influence}
    return found if settings.of is FairShare().of else {**found, "of": settings.of.value}


def _people(sharing: Sharing) -> Entry:
    contact = {"contact": sharing.contact} if sharing.contact else {}
    changed = sharing.session_roles != NO_SHARING.session_roles
    return {**contact, "session_roles": [*sharing.session_roles]} if changed else {**contact}


def _switches(sharing: Sharing) -> Entry:
    entry: Entry = {} if sharing.weights else {"weights": False}
    off = sorted(rule.value for rule in sharing.unchecked)
    return {**entry, "unchecked": off} if off else entry


def _entry(section: type[Section], record: Any, **others: Any) -> Entry:
    """Return the fields of a record that differ from the section's defaults. `others`: fields with
    another form in a document. An empty map or list is a default."""
    declared = {field.name: str(field.type) for field in fields(record)}
    entry: Entry = {}
    for name, field in section.model_fields.items():
        own = others[name] if name in others else getattr(record, name)
        value = own if name in others else _said(own, declared[name])
        usual = own is None or own == field.default or value in _EMPTY.get(name, ([], {}))
        if name == "name" or not usual:
            entry[name] = value
    return entry


def _said(value: Any, declared: str) -> Any:
    """A value as a document says it, by the type that its field is declared with."""
    if declared.startswith("Duration"):
        return _seconds(value)
    return value.value if isinstance(value, StrEnum) else _plain(value)


def _amounts(quota: Mapping[str, Mapping[str, int]], doubled: Collection[str]) -> Any:
    """Return a quota or limit as people write it: a number of slots, amounts, or pool by pool."""
    if not quota:
        return {}
    if EVERYWHERE in quota:
        return _amount(quota[EVERYWHERE])
    return {
        pool: (dict(own) or {"slots": 0}) if pool in doubled else _amount(own)
        for pool, own in quota.items()
    }


def _quota(quota: Amounts, doubled: Collection[str]) -> Any:
    own: Mapping[str, int] = quota.get(EVERYWHERE, {})
    if "slots" not in own and own and set(own) <= {*doubled}:
        return {"slots": 0, **own}  # Beside slots they are no pools. A limit of 0 would be one.
    return _amounts(quota, doubled)


def _limit(limit: Mapping[str, Mapping[str, int]], doubled: Collection[str]) -> Any:
    """Return a limit. A scope without amounts has none: a bare number would limit its slots."""
    bounded = {scope: own for scope, own in limit.items() if own}
    return _amounts(bounded, doubled) if bounded else None


def _amount(amounts: Mapping[str, int]) -> Any:
    return amounts.get("slots", 0) if set(amounts) <= {"slots"} else dict(amounts)


def _principals(patterns: tuple[str, ...]) -> list[str]:
    return [EVERYONE if pattern == "*" else pattern for pattern in patterns]


def _seconds(milliseconds: int | None) -> float | None:
    if milliseconds is None:
        return None
    return milliseconds // 1000 if milliseconds % 1000 == 0 else milliseconds / 1000


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(own) for key, own in value.items()}
    return [*value] if isinstance(value, tuple) else value
