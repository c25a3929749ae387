"""What decisions change about nodes. Pure, but for the token of a new node.

A node that ends without jobs stops at once, if no job has come to it meanwhile. Otherwise it
drains, and stops when its last job has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from secrets import token_hex

from slotq_core.lifecycle import copied
from slotq_core.model.attempts import StopCause, StopOrder
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job
from slotq_core.model.nodes import Node, NodeState
from slotq_core.model.pools import Pool, gpus_of
from slotq_core.names import node_training_job
from slotq_core.operations.nodes.node_stops import LONGEST_RUNTIME, with_stop
from slotq_core.policy.plan import Decision, EndNode, Evict, Move, NodeEnd, StartNode
from slotq_core.policy.state.nodes.node_jobs import NodeName, slot_of
from slotq_core.ports.stored import NodeChange

NewToken = Callable[[], str]
"""Returns a new secret token each time."""


def by_chance() -> str:
    """Return 64 random hexadecimal digits."""
    return token_hex(32)


def busy_nodes(active: Iterable[Job]) -> frozenset[NodeName]:
    """The nodes that jobs are on."""
    return frozenset(
        (job.attempt.pool, job.attempt.node) for job in active if job.attempt and job.attempt.node
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeSteps:
    """The changes of nodes by the decisions of one plan."""

    pools: Mapping[str, Pool]
    busy: AbstractSet[NodeName]
    """The nodes that jobs were on when the plan was made."""
    new_token: NewToken

    def changes(
        self, decision: Decision, versions: Mapping[str, int], now: int
    ) -> tuple[NodeChange, ...]:
        """What a decision at `now` (ms) changes about nodes. `versions`: those of the pools'
        ledgers that the commit is conditioned on."""
        match decision:
            case StartNode(pool=pool):
                node = self._started(decision, versions[pool] + 1, now)
                return (NodeChange(before=None, after=node),)
            case EndNode(node=node, cause=cause, by=by):
                order = StopOrder(cause=StopCause.EVICTED, by=by or _REASONS[cause], at=now)
                return self._ended(node, order)
            case Evict(beneficiary=job, nodes=nodes) | Move(beneficiary=job, nodes=nodes):
                order = StopOrder(cause=StopCause.EVICTED, by=job.name, at=now)
                return tuple(change for node in nodes for change in _drained(node, order))
        return ()

    def _started(self, start: StartNode, generation: int, now: int) -> Node:
        pool, token, job = self.pools[start.pool], self.new_token(), start.job
        shared = pool.nodes is not None and pool.nodes.shared
        slot = slot_of(pool)
        others = {name: amount for name, amount in slot.items() if name != "slots"}
        return Node(
            name=start.name,
            pool=start.pool,
            generation=generation,
            state=NodeState.STARTING,
            tenant=job.tenant,
            project="" if shared else job.project,
            demand=slot,
            contents=Demand({**others, "gpus": gpus_of(pool)}),
            instance_type=pool.instance_type,
            training_job=node_training_job(start.pool, start.name, generation, token),
            token=token,
            started_for=job.name,
            started_at=now,
        )

    def _ended(self, node: Node, order: StopOrder) -> tuple[NodeChange, ...]:
        if (node.pool, node.name) in self.busy:
            return _drained(node, order)
        if node.state is NodeState.STOPPING:
            return ()
        return (NodeChange(before=node, after=with_stop(node, order), empty=True),)


_REASONS = {
    NodeEnd.KEEP_OVER: "the pool's keep",
    NodeEnd.NEEDED: "a need in another form",
    NodeEnd.LONGEST_RUNTIME: LONGEST_RUNTIME,
    NodeEnd.UNNEEDED: "a pool that is drained, without nodes, or of another instance type",
}
"""For people: what a node makes room for, where it makes room for no job."""


def _drained(node: Node, order: StopOrder) -> tuple[NodeChange, ...]:
    if node.state in {NodeState.DRAINING, NodeState.STOPPING}:
        return ()
    after = copied(node, state=NodeState.DRAINING, stop=order)
    return (NodeChange(before=node, after=after),)
