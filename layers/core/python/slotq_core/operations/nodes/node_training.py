"""The TrainingService of attempts on one node: orders to create and stop them, its report to
describe them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from slotq_core.errors import NotUnderstood, SlotQError, Unavailable
from slotq_core.model.attempts import Attempt
from slotq_core.model.capacity.work import WorkKind
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.nodes import Node
from slotq_core.operations.attempts.observing import Observing
from slotq_core.operations.attempts.start_requests import StartRequests
from slotq_core.operations.nodes.orders import NOBODY, Orders, as_ordered, is_too_large
from slotq_core.operations.nodes.reports import Reports, is_full, lost, observation
from slotq_core.ports.nodes import NodeDocuments
from slotq_core.ports.store import Store
from slotq_core.ports.surroundings import Clock, InParallel
from slotq_core.ports.training import (
    CallResult,
    LiveTrainingJobs,
    Observation,
    Phase,
    Request,
    Sighting,
    Verdict,
)
from slotq_core.wire.nodes.documents import read_report


class NodeServices:
    """What the queue does by the documents of its nodes."""

    def __init__(
        self,
        store: Store,
        documents: NodeDocuments,
        clock: Clock,
        *,
        observing: Observing,
        requests: StartRequests,
        at_once: InParallel,
    ) -> None:
        self.store, self.documents, self.clock = store, documents, clock
        self.orders = Orders(store, documents, clock, requests)
        self.reports = Reports(
            store, documents, clock, observing=observing, orders=self.orders, at_once=at_once
        )

    def trainings(self, jobs: Iterable[Job]) -> Mapping[str, NodeTraining]:
        """Return the service of each of these jobs' live attempts, by training job: one for each
        node."""
        on_nodes: dict[tuple[str, str, int], list[Job]] = {}
        for job in jobs:
            if (attempt := job.attempt) is not None and attempt.node:
                place = attempt.pool, attempt.node, attempt.node_generation
                on_nodes.setdefault(place, []).append(job)
        found: dict[str, NodeTraining] = {}
        for there in on_nodes.values():
            training = NodeTraining(self, there)
            found |= dict.fromkeys(training.attempts, training)
        return found


class NodeTraining:
    """The attempts of some jobs, of one moment, on one node. The first call that needs orders
    writes them for all: the orders are the same."""

    def __init__(self, services: NodeServices, jobs: Sequence[Job]) -> None:
        """`jobs`: at least one, each with its live attempt on the node, as they are committed."""
        self._services = services
        self.attempts = {job.attempt.training_job: job.attempt for job in jobs if job.attempt}
        self._starts = {
            job.attempt.training_job
            for job in jobs
            if job.state is JobState.STARTING and job.attempt and not job.attempt.created
        }
        attempt = next(iter(self.attempts.values()))
        self._pool, self._name = attempt.pool, attempt.node
        self._generation = attempt.node_generation
        self._written: CallResult | None = None
        self._ordered: frozenset[str] = NOBODY
        """The attempts in these orders."""

    @property
    def is_tried(self) -> bool:
        """Whether orders with these starts may have been written."""
        return self._written is not None

    def create(self, request: Request, job: Job, attempt: Attempt) -> CallResult:
        if is_too_large(as_ordered(request, job)):
            message = "its request is too large for the orders of a node: it needs a whole instance"
            return CallResult(verdict=Verdict.FAIL, message=message)
        answer = self._write()
        if answer.verdict is Verdict.OK and attempt.training_job not in self._ordered:
            message = f"the orders of node {self._name} leave the attempt out"
            return CallResult(verdict=Verdict.REQUEUE, message=message)
        return answer

    def stop(self, training_job: str) -> CallResult:
        attempt = self.attempts[training_job]
        in_grace = attempt.stop is not None and attempt.stop.grace_until is not None
        answer = self._write({training_job} if in_grace else NOBODY)
        if answer.verdict is Verdict.REQUEUE:
            return CallResult(verdict=Verdict.FAIL, message=answer.message)
        return answer

    def suspend(self) -> bool:
        """Ask the script of an attempt in its grace to release. Returns whether it is asked."""
        return self._write().verdict is Verdict.OK

    def _write(self, stops: frozenset[str] | set[str] = NOBODY) -> CallResult:
        if self._written is None or stops:
            self._written = self._answer(stops)
        return self._written

    def _answer(self, stops: frozenset[str] | set[str]) -> CallResult:
        try:
            node = self._node()
            orders = None
            if node is not None:
                orders = self._services.orders.write(node, starts=self._starts, stops=stops)
        except SlotQError as error:
            return CallResult(verdict=Verdict.RETRY, message=str(error))
        if orders is None:
            message = f"node {self._name} of pool {self._pool} has ended"
            return CallResult(verdict=Verdict.REQUEUE, message=message)
        self._ordered = frozenset(order.attempt for order in orders.attempts)
        return CallResult(verdict=Verdict.OK)

    def _node(self) -> Node | None:
        """Return this generation of the node; None: it has ended. Raises Unavailable, and
        NotUnderstood for a record that cannot be read."""
        found = self._services.store.nodes.get(self._pool, self._name)
        return found if found is not None and found.generation == self._generation else None

    def describe(self, training_job: str) -> Observation | None:
        """Describe an attempt; None if it was never ordered. Raises Unavailable."""
        attempt = self.attempts[training_job]
        try:
            node = self._node()
        except NotUnderstood as error:
            raise Unavailable(str(error)) from error
        now = self._services.clock.now()
        if node is None:
            return lost(attempt, now)
        document = self._services.documents.report(node)
        report = None
        if document is not None:
            try:
                report = read_report(
                    document.content, token=node.token, node=node.name, generation=node.generation
                )
            except NotUnderstood as error:
                raise Unavailable(str(error)) from error
            for one in report.attempts:
                if one.attempt == training_job:
                    return observation(one, attempt, report, document)
        present = self._services.orders.read(node)
        if training_job not in present.attempts:
            return None
        if report is not None and report.orders >= present.orders.number and not is_full(report):
            return lost(attempt, now)
        return Observation(training_job=training_job, phase=Phase.STARTING, at=now)

    def live(self, works: Collection[WorkKind] = (WorkKind.TRAINING,)) -> LiveTrainingJobs:
        """Return the attempts that are ordered. Raises Unavailable."""
        node = self._node()
        names = self._services.orders.read(node).attempts if node else ()
        return LiveTrainingJobs(names=frozenset(names))

    def look_into(self, training_job: str, *, now: int) -> Sighting | None:
        """Find an attempt among the orders; None if it was never ordered. Raises Unavailable."""
        if training_job not in self.live().names:
            return None
        attempt = self.attempts[training_job]
        return Sighting(
            training_job=training_job,
            ours=True,
            instance_type=attempt.instance_type,
            instances=1,
            first_seen=now,
        )
