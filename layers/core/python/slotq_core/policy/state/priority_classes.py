"""Priority classes by name and by value (DESIGN 5.3).

"Named priority classes with values (none configured: HFAI's). An integer is the class of that
value." AUTO is a name and no value: a number is never AUTO.
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

Classes = Mapping[str, PriorityClass]
"""By name, the highest value first; between equals the first configured. Without AUTO."""


def classes_of(configured: Iterable[PriorityClass]) -> Classes:
    """Those that there are: what is configured, else HFAI's."""
    found = tuple(configured) or tuple(PriorityClass(name=n, value=v) for n, v in _HFAI.items())
    ordered = sorted(found, key=lambda each: -each.value)
    return {each.name: each for each in ordered if each.name != AUTO}


def name_of_value(value: int, classes: Classes) -> str:
    """The class that a bare number means; empty: none."""
    return next((each.name for each in classes.values() if each.value == value), "")
