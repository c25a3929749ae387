"""Rules across the sections of a document. Each check yields its faults and their places.

To add a rule, add a function here and a line in `CHECKS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from slotq_core.model.pools import CapacityKind
from slotq_core.wire.document import time_sharing
from slotq_core.wire.document.faults import DocumentFault, Loc, unknown
from slotq_core.wire.document.models import by_pool, scopes
from slotq_core.wire.document.requests.request_checks import faults_of_requests
from slotq_core.wire.document.sections import (
    DepartmentSection,
    PoolSection,
    ProjectSection,
)
from slotq_core.wire.pool_definition import (
    NO_NODES_WITH_HOURS,
    NO_SPOT_NODES,
    clashes,
    plan_clash,
    plans_twice,
)
from slotq_core.wire.training.instance_types import CONTENTS, NAMES


class Shared(time_sharing.TimeSharing, Protocol):
    """The sections that a configuration and a scenario have in common."""

    @property
    def pools(self) -> Sequence[PoolSection]: ...
    @property
    def projects(self) -> Sequence[ProjectSection]: ...
    @property
    def departments(self) -> Sequence[DepartmentSection]: ...


Check = Callable[[Shared], Iterable[DocumentFault]]


def has_pools(document: Shared) -> Iterator[DocumentFault]:
    if not document.pools:
        yield DocumentFault(("pools",), "at least one is needed")


def names_are_unique(document: Any, sections: Iterable[str]) -> Iterator[DocumentFault]:
    for section in sections:
        first: dict[str, int] = {}
        for place, entry in enumerate(getattr(document, section)):
            if first.setdefault(entry.name, place) != place:
                yield DocumentFault(
                    (section, place, "name"),
                    f"'{entry.name}' exists already, as {section}[{first[entry.name]}]",
                )


def projects_are_of_departments(document: Shared) -> Iterator[DocumentFault]:
    departments = [department.name for department in document.departments]
    for place, project in enumerate(document.projects):
        if project.department and project.department not in departments:
            yield unknown(
                ("projects", place, "department"), "department", project.department, departments
            )


def project_pools_exist(document: Shared) -> Iterator[DocumentFault]:
    pools = {pool.name for pool in document.pools}
    for place, project in enumerate(document.projects):
        lists: list[tuple[Loc, Sequence[str]]] = [
            (("pools",), project.pools),
            (("requests", "pools"), project.requests.pools),
        ]
        for where, names in lists:
            seen: set[str] = set()
            for index, name in enumerate(names):
                if name not in pools:
                    yield unknown(("projects", place, *where, index), "pool", name, pools)
                elif name in seen:
                    yield DocumentFault(
                        ("projects", place, *where, index), f"pool '{name}' occurs twice"
                    )
                seen.add(name)


def a_name_has_one_meaning(document: Shared) -> Iterator[DocumentFault]:
    places = {pool.name: place for place, pool in enumerate(document.pools)}
    for clash in clashes(document.pools):
        yield DocumentFault(("pools", places[clash.pool], "properties", clash.name), str(clash))


def spot_pools_have_no_nodes(document: Shared) -> Iterator[DocumentFault]:
    for place, pool in enumerate(document.pools):
        if pool.nodes is not None and pool.capacity_kind is CapacityKind.SPOT:
            yield DocumentFault(("pools", place, "nodes"), NO_SPOT_NODES)


def pools_with_hours_have_no_nodes(document: Shared) -> Iterator[DocumentFault]:
    for place, pool in enumerate(document.pools):
        if pool.nodes is not None and pool.windows:
            yield DocumentFault(("pools", place, "nodes"), NO_NODES_WITH_HOURS)


def plans_go_with_their_pools(document: Shared) -> Iterator[DocumentFault]:
    """A pool of a training plan names it, and has nothing that does not go with plans."""
    for place, pool in enumerate(document.pools):
        if clash := plan_clash(pool):
            yield DocumentFault(("pools", place, clash.setting), clash.said)
    places = {pool.name: place for place, pool in enumerate(document.pools)}
    for name, said in plans_twice(document.pools):
        yield DocumentFault(("pools", places[name], "plan_arn"), said)


def reservations_are_of_projects(document: Shared) -> Iterator[DocumentFault]:
    projects = [project.name for project in document.projects]
    for place, pool in enumerate(document.pools):
        for index, reservation in enumerate(pool.reservations):
            if (name := reservation["project"]) not in projects:
                yield unknown(("pools", place, "reservations", index), "project", name, projects)


def requests_agree(document: Shared) -> Iterator[DocumentFault]:
    """A project's prescriptions for requests do not contradict each other."""
    for place, project in enumerate(document.projects):
        for fault in faults_of_requests(project):
            yield DocumentFault(("projects", place, *fault.loc), fault.message)


