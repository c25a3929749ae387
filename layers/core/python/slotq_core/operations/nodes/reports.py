"""What a node's report says, taken into the table.

A report is a whole state. Lost, repeated, late and reordered reports therefore change nothing that
the next one would not: what they say of attempts is taken in as news of training jobs are, and a
number that is not above the last is not looked at. It is noted last, so that a report whose handler
dies is taken in again. So is one with news that cannot be committed; the number before it is noted,
since the lease of a node must not depend on one of its jobs.

Jobs of the node may write anything in place of a report, but not the proof. Even with the proof a
report changes only attempts that the table knows on this generation of the node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from slotq_core.errors import Conflict, NotUnderstood, SlotQError
from slotq_core.gpu_amounts import WHOLE
from slotq_core.model.attempts import Attempt
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job
from slotq_core.model.nodes import LONGEST_PROBLEM, MOST_JOBS, MOST_PROBLEMS, Node, NodeState
from slotq_core.model.reasons.whole_instance import WholeCause
from slotq_core.model.reports import final_metrics
from slotq_core.operations.attempts.observing import Observing
from slotq_core.operations.nodes.ended_nodes import waits_for
from slotq_core.operations.nodes.node_changes import NodeChanges
from slotq_core.operations.nodes.orders import Orders, jobs_on
from slotq_core.ports.nodes import Document, NodeDocuments
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Change, Finding
from slotq_core.ports.surroundings import Clock, InParallel
from slotq_core.ports.training import Observation, Phase, Verdict
from slotq_core.wire.nodes.documents import (
    AttemptPhase,
    EndReason,
    NodePhase,
    NodeReport,
    ReportedAttempt,
    read_report,
)

_SECOND = 1_000
"""S3 reports the time of a write in whole seconds, rounded down (ms)."""

FINDING = "report"

_OF_THE_NODE = frozenset({EndReason.LEASE, EndReason.NODE})
"""Ends for which neither the job nor an order is the cause."""

_MAX_RUNTIME = "it reached its maximum runtime (StoppingCondition.MaxRuntimeInSeconds)"

_ORDERED = frozenset({EndReason.ORDER, EndReason.SUSPEND})


@dataclass(frozen=True, kw_only=True, slots=True)
class Taken:
    """The outcome of a look at a node's report."""

    number: int = 0
    """Of the report; 0: there is none, or it cannot be read."""
    findings: tuple[Finding, ...] = ()
    calls_for_pass: bool = False
    """Whether a pass may now decide differently."""


