"""References to pools, resources and projects that a change would remove."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from slotq_core.admission.instances.instance_contents import counting
from slotq_core.errors import PoolInUse, ProjectInUse
from slotq_core.model.projects import EVERYWHERE, Department, Project
from slotq_core.model.sharing import Settings, Sharing

_LISTED = 5


class Reference(NamedTuple):
    owner: str
    key: str
    what: str
    """`pool`, `resource` or `project`."""
    name: str

    def __str__(self) -> str:
        return f"{self.owner} names {self.what} {self.name} in its {self.key}"


def check(before: Settings, after: Settings) -> None:
    """Raises PoolInUse if the change removes a pool, or the last of a resource, that a department,
    a project or a user's limits name, and ProjectInUse if it removes a project that a notification
    names. These references would have no meaning any more."""
    gone = _there(before, after.sharing) - _there(after, after.sharing)
    lost = (
        [reference for reference in _references(after.sharing) if reference[2:] in gone]
        if gone
        else []
    )
    if lost:
        more = f" and {len(lost) - _LISTED} more" if len(lost) > _LISTED else ""
        uses = "; ".join(map(str, lost[:_LISTED]))
        refusal = ProjectInUse if lost[0].what == "project" else PoolInUse
        raise refusal(f"{uses}{more}: change that first, or both at once with `slotq config`")


def _there(settings: Settings, sharing: Sharing) -> set[tuple[str, str]]:
    """Return the projects, the pools, and the pools' resources under these quotas."""
    pools = counting(settings.pools, sharing)
    projects = {("project", project.name) for project in settings.sharing.projects}
    resources = {("resource", name) for pool in pools for name in {"slots", *pool.capacity}}
    return projects | resources | {("pool", pool.name) for pool in pools}


def _references(sharing: Sharing) -> Iterator[Reference]:
    for department in sharing.departments:
        yield from _amounts(f"department '{department.name}'", department)
    for project in sharing.projects:
        owner = f"project '{project.name}'"
        yield from _amounts(owner, project)
        for key, pools in (("pools", project.pools), ("requests", project.requests.pools)):
            for pool in pools:
                yield Reference(owner, key, "pool", pool)

    for kind, entries in (("user group", sharing.user_groups), ("user", sharing.users)):
        for entry in entries:
            for pool in entry.limits:
                yield Reference(f"{kind} '{entry.name}'", "limits", "pool", pool)
    for rule in sharing.notifications:
        yield Reference(f"notification '{rule.name}'", "'for'", "project", rule.project)


def _amounts(owner: str, entity: Project | Department) -> Iterator[Reference]:
    for key, amounts in (("quota", entity.quota or {}), ("limit", entity.limit)):
        for scope, of_scope in amounts.items():
            if scope != EVERYWHERE:
                yield Reference(owner, key, "pool", scope)
            for resource in of_scope:
                yield Reference(owner, key, "resource", resource)
