"""A plan starts no job that the next plan of the same moment evicts.

The plan is the net effect, even where a job exceeds its share within it. Comparing the simulation
with the queue does not show this, because both would do it.
"""

from __future__ import annotations

from slotq.simulate.run.engine import Watcher
from slotq_core.model.jobs import Job
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.plan import Evict, Move, Plan, Start, StartGang


def stopped(decision: Evict | Move) -> tuple[Job, ...]:
    """The jobs that the plan stops."""
    if isinstance(decision, Move):
        return tuple(job for job, _ in decision.moved)
    return tuple(decision.victims)


def nobody_starts_in_vain() -> Watcher:
    """Watch one simulation; asserts.

    Between the two plans nothing may have changed: after a failed start, or a stop that ended in
    the same moment, the next plan is for another world. A job that starts by its claim may still be
    moved, because claims may. A job for which others were stopped, and whose claim was then taken
    over, may evict a job that came since.
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