class Reports:
    def __init__(
        self,
        store: Store,
        documents: NodeDocuments,
        clock: Clock,
        *,
        observing: Observing,
        orders: Orders,
        at_once: InParallel,
    ) -> None:
        """`at_once` reads several reports; the store uses another one."""
        self._store, self._documents, self._clock = store, documents, clock
        self._observing, self._orders, self._at_once = observing, orders, at_once

    def take_in(self, node: Node) -> Taken:
        """Take in the node's last report, unless it has been. A report that cannot be read, or that
        lacks the node's proof, is a finding. Raises Unavailable."""
        document = self._documents.report(node)
        return Taken() if document is None else self._taken(node, document)

    def take_in_all(self, nodes: Sequence[Node], *, until: int) -> Iterator[Taken]:
        """Take in the last reports of several nodes, until a time (ms). What goes wrong with one
        node is a finding, and stops no other."""

        def read(node: Node) -> Document | SlotQError | None:
            try:
                return self._documents.report(node) if self._clock.now() < until else None
            except SlotQError as error:
                return error

        for node, found in zip(nodes, self._at_once(read, nodes), strict=True):
            if self._clock.now() >= until:
                return
            try:
                if isinstance(found, SlotQError):
                    raise found
                if found is not None:
                    yield self._taken(node, found)
            except SlotQError as error:
                yield Taken(findings=(_finding(node, f"could not be read: {error}"),))

    def _taken(self, node: Node, document: Document) -> Taken:
        try:
            report = read_report(
                document.content, token=node.token, node=node.name, generation=node.generation
            )
        except NotUnderstood as error:
            return Taken(findings=(_finding(node, str(error)),))
        if report.number <= node.reports:
            return Taken(number=report.number)
        became_ready, refused = self._follow_state(node, report, document)
        found = [_finding(node, refused)] if refused else []
        calls_for_pass, errors = self._attempts(node, report, document)
        found += [_finding(node, str(error)) for error in errors]
        number = report.number - bool(errors)
        self._note(node, number, document, problems=[*shown_problems(report)])
        return Taken(
            number=report.number,
            findings=tuple(found),
            calls_for_pass=became_ready or calls_for_pass,
        )

    def _note(
        self, node: Node, number: int, document: Document, *, problems: Sequence[str]
    ) -> None:
        """Note that all reports up to this number are taken in, with the problems of the last, and
        renew the lease."""
        if number <= node.reports:
            return
        lease_until = document.written_at + _SECOND + 1000 * self._documents.lease()
        try:
            self._store.nodes.note_report(
                node,
                number,
                at=document.written_at,
                lease_until=lease_until,
                problems=problems,
            )
        except Conflict:
            return  # A later report has been taken in, or the node has ended.

    def _follow_state(self, node: Node, report: NodeReport, document: Document) -> tuple[bool, str]:
        """Make a starting node ready, with the contents that its agent has found, and let a node
        that leaves drain. Returns whether this handler did, and why the node may not be ready."""
        refused = ""

        def change(found: Node) -> Node | None:
            nonlocal refused
            lacks_gpus = not report.gpus and bool(found.contents["gpus"])
            if _is_ready(found, report) and lacks_gpus:
                refused = "its agent finds no GPUs: name them in the pool's nodes"
                return None
            return self._after(found, report, document)

        changed = NodeChanges(self._store).one(node, change)
        if changed is None or changed.after is changed.before:
            return False, refused
        if changed.after.state is NodeState.READY:
            self._check_size(changed.after)
        return True, refused

    def _check_size(self, node: Node) -> None:
        """Let the job that the node was started for take a whole instance, if the node has too few
        GPUs for it: else node after node would start for it."""
        job, gpus = self._store.jobs.get(node.started_for), node.contents["gpus"]
        if job is None or job.gpus <= WHOLE * gpus or not waits_for(job, node):
            return
        cause = WholeCause.written("few_gpus", node.pool, str(gpus))
        after = replace(
            job, gpus=0, tenant="", longest_attempt=0, claim=None, whole_because=(cause,)
        )
        with suppress(Conflict):  # The next node for it has as few.
            self._store.decisions.commit([Change(before=job, after=after)])

    def _after(self, node: Node, report: NodeReport, document: Document) -> Node | None:
        """Return the node in the state that its report shows; None: it has that state."""
        if _is_ready(node, report):
            began = document.written_at - report.uptime_ms
            return replace(
                node,
                state=NodeState.READY,
                contents=contents_of(report),
                one_person=not report.uids,
                created=True,
                running_since=node.running_since or max(began, node.started_at),
                idle_since=self._clock.now(),
            )
        leaves = report.state is NodePhase.LEAVING
        if leaves and node.state in {NodeState.STARTING, NodeState.READY}:
            return replace(node, state=NodeState.DRAINING)
        return None

    def _attempts(
        self, node: Node, report: NodeReport, document: Document
    ) -> tuple[bool, list[SlotQError]]:
        """Take in what the report says of the live attempts on the node. Returns whether that calls
        for a pass, and the errors."""
        there = jobs_on(self._store, node)
        reported = {one.attempt: one for one in report.attempts}
        seen: list[tuple[Job, Observation | None]] = []
        missing: list[tuple[Job, Attempt]] = []
        for job, attempt in there.attempts:
            one = reported.get(attempt.training_job)
            if one is not None:
                seen.append((job, observation(one, attempt, report, document)))
            else:
                missing.append((job, attempt))
        seen += self._lost(node, report, document, missing)
        outcomes = self._observing.take_in(seen) if seen else []
        errors = [outcome for outcome in outcomes if isinstance(outcome, SlotQError)]
        changed = [one for one in outcomes if one is not None and not isinstance(one, SlotQError)]
        return any(outcome.calls_for_pass for outcome in changed), errors

    def _lost(
        self,
        node: Node,
        report: NodeReport,
        document: Document,
        missing: list[tuple[Job, Attempt]],
    ) -> Iterator[tuple[Job, Observation]]:
        """Yield the attempts that the agent has read orders for and does not know: it has forgotten
        them, and never runs them again."""
        if not missing or is_full(report):
            return
        present = self._orders.read(node)
        for job, attempt in missing:
            if attempt.training_job in present.attempts and report.orders >= present.orders.number:
                yield job, lost(attempt, document.written_at)


def shown_problems(report: NodeReport) -> Iterator[str]:
    """Yield the report's first problems as one short line each."""
    for problem in report.problems[:MOST_PROBLEMS]:
        line = " ".join(word for word in problem.split() if word.isprintable())
        yield line if len(line) <= LONGEST_PROBLEM else f"{line[: LONGEST_PROBLEM - 1]}…"


