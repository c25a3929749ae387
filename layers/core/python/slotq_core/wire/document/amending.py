"""Change one project's entry, and leave the rest of the configuration as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pydantic import ValidationError

from slotq_core.errors import InvalidRequest
from slotq_core.model.sharing import Settings, Sharing
from slotq_core.wire.document import checks
from slotq_core.wire.document.contents import MOST_PROJECTS, SECTIONS
from slotq_core.wire.document.faults import DocumentFault, Keys, faults_of, refused
from slotq_core.wire.document.models import project_of
from slotq_core.wire.document.sections import (
    ClassSection,
    DepartmentSection,
    PoolSection,
    ProjectSection,
    UserGroupSection,
    UserSection,
)
from slotq_core.wire.document.writing import (
    class_entry,
    department_entry,
    doubled_names,
    pool_entry,
    project_entry,
    user_entry,
    user_group_entry,
)
from slotq_core.wire.pool_definition import NAME, NAME_RULE


def with_project(now: Settings, name: str, keys: Mapping[str, Any]) -> Settings:
    """Return the settings with these keys of the project's entry; null is the key's default, and
    other keys stay. A project that is not there is added, as the youngest.

    Raises InvalidRequest with every fault.
    """
    before = now.sharing.project(name)
    if before is None and not NAME.fullmatch(name):
        raise InvalidRequest(f"project name '{name[:64]}': use {NAME_RULE}", field="name")
    if before is None and len(now.sharing.projects) >= MOST_PROJECTS:
        raise InvalidRequest(f"a queue has at most {MOST_PROJECTS:,} projects", field="name")
    resources, doubled = checks.resources_of(_Sections(now).pools), doubled_names(now.pools)
    entry = {**(project_entry(before, doubled) if before else {}), **keys, "name": name}
    known = ProjectSection.keys()
    section = _section({k: own for k, own in entry.items() if own is not None or k not in known})
    after = _with(now.sharing, project_of(section, resources))
    changed = replace(now, sharing=after)
    place = [project.name for project in after.projects].index(name)
    _check(_Sections(now), _Sections(changed, raw=section), place)
    return changed


def _section(entry: Mapping[str, Any]) -> ProjectSection:
    try:
        return ProjectSection.model_validate(entry)
    except ValidationError as error:
        deeper = {key: SECTIONS[f"projects.{key}"] for key in ("budget", "requests")}
        keys: Keys = {"": ProjectSection, **deeper}
        raise refused(faults_of(error, keys, "a project")) from None


def _with(sharing: Sharing, project: Any) -> Sharing:
    there = sharing.project(project.name) is not None
    projects = [project if other.name == project.name else other for other in sharing.projects]
    return replace(sharing, projects=(*projects, *([] if there else [project])))


@dataclass(frozen=True)
class _Sections:
    """The sections that `checks` look at, of settings in force."""

    settings: Settings
    raw: ProjectSection | None = None
    """The section of the changed project."""

    @cached_property
    def pools(self) -> tuple[PoolSection, ...]:
        return tuple(PoolSection.model_validate(pool_entry(pool)) for pool in self.settings.pools)

    @cached_property
    def departments(self) -> tuple[DepartmentSection, ...]:
        return tuple(
            DepartmentSection.model_validate(department_entry(department, self._doubled))
            for department in self.settings.sharing.departments
        )

    @cached_property
    def projects(self) -> tuple[ProjectSection, ...]:
        raw = self.raw
        return tuple(
            raw
            if raw and raw.name == project.name
            else ProjectSection.model_validate(project_entry(project, self._doubled))
            for project in self.settings.sharing.projects
        )

    @cached_property
    def classes(self) -> tuple[ClassSection, ...]:
        found = map(class_entry, self.settings.sharing.classes)
        return tuple(map(ClassSection.model_validate, found))

    @cached_property
    def user_groups(self) -> tuple[UserGroupSection, ...]:
        found = map(user_group_entry, self.settings.sharing.user_groups)
        return tuple(map(UserGroupSection.model_validate, found))

    @cached_property
    def users(self) -> tuple[UserSection, ...]:
        found = map(user_entry, self.settings.sharing.users)
        return tuple(map(UserSection.model_validate, found))

    @cached_property
    def _doubled(self) -> frozenset[str]:
        return doubled_names(self.settings.pools)


def _check(before: _Sections, after: _Sections, place: int) -> None:
    """Raises InvalidRequest for faults of the change. The caller is not to blame for older
    faults."""
    old = set(_faults(before))
    new = [_placed(fault, place) for fault in _faults(after) if fault not in old]
    if new:
        raise refused(new)


def _faults(sections: _Sections) -> Iterator[DocumentFault]:
    for check in checks.CHECKS:
        yield from check(sections)


def _placed(fault: DocumentFault, place: int) -> DocumentFault:
    """Return the fault with the path in the project's entry, if it is there."""
    loc = fault.loc[2:] if fault.loc[:2] == ("projects", place) else fault.loc
    return replace(fault, loc=loc)
