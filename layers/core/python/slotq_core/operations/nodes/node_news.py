"""What news of a node's training job change for the node.

Like news of jobs they come from events, from a reconciliation or from an answer to a call.
Repeated, late and foreign news change nothing and write nothing.
"""

from __future__ import annotations

from slotq_core.lifecycle import copied
from slotq_core.model.attempts import Attempt
from slotq_core.model.nodes import Node, NodeState
from slotq_core.names import token_in_tags
from slotq_core.operations.attempts.observing import Observed, failure
from slotq_core.operations.attempts.pool_lessons import Lessons
from slotq_core.operations.nodes.ended_nodes import EndedNodes, NodeEnding, without_token
from slotq_core.operations.nodes.node_changes import NodeChanges
from slotq_core.operations.nodes.node_stops import LAST_CALL
from slotq_core.policy.lifecycle.retry import Ending
from slotq_core.ports.store import Store
from slotq_core.ports.surroundings import Clock
from slotq_core.ports.training import (
    NODE_MAX_RUNTIME,
    CallResult,
    Observation,
    Phase,
    Verdict,
)

_BY_ITSELF = frozenset({Verdict.FAIL, Verdict.RELEASED})
"""The verdicts on a failure whose cause is what ran in the container."""


class NodeNews:
    """Commits what news of training jobs change for their nodes."""

    def __init__(self, store: Store, clock: Clock, lessons: Lessons, ended: EndedNodes) -> None:
        self._store, self._clock = store, clock
        self._lessons, self._ended = lessons, ended
        self._changes = NodeChanges(store)

    def observe(self, pool: str, name: str, seen: Observation) -> Observed:
        """Apply an observation of a node's training job. Raises SlotQError."""
        node = self._store.nodes.get(pool, name)
        if node is None or node.training_job != seen.training_job:
            return Observed(ignored=f"node {pool}/{name} has ended")
        if seen.token is not None and seen.token != token_in_tags(node.token):
            return Observed(ignored="a training job of that name belongs to somebody else")
        if seen.phase.ended:
            return Observed(calls_for_pass=self._ended.end(node, self._ending(node, seen)))
        return self._lives(node, seen)

    def gone(self, node: Node) -> bool:
        """End a node whose training job does not exist: somebody has deleted it. Returns whether
        this handler did it."""
        message = f"its training job {node.training_job} is no longer in SageMaker"
        starts = node.state is NodeState.STARTING
        return self._ended.end(node, NodeEnding(message=message, of_job=_fault if starts else None))

    def _lives(self, node: Node, seen: Observation) -> Observed:
        changed = self._changes.one(node, lambda found: self._seen(found, seen))
        if changed is None:
            return Observed(ignored=f"node {node.pool}/{node.name} has ended")
        begins = changed.before.running_since is None and changed.after.running_since is not None
        return Observed(calls_for_pass=begins and self._lessons.of_running_node(node.pool))

    def _seen(self, node: Node, seen: Observation) -> Node | None:
        """The node with what was observed; None: nothing is new."""
        at = min(max(seen.at, node.started_at), self._clock.now())
        if seen.phase is Phase.RUNNING and node.running_since is None:
            leaves_at = at + 1000 * NODE_MAX_RUNTIME - LAST_CALL
            return copied(node, created=True, running_since=at, leaves_at=leaves_at)
        if seen.pending and node.pending_since is None:
            return copied(node, created=True, pending_since=at)
        return None if node.created else copied(node, created=True)

    def _ending(self, node: Node, seen: Observation) -> NodeEnding:
        """What the end of the training job means."""
        message = without_token(seen.message, node)
        if node.state is not NodeState.STARTING:  # What a stop means was learned with its order.
            return NodeEnding(message=message, at=seen.at)
        answer = CallResult(
            verdict=seen.verdict, message=message, quota=seen.quota, action=seen.action
        )
        ran = node.running_since is not None or seen.running_since is not None
        if seen.phase is Phase.STOPPED:  # By a person. A node that starts at once would be, too.
            return NodeEnding(message=message, at=seen.at, of_job=_fault)
        if seen.phase is Phase.COMPLETED or (ran and seen.verdict in _BY_ITSELF):
            said = message or "its agent ended without a report"
            return NodeEnding(message=said, at=seen.at, agent_failed=True)
        return NodeEnding(
            message=message,
            at=seen.at,
            answer=answer,
            of_job=lambda attempt: failure(seen.verdict, seen.quota, attempt),
        )


def _fault(_: Attempt) -> Ending:
    return Ending.FAULT
