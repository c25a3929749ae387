"""Read the nodes of pools that have any."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.layout import expressions, table
from slotq_core.adapters.dynamodb.layout.records import Item
from slotq_core.adapters.dynamodb.layout.validation import (
    Sieve,
    key_of,
    readable_node,
    whole_node,
)
from slotq_core.adapters.dynamodb.reading.pool_reading import PAUSES, PoolReader, Read
from slotq_core.errors import Unavailable
from slotq_core.model.demand import Demand
from slotq_core.model.nodes import Node
from slotq_core.model.pools import Pool

_LOST = "its node has a slot in the pool's ledger, but no record"


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolNodes:
    """The nodes of a pool."""

    read: Read
    """The pool as of the same moment or before."""
    nodes: tuple[Node, ...]
    lost: Demand
    """The slots of nodes that cannot be read."""
    sieve: Sieve


class NodeReader:
    """Reads the nodes of pools whose ledgers count any: no call for other pools.

    Read after the pool: a job that has left its node since is still in the pool's partition as
    read, and waits in its line when that is read.
    """

    def __init__(
        self, calls: TableCalls, pools: PoolReader, pause: Callable[[float], None]
    ) -> None:
        self._calls, self._pools, self._pause = calls, pools, pause

    def read(self, pool: Pool, read: Read) -> PoolNodes:
        """Return the nodes of a pool, and the pool itself, read again if they do not agree: a node
        has started or ended between the two reads, or its transaction was half visible. A node that
        stays without a readable record is lost. Raises Unavailable if they keep changing."""
        for pause in PAUSES:
            if pause:
                self._pause(pause)
            partition = expressions.partition(table.nodes_partition(pool.name))
            items = {key_of(item)[1]: item for item in self._calls.query(partition)}
            missing = [node for node in read[0].nodes if not _is_of(items.get(node.name), node)]
            if not missing:
                return _found(read, items)
            again = self._pools.reread(pool)
            if again[0].nodes == read[0].nodes and pause:
                return _found(again, items)
            read = again
        raise Unavailable(f"pool {pool.name}: its ledger and its nodes do not agree")


def _is_of(item: Item | None, node: Node) -> bool:
    """Whether the item is of this generation of the node, or cannot be read."""
    found = whole_node(item)
    return item is not None and (found is None or found.generation == node.generation)


def _found(read: Read, items: dict[str, Item]) -> PoolNodes:
    """Return the nodes of these items that hold slots of the pool."""
    sieve, nodes, lost = Sieve(), [], Demand()
    for started in read[0].nodes:
        item = items.get(started.name)
        if item is None or not _is_of(item, started):
            sieve.note(table.node_key(started.pool, started.name), _LOST)
            lost += started.demand
            continue
        found = sieve.read([item], readable_node)
        nodes += found
        lost += Demand() if found else started.demand
    return PoolNodes(read=read, nodes=tuple(nodes), lost=lost, sieve=sieve)
