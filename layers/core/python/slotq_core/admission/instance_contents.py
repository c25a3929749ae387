"""The contents of instances, for quotas of GPUs, CPUs and memory.

A pool counts the contents of its instances if a quota or a limit names them. From then on they are
part of its capacity and of each new job's demand: the contents of one instance times the job's
instances. They never bind before slots do; they only give the quotas a meaning. A pool that
declares such a resource itself counts what it declares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from slotq_core.admission.requirements import Needs
from slotq_core.model.demand import Demand
from slotq_core.model.pools import Pool
from slotq_core.model.projects import Department, Project
from slotq_core.model.sharing import Sharing
from slotq_core.wire.training.instance_types import CONTENTS, NAMES


def counting(
    pools: Iterable[Pool], sharing: Sharing, *, before: Iterable[Pool] = ()
) -> tuple[Pool, ...]:
    """Return the pools with the contents counted under these quotas and limits. A pool goes on
    counting the contents that it counted `before`, because jobs there hold them."""
    named = {name for name in NAMES if name in _resources_named(sharing)}
    counted = {pool.name: pool.contents for pool in before}
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


def with_contents(needs: Needs, pools: Sequence[Pool]) -> Needs:
    """Return the needs of a job that may run in these pools, with the contents of its instances.
    The contents of a job over several pools at once do not count."""
    more = Demand() if needs.parts else contained(pools, needs.demand.slots)
    return replace(needs, demand=Demand({**needs.demand, **more})) if more else needs


def _counting(pool: Pool, named: Iterable[str]) -> Pool:
    known = _known(pool.instance_type)
    counted = {*named} & known.keys() - {*pool.capacity, *pool.properties}
    if not counted:
        return pool
    contents = {name: pool.capacity.slots * known[name] for name in counted}
    capacity = Demand({**pool.capacity, **contents})
    return replace(pool, capacity=capacity, contents=tuple(sorted(counted)))


def _in_a_slot(pool: Pool) -> Mapping[str, int]:
    known = _known(pool.instance_type)
    return {name: known[name] for name in pool.contents if name in known}


def _known(instance_type: str) -> Mapping[str, int]:
    amounts = CONTENTS.get(instance_type)
    return dict(zip(NAMES, amounts, strict=True)) if amounts else {}


def _resources_named(sharing: Sharing) -> set[str]:
    """Return the resources that quotas and limits name."""
    owners: tuple[Department | Project, ...] = (*sharing.departments, *sharing.projects)
    amounts = (by_scope for owner in owners for by_scope in (owner.quota or {}, owner.limit))
    return {name for by_scope in amounts for own in by_scope.values() for name in own}
