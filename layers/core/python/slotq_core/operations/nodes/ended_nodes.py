"""The end of a node: its jobs wait again, its slot comes free, and the pool learns.

Jobs that are still on the node end as by a fault of the queue: no retry is used, and a job whose
stop was ordered ends as stopped. All of that and the end of the node's record are one transaction,
or several if one cannot hold them.

A node that ends before it is ready was started for a job. SageMaker's refusal means for that job
what the refusal of its own start would: so it fails for a role that does not exist, and no further
node starts for it. An agent that cannot start is the image's fault: jobs of that tenant take whole
instances for a while (`PoolHealth.failed_nodes`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from slotq_core.errors import Conflict, NoSuchJob, NotUnderstood, Unavailable
from slotq_core.lifecycle import copied
from slotq_core.model.attempts import Attempt, StopCause, StopOrder
from slotq_core.model.jobs import Job
from slotq_core.model.nodes import Node, NodeState
from slotq_core.model.pools import Pool
from slotq_core.operations.attempts.observing import REPORT_PATIENCE, Reads
from slotq_core.operations.attempts.pool_lessons import Lessons
from slotq_core.operations.nodes.node_stops import with_stop
from slotq_core.operations.nodes.orders import jobs_on
from slotq_core.policy.lifecycle.retry import Ending, after_node_start
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Change, NodeChange
from slotq_core.ports.surroundings import Clock
from slotq_core.ports.training import CallResult
from slotq_core.privacy.redaction import without_secrets

OnNode = Callable[[Node], None]
"""Does something about one node. Raises SlotQError."""

EndJob = Callable[[Job, Ending, int, str], Change]
"""Returns the end of a job's attempt: how, when (ms), and with which message."""

_TRIES = 20
"""How often an end is tried while others change the node or its jobs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeEnding:
    """Why a node ended, and what follows from it."""

    message: str = ""
    """SageMaker's reason, without secrets."""
    at: int | None = None
    """When it ended (ms); None: now."""
    of_job: Callable[[Attempt], Ending] | None = None
    """What it means for the job that the node was started for, as the end of that job's own start;
    None: nothing."""
    answer: CallResult | None = None
    """SageMaker's refusal, for the pool."""
    agent_failed: bool = False
    """Whether the image could not run the agent."""


class EndedNodes:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        lessons: Lessons,
        *,
        end_job: EndJob,
        take_report: OnNode | None = None,
    ) -> None:
        """`take_report` takes in the last report of a node, which may say how its jobs ended."""
        self._store, self._clock, self._lessons = store, clock, lessons
        self._end_job, self._take_report = end_job, take_report

    def end(self, node: Node, ending: NodeEnding) -> bool:
        """End the node with all that follows. Returns whether this handler did it; another one may
        have. Raises Conflict after many conflicts, and Unavailable."""
        self._last_report(node, ending)
        found: Node | None = node
        for _ in range(_TRIES):
            if found is None or found.generation != node.generation:
                return False
            with suppress(Conflict):
                if self._ended(found, ending):
                    return True
            found = self._store.nodes.get(node.pool, node.name)
        raise Conflict(f"node {node.pool}/{node.name}: its jobs changed {_TRIES} times in a row")

    def _last_report(self, node: Node, ending: NodeEnding) -> None:
        if self._take_report is None or not node.created:
            return
        try:
            self._take_report(node)
        except Unavailable:
            if self._clock.now() - (ending.at or self._clock.now()) < REPORT_PATIENCE:
                raise

    def _ended(self, node: Node, ending: NodeEnding) -> bool:
        """Commit the end, or a first part of it; returns whether it was all."""
        now = self._clock.now()
        at = min(max(ending.at or now, node.started_at), now)
        started = self._of_starter(node, ending, at, now)
        told = f"node {node.name} ended" + (f": {ending.message}" if ending.message else "")
        changes = [started[0]] if started else []
        changes += [self._end_job(job, Ending.FAULT, at, told) for job in self.jobs_on(node)]
        end = NodeChange(before=node, after=None)
        count = self._store.decisions.fitting(changes, nodes=[end]) if changes else 0
        if count < len(changes):
            if node.state is not NodeState.STOPPING:  # So no job comes meanwhile.
                order = StopOrder(cause=StopCause.EVICTED, by="its end", at=now)
                stops = NodeChange(before=node, after=with_stop(node, order))
                self._store.decisions.commit([], nodes=[stops])
            else:
                self._store.decisions.commit(changes[:count])
            return False
        self._store.decisions.commit(changes, nodes=[end])
        if started:
            change, attempt = started
            self._lessons.take([(copied(change, ended=attempt), ending.answer)])
        if ending.agent_failed:
            self._lessons.of_failed_agent(node, self.image(node), ending.message)
        return True

    def jobs_on(self, node: Node) -> list[Job]:
        """The jobs whose live attempt is on this generation of the node."""
        return [job for job, _ in jobs_on(self._store, node).attempts]

    def _of_starter(
        self, node: Node, ending: NodeEnding, at: int, now: int
    ) -> tuple[Change, Attempt] | None:
        """What the end means for the job that the node was started for, if it still waits for it,
        and the attempt that it never had."""
        if ending.of_job is None:
            return None
        job, pool = self._store.jobs.get(node.started_for), self._store.health.pool(node.pool)
        if job is None or pool is None or not waits_for(job, node):
            return None
        attempt = as_attempt(node, job, pool)
        quota = ending.answer.quota if ending.answer else None
        ended = after_node_start(
            job,
            attempt,
            ending.of_job(attempt),
            at=at,
            now=now,
            message=ending.message,
            limit=quota.limit if quota else None,
        )
        return Change(before=job, after=ended.job), ended.attempt

    def image(self, node: Node) -> str:
        """The image of the node's tenant; empty: not known any more."""
        with suppress(NoSuchJob, NotUnderstood):
            request = Reads(self._store).request(node.started_for)
            algorithm = request.get("AlgorithmSpecification") or {}
            return str(algorithm.get("TrainingImage") or "")
        return ""


def without_token(message: str, node: Node) -> str:
    """SageMaker's text without the node's token, which is in the environment of its request."""
    return without_secrets(message, {"Environment": {"token": node.token}})


def waits_for(job: Job, node: Node) -> bool:
    """Whether the job waits with a claim to this node."""
    claim = job.claim
    return job.waits and claim is not None and (claim.pool, claim.node) == (node.pool, node.name)


def as_attempt(node: Node, job: Job, pool: Pool) -> Attempt:
    """The node's start as an attempt of the job that the node was started for."""
    return Attempt(
        number=job.attempts + 1,
        training_job=node.training_job,
        token=node.token,
        pool=node.pool,
        instance_type=pool.instance_type,
        admitted_at=node.started_at,
        created=node.created,
        pending_since=node.pending_since,
    )