def _is_ready(node: Node, report: NodeReport) -> bool:
    return node.state is NodeState.STARTING and report.state is NodePhase.READY


def is_full(report: NodeReport) -> bool:
    """Whether the agent begins no further attempt until another one has ended. What it then does
    not know it may still begin."""
    return sum(not one.state.ended for one in report.attempts) >= MOST_JOBS


def contents_of(report: NodeReport) -> Demand:
    """Return the contents of the instance, in the words of jobs."""
    amounts = {
        "gpus": len(report.gpus),
        "vcpus": report.cpus,
        "memory_gib": report.memory_mib // 1024,
    }
    return Demand({name: amount for name, amount in amounts.items() if amount})


def lost(attempt: Attempt, at: int) -> Observation:
    """Return the news that the node does not know the attempt any more: the job waits again."""
    return Observation(
        training_job=attempt.training_job,
        phase=Phase.FAILED,
        at=at,
        verdict=Verdict.REQUEUE,
        message=f"node {attempt.node} does not know the attempt any more",
    )


_PHASES: Mapping[AttemptPhase, Phase] = {
    AttemptPhase.FETCHING: Phase.STARTING,
    AttemptPhase.RUNNING: Phase.RUNNING,
    AttemptPhase.STOPPING: Phase.STOPPING,
    AttemptPhase.SAVING: Phase.RUNNING,
    AttemptPhase.COMPLETED: Phase.COMPLETED,
    AttemptPhase.STOPPED: Phase.STOPPED,
    AttemptPhase.FAILED: Phase.FAILED,
    AttemptPhase.RELEASED: Phase.FAILED,
}


def observation(
    one: ReportedAttempt, attempt: Attempt, report: NodeReport, document: Document
) -> Observation:
    """Return what the report says of an attempt, as news of a training job. Its times are counted
    by the agent since its start, and set against the time of the report's writing."""
    born = document.written_at - report.uptime_ms
    began = None if one.began_ms is None else born + one.began_ms
    phase, verdict = _PHASES[one.state], Verdict.OK
    message = one.failure
    if phase is Phase.RUNNING and began is None:
        phase = Phase.STARTING
    if one.state is AttemptPhase.RELEASED:
        verdict = Verdict.RELEASED
    elif one.state in {AttemptPhase.FAILED, AttemptPhase.STOPPED}:
        phase, verdict, message = _failure(one, attempt)
    ended = document.written_at if one.ended_ms is None else born + one.ended_ms
    ended = max(ended, attempt.running_since or ended)  # Each report's own `born` is a second off.
    return Observation(
        training_job=one.attempt,
        phase=phase,
        at=ended if phase.ended else (began or document.written_at),
        running_since=began,
        verdict=verdict,
        max_runtime=phase is Phase.FAILED and one.why is EndReason.MAX_RUNTIME,
        shared_fault=phase is Phase.FAILED and one.why is EndReason.SHARED_FAULT,
        gpu_bound=one.gpu_bound,
        message=message,
        artifact=one.artifact,
        checkpoints=one.checkpoints,
        metrics=tuple(final_metrics(one.metrics).items()) if phase.ended else (),
    )


def _failure(one: ReportedAttempt, attempt: Attempt) -> tuple[Phase, Verdict, str]:
    """Return the end of an attempt that did not complete.

    A node that lost its lease or was stopped is at fault, and so is one that obeyed an order that
    the table does not know: the orders to leave, say. The job waits again then, also after a fault
    of a GPU that it shares.
    """
    unknown_order = one.why in _ORDERED and attempt.stop is None
    if one.why in _OF_THE_NODE or unknown_order:
        message = one.failure or f"node {attempt.node} ended the attempt"
        return Phase.FAILED, Verdict.REQUEUE, message
    if one.why is EndReason.SHARED_FAULT:
        message = f"node {attempt.node}: {one.failure}" if one.failure else ""
        return Phase.FAILED, Verdict.REQUEUE, message
    if one.why is EndReason.MAX_RUNTIME:
        return Phase.FAILED, Verdict.FAIL, one.failure or _MAX_RUNTIME
    if one.state is AttemptPhase.STOPPED and attempt.stop is not None:
        return Phase.STOPPED, Verdict.OK, one.failure
    if one.state is AttemptPhase.STOPPED:
        return Phase.FAILED, Verdict.REQUEUE, one.failure or "its node ended it for no reason"
    return Phase.FAILED, Verdict.FAIL, one.failure


def _finding(node: Node, text: str) -> Finding:
    return Finding(kind=FINDING, subject=f"node {node.pool}/{node.name}", text=text)
