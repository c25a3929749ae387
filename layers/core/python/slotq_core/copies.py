"""Changed copies of frozen values, for the paths where there are very many."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

T = TypeVar("T")


def copied(value: T, /, **new: Any) -> T:
    """The value with some fields changed: `dataclasses.replace` in a third of the time, for a
    frozen dataclass with slots and without `__post_init__`. Raises KeyError for an unknown
    field."""
    kind: Any = type(value)
    old, puts = _fields_of(kind)
    copy: T = object.__new__(kind)
    for put, had in zip(puts.values(), old(value), strict=True):
        put(copy, had)
    for name, has in new.items():
        puts[name](copy, has)
    return copy


@cache
def _fields_of(
    kind: Any,
) -> tuple[Callable[[object], tuple[Any, ...]], dict[str, Callable[[object, object], None]]]:
    """What reads all fields of such a value, and what writes each of them in a new one."""
    names = [field.name for field in fields(kind)]
    return attrgetter(*names), {name: getattr(kind, name).__set__ for name in names}
