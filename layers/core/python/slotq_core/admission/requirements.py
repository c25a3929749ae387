"""The two parts of a demand: resources taken from a pool, and properties required of it.

A demand names resources, which the job takes from its pool while it runs, and properties, which the
pool must have at least and no job uses up. The policy sees only the resources, and only the pools
that have the properties. Contents of instances that the pools do not count are required of each
instance, and nothing is taken.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from slotq_core.admission.instances import capacity_kinds
from slotq_core.admission.instances.instance_contents import (
    contained,
    declares,
    in_one_word,
    knows,
    must_count,
    properties_of,
)
from slotq_core.errors import InvalidRequest, NeverFits
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Submission
from slotq_core.model.pools import Pool
from slotq_core.names import POOLS_TAG
from slotq_core.wire import traits
from slotq_core.wire.training.instance_types import MEMORY_PER_GPU, NAMES

_NOTHING = Demand()


@dataclass(frozen=True, kw_only=True, slots=True)
class Need:
    """A demand in one pool, divided."""

    demand: Demand
    """The resources, slots included."""
    requires: Demand = _NOTHING
    """The properties."""
    each: Demand = _NOTHING
    """What each instance must contain of the resources, where the pool knows its instances."""

    def met_by(self, pool: Pool) -> bool:
        """Whether the pool has the properties, and its instances contain enough."""
        return not (self.requires or self.each) or not self.missing_in(pool)

    def missing_in(self, pool: Pool) -> list[str]:
        """The names that the pool, or each of its instances, has too little of."""
        has = properties_of(pool)
        wanted = {**self.requires, **self.each}
        return [
            name
            for name, amount in wanted.items()
            if amount > has[name] and not (name in self.each and declares(pool, name))
        ]

    def counted(self, pools: Sequence[Pool]) -> Need:
        """The need in these pools: what a job need not take from them is required of each
        instance."""
        left = {name: n for name, n in self.each.items() if not must_count(name, pools)}
        if not left:
            return self
        demand = Demand({name: n for name, n in self.demand.items() if name not in left})
        each = Demand({name: n for name, n in self.each.items() if name not in left})
        return Need(demand=demand, requires=self.requires + Demand(left), each=each)


@dataclass(frozen=True, kw_only=True, slots=True)
class Needs:
    """The demand of a job, divided into resources and properties."""

    whole: Need
    """In the one pool that it runs in; of a job in parts, all parts together."""
    by_pool: Mapping[str, Need]
    """For a job in parts: the need in each of its pools."""

    @property
    def parts(self) -> tuple[tuple[str, Demand], ...]:
        """The resources in each of several pools at once."""
        return tuple((pool, need.demand) for pool, need in self.by_pool.items())

    def met_by(self, pool: Pool) -> bool:
        """Whether the pool has what the job needs there and does not use up."""
        return self.by_pool.get(pool.name, self.whole).met_by(pool)

    def check(self, pools: Sequence[Pool]) -> None:
        """Check the pools that the job named. Raises NeverFits unless one of them has all
        properties and large enough instances; for a job in parts, unless each has what its part
        needs."""
        unmet = [pool for pool in pools if not self.met_by(pool)]
        for name, need in self.by_pool.items():
            if lacking := [pool for pool in unmet if pool.name == name]:
                raise _never_met(f"the part in pool {name}", need, lacking)
        if unmet and len(unmet) == len(pools):
            raise _never_met("the job", self.whole, pools)

    def counted(self, pools: Sequence[Pool]) -> Needs:
        """The needs in these pools, which meet them: what a job need not take from its pools is
        required of each instance."""
        if not self.by_pool:
            return replace(self, whole=self.whole.counted(pools))
        by_name = {pool.name: [pool] for pool in pools}
        return _in_parts(
            (name, need.counted(by_name.get(name, ()))) for name, need in self.by_pool.items()
        )

    def with_contents(self, pools: Sequence[Pool]) -> Needs:
        """The needs in these pools, with the contents of the job's instances that all of them
        count. The contents of a job over several pools at once do not count."""
        needs = self.counted(pools)
        more = Demand() if needs.by_pool else contained(pools, needs.whole.demand.slots)
        if not more:
            return needs
        whole = replace(needs.whole, demand=Demand({**needs.whole.demand, **more}))
        return replace(needs, whole=whole)


def property_names(pools: Iterable[Pool]) -> frozenset[str]:
    """The names of properties: of what SlotQ knows of instances, and of the queue's pools."""
    names = (traits.base_name(name) for pool in pools for name in pool.properties)
    return frozenset((MEMORY_PER_GPU, *names))


