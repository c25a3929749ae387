"""The two parts of a demand: resources taken from a pool, and properties required of it.

A demand names resources, which the job takes from its pool while it runs, and properties, which the
pool must have at least and no job uses up. The policy sees only the resources, and only the pools
that have the properties.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from slotq_core.errors import InvalidRequest, NeverFits
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Submission
from slotq_core.model.pools import Pool
from slotq_core.names import POOLS_TAG

_NOTHING = Demand()


@dataclass(frozen=True, kw_only=True, slots=True)
class Needs:
    """A demand, divided into resources and properties."""

    demand: Demand
    """The resources, slots included."""
    parts: tuple[tuple[str, Demand], ...] = ()
    """The resources in each of several pools at once."""
    requires: Demand = _NOTHING
    """The properties; of a job in parts the most of each that a part needs."""
    required_in: Mapping[str, Demand]
    """For a job in parts: the properties that each of its pools needs."""

    def met_by(self, pool: Pool) -> bool:
        """Whether the pool has the properties that the job needs there."""
        return self.required_in.get(pool.name, self.requires).within(pool.properties)

    def check(self, pools: Sequence[Pool]) -> None:
        """Check the properties of the pools that the job named. Raises NeverFits unless one of them
        has all properties; for a job in parts, unless each has those that its part needs."""
        unmet = [pool for pool in pools if not self.met_by(pool)]
        for name, required in self.required_in.items():
            if lacking := [pool for pool in unmet if pool.name == name]:
                raise _never_met(f"the part in pool {name}", required, lacking)
        if unmet and len(unmet) == len(pools):
            raise _never_met("the job", self.requires, pools)


def property_names(pools: Iterable[Pool]) -> frozenset[str]:
    """The names of the properties that any of the queue's pools has."""
    return frozenset(name for pool in pools for name in pool.properties)


def needs_of(
    demand: Demand, parts: Sequence[tuple[str, Demand]], properties: Collection[str]
) -> Needs:
    """Divide a demand, or that of each part. A name that is no property is a resource."""
    if not parts:
        resources, required = divided(demand, properties)
        return Needs(demand=resources, requires=required, required_in={})
    of_parts = [(pool, *divided(needed, properties)) for pool, needed in parts]
    required_in = {pool: required for pool, _, required in of_parts}
    return Needs(
        demand=Demand.total(resources for _, resources, _ in of_parts),
        parts=tuple((pool, resources) for pool, resources, _ in of_parts),
        requires=_most(required_in.values()),
        required_in=required_in,
    )


def divided(demand: Demand, properties: Collection[str]) -> tuple[Demand, Demand]:
    """The resources in a demand, and the properties."""
    required = {name: amount for name, amount in demand.items() if name in properties}
    if not required:
        return demand, _NOTHING
    resources = {name: amount for name, amount in demand.items() if name not in required}
    return Demand(resources), Demand(required)


def in_parts(
    submission: Submission, pools: Iterable[Pool], by_default: Sequence[str]
) -> Submission:
    """Give the submission a part in one pool for each of its instance types. A submission of one
    type stays unchanged.

    The pools are those that it names, else its project's default pools, else all. Raises
    InvalidRequest unless they have exactly one pool of each type.
    """
    if not submission.by_type:
        return submission
    wanted = submission.pools or by_default
    offered = [pool for pool in pools if not wanted or pool.name in wanted]
    parts = [(_only(kind, offered).name, demand) for kind, demand in submission.by_type]
    names = tuple(name for name, _ in parts)
    if others := [name for name in submission.pools if name not in names]:
        raise InvalidRequest(
            f"the tag '{POOLS_TAG}' names {', '.join(others)}, but no pool of this queue has that "
            "name and one of the job's instance types",
            field="Tags",
        )
    return replace(submission, parts=tuple(parts), pools=names)


def _only(kind: str, pools: Iterable[Pool]) -> Pool:
    """The only pool of this instance type."""
    found = [pool for pool in pools if pool.instance_type == kind]
    if not found:
        raise InvalidRequest(
            f"the job needs instances of {kind}, and none of its pools has that type",
            field="ResourceConfig.InstanceGroups",
        )
    if len(found) > 1:
        names = ", ".join(pool.name for pool in found)
        raise InvalidRequest(
            f"several pools have instance type {kind} ({names}); name one for each type in the "
            f"tag '{POOLS_TAG}'",
            field="Tags",
        )
    return found[0]


def _most(demands: Iterable[Demand]) -> Demand:
    """The largest amount of each name."""
    found: dict[str, int] = {}
    for demand in demands:
        found.update({name: max(n, found.get(name, 0)) for name, n in demand.items()})
    return Demand(found)


def _never_met(what: str, required: Demand, pools: Sequence[Pool]) -> NeverFits:
    """The refusal: each property that a pool has too little of, and the most that any pool has."""
    short = [name for name in required if any(required[name] > p.properties[name] for p in pools)]
    shortfalls = " and ".join(
        f"{name} of at least {required[name]}, {_best(name, pools)}" for name in short
    )
    together = "; no pool has all of these together" if len(short) > 1 else ""
    return NeverFits(f"{what} needs {shortfalls}{together}", field="Tags")


def _best(name: str, pools: Sequence[Pool]) -> str:
    best = max(pools, key=lambda pool: pool.properties[name])
    if name not in best.properties:
        return "which none of its pools has"
    return f"and the most that its pools have is {best.properties[name]} (pool {best.name})"
