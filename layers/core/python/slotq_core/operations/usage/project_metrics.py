"""Amounts for metrics: what projects hold, wait for and deserve.

The number of projects is bounded, because each metric costs money.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import astuple, dataclass

from slotq_core.model.projects import ShareStatus

OTHERS = "(others)"
"""The projects without metrics of their own, together. No project has such a name."""

FIRST_RESOURCE = "slots"


@dataclass(frozen=True, kw_only=True, slots=True)
class ResourceAmounts:
    """Amounts of one resource. With quotas by pool, all pools together: then a job that accepts
    several pools waits in each."""

    held: int | float = 0
    waiting: int | float = 0
    over_quota: int | float = 0
    share: int | float = 0

    def __add__(self, other: ResourceAmounts) -> ResourceAmounts:
        return ResourceAmounts(
            held=self.held + other.held,
            waiting=self.waiting + other.waiting,
            over_quota=self.over_quota + other.over_quota,
            share=self.share + other.share,
        )


Measured = Mapping[tuple[str, str], ResourceAmounts]
"""By project and resource."""


def measured(standings: Iterable[ShareStatus], projects: Collection[str], *, most: int) -> Measured:
    """Return the amounts of the `most` projects that hold most (of equal ones those that wait for
    most, then the first of `projects`), and those of all others together, as `OTHERS`.

    A project that holds nothing and waits for nothing has no amounts.
    """
    every: dict[tuple[str, str], ResourceAmounts] = defaultdict(ResourceAmounts)
    for status in standings:
        if not status.is_department:
            every[status.name, status.resource] += _amounts(status)
    own = set(_busiest(every, projects)[:most])
    found: dict[tuple[str, str], ResourceAmounts] = defaultdict(ResourceAmounts)
    for (name, resource), amounts in every.items():
        if name in own:
            found[name, resource] = amounts
        elif any(astuple(amounts)):
            found[OTHERS, resource] += amounts
    return found


def _amounts(status: ShareStatus) -> ResourceAmounts:
    return ResourceAmounts(
        held=status.held, waiting=status.waiting, over_quota=status.over_quota, share=status.share
    )


def _busiest(every: Measured, projects: Collection[str]) -> list[str]:
    """Return those of the projects that hold or wait for anything, the busiest first. Slots count
    where they are shared, else the first resource by name."""
    resources = sorted({resource for _, resource in every})
    first = FIRST_RESOURCE if FIRST_RESOURCE in resources else resources[0] if resources else ""
    busy = {name for (name, _), amounts in every.items() if amounts.held or amounts.waiting}

    def load(name: str) -> tuple[float, float]:
        amounts = every[name, first]
        return -amounts.held, -amounts.waiting

    return sorted((name for name in projects if name in busy), key=load)
