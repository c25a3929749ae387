"""The entries in which two configurations differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from slotq_core.model.sharing import Settings, Sharing
from slotq_core.wire.document.writing import (
    Entry,
    class_entry,
    department_entry,
    limits_entry,
    notification_entry,
    pool_entry,
    project_entry,
    user_entry,
    user_group_entry,
    whole_sections,
)

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """One entry that differs."""

    section: str
    name: str
    """The entry's name. Empty: the whole section, or the order of its entries."""
    before: Any
    """The entry as the document has it; None: there was none."""
    after: Any


def differences(before: Settings, after: Settings) -> Iterator[Difference]:
    """Yield the entries that differ, in the order of a document."""
    yield from _named("pools", _by_name(before.pools), _by_name(after.pools), pool_entry)
    yield from _of_departments_and_projects(before.sharing, after.sharing)
    yield from _of_time_sharing(before.sharing, after.sharing)
    yield from _whole("limits", limits_entry(before.limits), limits_entry(after.limits))
    yield from _of_the_rest(before.sharing, after.sharing)


def sharing_differences(before: Sharing, after: Sharing) -> Iterator[Difference]:
    """Yield the same without pools and limits."""
    yield from _of_departments_and_projects(before, after)
    yield from _of_time_sharing(before, after)
    yield from _of_the_rest(before, after)


def document_differences(before: Entry, after: Entry) -> Iterator[Difference]:
    """Yield the same for two documents as `writing.written` returns them."""
    for section in {**before, **after}:
        sides = [document.get(section) for document in (before, after)]
        if any(isinstance(side, list) and _has_names(side) for side in sides):
            old, new = ({entry["name"]: entry for entry in side or ()} for side in sides)
            yield from _named(section, old, new, lambda entry: entry)
        else:
            yield from _whole(section, *sides)


def _has_names(entries: list[Any]) -> bool:
    return all(isinstance(entry, dict) and "name" in entry for entry in entries)


def _of_departments_and_projects(before: Sharing, after: Sharing) -> Iterator[Difference]:
    departments = _by_name(before.departments), _by_name(after.departments)
    projects = _by_name(before.projects), _by_name(after.projects)
    yield from _named("departments", *departments, department_entry)
    yield from _named("projects", *projects, project_entry)


def _of_time_sharing(before: Sharing, after: Sharing) -> Iterator[Difference]:
    yield from _named("classes", _by_name(before.classes), _by_name(after.classes), class_entry)
    groups = _by_name(before.user_groups), _by_name(after.user_groups)
    yield from _named("user_groups", *groups, user_group_entry)
    yield from _named("users", _by_name(before.users), _by_name(after.users), user_entry)


def _of_the_rest(before: Sharing, after: Sharing) -> Iterator[Difference]:
    old, new = whole_sections(before), whole_sections(after)
    for section in new:
        yield from _whole(section, old[section], new[section])
    rules = _by_name(before.notifications), _by_name(after.notifications)
    yield from _named("notifications", *rules, notification_entry)


def _by_name(entries: Iterable[Any]) -> dict[str, Any]:
    return {entry.name: entry for entry in entries}


def _named(
    section: str, old: Mapping[str, T], new: Mapping[str, T], entry: Callable[[T], Any]
) -> Iterator[Difference]:
    for name in {**new, **old}:
        if old.get(name) != new.get(name):
            before, after = (entry(side[name]) if name in side else None for side in (old, new))
            yield Difference(section=section, name=name, before=before, after=after)
    if [name for name in old if name in new] != [name for name in new if name in old]:
        yield Difference(section=section, name="", before=[*old], after=[*new])


def _whole(section: str, before: Any, after: Any) -> Iterator[Difference]:
    if before != after:
        yield Difference(section=section, name="", before=before or None, after=after or None)
