"""Rules across classes, users and user groups. Each check yields its faults and their places."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from slotq_core.model.users import AUTO, classes_of
from slotq_core.wire.document.faults import DocumentFault, unknown
from slotq_core.wire.document.models import class_of
from slotq_core.wire.document.sections import ClassSection, UserGroupSection, UserSection


class TimeSharing(Protocol):
    """The sections that these rules look at."""

    @property
    def pools(self) -> Sequence[Any]: ...
    @property
    def classes(self) -> Sequence[ClassSection]: ...
    @property
    def user_groups(self) -> Sequence[UserGroupSection]: ...
    @property
    def users(self) -> Sequence[UserSection]: ...


def classes_demote_downwards(document: TimeSharing) -> Iterator[DocumentFault]:
    classes = {section.name: section for section in document.classes}
    for place, section in enumerate(document.classes):
        where = ("classes", place, "demote_to")
        if not section.demote_to:
            continue
        if AUTO in (section.name, section.demote_to):
            yield DocumentFault(
                where,
                (
                    "the queue chooses the class of AUTO at each admission: nothing demotes to or "
                    "from it"
                ),
            )
        elif section.demote_to not in classes:
            yield unknown(where, "class", section.demote_to, classes)
        elif circle := _circle(section.name, lambda name: classes[name].demote_to, classes):
            yield DocumentFault(where, f"classes demote in a circle: {' -> '.join(circle)}")
        elif classes[section.demote_to].value >= section.value:
            yield DocumentFault(
                where, f"'{section.demote_to}' is not lower: a class demotes to a lower one"
            )


def choosers_exist(document: TimeSharing) -> Iterator[DocumentFault]:
    groups = {group.name for group in document.user_groups}
    known = groups | {user.name for user in document.users}
    for place, section in enumerate(document.classes):
        for index, name in enumerate(section.chosen_by):
            if name not in known:
                where = ("classes", place, "chosen_by", index)
                yield unknown(where, "user or user group", name, known)


def user_groups_exist(document: TimeSharing) -> Iterator[DocumentFault]:
    groups = {group.name for group in document.user_groups}
    for place, user in enumerate(document.users):
        for index, name in enumerate(user.groups):
            if name not in groups:
                yield unknown(("users", place, "groups", index), "user group", name, groups)


def limited_names_exist(document: TimeSharing) -> Iterator[DocumentFault]:
    pools = {pool.name for pool in document.pools}
    classes = classes_of(map(class_of, document.classes))
    owners: Mapping[str, Sequence[UserGroupSection | UserSection]] = {
        "user_groups": document.user_groups,
        "users": document.users,
    }
    for section, entries in owners.items():
        for place, entry in enumerate(entries):
            for pool, limits in entry.limits.items():
                where = (section, place, "limits", pool)
                if pool not in pools:
                    yield unknown(where, "pool", pool, pools)
                for name in limits:
                    if name not in classes:
                        yield unknown((*where, name), "class", name, classes)


CHECKS: tuple[Callable[[TimeSharing], Iterable[DocumentFault]], ...] = (
    classes_demote_downwards,
    choosers_exist,
    user_groups_exist,
    limited_names_exist,
)


def _circle(start: str, after: Callable[[str], str], known: Iterable[str]) -> list[str]:
    """The path from the start back to the start, if there is one."""
    path = [start]
    while (name := after(path[-1])) and name in known:
        if name == start:
            return [*path, name]
        if name in path:
            return []  # The cycle lies further on, and is reported there.
        path.append(name)
    return []
