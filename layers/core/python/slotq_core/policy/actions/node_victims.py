"""Victims on one node, for a job of its tenant.

"Jobs of strictly lower rank of the same project", on one node, the least harm over all nodes.
"""

from __future__ import annotations

from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job
from slotq_core.policy.actions.victim_search import better
from slotq_core.policy.actions.victims import Eviction, Shortfall, Shortfalls, one_by_one
from slotq_core.policy.order import rank
from slotq_core.policy.state.candidates import Candidate
from slotq_core.policy.state.nodes.node_index import NodeIndex
from slotq_core.policy.state.nodes.node_room import NodeRoom
from slotq_core.policy.state.pool_room import PoolRoom

MOST_NODES = 16
"""The most nodes with enough candidates to compare for one job: those whose first candidate is the
least harm."""

Victims = tuple[NodeRoom, tuple[Candidate, ...]]


def least_harmful(index: NodeIndex, job: Job, pool: PoolRoom, at_least: int = 0) -> Victims | None:
    """The node, and its jobs to evict, with the least harm that makes room for the job; None if no
    node can. `pool`: the pool of these nodes. `at_least`: the GPUs that they must give in any
    case."""
    own, able = rank(job), index.with_candidates()
    if not able:
        return None
    base = able[0].candidates[0].rank
    best: Victims | None = None
    least, compared = None, 0
    for room in able:
        if room.candidates[0].rank >= own or compared == MOST_NODES:
            break
        victims = _victims_on(room, job, at_least)
        if victims:
            compared += 1
            harm = Eviction(room=pool, victims=victims).harm(base)
            if least is None or harm < least:
                best, least = (room, victims), harm
    return best


def _victims_on(room: NodeRoom, job: Job, at_least: int) -> tuple[Candidate, ...]:
    """The jobs to evict on this node; empty: they are not enough, or none is needed."""
    missing = max(at_least, job.gpus - room.left(job))
    candidates = room.gives(job)
    if missing <= 0 or not room.ready or not room.takes(job, now=False):
        return ()
    if sum(c.slots for c in candidates) < missing:
        return ()
    shortfalls = Shortfalls(Shortfall(missing=Demand(gpus=missing), gives=_gpus))
    chosen = one_by_one(candidates, shortfalls)
    if chosen is None:
        return ()
    return better(chosen, candidates, shortfalls, candidates[0].rank)


def _gpus(candidate: Candidate) -> Demand:
    return Demand(gpus=candidate.slots)