def quotas_are_of_one_kind(document: Shared) -> Iterator[DocumentFault]:
    """ "Numeric quotas … over all pools together; … per-pool maps, per pool; the two are not
    mixed." """
    resources = resources_of(document.pools)
    pools = [pool.name for pool in document.pools]
    first: tuple[bool, str] | None = None
    for where, name, quota in quotas(document):
        of_pools = _map(quota) and by_pool(quota, resources)
        if _map(quota):
            yield from _wrong_keys(where, quota, pools, resources)
        if quota == {} or (where[-1] == "quota" and not quota):
            continue  # An empty quota or a quota of 0 has no kind. A limit of 0 has one.
        if first is None:
            first = of_pools, name
        elif first[0] != of_pools:
            kind = "by pool" if first[0] else "over all pools together"
            yield DocumentFault(
                where,
                (f"all quotas and limits must have the same form: that of {first[1]} is {kind}"),
            )


def _wrong_keys(
    where: Loc, quota: Mapping[str, Any], pools: Sequence[str], resources: Sequence[str]
) -> Iterator[DocumentFault]:
    of_pools = by_pool(quota, resources)
    for key in quota:
        if key not in pools and key not in resources:
            yield unknown((*where, key), "pool or resource", key, [*pools, *resources])
    if of_pools and any(key in resources and key not in pools for key in quota):
        yield DocumentFault(where, "its keys are either all pools or all resources")
    if quota and not of_pools and all(key in pools for key in quota):
        yield _ambiguous(where, next(iter(quota)))
    for pool, own in quota.items():
        for resource in own if _map(own) else ():
            if resource not in resources:
                yield unknown((*where, pool, resource), "resource", resource, resources)


def _ambiguous(where: Loc, key: str) -> DocumentFault:
    if key == "slots":
        whole = "write n"
    elif where[-1] == "quota":
        whole = f"write {{slots: 0, {key}: n}}"
    else:
        whole = "give the pool another name"
    return DocumentFault(
        (*where, key),
        f"'{key}' is a pool and a resource: write {{{key}: {{slots: n}}}} for the pool; for the "
        f"resource in all pools, {whole}",
    )


def weights_are_of_shared_resources(document: Shared) -> Iterator[DocumentFault]:
    """Only resources that take part in shares have a surplus: those with a quota, or slots if no
    quota exists."""
    resources = resources_of(document.pools)
    shared = _shared(document, resources)
    for where, _, weight in _of_owners(document, "weight"):
        for resource in weight if _map(weight) else ():
            if resource not in resources:
                yield unknown((*where, resource), "resource", resource, resources)
            elif resource not in shared:
                yield DocumentFault(
                    (*where, resource),
                    f"nobody has a quota of {resource}, so {resource} are not shared: give a quota "
                    f"of {resource}, or weights of {', '.join(shared)} only",
                )


CHECKS: tuple[Check, ...] = (
    has_pools,
    projects_are_of_departments,
    project_pools_exist,
    a_name_has_one_meaning,
    spot_pools_have_no_nodes,
    pools_with_hours_have_no_nodes,
    plans_go_with_their_pools,
    reservations_are_of_projects,
    requests_agree,
    quotas_are_of_one_kind,
    weights_are_of_shared_resources,
    *time_sharing.CHECKS,
)


def resources_of(pools: Sequence[PoolSection]) -> tuple[str, ...]:
    """Return the resources that quotas may name: `slots` first, then those that pools declare, then
    what known instances contain."""
    declared = {name: 0 for pool in pools for name in pool.capacity}
    known = any(pool.instance_type in CONTENTS for pool in pools)
    return tuple({"slots": 0, **declared, **(dict.fromkeys(NAMES, 0) if known else {})})


def quotas(document: Shared) -> Iterator[tuple[Loc, str, Any]]:
    """Every quota and limit of the document: its place, its owner and its value."""
    return _of_owners(document, "quota", "limit")


def _of_owners(document: Shared, *keys: str) -> Iterator[tuple[Loc, str, Any]]:
    """Yield the values of projects and departments under these keys: place, owner and value."""
    owners: Sequence[tuple[str, Sequence[ProjectSection | DepartmentSection]]] = (
        ("projects", document.projects),
        ("departments", document.departments),
    )
    for section, entries in owners:
        for place, owner in enumerate(entries):
            for key in keys:
                value = getattr(owner, key)
                if value is not None:
                    yield (section, place, key), f"'{owner.name}'", value


def _shared(document: Shared, resources: Sequence[str]) -> tuple[str, ...]:
    """Return the resources with a quota; slots if no quota exists."""
    named = {
        resource
        for _, _, quota in _of_owners(document, "quota")
        for own in scopes(quota, resources).values()
        for resource, amount in own.items()
        if amount
    }
    return tuple(name for name in resources if name in named) or ("slots",)


def _map(quota: Any) -> bool:
    return isinstance(quota, dict)
