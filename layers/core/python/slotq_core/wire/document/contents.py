"""A configuration document, read: all sections together, as settings of a queue."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import islice
from typing import Any, Self, TypeVar

from pydantic import Field, ValidationError, model_validator

from slotq_core.errors import InvalidRequest
from slotq_core.model.callers import Limits
from slotq_core.model.pools import AUTO, Pool
from slotq_core.model.sharing import Settings, Sharing
from slotq_core.wire import traits
from slotq_core.wire.document import checks
from slotq_core.wire.document.faults import DocumentFault, Keys, Loc, faults_of, refuse, refused
from slotq_core.wire.document.models import (
    class_of,
    department_of,
    fair_share_of,
    notification_of,
    project_of,
    scheduler_of,
    user_group_of,
    user_of,
)
from slotq_core.wire.document.receivers import notification_faults
from slotq_core.wire.document.sections import (
    BudgetSection,
    ClassSection,
    DepartmentSection,
    FairShareSection,
    LimitsSection,
    NodesSection,
    NotificationSection,
    PeopleSection,
    PoolSection,
    Principals,
    ProjectSection,
    RequestsSection,
    SchedulerSection,
    Section,
    SharingSection,
    UserGroupSection,
    UserSection,
    VpcSection,
)
from slotq_core.wire.limits_definition import limits_from
from slotq_core.wire.pool_definition import (
    AUTOMATIC,
    CHOICES,
    CLASS_NAME,
    DURATIONS,
    MOST_POOLS,
    NAME,
    NAME_RULE,
    SWITCHES,
    defined,
)
from slotq_core.wire.training.training_request import MOST_FAULTS

T = TypeVar("T")

MOST_PROJECTS = 2_000
_MOST: Mapping[str, int] = {
    "pools": MOST_POOLS,
    "departments": 500,
    "projects": MOST_PROJECTS,
    "classes": 100,
    "user_groups": 500,
    "users": 2_000,
    "notifications": 200,
}
"""The most entries of each section."""

SECTIONS: Mapping[str, type[Section]] = {
    "pools": PoolSection,
    "pools.nodes": NodesSection,
    "pools.nodes.vpc": VpcSection,
    "departments": DepartmentSection,
    "projects": ProjectSection,
    "projects.budget": BudgetSection,
    "projects.requests": RequestsSection,
    "classes": ClassSection,
    "user_groups": UserGroupSection,
    "users": UserSection,
    "people": PeopleSection,
    "scheduler": SchedulerSection,
    "sharing": SharingSection,
    "fair_share": FairShareSection,
    "notifications": NotificationSection,
}
_KEYS = {"slots": "capacity", "resources": "capacity"}
"""Settings that a document spells differently."""


class ConfigurationDocument(Section):
    """The document. What it does not name has its default: a document is complete."""

    pools: tuple[PoolSection, ...]
    departments: tuple[DepartmentSection, ...] = ()
    projects: tuple[ProjectSection, ...] = ()
    classes: tuple[ClassSection, ...] = ()
    user_groups: tuple[UserGroupSection, ...] = ()
    users: tuple[UserSection, ...] = ()
    limits: LimitsSection = Field(default={})
    operators: Principals = ()
    people: PeopleSection = PeopleSection()
    scheduler: SchedulerSection = SchedulerSection()
    sharing: SharingSection = SharingSection()
    fair_share: FairShareSection | None = None
    """None: past use does not count."""
    notifications: tuple[NotificationSection, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _is_not_too_long(cls, data: Any) -> Any:
        """Refuse too many entries first: reporting the faults of each would take long."""
        faults = [
            DocumentFault(
                (name,), f"at most {most:,} entries are possible, not {len(data[name]):,}"
            )
            for name, most in _MOST.items()
            if isinstance(data, dict)
            and isinstance(data.get(name), list)
            and len(data[name]) > most
        ]
        if faults:
            refuse(*faults)
        return data

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if faults := [*islice(self._contradictions(), MOST_FAULTS + 1)]:
            refuse(*faults)
        return self

    def _contradictions(self) -> Iterator[DocumentFault]:
        for check in checks.CHECKS:
            yield from check(self)
        yield from notification_faults(self)
        yield from checks.names_are_unique(self, tuple(_MOST))
        yield from _names_are_short(self)
        yield from (fault for _, fault in self._pools_read() if fault)
        yield from (fault for _, fault in [self._limits_read()] if fault)

    def settings(self) -> Settings:
        resources = checks.resources_of(self.pools)
        limits, _ = self._limits_read()
        assert limits is not None
        return Settings(
            pools=tuple(pool for pool, _ in self._pools_read() if pool),
            limits=limits,
            sharing=Sharing(
                departments=tuple(
                    department_of(department, resources) for department in self.departments
                ),
                projects=tuple(project_of(project, resources) for project in self.projects),
                operators=self.operators,
                session_roles=self.people.session_roles,
                classes=tuple(map(class_of, self.classes)),
                users=tuple(map(user_of, self.users)),
                user_groups=tuple(map(user_group_of, self.user_groups)),
                contact=self.people.contact,
                weights=self.sharing.weights,
                unchecked=frozenset(self.sharing.unchecked),
                scheduler=scheduler_of(self.scheduler),
                fair_share=fair_share_of(self.fair_share),
                notifications=tuple(map(notification_of, self.notifications)),
            ),
        )

    def _pools_read(self) -> Iterator[tuple[Pool | None, DocumentFault | None]]:
        """Yield each pool, or its fault: a queue's pools have more rules than a scenario's."""
        for place, section in enumerate(self.pools):

            def read(section: PoolSection = section) -> Pool:
                return defined(section.name, _pool_settings(section))

            yield _read(read, ("pools", place))

    def _limits_read(self) -> tuple[Limits | None, DocumentFault | None]:
        return _read(lambda: limits_from(self.limits), ("limits",))


def read(data: Any) -> Settings:
    """Read a document. Raises InvalidRequest with every fault, its place and a correction."""
    try:
        return ConfigurationDocument.model_validate(data).settings()
    except ValidationError as error:
        faults = faults_of(error, _keys(), "a configuration")
        raise refused([*faults, *_faults_beside(data, faults)]) from None


def _faults_beside(data: Any, faults: Sequence[DocumentFault]) -> list[DocumentFault]:
    """Return the faults by rules across sections in a document with faults of single values: read
    it again without those values. Empty if the rest is still unreadable, or if a pool is wrong,
    because other sections depend on pools."""
    rest = deepcopy(data)
    left_out = {fault.loc[:3] for fault in faults}
    keys_of_pools = PoolSection.keys()
    for loc in left_out:
        of_pool = loc[0] == "pools" and loc[-1] in keys_of_pools
        if len(loc) < 3 or of_pool or not _left_out(rest, loc):
            return []
    try:
        ConfigurationDocument.model_validate(rest)
    except ValidationError as error:
        found = faults_of(error, _keys(), "a configuration")
        return [fault for fault in found if fault.loc[:3] not in left_out]
    return []


def _left_out(document: Any, loc: Loc) -> bool:
    """Remove a key of an entry. Return whether there was one."""
    try:
        del document[loc[0]][loc[1]][loc[2]]
    except (LookupError, TypeError):
        return False
    return True


def _names_are_short(document: ConfigurationDocument) -> Iterator[DocumentFault]:
    """A queue's projects, departments, classes and user groups have names like its pools, because
    these become part of keys, tags and paths. A scenario's may have any."""
    for section in ("departments", "projects", "user_groups", "classes", "notifications"):
        for place, entry in enumerate(getattr(document, section)):
            if not NAME.fullmatch(entry.name):
                yield DocumentFault(
                    (section, place, "name"), f"'{entry.name[:64]}': use {NAME_RULE}"
                )
            elif section == "classes" and not CLASS_NAME.fullmatch(entry.name):
                message = f"'{entry.name}': begin with a letter, so that it is no number"
                yield DocumentFault((section, place, "name"), message)


