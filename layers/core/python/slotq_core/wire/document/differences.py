"""The entries in which two configurations differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from slotq_core.model.sharing import Sharing
from slotq_core.wire.document.settings import Settings
from slotq_core.wire.document.writing import (
    Entry,
    department_entry,
    limits_entry,
    pool_entry,
    project_entry,
    whole_sections,
)


class Named(Protocol):
    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=Named)


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
    yield from _named("pools", before.pools, after.pools, pool_entry)
    yield from _of_departments_and_projects(before.sharing, after.sharing)
    yield from _whole("limits", limits_entry(before.limits), limits_entry(after.limits))
    yield from _of_the_rest(before.sharing, after.sharing)


def sharing_differences(before: Sharing, after: Sharing) -> Iterator[Difference]:
    """Yield the same without pools and limits."""
    yield from _of_departments_and_projects(before, after)
    yield from _of_the_rest(before, after)


def _of_departments_and_projects(before: Sharing, after: Sharing) -> Iterator[Difference]:
    yield from _named("departments", before.departments, after.departments, department_entry)
    yield from _named("projects", before.projects, after.projects, project_entry)


def _of_the_rest(before: Sharing, after: Sharing) -> Iterator[Difference]:
    old, new = whole_sections(before), whole_sections(after)
    for section in new:
        yield from _whole(section, old[section], new[section])


def _named(
    section: str, before: Iterable[N], after: Iterable[N], entry: Callable[[N], Entry]
) -> Iterator[Difference]:
    old, new = ({each.name: each for each in side} for side in (before, after))
    for name in {**new, **old}:
        if old.get(name) != new.get(name):
            sides = (entry(side[name]) if name in side else None for side in (old, new))
            yield Difference(section=section, name=name, before=next(sides), after=next(sides))
    orders = [[name for name in side if name in other] for side, other in ((old, new), (new, old))]
    if orders[0] != orders[1]:
        yield Difference(section=section, name="", before=[*old], after=[*new])


def _whole(section: str, before: Any, after: Any) -> Iterator[Difference]:
    if before != after:
        yield Difference(section=section, name="", before=before or None, after=after or None)
