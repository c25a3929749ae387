"""Nodes for the store's tests, and what a manager does with them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from slotq_core.gpu_amounts import WHOLE
from slotq_core.lifecycle import move
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job
from slotq_core.model.nodes import Node, NodeState
from slotq_core.model.pools import NodeRules
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Change, NodeChange
from tests.contract.worlds import NOW, S, a_pool, a_queue, an_attempt, commit, running, waits

TENANT = "0123abcd"


def a_node(name: str = "n1", pool: str = "p5", *, generation: int, **fields: Any) -> Node:
    described: dict[str, Any] = {
        "state": NodeState.STARTING,
        "tenant": TENANT,
        "contents": Demand(gpus=8, cpus=96),
        "training_job": f"{pool}-{name}-{generation}",
        "token": f"token-{generation}",
        "started_for": "job1",
        "started_at": NOW,
    }
    return Node(name=name, pool=pool, generation=generation, **(described | fields))


def a_node_queue(store: Store, *, slots: int = 2) -> Store:
    """The store with pool p5, which keeps nodes, and p4, which does not."""
    return a_queue(store, a_pool("p5", slots, nodes=NodeRules()), a_pool("p4", slots))


def version(store: Store, pool: str = "p5") -> int:
    return store.worlds.load(NOW).ledgers[pool].version


def starting_node(store: Store, name: str = "n1", **fields: Any) -> NodeChange:
    generation = fields.pop("generation", version(store, fields.get("pool", "p5")) + 1)
    return NodeChange(before=None, after=a_node(name, generation=generation, **fields))


def changed(store: Store, change: NodeChange) -> Node:
    """The node after the change."""
    store.decisions.commit([], nodes=[change])
    found = store.nodes.get(change.node.pool, change.node.name)
    assert found is not None
    return found


def becoming(node: Node, state: NodeState, *, empty: bool = False, **fields: Any) -> NodeChange:
    return NodeChange(before=node, after=replace(node, state=state, **fields), empty=empty)


def getting_ready(node: Node) -> NodeChange:
    return becoming(node, NodeState.READY, created=True, running_since=NOW + 1, idle_since=NOW + 1)


def ending_node(node: Node) -> NodeChange:
    return NodeChange(before=node, after=None)


def ready(store: Store, name: str = "n1", **fields: Any) -> Node:
    return changed(store, getting_ready(changed(store, starting_node(store, name, **fields))))


def now(store: Store, node: Node) -> Node:
    found = store.nodes.get(node.pool, node.name)
    assert found is not None
    return found


def waits_for_gpus(store: Store, name: str, gpus: int = 1, **fields: Any) -> Job:
    return waits(store, name, gpus=WHOLE * gpus, tenant=fields.pop("tenant", TENANT), **fields)


def coming(job: Job, node: Node, *gpus: int, **fields: Any) -> Change:
    """The job's start on the node. `part`: of its one GPU, in hundredths."""
    begun = replace(
        an_attempt(job, node.pool),
        node=node.name,
        node_generation=fields.pop("generation", node.generation),
        gpu_ids=gpus,
        gpu_part=fields.pop("part", 0),
        node_share=Demand(fields),
    )
    after = move(job, S.STARTING, at=NOW + 1, attempt=begun, attempts=begun.number)
    return Change(before=job, after=after)


def runs_on(store: Store, name: str, node: Node, *gpus: int, **fields: Any) -> Job:
    job = waits_for_gpus(store, name, len(gpus))
    return commit(store, running(commit(store, coming(job, node, *gpus, **fields))))
