"""Look at the reports of nodes: at one because its agent asks for it, at all with each tick."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from slotq_core.errors import NoSuchNode
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Finding
from slotq_core.ports.surroundings import Clock

if TYPE_CHECKING:
    from slotq_core.operations.nodes.reports import Reports


class NodeReading:
    def __init__(
        self, store: Store, clock: Clock, reports: Callable[[], Reports], wake: Callable[[], None]
    ) -> None:
        self._store, self._clock, self._reports, self._wake = store, clock, reports, wake

    def look_at(self, pool: str, name: str) -> int:
        """Take in what a node reports, and ask for a pass where one may now decide differently.
        Returns the report's number; 0: there is none, or it lacks the node's proof. Raises
        NoSuchNode, Unavailable and NotUnderstood."""
        node = self._store.nodes.get(pool, name)
        if node is None:
            raise NoSuchNode(f"there is no node '{name}' in pool '{pool}'", field="name")
        taken = self._reports().take_in(node)
        if taken.calls_for_pass:
            self._wake()
        return taken.number

    def look_at_all(self, until: int) -> Sequence[Finding]:
        """Take in what all nodes report, until a time (ms). Returns the findings. Raises
        Unavailable."""
        nodes = self._store.worlds.nodes(self._clock.now())
        taken = self._reports().take_in_all(nodes, until=until) if nodes else ()
        return [finding for one in taken for finding in one.findings]
