"""Priority classes by name and by value (DESIGN 5.3).

"Named priority classes with values (none configured: HFAI's). An integer is the class of that
value." AUTO has a name and no value, so no number means AUTO.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from slotq_core.model.users import AUTO, PriorityClass

_HFAI = {
    "EXTREME_HIGH": 50,
    "VERY_HIGH": 40,
    "HIGH": 30,
    "ABOVE_NORMAL": 20,
    "NORMAL": 10,
    "UNDER_NORMAL": 8,
    "BELOW_NORMAL": 5,
    "LOW": 0,
}

_HFAIS = {
    name: PriorityClass(name=name, value=value, demote_to="NORMAL", demote_after=1_800_000)
    if name == "ABOVE_NORMAL"
    else PriorityClass(name=name, value=value)
    for name, value in _HFAI.items()
}
"""After 30 minutes of running time a job at ABOVE_NORMAL counts as NORMAL."""

Classes = Mapping[str, PriorityClass]
"""By name, the highest value first; among equal values, the first configured. Without AUTO."""


def classes_of(configured: Iterable[PriorityClass]) -> Classes:
    """The configured classes; if there are none, HFAI's."""
    ordered = sorted(configured, key=lambda each: -each.value)
    return {each.name: each for each in ordered if each.name != AUTO} if ordered else _HFAIS


def names_by_value(classes: Classes) -> Mapping[int, str]:
    """The class of each value; among equal values, the first."""
    return {each.value: each.name for each in reversed(tuple(classes.values()))}
