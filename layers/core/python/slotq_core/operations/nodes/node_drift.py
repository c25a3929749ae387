"""What no event has reported of nodes, for the reconciliation: stale intents, missed starts and
ends."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from slotq_core.model.nodes import Node, NodeState
from slotq_core.model.snapshot import Snapshot
from slotq_core.operations.effects import HANDLER_LIFETIME
from slotq_core.operations.nodes.node_effects import NodeEffects
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Finding
from slotq_core.ports.training import Observation, Phase, TrainingService


class NodeDrift:
    def __init__(self, store: Store, training: TrainingService, effects: NodeEffects) -> None:
        self._store, self._training, self._effects = store, training, effects

    def stale(self, snapshot: Snapshot) -> list[Node]:
        """Return the nodes whose intent belongs to a dead handler."""
        return self._effects.stale(snapshot.nodes)

    def intent(self, node: Node, mend: bool, starts: bool) -> Finding:  # noqa: FBT001
        """Repeat a stale intent, if it may be. Raises SlotQError."""
        here = starts or node.state is NodeState.STOPPING
        text = (
            f"{'stopping' if node.state is NodeState.STOPPING else 'starting'} it was decided but "
            f"never confirmed; {'it is repeated' if here else 'the next pass repeats it'}"
        )
        if mend and here:
            self._effects.take_effect([node])
        now = self._store.nodes.get(node.pool, node.name)
        same = now is not None and now.generation == node.generation
        left = now is not None and same and bool(self._effects.stale([now]))
        return Finding(kind="stale_intent", subject=_subject(node), text=text, mended=not left)

    def to_be_asked_for(
        self, snapshot: Snapshot, listed: AbstractSet[str], now: int
    ) -> Iterator[Node]:
        """Yield the nodes to describe. The listing shows that a training job is alive, but not
        whether it has begun to run."""
        for node in snapshot.nodes:
            fresh = now - node.started_at < HANDLER_LIFETIME
            unknown = node.training_job not in listed or node.running_since is None
            if node.created and unknown and not fresh:
                yield node

    def missed(self, node: Node, mend: bool) -> Finding | None:  # noqa: FBT001
        """Record what no event has reported of the node, if it is to be. Raises SlotQError."""
        seen = self._training.describe(node.training_job)
        finding = _missed(node, seen)
        if not mend:
            return finding
        if seen is None:
            new = self._effects.news.gone(node)
        else:
            new = not self._effects.news.observe(node.pool, node.name, seen).ignored
        if finding is None or not new:  # Else it was observed meanwhile.
            return None
        return Finding(kind=finding.kind, subject=finding.subject, text=finding.text, mended=True)


def _missed(node: Node, seen: Observation | None) -> Finding | None:
    if seen is None:
        kind, said = "vanished", "is no longer in SageMaker: its jobs wait again"
    elif seen.phase.ended:
        kind = "ended_unseen"
        said = f"has ended ({seen.phase}) without an event: its jobs wait again"
    elif seen.phase is Phase.RUNNING and node.running_since is None:
        kind = "running_unseen"
        said = "has begun to run without an event: its start is recorded"
    else:
        return None
    text = f"training job {node.training_job} {said}"
    return Finding(kind=kind, subject=_subject(node), text=text)


def _subject(node: Node) -> str:
    return f"node {node.pool}/{node.name}"