def needs_of(
    demand: Demand,
    parts: Sequence[tuple[str, Demand]],
    *,
    pools: Sequence[Pool],
    named: Sequence[Pool],
) -> Needs:
    """Divide a demand, or that of each part. A name that is no property is a resource. `pools`: the
    queue's; `named`: those that the job may run in. Raises InvalidRequest for two words for one
    thing."""
    if not parts and len(demand) == 1:
        return Needs(whole=Need(demand=demand), by_pool={})
    properties = property_names(pools)
    if not parts:
        return Needs(whole=_need(in_one_word(demand, pools), properties, named), by_pool={})
    by_name = {pool.name: [pool] for pool in named}
    return _in_parts(
        (pool, _need(in_one_word(needed, pools), properties, by_name.get(pool, [])))
        for pool, needed in parts
    )


def _need(demand: Demand, properties: Collection[str], pools: Sequence[Pool]) -> Need:
    resources, required = divided(demand, properties)
    each = {
        name: -(-resources[name] // resources.slots)
        for name in NAMES
        if name in resources and any(knows(pool, name) for pool in pools)
    }
    return Need(demand=resources, requires=required, each=Demand(each))


def _in_parts(parts: Iterable[tuple[str, Need]]) -> Needs:
    by_pool = dict(parts)
    whole = Need(
        demand=Demand.total(need.demand for need in by_pool.values()),
        requires=_most(need.requires for need in by_pool.values()),
    )
    return Needs(whole=whole, by_pool=by_pool)


def divided(demand: Demand, properties: Collection[str]) -> tuple[Demand, Demand]:
    """The resources in a demand, and the properties."""
    required = {
        name: amount
        for name, amount in demand.items()
        if name in properties or traits.is_trait(name)
    }
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
    offered = capacity_kinds.meant(submission, offered, named=bool(wanted))
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


def _never_met(what: str, need: Need, pools: Sequence[Pool]) -> NeverFits:
    """The refusal: each name that a pool has too little of, and the most that any pool has."""
    missing = {name for pool in pools for name in need.missing_in(pool)}
    short = [name for name in {**need.requires, **need.each} if name in missing]
    shortfalls = " and ".join(
        _too_small(name, need, pools) if name in need.each else _too_little(name, need, pools)
        for name in short
    )
    together = "; no pool has all of these together" if len(short) > 1 else ""
    return NeverFits(f"{what} needs {shortfalls}{together}", field="Tags")


def _too_little(name: str, need: Need, pools: Sequence[Pool]) -> str:
    """The sentence about a property."""
    if traits.is_trait(name):
        return _other_words(name, pools)
    best, has = _best(name, pools)
    most = f"and the most that its pools have is {has} (pool {best.name})" if has else ""
    return f"{name} of at least {need.requires[name]}, {most or 'which none of its pools has'}"


def _other_words(name: str, pools: Sequence[Pool]) -> str:
    """The sentence about a property that is a text or boolean."""
    (base, value), *_ = traits.decoded({name: 1}).items()
    there = {pool.name: traits.decoded(pool.properties).get(base) for pool in pools}
    has = [f"{pool} has {traits.written(own)}" for pool, own in there.items() if own is not None]
    said = ", ".join(has) or "none of its pools says"
    return f"{base} {traits.written(value)}, and {said}" + (f" what {base} is" * (not has))


def _too_small(name: str, need: Need, pools: Sequence[Pool]) -> str:
    """The sentence about what instances contain."""
    asked, slots = need.demand[name], need.demand.slots
    best, has = _best(name, pools)
    if not has:
        return f"{asked} {name}, and no instance of its pools contains any"
    instances = "its 1 instance contains" if slots == 1 else f"its {slots} instances contain"
    return (
        f"{asked} {name}, and {instances} at most {slots * has} (pool {best.name}, "
        f"{best.instance_type}): that takes {-(-asked // has)} instances"
    )


def _best(name: str, pools: Sequence[Pool]) -> tuple[Pool, int]:
    """The pool whose slots have the most of it, and how much."""
    best = max(pools, key=lambda pool: properties_of(pool)[name])
    return best, properties_of(best)[name]
