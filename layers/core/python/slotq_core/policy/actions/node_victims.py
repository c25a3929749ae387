"""Victims on one node, for a job of its tenant.

"Jobs of strictly lower rank of the same project", on one node, the least harm over all nodes. For a
part of a GPU they make room on one GPU. For whole GPUs a GPU with parts comes free only whole: its
jobs are one candidate.

See docs/policy-decisions.md#nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slotq_core.gpu_amounts import WHOLE, Gpus
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job
from slotq_core.policy.actions.victim_search import better
from slotq_core.policy.actions.victims import Eviction, Shortfall, Shortfalls, one_by_one
from slotq_core.policy.order import rank
from slotq_core.policy.state.candidates import Candidate
from slotq_core.policy.state.nodes.node_index import NodeIndex
from slotq_core.policy.state.nodes.node_room import NodeRoom, held_by
from slotq_core.policy.state.pool_room import PoolRoom

MOST_NODES = 16
"""The most nodes with enough candidates to compare for one job: those whose first candidate is the
least harm."""

Victims = tuple[NodeRoom, tuple[Candidate, ...]]
Chosen = tuple[Candidate, ...]


def least_harmful(index: NodeIndex, job: Job, pool: PoolRoom, at_least: Gpus = 0) -> Victims | None:
    """The node, and its jobs to evict, with the least harm that makes room for the job; None if no
    node can. `pool`: the pool of these nodes. `at_least`: what they must give in any case."""
    own, able = rank(job), index.with_candidates()
    if not able:
        return None
    base = able[0].candidates[0].rank
    best: Victims | None = None
    least, compared = None, 0
    for room in able:
        if room.candidates[0].rank >= own or compared == MOST_NODES:
            break
        found = [*_victims_on(room, job, at_least)]
        compared += bool(found)
        for victims in found:
            harm = Eviction(room=pool, victims=victims).harm(base)
            if least is None or harm < least:
                best, least = (room, victims), harm
    return best


def _victims_on(room: NodeRoom, job: Job, at_least: Gpus) -> Iterator[Chosen]:
    """The jobs to evict on this node, for each GPU that a part could have; nothing: they are not
    enough, or none is needed."""
    if not room.ready or not room.outlasts(job):
        return
    able = room.gives(job)
    limits = Shortfall(missing=Demand(gpus=at_least), gives=_own)
    if not limits.can_be_met_by(able):
        return
    if room.fitting(job, now=False):
        if at_least > 0:
            yield from _chosen(able, limits)
    elif job.gpus % WHOLE:
        yield from _for_a_part(room, job, able, limits)
    else:
        yield from _for_whole_gpus(room, job, able, limits)


def _for_a_part(
    room: NodeRoom, job: Job, able: Sequence[Candidate], limits: Shortfall
) -> Iterator[Chosen]:
    """The victims on each GPU of the node."""
    place = Shortfall(missing=Demand(jobs=int(room.lacks_place(job))), gives=_place)
    for index, missing in enumerate(room.missing(job)):
        if missing <= 0:
            yield from _chosen(able, place, limits)
            continue

        def gives(candidate: Candidate, index: int = index) -> Demand:
            return Demand(gpus=held_by(candidate).get(index, 0))

        there = [candidate for candidate in able if index in held_by(candidate)]
        shortfall = Shortfall(missing=Demand(gpus=missing), gives=gives)
        if shortfall.can_be_met_by(there):
            yield from _chosen(able if limits.missing else there, shortfall, limits)


def _for_whole_gpus(
    room: NodeRoom, job: Job, able: Sequence[Candidate], limits: Shortfall
) -> Iterator[Chosen]:
    """The victims whose GPUs come free whole."""
    needed = job.gpus - room.left(job)
    if sum(candidate.slots for candidate in able) < needed:
        return
    place = Shortfall(missing=Demand(jobs=int(room.lacks_place(job))), gives=_place)
    if needed <= 0:
        yield from _chosen(able, place, limits)
        return
    cleared: dict[str, Gpus] = {}

    def gives(candidate: Candidate) -> Demand:
        return Demand(gpus=cleared.get(candidate.name, 0))

    missing, members = room.missing(job), _by_gpus(able)
    for candidate in members:
        cleared[candidate.name] = sum(
            WHOLE for n, amount in _held(members[candidate]).items() if 0 < missing[n] <= amount
        )
    shortfall = Shortfall(missing=Demand(gpus=needed), gives=gives)
    ordered = sorted(members, key=lambda candidate: candidate.order)
    if shortfall.can_be_met_by(ordered):
        for chosen in _chosen(ordered, shortfall, place, limits):
            yield tuple(single for candidate in chosen for single in members[candidate])


def _by_gpus(able: Sequence[Candidate]) -> dict[Candidate, Sequence[Candidate]]:
    """The candidates, those with parts of one GPU as one, each with the jobs that it stands for."""
    parts: dict[int, list[Candidate]] = {}
    found: dict[Candidate, Sequence[Candidate]] = {}
    for candidate in able:
        if candidate.slots < WHOLE:
            parts.setdefault(min(held_by(candidate)), []).append(candidate)
        else:
            found[candidate] = (candidate,)
    return found | {_together(sharing): sharing for sharing in parts.values()}


def _held(sharing: Sequence[Candidate]) -> dict[int, Gpus]:
    """What these candidates have of each GPU."""
    held: dict[int, Gpus] = {}
    for candidate in sharing:
        for index, amount in held_by(candidate).items():
            held[index] = held.get(index, 0) + amount
    return held


def _together(sharing: Sequence[Candidate]) -> Candidate:
    """Jobs that share a GPU as one candidate, of the rank of the highest."""
    return Candidate(
        name=sharing[-1].name,
        gang=False,
        places=tuple(place for candidate in sharing for place in candidate.places),
        rank=max(candidate.rank for candidate in sharing),
        entry_time=max(candidate.entry_time for candidate in sharing),
        unsaved=max(candidate.unsaved for candidate in sharing),
        lost=sum(candidate.lost for candidate in sharing),
        slots=sum(candidate.slots for candidate in sharing),
    )


def _chosen(candidates: Sequence[Candidate], *missing: Shortfall) -> Iterator[Chosen]:
    """The least harmful victims that give all of this."""
    shortfalls = Shortfalls(*missing)
    found = one_by_one(candidates, shortfalls)
    if found:
        yield better(found, candidates, shortfalls, candidates[0].rank)


def _own(candidate: Candidate) -> Demand:
    """What the candidate's jobs have, wherever on the node."""
    return Demand(gpus=candidate.slots)


def _place(candidate: Candidate) -> Demand:
    return Demand(jobs=len(candidate.places))
