"""The actions of one plan, each set up to look at its state."""

from __future__ import annotations

from slotq_core.policy.actions.consolidate import Consolidation
from slotq_core.policy.actions.entitlement import Entitlement
from slotq_core.policy.actions.preempt import Preemption
from slotq_core.policy.actions.reclaim import Reclaims
from slotq_core.policy.actions.time_slice import TimeSlices
from slotq_core.policy.state.eligibility import Eligibility
from slotq_core.policy.state.plan_state import PlanState


class Rules:
    """Who may start where, who may take over whose claim, and the searches for victims."""

    def __init__(self, state: PlanState) -> None:
        self.eligible = Eligibility(state)
        self.entitled = Entitlement(state)
        self.slices = TimeSlices(state=state, entitled=self.entitled)
        self.preemption = Preemption(state=state, entitled=self.entitled)
        self.reclaims = Reclaims(state=state, entitled=self.entitled)
        self.consolidation = Consolidation(state=state, entitled=self.entitled)
