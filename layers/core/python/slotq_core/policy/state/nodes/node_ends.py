"""Which nodes end, and the decisions of a plan in terms of nodes.

A node ends when it has had no jobs for as long as its pool keeps one, before SageMaker would stop
it, and when a job needs its instance in another form. Nothing ends for a job that has not, with
this node's instance, all that it needs.

See docs/policy-decisions.md#nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from slotq_core.lifecycle import copied
from slotq_core.model.nodes import Node, NodeState
from slotq_core.model.pools import Pool, PoolState
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.plan import Decision, EndNode, Evict, Move, NodeEnd, Start, StartNode
from slotq_core.policy.state.nodes.node_jobs import NodeName, leaving, occupied
from slotq_core.policy.state.nodes.node_room import NodeRoom, claim_to
from slotq_core.policy.state.nodes.nodes import Nodes
from slotq_core.policy.state.pool_room import PoolRoom


def nodes_end(snapshot: Snapshot, now: int) -> Iterator[int]:
    """When (ms) nodes end if nothing else happens."""
    pools = {pool.name: pool for pool in snapshot.pools}
    nodes = occupied(snapshot)
    leave = leaving(snapshot, nodes)
    for found in nodes.values():
        if found.node.state in {NodeState.STARTING, NodeState.READY}:
            kept = _kept_until(found.node, pools, leave) if found.empty else None
            yield from (at for at in (kept, found.node.leaves_at) if at is not None and at > now)


def idle_ends(snapshot: Snapshot, now: int) -> tuple[EndNode, ...]:
    """The ends of nodes where no job waits."""
    pools = {pool.name: pool for pool in snapshot.pools}
    nodes = occupied(snapshot)
    found = [(each.node, each.empty) for _, each in sorted(nodes.items())]
    return tuple(_ends(found, pools, leaving(snapshot, nodes), now))


def with_nodes(
    decided: Iterable[Decision], nodes: Nodes, rooms: Mapping[str, PoolRoom], now: int
) -> list[Decision]:
    """The decisions of a plan, in terms of nodes, and the ends of nodes."""
    said = [_said(decision, nodes, now) for decision in decided]
    evicted = {
        (node.pool, node.name)
        for decision in said
        if isinstance(decision, Evict | Move)
        for node in decision.nodes
    }
    spare: dict[str, list[NodeRoom]] = {}
    for found in nodes.rooms.values():
        if found.empty and found.node is not None:
            spare.setdefault(found.pool, []).append(found)
    needed = [end for pool in sorted(spare) for end in _needed(rooms[pool], spare[pool])]
    gone = {(end.node.pool, end.node.name) for end in needed} | evicted
    others = (
        (room.node, room.empty)
        for key, room in sorted(nodes.rooms.items())
        if room.node and key not in gone
    )
    pools = {name: room.pool for name, room in rooms.items()}
    return [*said, *needed, *_ends(others, pools, nodes.leaving, now)]


def _said(decision: Decision, nodes: Nodes, now: int) -> Decision:
    match decision:
        case Start(job=job, pool=pool, classed=classed, node=None) if job.name in nodes.begun:
            room = nodes.begun[job.name]
            counted = classed.priority_class if classed else ""
            claim = claim_to(room, job, counted, now)
            return StartNode(job=job, pool=pool, name=room.name, claim=claim)
        case Evict(victims=victims):
            ended = tuple(node for victim in victims if (node := nodes.stand_ins.node_of(victim)))
            if ended:
                gone = tuple(job for victim in victims for job in nodes.stand_ins.jobs_on(victim))
                return copied(decision, victims=gone, nodes=ended)
    return decision


def _needed(room: PoolRoom, spare: list[NodeRoom]) -> Iterator[EndNode]:
    """The ends of those of a pool's nodes without jobs whose instances are held for jobs of this
    plan."""
    taken = min(len(spare), len(spare) - room.coming.slots)
    spare.sort(key=lambda found: (found.node and _idle_since(found.node), found.name))
    holders = [*reversed(room.awaiting)]
    for place, found in enumerate(spare[: max(0, taken)]):
        by = holders[min(place, len(holders) - 1)].name if holders else ""
        if found.node:
            yield EndNode(node=found.node, cause=NodeEnd.NEEDED, by=by)


def _ends(
    nodes: Iterable[tuple[Node, bool]],
    pools: Mapping[str, Pool],
    leave: frozenset[NodeName],
    now: int,
) -> Iterator[EndNode]:
    """The ends that follow from the clock and the pools. Each node says whether it is empty."""
    for node, empty in nodes:
        if node.state not in {NodeState.STARTING, NodeState.READY}:
            continue
        kept = _kept_until(node, pools, leave)
        if node.leaves_at is not None and node.leaves_at <= now:
            yield EndNode(node=node, cause=NodeEnd.LONGEST_RUNTIME)
        elif empty and kept is None:
            yield EndNode(node=node, cause=NodeEnd.UNNEEDED)
        elif empty and kept is not None and kept <= now:
            yield EndNode(node=node, cause=NodeEnd.KEEP_OVER)


def _kept_until(node: Node, pools: Mapping[str, Pool], leave: frozenset[NodeName]) -> int | None:
    """Until when (ms) the pool keeps the node without jobs; None: no longer."""
    pool = pools[node.pool]
    rules = None if pool.state is PoolState.DRAINED else pool.nodes
    if rules is None or (node.pool, node.name) in leave:
        return None
    return _idle_since(node) + rules.keep


def _idle_since(node: Node) -> int:
    """Since when (ms) the node has no jobs. One that never had any counts from its start."""
    return node.idle_since or node.running_since or node.started_at
