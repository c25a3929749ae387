"""Broken variants of what keeps the promises through the life of a node."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from slotq_core.model.nodes import Node
from slotq_core.operations.nodes import node_effects
from slotq_core.operations.nodes.ended_nodes import NodeEnding
from slotq_core.operations.nodes.node_drift import NodeDrift
from slotq_core.operations.nodes.node_effects import NodeEffects
from tests.faults.crashes import SILENT
from tests.faults.mutants import Mutant, crash, undisturbed
from tests.faults.promises import CAPACITY, CONVERGENT

REFUSED, OUTLIVES = "a_node_is_refused_once_and_never_reports", "a_node_outlives_its_job"


def _slots_come_free_at_the_stop() -> AbstractContextManager[Any]:
    right = NodeEffects._stop

    def wrong(self: NodeEffects, node: Node) -> None:
        right(self, node)
        self._ended.end(node, NodeEnding())

    return patch.object(NodeEffects, "_stop", wrong)


def _nobody_repeats_an_intent() -> AbstractContextManager[Any]:
    return patch.object(node_effects, "is_dead", lambda *_: False)


def _nobody_asks_for_nodes() -> AbstractContextManager[Any]:
    return patch.object(NodeDrift, "to_be_asked_for", lambda *_: ())


MUTANTS = (
    Mutant(
        "the slot of a node comes free at its stop",
        _slots_come_free_at_the_stop,
        undisturbed(REFUSED, lambda _: ""),
        CAPACITY,
    ),
    Mutant(
        "nobody repeats the start of a node",
        _nobody_repeats_an_intent,
        crash(OUTLIVES, SILENT),
        CONVERGENT,
    ),
    Mutant(
        "the end of a node without an event is never found",
        _nobody_asks_for_nodes,
        crash(OUTLIVES, SILENT),
        CONVERGENT,
    ),
)
