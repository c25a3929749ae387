"""Warm instances on a virtual clock: attempts leave them, jobs start on them, and they go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from slotq.simulate.run.agenda import Agenda, Due
from slotq.simulate.run.record import KeptWarm
from slotq_core.lifecycle import copied
from slotq_core.model.attempts import Attempt
from slotq_core.model.jobs import Job
from slotq_core.model.pools import Pool, WarmSlot
from slotq_core.policy.lifecycle.apply import warm_steps
from slotq_core.policy.lifecycle.warm_slots import left_by
from slotq_core.policy.plan import Decision


class SimulatedWarm:
    """The warm slots of a run, by training job."""

    def __init__(
        self, release_times: Mapping[str, int], agenda: Agenda, record: dict[str, KeptWarm]
    ) -> None:
        """`release_times`: how long it takes until released instances are gone (ms), by pool.
        `record` gets the time that instances were warm."""
        self._release_times, self._agenda, self._record = release_times, agenda, record
        self._slots: dict[str, WarmSlot] = {}

    def all(self) -> tuple[WarmSlot, ...]:
        return tuple(self._slots.values())

    def go_on(self, slots: Iterable[WarmSlot], begins: int) -> None:
        """Take in the slots that there are at the beginning. What runs there outside the queue
        never ends."""
        for slot in slots:
            if slot.reused_by:
                self._slots[slot.training_job] = slot
                continue
            gone = slot.until
            if slot.releasing:
                gone = min(gone, begins + self._release_times.get(slot.pool, 0))
            self._keep(copied(slot, until=max(begins, gone)))

    def _keep(self, slot: WarmSlot) -> None:
        self._slots[slot.training_job] = slot
        self._note(slot, slot.until)
        self._agenda.put(slot.until, Due.WARM, slot.training_job)

    def leave(self, job: Job, ended: Attempt) -> None:
        """Take in the end of an attempt. `job`: as it ran."""
        if (slot := left_by(job, ended)) is not None:
            self._keep(slot)

    def carry_out(self, decision: Decision, now: int) -> None:
        """Start jobs on warm instances, and release some, as decided."""
        for _, after in warm_steps(decision, now):
            if after.taken_by:
                del self._slots[after.training_job]
                self._note(after, now)
                continue
            gone = min(after.until, now + self._release_times.get(after.pool, 0))
            self._keep(copied(after, until=gone, sent=True))

    def _note(self, slot: WarmSlot, until: int) -> None:
        self._record[slot.training_job] = KeptWarm(
            pool=slot.pool, slots=slot.demand.slots, since=slot.since, until=until
        )

    def go(self, training_job: str, now: int) -> None:
        """Let the instances go whose time is over."""
        slot = self._slots.get(training_job)
        if slot is not None and slot.until <= now:
            del self._slots[training_job]


def with_warm_key(job: Job, role: str, pools: Iterable[Pool]) -> Job:
    """The job with its key, where one of its pools keeps instances warm: jobs of one role and size
    are alike."""
    kept = any(pool.keep_warm is not None for pool in pools if pool.name in job.pools)
    return copied(job, warm_key=f"{role}:{job.demand.slots}") if kept and not job.parts else job
