"""Nobody is started by one plan to be evicted by the next one of the same moment.

The plan is the net effect, whoever comes above its share in it. That a world comes to the same end
in the simulation and in the queue does not tell: both would do it.
"""

from __future__ import annotations

from slotq.simulate.engine import Watcher
from slotq_core.model.jobs import Job
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.plan import Evict, Move, Plan, Start, StartGang


def stopped(decision: Evict | Move) -> tuple[Job, ...]:
    """Those that are stopped by it."""
    if isinstance(decision, Move):
        return tuple(job for job, _ in decision.moved)
    return tuple(decision.victims)


def nobody_starts_in_vain() -> Watcher:
    """For one simulation; asserts.

    What starts by its claim may be moved in the next moment: claims are not. And who was itself
    stopped in that moment, and stops at once, was not waiting when the plan was made; nor was one
    that others were stopped for, and whose claim was taken over then. Where a start has failed in
    that moment, the next plan is for another world.
    """
    started: dict[str, int] = {}
    new: dict[str, int] = {}
    free_to_move: set[str] = set()
    to_hold: set[str] = set()

    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        if to_hold - {job.name for job in snapshot.active}:
            started.clear()
        for decision in planned.decisions:
            if isinstance(decision, Evict | Move):
                came = new.get(decision.beneficiary.name) == now
                for waits in (decision.beneficiary, *stopped(decision)):
                    new[waits.name] = now
                for victim in stopped(decision):
                    moved = isinstance(decision, Move) and victim.name in free_to_move
                    assert moved or came or started.get(victim.name) != now, (victim.name, now)
        to_hold.clear()
        for start in _starts(planned):
            started[start.job.name] = now
            to_hold.add(start.job.name)
            if start.job.claim:
                free_to_move.add(start.job.name)

    return watch


def _starts(planned: Plan) -> list[Start]:
    return [
        start
        for decision in planned.decisions
        if isinstance(decision, Start | StartGang)
        for start in ((decision,) if isinstance(decision, Start) else decision.starts)
    ]
