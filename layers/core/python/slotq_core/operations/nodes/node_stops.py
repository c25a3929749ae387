"""When a node is stopped, and why: pure.

The queue first orders the agent to leave: the agent ends its jobs as an eviction would, and its
training job ends by itself. `LEAVE_WITHIN` later the queue calls StopTrainingJob. An agent that the
queue has not heard gets no order.

A node without a lease has no jobs any more, because its agent ends them. So silence costs no
work, but nobody else may run those jobs before SageMaker says that the training job has ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from slotq_core.lifecycle import copied
from slotq_core.model.attempts import StopCause, StopOrder
from slotq_core.model.nodes import Node, NodeState
from slotq_core.model.pools import Pool
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.state.nodes.node_jobs import NodeName
from slotq_core.timestamps import FAR_OFF

LEAVE_WITHIN = 60_000
"""How long (ms) an agent has to leave before StopTrainingJob."""

SILENCE_MARGIN = 60_000
"""How long (ms) beyond its lease a node counts as alive: handlers' clocks differ, and a report may
wait for the next tick."""

READY_WITHIN = 900_000
"""How long (ms) an instance may run before its agent is ready. SageMaker fetches the image in this
time."""

LAST_CALL = 3_600_000
"""How long (ms) before SageMaker's longest runtime a node starts no more jobs."""

LAST_ORDER = LAST_CALL // 2
"""How long (ms) before SageMaker's longest runtime a node's last jobs are evicted."""

LONGEST_RUNTIME = "SageMaker's longest runtime"
"""For people: what a node, and its last jobs, are stopped for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DueStop:
    """A node that is to be stopped."""

    node: Node
    order: StopOrder
    silent: bool = False
    """Whether the queue has not heard the node: another look at its report may show otherwise."""
    empty: bool = False
    """Whether the stop requires that no job is on the node."""
    evicts: bool = False
    """Whether the jobs on the node are evicted with it."""


def due_stops(snapshot: Snapshot, busy: AbstractSet[NodeName], now: int) -> Iterator[DueStop]:
    """Yield the nodes that the clock or the end of their last job stops. `busy`: the nodes that
    jobs are on."""
    pools = {pool.name: pool for pool in snapshot.pools}
    for node in snapshot.nodes:
        if (found := due_stop(node, pools, now, busy=(node.pool, node.name) in busy)) is not None:
            yield found


def due_stop(node: Node, pools: Mapping[str, Pool], now: int, *, busy: bool) -> DueStop | None:
    """The stop of this node that is due at `now` (ms); None: none is."""
    if node.state is NodeState.STOPPING:
        return None
    if node.lease_until is not None and now > node.lease_until + SILENCE_MARGIN:
        order = StopOrder(cause=StopCause.STALLED, by="its silence", at=now)
        return DueStop(node=node, order=order, silent=True)
    if node.state is NodeState.STARTING:
        return _of_a_start(node, pools.get(node.pool), now)
    if node.state is not NodeState.DRAINING:
        return None
    order = node.stop or StopOrder(cause=StopCause.EVICTED, by="a restore of its record", at=now)
    if not busy:
        return DueStop(node=node, order=copied(order, at=now), empty=True)
    if node.leaves_at is not None and now >= node.leaves_at + LAST_CALL - LAST_ORDER:
        return DueStop(node=node, order=copied(order, by=LONGEST_RUNTIME, at=now), evicts=True)
    return None


def _of_a_start(node: Node, pool: Pool | None, now: int) -> DueStop | None:
    """The stop of a node that has not become ready in time."""
    if node.running_since is not None:
        late = now > node.running_since + READY_WITHIN
        order = StopOrder(cause=StopCause.STALLED, by="its silence", at=now)
        return DueStop(node=node, order=order, silent=True) if late else None
    timeout = pool.pending_timeout if pool else None
    if timeout is None or node.pending_since is None or now < node.pending_since + timeout:
        return None
    order = StopOrder(cause=StopCause.NO_CAPACITY, by=node.pool, at=now)
    return DueStop(node=node, order=order)


def with_stop(node: Node, order: StopOrder) -> Node:
    """The node with the durable intent to stop it. An agent that the queue hears is ordered to
    leave first."""
    hears = node.reports > 0 and order.cause is not StopCause.STALLED
    until = order.at + LEAVE_WITHIN if hears else None
    stop = copied(order, sent=False, grace_until=until)
    return copied(node, state=NodeState.STOPPING, stop=stop)


def is_over(node: Node, now: int) -> bool:
    """Whether StopTrainingJob is due: the agent had time to leave, or is not asked. A time that a
    wrong clock has set does not count."""
    assert node.stop is not None
    until = node.stop.grace_until
    return until is None or not now < until <= now + LEAVE_WITHIN + FAR_OFF
