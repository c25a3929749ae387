"""Change one node while others change it, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from slotq_core.errors import Conflict
from slotq_core.lifecycle import copied
from slotq_core.model.nodes import Node
from slotq_core.ports.store import Store
from slotq_core.ports.stored import NodeChange

_TRIES = 20
"""How often a conditional change of one node is tried."""


class ChangedNode(NamedTuple):
    """A node before and after a change; the same if nothing was left to change."""

    before: Node
    after: Node


class NodeChanges:
    def __init__(self, store: Store) -> None:
        self._store = store

    def one(self, node: Node, change: Callable[[Node], Node | None]) -> ChangedNode | None:
        """Change this generation of the node; retry on conflicts. `change` returns None if nothing
        is left to change, and may be called for a newer record again. Returns None if the node has
        ended. Raises Conflict after many conflicts."""
        found: Node | None = node
        for _ in range(_TRIES):
            if found is None:
                return None
            after = change(found)
            if after is None:
                return ChangedNode(found, found)
            try:
                self._store.decisions.commit([], nodes=[NodeChange(before=found, after=after)])
            except Conflict:
                found = self.same(node)
                continue
            return ChangedNode(found, copied(after, version=found.version + 1))
        raise Conflict(f"node {node.pool}/{node.name} changed {_TRIES} times in a row")

    def same(self, node: Node) -> Node | None:
        """Return the node as it is now; None if this generation has ended."""
        found = self._store.nodes.get(node.pool, node.name)
        return found if found is not None and found.generation == node.generation else None
