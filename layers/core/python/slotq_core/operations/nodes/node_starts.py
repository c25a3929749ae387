"""The starts of nodes: CreateTrainingJob, and what its answers mean.

A node starts for a job. If the job no longer waits for it, the node ends before its create. What
SageMaker answers to the create means for that job what the answer to its own create would.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from slotq_core.errors import RightMissing, Unavailable
from slotq_core.lifecycle import copied
from slotq_core.model.attempts import Attempt
from slotq_core.model.jobs import Job
from slotq_core.model.nodes import Node, NodeState
from slotq_core.model.pools import NodeRules, Pool
from slotq_core.operations.attempts.observing import Reads, failure, shown_text
from slotq_core.operations.attempts.pool_lessons import Lessons
from slotq_core.operations.nodes.ended_nodes import (
    EndedNodes,
    NodeEnding,
    as_attempt,
    waits_for,
    without_token,
)
from slotq_core.operations.nodes.node_changes import NodeChanges
from slotq_core.policy.lifecycle.retry import Ending
from slotq_core.ports.nodes import NodeDocuments
from slotq_core.ports.store import Store
from slotq_core.ports.surroundings import Clock
from slotq_core.ports.training import CallResult, Request, SageMakerService, Verdict
from slotq_core.privacy.redaction import without_secrets

Prescribed = Callable[[Job, Attempt, Reads], tuple[Request, str]]
"""Returns the request to start with, and what of it the job's project forbids."""

_REFUSALS = {Verdict.FAIL: Ending.REJECTED}


class NodeStarts:
    """Creates the training jobs of nodes."""

    def __init__(
        self,
        store: Store,
        training: SageMakerService,
        clock: Clock,
        *,
        lessons: Lessons,
        ended: EndedNodes,
        prescribed: Prescribed,
        documents: NodeDocuments | None,
    ) -> None:
        self._store, self._training, self._clock = store, training, clock
        self._lessons, self._ended, self._prescribed = lessons, ended, prescribed
        self._documents = documents
        self._changes = NodeChanges(store)

    def start(self, node: Node, *, stale: bool) -> Node | None:
        """Create the training job, unless nobody needs the node any more. Returns the confirmed
        node, which may be to be stopped by now; None: it has ended. Raises SlotQError: the intent
        stays.

        `stale`: whether the intent belongs to a dead handler, who may have created the training
        job."""
        job = self._store.jobs.get(node.started_for)
        pool = self._store.health.pool(node.pool)
        rules = pool.nodes if pool is not None else None
        needed = node.state is not NodeState.STOPPING and job is not None and waits_for(job, node)
        if job is None or pool is None or rules is None or not needed:
            return self._not_needed(node, stale=stale)
        return self._create(node, job, pool, rules, stale=stale)

    def _create(
        self, node: Node, job: Job, pool: Pool, rules: NodeRules, *, stale: bool
    ) -> Node | None:
        if self._documents is None:
            raise Unavailable("this deployment has no bucket for the documents of nodes")
        attempt, reads = as_attempt(node, job, pool), Reads(self._store)
        request, broken = self._prescribed(job, attempt, reads)
        if broken:
            if stale and self._is_there(node):
                return self._confirmed(node, job)
            shown = shown_text(job.name, broken, reads)
            self._ended.end(node, NodeEnding(of_job=lambda _: Ending.FORBIDDEN, message=shown))
            return None
        launch = self._documents.launch(node, rules)
        answer = self._training.create_node(
            request,
            node,
            launch,
            instance_type=node.instance_type or pool.instance_type,
            tags=self._tags(node, reads),
        )
        own = without_token(answer.message, node)
        match answer.verdict:
            case Verdict.OK | Verdict.ALREADY_DONE:
                return self._confirmed(node, job)
            case Verdict.RETRY:  # The intent stays; a later pass repeats the call.
                said = without_secrets(own, request)
                if answer.action:
                    self._lessons.unanswered(attempt, copied(answer, message=said))
                    raise RightMissing(said)
                raise Unavailable(f"CreateTrainingJob {node.training_job}: {said}")
        self._ended.end(node, _refused(answer, shown_text(job.name, own, reads)))
        return None

    def _tags(self, node: Node, reads: Reads) -> Sequence[Mapping[str, str]]:
        """Return the tags that each job of the node has, because its project prescribes them. A
        node of several projects has none."""
        if not node.project:
            return ()
        project = reads.configuration(self._clock.now()).sharing.project(node.project)
        if project is None:
            return ()
        # Most nodes start without it, and no cold start should pay for it.
        from slotq_core.admission.prescribed import tags_of_all

        return tags_of_all(project)

    def _confirmed(self, node: Node, job: Job) -> Node | None:
        changed = self._changes.one(node, _created)
        if changed is None:
            return None
        self._lessons.of_accepted_node(node.pool, job.role)
        return changed.after

    def _not_needed(self, node: Node, *, stale: bool) -> Node | None:
        """End a node that nobody waits for. If a dead handler has created its training job, the
        node goes on."""
        if stale and self._is_there(node):
            changed = self._changes.one(node, _created)
            return changed.after if changed else None
        self._ended.end(node, NodeEnding(message="nobody waits for it any more"))
        return None

    def _is_there(self, node: Node) -> bool:
        """Whether an unconfirmed create took effect."""
        there = self._training.look_into(node.training_job, now=self._clock.now())
        return there is not None and there.ours


def _created(node: Node) -> Node | None:
    return None if node.created else copied(node, created=True)


def _refused(answer: CallResult, message: str) -> NodeEnding:
    """A refused create. The answer means for the job what the answer to its own create would, but
    for a name that is taken: the next node has another one."""

    def of_job(attempt: Attempt) -> Ending:
        return _REFUSALS.get(answer.verdict) or failure(answer.verdict, answer.quota, attempt)

    taken = answer.verdict is Verdict.NAME_TAKEN
    return NodeEnding(message=message, of_job=None if taken else of_job, answer=answer)
