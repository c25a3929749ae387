"""The documents of nodes in memory."""

from __future__ import annotations

from slotq_core.adapters.nodes.documents import folder, launched, lease_of
from slotq_core.errors import Conflict, Unavailable
from slotq_core.model.nodes import Node
from slotq_core.model.pools import NodeRules
from slotq_core.ports.nodes import Document, Launch
from slotq_core.ports.surroundings import Clock


class MemoryNodeDocuments:
    """The fake of `ports.nodes.NodeDocuments`."""

    def __init__(self, clock: Clock, *, bucket: str = "nodes", route: str = "") -> None:
        self._clock = clock
        self._bucket, self._route = bucket, route
        self._objects: dict[str, Document] = {}
        self._writes = 0
        self.out_of_reach = False
        """Whether nothing can be read or written, as if S3 did not answer."""
        self.calls: list[str] = []
        """The calls made, in their order: `GET` or `PUT`, and the key."""

    def launch(self, node: Node, rules: NodeRules) -> Launch:
        self._called("PUT", "agent")
        return launched(node, rules, bucket=self._bucket, route=self._route, lease=self.lease())

    def lease(self) -> int:
        return lease_of(self._route)

    def orders(self, node: Node) -> Document | None:
        return self._get(_orders(node))

    def put_orders(self, node: Node, content: bytes, *, replaces: str | None) -> None:
        key = _orders(node)
        self._called("PUT", key)
        found = self._objects.get(key)
        if (found.version if found else None) != replaces:
            raise Conflict(f"{key}: others have been written meanwhile")
        self._put(key, content)

    def report(self, node: Node) -> Document | None:
        return self._get(_report(node))

    def write_report(self, node: Node, content: bytes) -> None:
        """Write a report now, as anybody with the rights of the node's jobs can."""
        self._put(_report(node), content)

    def lose_orders(self, node: Node) -> None:
        """Remove the orders, as an operator of the bucket can."""
        del self._objects[_orders(node)]

    def _get(self, key: str) -> Document | None:
        self._called("GET", key)
        return self._objects.get(key)

    def _put(self, key: str, content: bytes) -> None:
        self._writes += 1
        version, now = f'"{self._writes}"', self._clock.now()
        self._objects[key] = Document(content=content, version=version, written_at=now)

    def _called(self, word: str, key: str) -> None:
        self.calls.append(f"{word} {key}")
        if self.out_of_reach:
            raise Unavailable(f"S3 {word} {key}: EndpointConnectionError")


def _orders(node: Node) -> str:
    return f"{folder(node)}/orders.json"


def _report(node: Node) -> str:
    return f"{folder(node)}/report.json"
