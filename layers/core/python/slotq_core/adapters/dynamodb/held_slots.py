"""Read the holders and claimants of a pool's slots: one partition, in one read."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from slotq_core.adapters.dynamodb.layout import table
from slotq_core.adapters.dynamodb.layout.items import (
    demand_of,
    foreign_of,
    free_of,
    health_of,
    ledger_of,
    marks_in,
    marks_of,
    marks_on_nodes,
    marks_on_nodes_in,
    node_in_slot,
    node_mark,
    since_of,
    warm_mark,
    warm_of,
    yielded_of,
)
from slotq_core.adapters.dynamodb.layout.records import Item
from slotq_core.adapters.dynamodb.layout.validation import UNREADABLE, Sieve, copy_of, key_in
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job
from slotq_core.model.nodes import Node
from slotq_core.model.pools import HEALTHY, Pool, PoolHealth, WarmSlot
from slotq_core.model.users import Yielded
from slotq_core.ports.stored import Ledger, Poison
from slotq_core.storage.holdings import slots_of

_NOTHING = Demand()
_ACTIVE, _ON_NODE = table.ACTIVE_PREFIX[:-1], table.ON_NODE_PREFIX[:-1]

NOT_COMING = "the ledger awaits a configuration that nobody is making"


@dataclass(frozen=True, kw_only=True, slots=True)
class Holders:
    pool: str
    ledger: Ledger
    foreign: Demand
    free: Demand | None
    """The free amount that the ledger states; None if the ledger admits nothing."""
    marks: int
    """The sum of marks that the ledger states."""
    health: PoolHealth
    active: tuple[Job, ...]
    claimants: tuple[Job, ...]
    kept: Demand
    """Slots kept for unreadable jobs."""
    kept_marks: int
    poison: tuple[Poison, ...]
    whole: bool
    """Whether the ledger is readable."""
    since: int = 0
    """The revision of the configuration from which the ledger holds; 0: any."""
    yields: tuple[Yielded, ...] = ()
    """Yields to a time slice in this pool."""
    nodes: tuple[Node, ...] = ()
    """The nodes that hold slots, as they started."""
    warm: tuple[WarmSlot, ...] = ()
    on_nodes: int = 0
    """The sum of marks of jobs on nodes that the ledger states."""

    @property
    def held(self) -> Demand:
        here = (dict(slots_of(job)).get(self.pool, _NOTHING) for job in self.active)
        return sum((node.demand for node in self.nodes), sum(here, self.kept))

    @property
    def held_marks(self) -> int:
        marks = sum(marks_of(job).get(self.pool, 0) for job in (*self.active, *self.claimants))
        marks += sum(map(node_mark, self.nodes)) + sum(map(warm_mark, self.warm))
        return self.kept_marks + marks

    @property
    def marks_on_nodes(self) -> int:
        return sum(marks_on_nodes(job).get(self.pool, 0) for job in self.active)

    @property
    def unexplained(self) -> Demand:
        """The ledger's used amount, less the amount seen to be held."""
        return self.ledger.used - self.held

    @property
    def adds_up(self) -> bool:
        """Whether the items agree, as after a whole transaction."""
        marks = (self.marks, self.on_nodes)
        return (
            self.whole and not self.unexplained and (self.held_marks, self.marks_on_nodes) == marks
        )

    @property
    def unreadable_copies(self) -> bool:
        """Whether a holder or claimant is unreadable."""
        aside = (table.HEALTH, table.YIELD_PREFIX)
        return any(not key_in(item)[1].startswith(aside) for item in self.poison)

    def offers(self, capacity: Demand) -> bool:
        """Whether the ledger offers exactly the pool's capacity, no more and no less."""
        if not self.whole or self.free is None:
            return False
        room = capacity - self.foreign - self.ledger.used
        return all(self.free[name] == room[name] for name in {"slots", *capacity})


