"""The actions of one plan, each set up to look at its state."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from slotq_core.policy.actions.consolidate import Consolidation
from slotq_core.policy.actions.preempt import Preemption
from slotq_core.policy.actions.reclaim import Reclaims
from slotq_core.policy.actions.time_slice import TimeSlices
from slotq_core.policy.state.eligibility import Eligibility
from slotq_core.policy.state.plan_state import PlanState

if TYPE_CHECKING:
    from slotq_core.policy.actions.backfill import Backfill
    from slotq_core.policy.actions.nodes.node_moves import NodeConsolidation


class Rules:
    """Eligibility for starts, and the searches for victims."""

    def __init__(self, state: PlanState) -> None:
        self.eligible = Eligibility(state)
        self.slices = TimeSlices(state=state)
        self.preemption = Preemption(state=state)
        self.reclaims = Reclaims(state=state)
        self.consolidation = Consolidation(state=state)
        self._state = state

    @cached_property
    def backfill(self) -> Backfill:
        """Starts where a pool drains: only for a plan in which one does."""
        from slotq_core.policy.actions.backfill import Backfill

        return Backfill(self._state, self.eligible)

    @cached_property
    def node_moves(self) -> NodeConsolidation:
        """The moves between nodes: only for a plan that has nodes."""
        from slotq_core.policy.actions.nodes.node_moves import NodeConsolidation

        return NodeConsolidation(state=self._state)