def _read(make: Callable[[], T], where: Loc) -> tuple[T | None, DocumentFault | None]:
    try:
        return make(), None
    except InvalidRequest as error:
        parts = [part for part in error.field.split(".") if part]
        keys = (int(part) if part.isdecimal() else _KEYS.get(part, part) for part in parts)
        return None, DocumentFault((*where, *keys), error.message)


def _pool_settings(section: PoolSection) -> dict[str, Any]:
    """The settings as `pool_definition.defined` takes them."""
    amounts = {name: amount for name, amount in section.capacity.items() if name != "slots"}
    return {
        "slots": section.capacity.slots,
        "instance_type": section.instance_type,
        "resources": amounts,
        "properties": traits.decoded(section.properties),
        **{key: getattr(section, key) for key in CHOICES},
        **{key: getattr(section, key) for key in SWITCHES},
        **{key: _whole_seconds(key, getattr(section, key)) for key in DURATIONS},
        "nodes": _nodes(section.nodes) if section.nodes else None,
        "windows": [*section.windows],
        "plan_arn": section.plan_arn,
        "reservations": [*section.reservations],
    }


def _nodes(section: NodesSection) -> dict[str, Any]:
    return {**section.model_dump(mode="json"), "keep": _whole_seconds("nodes.keep", section.keep)}


def _whole_seconds(key: str, milliseconds: int | None) -> int | str | None:
    if milliseconds == AUTO:
        return AUTOMATIC
    if milliseconds is not None and milliseconds % 1000:
        raise InvalidRequest("whole seconds are needed", field=key)
    return None if milliseconds is None else milliseconds // 1000


def _keys() -> Keys:
    return {"": ConfigurationDocument, **SECTIONS}
