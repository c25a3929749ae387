"""Members of running gangs on nodes: who stops with whom.

Evicting one evicts the gang, wherever its members are: on one node, on several, on instances of
their own. So a gang is one candidate on each of its nodes, and goes with each node that is evicted
whole.

See docs/policy-decisions.md#nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from slotq_core.model.jobs import Job, JobState
from slotq_core.model.pools import Pool
from slotq_core.policy.order import rank
from slotq_core.policy.state.candidates import (
    Candidate,
    Place,
    candidate_of,
    may_be_stopped,
    protection,
)
from slotq_core.policy.state.groups.gangs import LiveGang
from slotq_core.policy.state.may_evict import MayEvict
from slotq_core.policy.state.nodes.node_jobs import NodeName, Occupied
from slotq_core.policy.state.nodes.node_room import NodeRoom
from slotq_core.policy.state.pool_room import PoolRoom

if TYPE_CHECKING:
    from slotq_core.policy.state.nodes.nodes import Nodes


class GangMembers:
    """The gangs of a snapshot that have members on nodes."""

    def __init__(
        self,
        gangs: Mapping[str, LiveGang],
        found: Iterable[Occupied],
        pools: Mapping[str, Pool],
        minima: Mapping[str, int],
        now: int,
        *,
        may_evict: MayEvict,
    ) -> None:
        """`minima`: the `min_runtime` of projects (ms)."""
        self._may_evict = may_evict
        self._pools, self._minima, self._now = pools, minima, now
        self._starts = {name: pool.health.start_time for name, pool in pools.items()}
        jobs = [job for on_it in found for job in (*on_it.jobs, *on_it.claimants)] if gangs else []
        self._gangs = {job.group: gangs[job.group] for job in jobs if job.group in gangs}
        self.lowest = {name: min(gang.ranked, key=rank) for name, gang in self._gangs.items()}
        """By gang, the member whose rank is the gang's."""
        self._places = {name: [*_places(gang)] for name, gang in self._gangs.items()}
        self._spared: dict[str, tuple[bool, int | None]] = {}
        self.on_nodes = {
            name: on_nodes
            for name, places in self._places.items()
            if (on_nodes := tuple((job, at) for job, at in places if is_on_node(job)))
        }
        """By gang, the members that run on nodes, each with its node."""
        self._on: dict[str, dict[str, None]] = {}
        """By node, the gangs with members that run there, in the order of the gangs."""
        for name, on_nodes in self.on_nodes.items():
            for _, at in on_nodes:
                self._on.setdefault(at, {})[name] = None

    def on(self, key: NodeName) -> list[str]:
        """The gangs with members that run on the node."""
        return [*self._on.get(node_place(key), ())]

    def spared(self, name: str) -> tuple[bool, int | None]:
        """Whether the gang must not be stopped, and until when (ms) a `min_runtime` alone protects
        it."""
        if name not in self._spared:
            ends = []
            for job, _ in self._places[name]:
                if not may_be_stopped(job, self._may_evict):
                    self._spared[name] = True, None
                    break
                protected, until = self._protection(job)
                ends += [until] if protected else []
            else:
                known = [end for end in ends if end is not None]
                self._spared[name] = bool(ends), max(known) if known and known == ends else None
        return self._spared[name]

    def candidate(self, name: str, key: NodeName) -> Candidate | None:
        """The gang as a candidate on this node: it frees the GPUs of its members there."""
        if self.spared(name)[0]:
            return None
        places, own = self._places[name], node_place(key)
        here = [(job, key[0]) for job, at in places if at == own]
        elsewhere = tuple((job, at) for job, at in places if at != own)
        ranked = self._gangs[name].ranked
        whole = candidate_of(
            here, name, self._now, gang=True, ranked=ranked, others=elsewhere, starts=self._starts
        )
        return replace(whole, slots=sum(job.gpus for job, _ in here))

    def _protection(self, job: Job) -> tuple[bool, int | None]:
        pool = self._pools.get(job.attempt.pool) if job.attempt else None
        if pool is None:
            return False, None
        return protection(job, pool, self._minima.get(job.project, 0), self._now)


def is_on_node(job: Job) -> bool:
    return job.attempt is not None and bool(job.attempt.node)


def node_place(key: NodeName) -> str:
    """A node as the place of a job."""
    return "/".join(key)


def _places(gang: LiveGang) -> Iterable[Place]:
    """The members that have not stopped yet, each with its pool or node."""
    for job in gang.active:
        if job.attempt is not None and job.state is not JobState.STOPPING:
            attempt = job.attempt
            yield job, node_place((attempt.pool, attempt.node)) if attempt.node else attempt.pool


def nodes_of(gang: LiveGang, nodes: Nodes) -> Iterator[tuple[str, NodeRoom]]:
    """The nodes that waiting members of the gang may use, each with the members' tenant."""
    members = {
        (nodes.owner(job, pool), pool): job
        for job in gang.waiting
        if job.gpus
        for pool in job.pools
    }
    for (_, pool), job in members.items():
        index = nodes.index(job, pool)
        yield from ((job.tenant, room) for room in (index.rooms.values() if index else ()))


def evict_member(job: Job, nodes: Nodes, pool: PoolRoom) -> bool:
    """Evict the job, which runs on a node, with the members of its gang there. Return False if the
    plan evicts the whole node."""
    assert job.attempt is not None
    key = job.attempt.pool, job.attempt.node
    if key in nodes.evicted:
        return False
    room = nodes.rooms[key]
    if together := _as_one(job.group, room):
        nodes.evict(room, together)
    nodes.guard(room, pool)
    return True


def spare(gang: str, nodes: Nodes) -> None:
    """Evict the gang on no node any more in this plan."""
    for job, _ in nodes.members.on_nodes.get(gang, ()):
        assert job.attempt is not None
        room = nodes.rooms[job.attempt.pool, job.attempt.node]
        if together := _as_one(gang, room):
            nodes.evict(room, together, spared=True)


def _as_one(gang: str, room: NodeRoom) -> list[Candidate]:
    return [each for each in room.candidates if each.gang and each.name == gang]
