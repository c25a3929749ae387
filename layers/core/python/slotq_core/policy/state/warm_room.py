"""The warm instances of a pool during one plan.

Idle ones are free: whoever may start may have them, on them or once they are gone. Those that are
being released come free.
"""

from __future__ import annotations

from collections.abc import Sequence

from slotq_core.model.demand import NOTHING, Demand
from slotq_core.model.jobs import Job
from slotq_core.model.pools import Pool, WarmSlot
from slotq_core.policy.lifecycle.warm_slots import fits, is_kept
from slotq_core.policy.state.journal import Journal


class WarmRoom:
    """The warm slots of one pool, as far as the plan has not given them."""

    def __init__(self, pool: Pool, slots: Sequence[WarmSlot], now: int, journal: Journal) -> None:
        self.slots, self._journal = slots, journal
        self.idle = [slot for slot in slots if slot.idle and is_kept(slot, pool, now)]
        """Those that jobs may start on."""
        going = [slot for slot in slots if slot not in self.idle and slot.holds]
        self.held = Demand.total([slot.demand for slot in going])
        """What jobs cannot have now: being released, no longer kept, or taken by others."""
        self.coming = Demand.total([slot.demand for slot in going if not slot.reused_by])
        """The part of that which comes free."""
        self.released_for: dict[str, Demand] = {}
        """By job, the instances that are being released for it."""
        for slot in slots:
            if slot.releasing and slot.released_for:
                before = self.released_for.get(slot.released_for, NOTHING)
                self.released_for[slot.released_for] = before + slot.demand
        self._given: dict[str, int] = {}
        """By key, how many slots this plan has given."""

    def is_for(self, job: Job) -> bool:
        """Whether a slot is left that the job may start on."""
        matching = sum(fits(job, slot) for slot in self.idle)
        return matching > self._given.get(job.warm_key, 0)

    def give(self, job: Job, times: int = 1) -> None:
        """Count a slot as given to the job, or -1 times: as taken back."""
        if job.warm_key:
            given = self._given.get(job.warm_key, 0) + times
            self._journal.put(self._given, job.warm_key, given)
