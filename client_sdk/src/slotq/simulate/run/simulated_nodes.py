"""The nodes of a run: they start, have jobs, and end.

A node is ready `start_seconds` after its start, and gone as soon as it drains and its last job has
ended. No agent runs there: a job on a node only takes time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet

from slotq_core.lifecycle import copied
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job
from slotq_core.model.nodes import Node, NodeState
from slotq_core.model.pools import Pool
from slotq_core.operations.nodes.node_steps import busy_nodes
from slotq_core.policy.plan import Decision, EndNode, Evict, Move, StartNode


class SimulatedNodes:
    """The nodes that hold a slot, by pool and name."""

    def __init__(
        self, start_times: Mapping[str, int], one_person: AbstractSet[str] = frozenset()
    ) -> None:
        """`start_times`: how long a node's start takes (ms), by pool. `one_person`: the pools whose
        nodes take one person's jobs at a time."""
        self._start_times, self._one_person = start_times, one_person
        self._nodes: dict[tuple[str, str], Node] = {}
        self._begun = 0

    def go_on(self, nodes: Iterable[Node]) -> Iterator[Node]:
        """Take in the nodes that hold slots when the run begins. Yield those that start. One that
        stops is gone at once when its last job has ended."""
        for node in nodes:
            stops = node.state is NodeState.STOPPING
            known = copied(node, state=NodeState.DRAINING) if stops else node
            self._nodes[node.pool, node.name] = known
            self._begun = max(self._begun, node.generation)
            if node.state is NodeState.STARTING:
                yield node

    def all(self) -> tuple[Node, ...]:
        return tuple(self._nodes.values())

    def carry_out(self, decision: Decision, pools: Mapping[str, Pool], now: int) -> Node | None:
        """Start and end nodes as decided. Return the node that starts, if one does."""
        if isinstance(decision, StartNode):
            return self._begin(decision, pools[decision.pool], now)
        ended = decision.nodes if isinstance(decision, Evict | Move) else ()
        for node in (decision.node,) if isinstance(decision, EndNode) else ended:
            self._change(node, state=NodeState.DRAINING)
        return None

    def ready_at(self, node: Node) -> int:
        """When (ms) a node that starts will be ready."""
        return node.started_at + self._start_times.get(node.pool, 0)

    def be_ready(self, name: str, generation: int, now: int) -> None:
        """Let the node of this name and generation take jobs, unless it ends already."""
        for node in self.all():
            is_it = (node.name, node.generation) == (name, generation)
            if is_it and node.state is NodeState.STARTING:
                one = node.one_person or node.pool in self._one_person
                ready = {"state": NodeState.READY, "one_person": one}
                self._change(node, **ready, running_since=now, idle_since=now)

    def settle(self, active: Iterable[Job], now: int) -> None:
        """Take in which jobs are on which node: a ready one without jobs is idle."""
        busy = busy_nodes(active)
        for key, node in [*self._nodes.items()]:
            if key in busy:
                self._change(node, idle_since=None)
            elif node.state is NodeState.READY and node.idle_since is None:
                self._change(node, idle_since=now)

    def end(self, active: Iterable[Job]) -> bool:
        """End the nodes that drain and have no jobs. Returns whether there were any."""
        busy, draining = busy_nodes(active), NodeState.DRAINING
        ended = [
            key for key, node in self._nodes.items() if node.state is draining and key not in busy
        ]
        for key in ended:
            del self._nodes[key]
        return bool(ended)

    def _begin(self, start: StartNode, pool: Pool, now: int) -> Node:
        self._begun += 1
        rules = pool.nodes
        shared = rules is not None and rules.shared
        node = Node(
            name=start.name,
            pool=start.pool,
            generation=self._begun,
            state=NodeState.STARTING,
            tenant=start.job.tenant,
            project="" if shared else start.job.project,
            contents=Demand(gpus=rules.gpus if rules else 0),
            training_job=f"{start.pool}-{start.name}-{self._begun}",
            token="",  # a node's, and there is none # nosec B106
            started_for=start.job.name,
            started_at=now,
            created=True,
        )
        self._nodes[node.pool, node.name] = node
        return node

    def _change(self, node: Node, **fields: object) -> None:
        key = node.pool, node.name
        if key in self._nodes:
            self._nodes[key] = copied(self._nodes[key], **fields)
