"""Victims on one node, for a job of its tenant.

"Jobs of strictly lower rank of the same project", on one node, the least harm over all nodes. For a
part of a GPU they make room on one GPU. For whole GPUs a GPU with parts comes free only whole: its
jobs are one candidate. Where projects share the node, what the job takes beyond its project's fair
share has to come from these (`Shares.beyond`).

See docs/policy-decisions.md#nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

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


class Way(NamedTuple):
    """One way to make room on a node."""

    candidates: Sequence[Candidate]
    """In the order of eviction."""
    missing: tuple[Shortfall, ...]
    """What they must give."""
    members: Mapping[Candidate, Sequence[Candidate]]
    """The jobs of candidates that stand for several."""

    def single(self, chosen: Sequence[Candidate]) -> Chosen:
        """The chosen candidates, each job by itself."""
        return tuple(
            one for candidate in chosen for one in self.members.get(candidate, (candidate,))
        )


def least_harmful(
    index: NodeIndex,
    job: Job,
    pool: PoolRoom,
    at_least: Gpus = 0,
    besides: Sequence[Shortfall] = (),
) -> Victims | None:
    """The node, and its jobs to evict, with the least harm that makes room for the job; None if no
    node can. `pool`: the pool of these nodes. `at_least`: what they must give in any case.
    `besides`: what else they must give."""
    own, able = rank(job), index.with_candidates()
    if not able:
        return None
    base = able[0].candidates[0].rank
    best: Victims | None = None
    least, compared = None, 0
    for room in able:
        if room.candidates[0].rank >= own or compared == MOST_NODES:
            break
        found = [
            way.single(chosen)
            for way in ways(room, job, room.gives(job), at_least, besides)
            if (chosen := _chosen(way))
        ]
        compared += bool(found)
        for victims in found:
            harm = Eviction(room=pool, victims=victims).harm(base)
            if least is None or harm < least:
                best, least = (room, victims), harm
    return best


def ways(
    room: NodeRoom,
    job: Job,
    able: Sequence[Candidate],
    at_least: Gpus = 0,
    besides: Sequence[Shortfall] = (),
) -> Iterator[Way]:
    """The ways in which these candidates might make room for the job: for a part of a GPU one for
    each GPU. None if they are not enough or none is needed. `at_least`, `besides`: as in
    `least_harmful`."""
    if not room.ready or not room.entrance.takes(job, now=False):
        return
    limits = (Shortfall(missing=Demand(gpus=at_least), gives=_own), *besides)
    limits = tuple(limit for limit in limits if limit.missing)
    if not all(limit.can_be_met_by(able) for limit in limits):
        return
    if room.fitting(job, now=False):
        if limits:
            yield Way(able, limits, {})
    elif job.gpus % WHOLE:
        yield from _for_a_part(room, job, able, limits)
    else:
        yield from _for_whole_gpus(room, job, able, limits)


def _for_a_part(
    room: NodeRoom, job: Job, able: Sequence[Candidate], limits: tuple[Shortfall, ...]
) -> Iterator[Way]:
    """A way for each GPU of the node."""
    place = Shortfall(missing=Demand(jobs=int(room.lacks_place(job))), gives=_place)
    for index, missing in enumerate(room.missing(job)):
        if missing <= 0:
            yield Way(able, (place, *limits), {})
            continue

        def gives(candidate: Candidate, index: int = index) -> Demand:
            return Demand(gpus=held_by(candidate).get(index, 0))

        there = [candidate for candidate in able if index in held_by(candidate)]
        shortfall = Shortfall(missing=Demand(gpus=missing), gives=gives)
        if shortfall.can_be_met_by(there):
            yield Way(able if limits else there, (shortfall, *limits), {})


def _for_whole_gpus(
    room: NodeRoom, job: Job, able: Sequence[Candidate], limits: tuple[Shortfall, ...]
) -> Iterator[Way]:
    """GPUs that come free whole."""
    needed = job.gpus - room.left(job)
    if sum(candidate.slots for candidate in able) < needed:
        return
    place = Shortfall(missing=Demand(jobs=int(room.lacks_place(job))), gives=_place)
    if needed <= 0:
        yield Way(able, (place, *limits), {})
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
        yield Way(ordered, (shortfall, place, *limits), members)


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
        cost=max(candidate.cost for candidate in sharing),
        slot_cost=sum(candidate.slot_cost for candidate in sharing),
        slots=sum(candidate.slots for candidate in sharing),
        others=tuple(place for candidate in sharing for place in candidate.others),
    )


def _chosen(way: Way) -> Chosen:
    """The least harmful victims that give all that is missing; empty: they are not enough."""
    shortfalls = Shortfalls(*way.missing)
    found = one_by_one(way.candidates, shortfalls)
    return better(found, way.candidates, shortfalls, way.candidates[0].rank) if found else ()


def _own(candidate: Candidate) -> Demand:
    """What the candidate's jobs have, wherever on the node."""
    return Demand(gpus=candidate.slots)


def _place(candidate: Candidate) -> Demand:
    return Demand(jobs=len(candidate.places))