def occupied(read: Holders, pool: Pool) -> tuple[Demand, tuple[Poison, ...]]:
    """Return the amount that a plan's jobs may not use in a pool whose items have stayed the same,
    and the faults of the items. If the free amount is unknown, nothing is free."""
    explained = read.adds_up or (
        read.unreadable_copies and min(read.unexplained.values(), default=0) >= 0
    )
    if explained and read.offers(pool.capacity):
        return read.foreign + read.kept + read.unexplained, read.poison
    wrong = Sieve()
    wrong.note(table.ledger_key(pool.name), disagreement(read, pool.capacity))
    return pool.capacity, (*read.poison, *wrong.poison)


def disagreement(read: Holders, capacity: Demand | None) -> str:
    """Describe how the ledger disagrees; empty if all agrees. `capacity` None: the pool is not
    configured."""
    if not read.whole:
        return "the ledger cannot be read"
    if read.unexplained:
        return f"the ledger records {read.ledger.used} in use; the active jobs hold {read.held}"
    if read.marks != read.held_marks:
        return (
            f"the ledger's marks add up to {read.marks}; the active jobs' marks to "
            f"{read.held_marks}"
        )
    if read.on_nodes != read.marks_on_nodes:
        return (
            f"the ledger's marks of jobs on nodes add up to {read.on_nodes}; those of the jobs to "
            f"{read.marks_on_nodes}"
        )
    if capacity is None:
        return (
            ""
            if read.free is None
            else (f"the ledger records {read.free} free, but the pool is not configured")
        )
    if not read.offers(capacity):
        room = capacity - read.foreign - read.ledger.used
        return f"the ledger records {read.free} free; it should be {room}"
    return ""


def read_holders(items: Sequence[Item]) -> Holders:
    """Read the holders of a pool from its items. Unknown kinds of items are ignored: a newer
    release may have written them."""
    sieve = Sieve()
    kinds: dict[str, list[Item]] = {}
    for item in items:
        kinds.setdefault(item["sk"]["S"].partition("#")[0], []).append(item)
    held = sieve.read(
        kinds.get(table.HELD_PREFIX[:-1], ()),
        lambda item: (_started(item), demand_of(item), marks_in(item)),
    )
    kept = [(demand, marks) for node, demand, marks in held if node is None]
    ledger, whole = (kinds.get(table.LEDGER) or [Item()])[0], True
    try:
        numbers = ledger_of(ledger), foreign_of(ledger), free_of(ledger), marks_in(ledger)
        since, on_nodes = since_of(ledger), marks_on_nodes_in(ledger)
    except UNREADABLE:
        numbers, whole, since, on_nodes = (Ledger(), Demand(), None, 0), False, 0, 0
    copies = [*kinds.get(_ACTIVE, ()), *kinds.get(_ON_NODE, ())]
    return Holders(
        pool=items[0]["pk"]["S"].removeprefix(table.POOL_PREFIX) if items else "",
        yields=tuple(sieve.read(kinds.get(table.YIELD_PREFIX[:-1], ()), yielded_of)),
        ledger=numbers[0],
        foreign=numbers[1],
        free=numbers[2],
        marks=numbers[3],
        since=since,
        health=next(iter(sieve.read(kinds.get(table.HEALTH, ()), health_of)), HEALTHY),
        nodes=tuple(node for node, _, _ in held if node is not None),
        on_nodes=on_nodes,
        warm=tuple(sieve.read(kinds.get(table.WARM_PREFIX[:-1], ()), warm_of)),
        active=tuple(sieve.read(copies, copy_of)),
        claimants=tuple(sieve.read(kinds.get(table.CLAIM_PREFIX[:-1], ()), copy_of)),
        kept=sum((demand for demand, _ in kept), Demand()),
        kept_marks=sum(marks for _, marks in kept),
        poison=sieve.poison,
        whole=whole,
    )


def _started(held: Item) -> Node | None:
    """Return the node that a HELD item is of. What cannot be read is kept, as for a job."""
    with suppress(*UNREADABLE):
        return node_in_slot(held)
    return None
