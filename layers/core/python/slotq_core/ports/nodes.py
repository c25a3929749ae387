"""What the queue and the agents of its nodes write for each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from slotq_core.model.nodes import Node
from slotq_core.model.pools import NodeRules


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """A document of a node, as it was read."""

    content: bytes
    version: str
    """Changes with each write (S3's ETag)."""
    written_at: int
    """When it was written, by the bucket's clock (ms)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    """What a node's training job runs, in the words of a CreateTrainingJob request."""

    entrypoint: tuple[str, ...]
    """ContainerEntrypoint."""
    environment: Mapping[str, str]


class NodeDocuments(Protocol):
    """The documents of nodes, in the bucket of the deployment. One object each for each generation
    of a node. Methods raise Unavailable."""

    def launch(self, node: Node, rules: NodeRules) -> Launch:
        """Return what starts the agent on this node. Its file is in the bucket from then on."""

    def lease(self) -> int:
        """Return how long (s) a node may run jobs without another report."""

    def orders(self, node: Node) -> Document | None:
        """Return the orders that this generation of the node has; None: none yet."""

    def put_orders(self, node: Node, content: bytes, *, replaces: str | None) -> None:
        """Write orders in place of those of this version (None: there are none). Raises Conflict if
        others have been written meanwhile."""

    def report(self, node: Node) -> Document | None:
        """Return the last report of this generation of the node, unchecked; None: none yet."""
