"""The nodes, in memory (`ports.decisions.Nodes`), and the conditions of their changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

from slotq_core.adapters.memory.state import State, one_at_a_time
from slotq_core.errors import Conflict
from slotq_core.lifecycle import copied
from slotq_core.model.jobs import Job
from slotq_core.model.nodes import MOST_JOBS, Node, NodeState, owner_of_node
from slotq_core.ports.stored import NodeChange
from slotq_core.storage.holdings import NodeName, NodeUse, OnNode, on_node, room_of


class MemoryNodes:
    """In-memory nodes, safe for threads."""

    def __init__(self, state: State) -> None:
        self._state = state

    @one_at_a_time
    def get(self, pool: str, name: str) -> Node | None:
        shown = all_nodes(self._state)
        return next((node for node in shown if (node.pool, node.name) == (pool, name)), None)

    @one_at_a_time
    def jobs(self, node: Node) -> dict[str, int]:
        found = self._state.nodes.get((node.pool, node.name))
        same = found is not None and found.generation == node.generation
        return {job.job: job.number for job in jobs_on(self._state, node)} if same else {}

    @one_at_a_time
    def note_report(
        self, node: Node, number: int, *, at: int, lease_until: int, problems: Sequence[str] = ()
    ) -> None:
        found = self._same(node)
        if found.reports >= number:
            raise Conflict(f"node {node.name}: report {number} is not a later one")
        noted = replace(found, reports=number, reported_at=at, lease_until=lease_until)
        self._keep(replace(noted, problems=tuple(problems)))

    def _same(self, node: Node) -> Node:
        found = self._state.nodes.get((node.pool, node.name))
        if found is None or found.generation != node.generation:
            raise Conflict(f"node {node.name} has ended")
        return found

    def _keep(self, node: Node) -> None:
        self._state.nodes[node.pool, node.name] = node
        self._state.changes += 1


def all_nodes(state: State) -> list[Node]:
    """Return the nodes as a load shows them: idle only without jobs."""
    busy = {_place_of(job) for job in state.of(state.index.active)} if state.nodes else set()
    return [
        replace(node, idle_since=None) if _place(node) in busy else node
        for node in state.nodes.values()
    ]


def jobs_on(state: State, node: Node) -> list[OnNode]:
    """Return the jobs on this generation of the node."""
    jobs = (job for job in state.of(state.index.active) if _place_of(job) == _place(node))
    return [held for held in map(on_node, jobs) if held is not None]


def _place(node: Node) -> tuple[str, str, int]:
    return node.pool, node.name, node.generation


def _place_of(job: Job) -> tuple[str, str, int] | None:
    attempt = job.attempt
    if attempt is None or not attempt.node:
        return None
    return attempt.pool, attempt.node, attempt.node_generation


def check_node(state: State, name: NodeName, use: NodeUse) -> None:
    """Raise Conflict if the node may not be used, or changed, in this way."""
    pool, node_name = name
    node = state.nodes.get(name)
    if use.change is not None and use.change.starts:
        if node is not None:
            raise Conflict(f"there is a node {node_name} in pool {pool}")
        return
    if node is None or node.generation != use.generation:
        if use.change is not None or use.came:
            raise Conflict(f"node {node_name} has ended")
        return  # What has left a node that is gone has left it.
    there = jobs_on(state, node)
    if use.change is not None:
        _check_change(node, use.change, len(there) - len(use.left), len(there))
    if use.came:
        _check_room(node, use, there)


def _check_change(node: Node, change: NodeChange, staying: int, there: int) -> None:
    if change.before is None or change.before.version != node.version:
        raise Conflict(f"node {node.name} has changed since it was read")
    if (change.empty and there) or (change.ends and staying):
        raise Conflict(f"there are jobs on node {node.name}")


def _check_room(node: Node, use: NodeUse, there: list[OnNode]) -> None:
    if node.state is not NodeState.READY:
        raise Conflict(f"node {node.name} is {node.state}")
    if use.tenants != {node.tenant}:
        raise Conflict(f"node {node.name} has another tenant")
    gone = {job.job for job in use.left}
    after = [*(job for job in there if job.job not in gone), *use.came]
    if node.one_person and len({job.person for job in after}) > 1:
        raise Conflict(f"node {node.name} has jobs of another person")
    gpus, others = room_of(node, after)
    came = {index for job in use.came for index in job.gpus}
    known = range(node.contents["gpus"])
    amounts = {name for job in use.came for name in job.amounts}
    if len(after) > MOST_JOBS or len({job.job for job in after}) < len(after):
        raise Conflict(f"node {node.name} takes no further job")
    if any(index not in known or gpus[index] < 0 for index in came):
        raise Conflict(f"node {node.name}: another job has one of these GPUs")
    if any(others[resource] < 0 for resource in amounts):
        raise Conflict(f"node {node.name} has no room for that")


def change_node(state: State, name: NodeName, use: NodeUse) -> None:
    """Make the change of the node itself, after the checks."""
    state.changes += 1
    change, node = use.change, state.nodes.get(name)
    if change is not None and change.ends:
        del state.nodes[name]
        state.job_of.pop(change.node.training_job, None)
        return
    after = change.committed if change is not None else None
    if change is not None and after is not None and change.before is None:
        state.nodes[name] = after
        state.job_of[after.training_job] = owner_of_node(*name)
        return
    if node is None or node.generation != use.generation:
        return
    if use.left:
        node = replace(node, idle_since=use.at)
    if change is not None and change.before is not None and after is not None:
        node = copied(node, **_differences(change.before, after))
    state.nodes[name] = node


def _differences(before: Node, after: Node) -> Mapping[str, object]:
    """Return the fields that a change of the node sets: reports and jobs meanwhile stay."""
    return {
        field.name: getattr(after, field.name)
        for field in fields(Node)
        if getattr(after, field.name) != getattr(before, field.name)
    }
