"""The contents of instances: GPUs, vCPUs, memory, and the memory of a GPU.

SlotQ knows them by the instance type, so a job may ask for them, and no pool has to declare them. A
job's instances contain them whole, so slots bind before they do, and nothing is counted.

A pool counts the contents of its instances if a quota or a limit names them. From then on they are
part of its capacity and of each new job's demand: the contents of one instance times the job's
instances. A pool that declares such a resource itself counts what it declares. What it declares
must be what its instances contain (`check_declared`); pools from before this rule may differ."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from slotq_core.errors import InvalidRequest
from slotq_core.model.demand import Demand
from slotq_core.model.pools import Pool
from slotq_core.model.projects import Department, Project
from slotq_core.model.sharing import Sharing
from slotq_core.wire.training.instance_types import CONTENTS, MEMORY_PER_GPU, NAMES

SPELLINGS = {"num_gpus": "gpus"}
"""The words of others, NVIDIA FLARE's, for what SlotQ knows by another name."""


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
        declares(pool, name) and not pool.capacity[name] >= _contained(pool, name) > 0
        for pool in pools
    )


def check_declared(before: Iterable[Pool], after: Iterable[Pool]) -> None:
    """Raises InvalidRequest if a pool declares anew what its instances do not contain, or another
    word for it. What it declared before may stay."""
    earlier = {pool.name: {fault[:3] for fault in misdeclared(pool)} for pool in before}
    for pool in after:
        for fault in misdeclared(pool):
            if fault[:3] not in earlier.get(pool.name, ()):
                raise InvalidRequest(f"pool '{pool.name}' {fault.said}", field=fault.setting)


class Misdeclared(NamedTuple):
    """An amount that a pool may not declare."""

    setting: str
    """`resources` or `properties`."""
    name: str
    amount: int
    said: str
    """What is wrong and what to do, after the pool's name."""


def misdeclared(pool: Pool) -> Iterator[Misdeclared]:
    """Yield every amount that contradicts what SlotQ knows of the pool's instances."""
    amounts = (("resources", declared(pool).capacity), ("properties", pool.properties))
    for setting, of_setting in amounts:
        for name, amount in of_setting.items():
            if said := _fault(pool, setting, name, amount):
                yield Misdeclared(setting, name, amount, said)


def following(before: Pool, after: Pool, *, named: Collection[str] = ()) -> Pool:
    """Return the pool after a change without what was right before and is not any more, because of
    other slots or another type. What the change names, of `resources` and `properties`, stays."""
    was_wrong = {fault.name for fault in misdeclared(before)}
    stale = {fault.name for fault in misdeclared(after) if fault.setting not in named} - was_wrong
    if not stale:
        return after
    capacity, properties = (
        Demand({name: n for name, n in amounts.items() if name not in stale})
        for amounts in (after.capacity, after.properties)
    )
    return replace(after, capacity=capacity, properties=properties)


def _fault(pool: Pool, setting: str, name: str, amount: int) -> str:
    """Return what is wrong with a declared amount; empty: nothing."""
    kind, known = pool.instance_type, contents_of(pool.instance_type)
    if name in SPELLINGS:
        return f"declares {name}, which are {SPELLINGS[name]} here: name them so"
    if setting == "properties" and name in NAMES:
        return f"declares {name} as a property, but {name} are a resource"
    if setting == "properties" and name == MEMORY_PER_GPU and known:
        has, per_gpu = known[name], f"each GPU of {kind} has {known[name]}"
        return _differs(name, amount, has, per_gpu if has else f"{kind} has no GPUs")
    if setting == "resources" and name in NAMES and known:
        has, slots = _contained(pool, name), pool.capacity.slots
        instances = f"its {slots} instances of {kind} contain {has}"
        return _differs(name, amount, has, instances if slots != 1 else f"its {kind} has {has}")
    return ""


def _differs(name: str, amount: int, known: int, said: str) -> str:
    if amount == known:
        return ""
    instead = f", or declare {known}" if known else ""
    return f"declares {amount} {name}, but {said}: leave {name} out{instead}"


def _contained(pool: Pool, name: str) -> int:
    """Return how much of a resource all of the pool's instances contain; 0 if that is unknown."""
    return pool.capacity.slots * contents_of(pool.instance_type).get(name, 0)


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


def contents_of(instance_type: str) -> Mapping[str, int]:
    """Return what one instance of this type contains, by name; of an unknown type nothing."""
    amounts = CONTENTS.get(instance_type)
    return dict(zip((*NAMES, MEMORY_PER_GPU), amounts, strict=True)) if amounts else {}


def _resources_named(sharing: Sharing) -> set[str]:
    """Return the resources that quotas and limits name."""
    owners: tuple[Department | Project, ...] = (*sharing.departments, *sharing.projects)
    amounts = (by_scope for owner in owners for by_scope in (owner.quota or {}, owner.limit))
    return {name for by_scope in amounts for own in by_scope.values() for name in own}
