"""Nobody is started by one plan to be evicted by the next one of the same moment.

The plan is the net effect, whoever comes above its share in it. That a world comes to the same end
in the simulation and in the queue does not tell: both would do it.
"""

from __future__ import annotations

from slotq.simulate.run.engine import Watcher
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

    Between the two plans there is no news: where a start has failed in that moment, or somebody
    was stopped and has stopped at once, the next plan is for another world. What starts by its
    claim may be moved all the same: claims are not. And one that others were stopped for, and whose
    claim was taken over then, may evict who came since.
    """
    started: dict[str, int] = {}
    new: dict[str, int] = {}
    free_to_move: set[str] = set()
    held: dict[str, int] = {}

    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        holding = {job.name for job in snapshot.active}
        if any(at == now and name not in holding for name, at in held.items()):
            started.clear()
        held.clear()
        held.update(dict.fromkeys(holding, now))
        for decision in planned.decisions:
            if isinstance(decision, Evict | Move):
                came = new.get(decision.beneficiary.name) == now
                new[decision.beneficiary.name] = now
                for victim in stopped(decision):
                    moved = isinstance(decision, Move) and victim.name in free_to_move
                    assert moved or came or started.get(victim.name) != now, (victim.name, now)
        for start in _starts(planned):
            started[start.job.name] = held[start.job.name] = now
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
