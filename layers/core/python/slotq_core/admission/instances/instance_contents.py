"""The contents of instances: GPUs, vCPUs, memory, and the memory of a GPU.

SlotQ knows them by the instance type, so a job may ask for them, and no pool has to declare them. A
job's instances contain them whole, so slots bind before they do, and nothing is counted.

A pool counts the contents of its instances if a quota or a limit names them. From then on they are
part of its capacity and of each new job's demand: the contents of one instance times the job's
instances. A pool that declares such a resource itself counts what it declares, which is what its
instances contain (`wire.pool_definition`) but in pools from before this rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from slotq_core.errors import InvalidRequest
from slotq_core.model.demand import Demand
from slotq_core.model.pools import Pool
from slotq_core.model.projects import Department, Project
from slotq_core.model.sharing import Sharing
from slotq_core.wire.pool_definition import SPELLINGS, contained_in, contents_of
from slotq_core.wire.training.instance_types import CONTENTS, NAMES


def counting(
    pools: Iterable[Pool], sharing: Sharing, *, before: Iterable[Pool] = ()
) -> tuple[Pool, ...]:
    """Return the pools with the contents counted under these quotas and limits. A pool goes on
    counting the contents that it counted or declared `before`, because jobs there hold them."""
    named = {name for name in NAMES if name in _resources_named(sharing)}
    counted = {
        pool.name: {*pool.contents, *(name for name in NAMES if name in pool.capacity)}
        for pool in before
    }
    return tuple(_counting(declared(pool), {*named, *counted.get(pool.name, ())}) for pool in pools)


def declared(pool: Pool) -> Pool:
    """Return the pool as it is declared, without counted contents."""
    if not pool.contents:
        return pool
    own = {name: n for name, n in pool.capacity.items() if name not in pool.contents}
    return replace(pool, capacity=Demand(own), contents=())


def contained(pools: Sequence[Pool], slots: int) -> Demand:
    """Return the contents of a job's instances in any of these pools: of different instance types,
    the least of each resource, and only resources that all of them count."""
    slot_contents = [_in_a_slot(pool) for pool in pools]
    names = (
        set.intersection(*(set(amounts) for amounts in slot_contents)) if slot_contents else set()
    )
    return Demand({name: slots * min(amounts[name] for amounts in slot_contents) for name in names})


def in_one_word(demand: Demand, pools: Iterable[Pool]) -> Demand:
    """Return the demand with SlotQ's names. A word that one of the queue's pools declares is its
    own name there. Raises InvalidRequest if the demand has two words for one thing."""
    words = [name for name in SPELLINGS if name in demand]
    if not words:
        return demand
    declared_names = {name for pool in pools for name in (*pool.capacity, *pool.properties)}
    amounts = dict(demand)
    for word in words:
        if word in declared_names:
            continue
        if SPELLINGS[word] in amounts:
            raise InvalidRequest(
                f"the job asks for {SPELLINGS[word]} and for {word}, which are the same: name one",
                field="Tags",
            )
        amounts[SPELLINGS[word]] = amounts.pop(word)
    return Demand(amounts)


def properties_of(pool: Pool) -> Demand:
    """Return what each of the pool's slots is like: what it declares, and what an instance of its
    type contains."""
    return Demand({**contents_of(pool.instance_type), **pool.properties})


def declares(pool: Pool, name: str) -> bool:
    """Whether the pool declares an amount of this resource, which its jobs use up."""
    return name in pool.capacity and name not in pool.contents


def knows(pool: Pool, name: str) -> bool:
    """Whether the pool has as much of this resource as its instances contain, by their type."""
    return pool.instance_type in CONTENTS and not declares(pool, name)


def must_count(name: str, pools: Sequence[Pool]) -> bool:
    """Whether a job in these pools takes this resource from them. It need not if one of them does
    not count the resource, and in the others slots are used up first."""
    return all(name in pool.capacity for pool in pools) or any(
        declares(pool, name) and not pool.capacity[name] >= contained_in(pool, name) > 0
        for pool in pools
    )


def _counting(pool: Pool, named: Iterable[str]) -> Pool:
    known = contents_of(pool.instance_type)
    counted = {*named} & {*NAMES} & known.keys() - {*pool.capacity, *pool.properties}
    if not counted:
        return pool
    contents = {name: pool.capacity.slots * known[name] for name in counted}
    capacity = Demand({**pool.capacity, **contents})
    return replace(pool, capacity=capacity, contents=tuple(sorted(counted)))


def _in_a_slot(pool: Pool) -> Mapping[str, int]:
    known = contents_of(pool.instance_type)
    return {name: known[name] for name in pool.contents if name in known}


def _resources_named(sharing: Sharing) -> set[str]:
    """Return the resources that quotas and limits name."""
    owners: tuple[Department | Project, ...] = (*sharing.departments, *sharing.projects)
    amounts = (by_scope for owner in owners for by_scope in (owner.quota or {}, owner.limit))
    return {name for by_scope in amounts for own in by_scope.values() for name in own}
