"""The nodes on DynamoDB (`ports.decisions.Nodes`)."""

from __future__ import annotations

from collections.abc import Sequence

from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.layout import ledger_expressions, table
from slotq_core.adapters.dynamodb.layout.validation import attempts_on, whole_node
from slotq_core.errors import NotUnderstood
from slotq_core.model.nodes import Node


class DynamoNodes:
    def __init__(self, calls: TableCalls) -> None:
        self._calls = calls

    def get(self, pool: str, name: str) -> Node | None:
        item = self._calls.item(table.node_key(pool, name))
        node = whole_node(item)
        if item is not None and node is None:
            raise NotUnderstood(f"the record of node {name} in pool {pool} cannot be read")
        return node

    def jobs(self, node: Node) -> dict[str, int]:
        return attempts_on(self._calls.item(_key(node)), node.generation)

    def note_report(
        self, node: Node, number: int, *, at: int, lease_until: int, problems: Sequence[str] = ()
    ) -> None:
        noted = ledger_expressions.note_report(
            node.generation, number, at=at, lease_until=lease_until, problems=problems
        )
        self._calls.update(_key(node), noted)


def _key(node: Node) -> table.Key:
    return table.node_key(node.pool, node.name)
