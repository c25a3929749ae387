"""What reports of nodes change, and what they cannot."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slotq_core.errors import Unavailable
from slotq_core.gpu_amounts import WHOLE
from slotq_core.model.attempts import AttemptOutcome, GpuBound, StopCause
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Claim, JobState
from slotq_core.model.nodes import NodeState
from slotq_core.operations.nodes.reports import Taken
from slotq_core.ports.stored import Change, Finding
from slotq_core.wire.nodes.documents import (
    LARGEST_REPORT,
    AttemptPhase,
    EndReason,
    ReportedAttempt,
    written_report,
)
from slotq_core.wire.views.jobs import job_view
from tests.contract.keeping_nodes import (
    becoming,
    changed,
    ending_node,
    ready,
    waits_for_gpus,
)
from tests.contract.worlds import NOW, commit
from tests.unit.nodes.queue_of_nodes import QueueOfNodes

S, P, W, X = JobState, AttemptPhase, EndReason, AttemptOutcome


def ended(queue: QueueOfNodes, name: str) -> tuple[JobState, AttemptOutcome | None]:
    found = queue.store.jobs.with_attempts(name)
    assert found is not None
    return found[0].state, found[1][0].outcome


# --- the node


def test_a_starting_node_is_ready_with_what_its_agent_has_found() -> None:
    queue = QueueOfNodes(is_ready=False)
    queue.agent.gpus = 4
    queue.later(50)
    taken = queue.settle()
    node = queue.now()
    assert taken.calls_for_pass
    assert (node.state, node.created, node.idle_since) == (NodeState.READY, True, queue.clock.now())
    assert node.contents == Demand(gpus=4, vcpus=96, memory_gib=1_000)
    assert (node.running_since, node.one_person) == (NOW + 1000, False)
    assert (node.reports, node.reported_at) == (1, queue.clock.now())
    assert node.lease_until == queue.clock.now() + 1000 + 60_000


def test_the_problems_of_a_report_are_kept_as_short_lines_until_the_next() -> None:
    queue = QueueOfNodes()
    said = ("no route:\n404\x1b[31m  red", "x" * 300, *"abcdef")
    queue.agent.report(problems=said)
    queue.take_in()
    kept = queue.now().problems
    assert kept[0] == "no route: red"
    assert (len(kept), len(kept[1]), kept[1][-2:], kept[-1]) == (5, 200, "x…", "c")
    queue.agent.report()
    queue.take_in()
    assert queue.now().problems == ()


def test_the_report_of_a_ready_node_renews_its_lease_alone() -> None:
    queue = QueueOfNodes()
    before = queue.now()
    queue.later(20)
    assert queue.settle() == Taken(number=1)
    after = queue.now()
    assert replace(after, reports=0, reported_at=None, lease_until=None) == before
    assert after.lease_until == queue.clock.now() + 61_000


def test_a_node_without_its_gpus_is_not_ready() -> None:
    queue = QueueOfNodes(is_ready=False)
    queue.agent.gpus = 0
    (finding,) = queue.settle().findings
    assert "finds no GPUs" in finding.text
    assert queue.now().state is NodeState.STARTING


@pytest.mark.parametrize(
    ("found", "causes"),
    [(4, ("few_gpus p5 4",)), (8, ())],
)
def test_no_node_after_another_starts_for_a_job_that_none_can_hold(
    found: int, causes: tuple[str, ...]
) -> None:
    queue = QueueOfNodes(is_ready=False)
    job = waits_for_gpus(queue.store, queue.node.started_for, 8)
    claim = Claim(pool="p5", node=queue.node.name, amount=Demand(gpus=8), since=NOW)
    commit(queue.store, Change(before=job, after=replace(job, claim=claim)))
    queue.agent.gpus = found
    queue.settle()
    node, job = queue.now(), queue.job(job.name)
    assert (node.state, node.contents["gpus"]) == (NodeState.READY, found)
    assert job.whole_because == causes
    assert (job.gpus, job.tenant, job.claim) == (
        (0, "", None) if causes else (8 * WHOLE, node.tenant, claim)
    )


def test_a_small_node_changes_no_job_that_waits_elsewhere() -> None:
    queue = QueueOfNodes(is_ready=False)
    job = waits_for_gpus(queue.store, queue.node.started_for, 8)
    queue.agent.gpus = 4
    queue.settle()
    assert queue.job(job.name) == job


def test_a_node_that_leaves_drains() -> None:
    queue = QueueOfNodes()
    queue.agent.leaves = True
    assert queue.settle().calls_for_pass
    assert queue.now().state is NodeState.DRAINING


@pytest.mark.parametrize("state", [NodeState.DRAINING, NodeState.STOPPING])
def test_a_node_that_ends_does_not_become_ready_again(state: NodeState) -> None:
    queue = QueueOfNodes(is_ready=False)
    changed(queue.store, becoming(queue.now(), state))
    queue.settle()
    assert queue.now().state is state


# --- attempts


def test_an_attempt_runs_and_completes() -> None:
    queue = QueueOfNodes()
    queue.start("one", 0)
    queue.later(2)
    queue.settle()
    began = queue.clock.now()
    assert (queue.job("one").state, queue.attempt("one").running_since) == (S.RUNNING, began)
    queue.later(100)
    queue.agent.end("one", P.COMPLETED, artifact="s3://b/model.tar.gz", metrics={"loss": 0.5})
    queue.later(3)
    assert queue.settle().calls_for_pass
    found = queue.store.jobs.with_attempts("one")
    assert found is not None
    job, (attempt,) = found
    assert (job.state, job.ran, attempt.outcome) == (S.COMPLETED, 100_000, X.COMPLETED)
    assert (attempt.ended_at, attempt.artifact) == (began + 100_000, "s3://b/model.tar.gz")
    assert queue.store.nodes.jobs(queue.node) == {}


def test_no_attempt_ends_before_it_has_begun() -> None:
    """The bucket tells times in whole seconds, so each report sets the agent's count anew."""
    queue = QueueOfNodes()
    queue.start("one", 0)
    queue.settle()
    began = queue.attempt("one").running_since
    assert began is not None
    queue.agent.end("one", P.COMPLETED)
    queue.agent.born -= 600
    queue.settle()
    found = queue.store.jobs.with_attempts("one")
    assert found is not None
    job, (attempt,) = found
    assert (attempt.running_since, attempt.ended_at, job.ran) == (began, began, 0)


def test_news_of_a_start_may_be_lost() -> None:
    queue = QueueOfNodes()
    queue.start("one", 0)
    queue.later(2)
    queue.agent.read()
    queue.later(10)
    queue.agent.end("one", P.COMPLETED)
    queue.settle()
    job = queue.job("one")
    assert (job.state, job.ran) == (S.COMPLETED, 10_000)


ENDS: list[tuple[dict[str, Any], StopCause | None, tuple[JobState, AttemptOutcome]]] = [
    ({"state": P.COMPLETED}, None, (S.COMPLETED, X.COMPLETED)),
    ({"state": P.COMPLETED}, StopCause.EVICTED, (S.COMPLETED, X.COMPLETED)),
    ({"state": P.FAILED, "failure": "AlgorithmError: x"}, None, (S.FAILED, X.FAILED)),
    ({"state": P.FAILED, "why": W.MEMORY}, None, (S.FAILED, X.FAILED)),
    ({"state": P.FAILED, "why": W.MAX_RUNTIME}, None, (S.FAILED, X.MAX_RUNTIME)),
    ({"state": P.STOPPED, "why": W.MAX_RUNTIME}, None, (S.FAILED, X.MAX_RUNTIME)),
    ({"state": P.RELEASED}, None, (S.PREEMPTED, X.RELEASED)),
    ({"state": P.RELEASED, "why": W.SUSPEND}, StopCause.EVICTED, (S.PREEMPTED, X.EVICTED)),
    ({"state": P.STOPPED, "why": W.ORDER}, StopCause.EVICTED, (S.PREEMPTED, X.EVICTED)),
    ({"state": P.STOPPED, "why": W.SUSPEND}, StopCause.YIELDED, (S.PREEMPTED, X.EVICTED)),
    ({"state": P.FAILED, "why": W.ORDER}, StopCause.EVICTED, (S.PREEMPTED, X.EVICTED)),
    ({"state": P.STOPPED, "why": W.ORDER}, StopCause.CANCELLED, (S.CANCELLED, X.CANCELLED)),
    ({"state": P.FAILED, "why": W.ORDER}, None, (S.BACKOFF, X.FAULT)),
    ({"state": P.STOPPED, "why": W.ORDER}, None, (S.BACKOFF, X.FAULT)),
    ({"state": P.STOPPED, "why": W.LEASE}, None, (S.BACKOFF, X.FAULT)),
    ({"state": P.FAILED, "why": W.LEASE}, None, (S.BACKOFF, X.FAULT)),
    ({"state": P.STOPPED, "why": W.NODE}, None, (S.BACKOFF, X.FAULT)),
    ({"state": P.STOPPED, "why": W.NODE}, StopCause.CANCELLED, (S.CANCELLED, X.CANCELLED)),
    ({"state": P.STOPPED}, None, (S.BACKOFF, X.FAULT)),
    ({"state": P.FAILED, "why": W.SHARED_FAULT}, None, (S.BACKOFF, X.FAULT)),
    ({"state": P.FAILED, "why": W.SHARED_FAULT}, StopCause.EVICTED, (S.PREEMPTED, X.EVICTED)),
    ({"state": P.FAILED, "why": W.SHARED_FAULT}, StopCause.CANCELLED, (S.CANCELLED, X.CANCELLED)),
]


@pytest.mark.parametrize(("reported", "cause", "expected"), ENDS, ids=str)
def test_how_an_attempt_ends(
    reported: dict[str, Any],
    cause: StopCause | None,
    expected: tuple[JobState, AttemptOutcome],
) -> None:
    queue = QueueOfNodes()
    queue.start("one", 0, checkpoints=True)
    queue.settle()
    if cause is not None:
        queue.stop("one", cause)
    queue.agent.end("one", **reported)
    assert queue.settle().calls_for_pass
    assert ended(queue, "one") == expected
    assert queue.store.nodes.jobs(queue.node) == {}


def test_a_fault_of_a_shared_gpu_is_named_and_uses_no_retry() -> None:
    queue = QueueOfNodes()
    queue.start("one", 0, retries=2)
    queue.settle()
    said = "a fatal fault on GPU 0, of one of the jobs that share it, ended this one"
    queue.agent.end("one", P.FAILED, why=W.SHARED_FAULT, failure=said, exit=1)
    queue.settle()
    found = queue.store.jobs.with_attempts("one")
    assert found is not None
    job, (attempt,) = found
    assert (job.state, job.cause, job.retries) == (S.BACKOFF, "shared_fault", 2)
    assert job.message == attempt.message == f"node n1: {said}"


@pytest.mark.parametrize("is_late", [False, True])
def test_what_bounds_a_part_of_a_gpu_is_kept_with_the_attempt(is_late: bool) -> None:
    queue = QueueOfNodes()
    queue.start("one", 0)
    queue.agent.read()
    queue.agent.attempts["one"] = replace(queue.agent.attempts["one"], gpu_bound=GpuBound.MPS)
    if not is_late:
        queue.settle()
        assert queue.attempt("one").gpu_bound is GpuBound.MPS
        assert job_view(queue.job("one")).gpu_bound == "mps"
    queue.agent.end("one", P.COMPLETED)
    queue.settle()
    found = queue.store.jobs.with_attempts("one")
    assert found is not None
    assert found[1][0].gpu_bound is GpuBound.MPS
    view = job_view(found[0], attempts=found[1])
    assert (view.gpu_bound, view.attempts[0].gpu_bound) == ("none", "mps")


def test_what_bounded_a_part_outlives_a_node_that_has_forgotten_it() -> None:
    queue = QueueOfNodes()
    queue.start("one", 0)
    queue.agent.read()
    queue.agent.attempts["one"] = replace(queue.agent.attempts["one"], gpu_bound=GpuBound.MPS)
    queue.settle()
    queue.agent.forgotten.add("one")
    queue.settle()
    found = queue.store.jobs.with_attempts("one")
    assert found is not None
    assert (found[0].state, found[1][0].gpu_bound) == (S.BACKOFF, GpuBound.MPS)


def test_a_script_that_ends_while_it_is_saved_still_runs() -> None:
    queue = QueueOfNodes()
    queue.start("one", 0)
    queue.agent.read()
    queue.agent.attempts["one"] = replace(queue.agent.attempts["one"], state=P.SAVING)
    queue.settle()
    assert queue.job("one").state is S.RUNNING


def test_what_is_fetched_has_not_begun_to_run() -> None:
    queue = QueueOfNodes()
    queue.start("one", 0)
    queue.agent.attempts["one"] = ReportedAttempt(attempt="one", state=P.FETCHING)
    queue.settle()
    assert queue.job("one").state is S.STARTING


# --- attempts that the node does not know


def forgotten(queue: QueueOfNodes) -> None:
    """Let a job run, whose end the agent has forgotten and the table does not know: it is a copy of
    an earlier moment."""
    queue.start("one", 0)
    queue.settle()
    queue.agent.forgotten.add("one")
    del queue.agent.attempts["one"]


def test_a_forgotten_attempt_waits_again() -> None:
    queue = QueueOfNodes()
    forgotten(queue)
    assert queue.settle().calls_for_pass
    assert ended(queue, "one") == (S.BACKOFF, X.FAULT)


def test_an_attempt_is_not_missed_before_the_agent_has_read_its_orders() -> None:
    queue = QueueOfNodes()
    queue.start("one", 0)
    queue.agent.report()
    queue.take_in()
    assert queue.job("one").state is S.STARTING


def test_an_attempt_is_not_missed_where_the_orders_are_lost() -> None:
    queue = QueueOfNodes()
    forgotten(queue)
    queue.documents.lose_orders(queue.node)
    queue.agent.report()
    queue.take_in()
    assert queue.job("one").state is S.RUNNING


def test_an_attempt_is_not_missed_by_an_agent_that_is_full() -> None:
    """It begins the attempt once another one has ended."""
    queue = QueueOfNodes()
    forgotten(queue)
    queue.agent.attempts = {
        f"a{n}": ReportedAttempt(attempt=f"a{n}", state=P.RUNNING) for n in range(32)
    }
    queue.agent.report()
    queue.take_in()
    assert queue.job("one").state is S.RUNNING


# --- twice, late, not at all


def test_a_report_is_taken_in_once(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = QueueOfNodes()
    queue.start("one", 0)
    queue.settle()
    before = queue.job("one"), queue.now()

    def is_asked(*_: Any) -> None:
        raise AssertionError("the jobs of the node are read again")

    monkeypatch.setattr(queue.store.nodes, "jobs", is_asked)
    assert queue.take_in() == Taken(number=1)
    assert (queue.job("one"), queue.now()) == before


def test_an_earlier_report_changes_nothing() -> None:
    queue = QueueOfNodes()
    queue.start("one", 0)
    queue.agent.read()
    early = queue.agent.report()
    queue.agent.end("one", P.COMPLETED)
    queue.settle()
    before = queue.job("one"), queue.now()
    queue.later(5)
    queue.documents.write_report(queue.node, early)
    queue.take_in()
    stale = replace(queue.node, reports=0)
    assert queue.take_in(stale).number == 1  # A handler that has read the node before.
    assert (queue.job("one"), queue.now()) == before


def test_a_report_whose_handler_dies_is_taken_in_again(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = QueueOfNodes()
    queue.start("one", 0)
    queue.settle()
    queue.agent.end("one", P.COMPLETED)
    queue.agent.report()

    def dies(*_: Any, **__: Any) -> None:
        raise Unavailable("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(queue.store.nodes, "note_report", dies)
        with pytest.raises(Unavailable):
            queue.take_in()
    before = queue.job("one")
    assert before.state is S.COMPLETED
    queue.take_in()
    assert (queue.job("one"), queue.now().reports) == (before, 2)


def test_an_end_that_cannot_be_committed_is_taken_in_later(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = QueueOfNodes()
    for n in range(2):
        queue.start(f"job{n}", n)
    queue.settle()
    for n in range(2):
        queue.agent.end(f"job{n}", P.COMPLETED)
    queue.agent.report()

    def dies(*_: Any, **__: Any) -> None:
        raise Unavailable("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(queue.store.decisions, "commit", dies)
        taken = queue.take_in()
    assert (len(taken.findings), queue.now().reports) == (2, 1)
    queue.take_in()
    assert {queue.job(f"job{n}").state for n in range(2)} == {S.COMPLETED}


def test_an_end_that_cannot_be_committed_makes_no_node_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue = QueueOfNodes()
    queue.start("one", 0)
    queue.settle()
    queue.agent.end("one", P.COMPLETED)

    def dies(*_: Any, **__: Any) -> None:
        raise Unavailable("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(queue.store.decisions, "commit", dies)
        for _ in range(10):
            queue.later(30)
            assert queue.settle().findings
            lease = queue.now().lease_until
            assert lease is not None
            assert lease > queue.clock.now()
    queue.take_in()
    assert queue.job("one").state is S.COMPLETED


# --- forged reports


def state(queue: QueueOfNodes) -> tuple[Any, ...]:
    return queue.job("one"), queue.job("other"), queue.now(), queue.ordered()


@pytest.fixture
def queue() -> QueueOfNodes:
    """Two jobs on two nodes; the first node's agent has reported."""
    queue = QueueOfNodes()
    queue.start("one", 0)
    queue.settle()
    node = ready(queue.store, "n2", contents=Demand(gpus=8))
    job = queue.admit_again(waits_for_gpus(queue.store, "other"), 0, node=node)
    queue.effects.carry_out(job)
    return queue


def ends(*names: str) -> tuple[ReportedAttempt, ...]:
    return tuple(ReportedAttempt(attempt=name, state=P.COMPLETED, ended_ms=1) for name in names)


def test_an_unproven_report_changes_nothing_and_is_told(queue: QueueOfNodes) -> None:
    before = state(queue)
    forged = written_report(queue.agent.said(attempts=ends("one", "other")), "another token")
    queue.documents.write_report(queue.node, forged)
    (finding,) = queue.take_in().findings
    assert finding == Finding(
        kind="report", subject="node p5/n1", text="the report of node n1 lacks the node's proof"
    )
    assert state(queue) == before


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"hmac": 1}',
        b'{"a": 1, "a": 2}',
        b"[" * 100_000,
        b"x" * (LARGEST_REPORT + 1),
    ],
    ids=lambda content: repr(content[:12]),
)
def test_what_is_no_report_changes_nothing_and_is_told(queue: QueueOfNodes, content: bytes) -> None:
    before = state(queue)
    queue.documents.write_report(queue.node, content)
    assert len(queue.take_in().findings) == 1
    assert state(queue) == before


@pytest.mark.parametrize("more", [{"node": "n2"}, {"generation": 1}, {"generation": 99}], ids=str)
def test_a_report_of_another_node_or_generation_changes_nothing(
    queue: QueueOfNodes, more: dict[str, Any]
) -> None:
    """Even with the proof of this node."""
    before = state(queue)
    queue.agent.report(attempts=ends("one", "other"), **more)
    assert len(queue.take_in().findings) == 1
    assert state(queue) == before


def test_even_with_the_proof_a_report_ends_attempts_of_its_node_alone(queue: QueueOfNodes) -> None:
    queue.start("neighbour", 3)
    other = queue.job("other")
    queue.agent.report(attempts=ends("one", "other", "unknown"))
    assert queue.take_in().findings == ()
    assert queue.job("one").state is S.COMPLETED
    assert queue.job("other") == other
    assert queue.job("neighbour").state is S.STARTING


def test_a_report_of_the_generation_before_ends_nothing() -> None:
    queue = QueueOfNodes()
    old = queue.node
    queue.store.decisions.commit([], nodes=[ending_node(queue.now())])
    queue.node = ready(queue.store, contents=Demand(gpus=8))
    queue.start("one", 0)
    before = queue.job("one"), queue.now()
    content = written_report(
        replace(queue.agent.said(attempts=ends("one")), generation=old.generation), old.token
    )
    queue.documents.write_report(old, content)
    queue.take_in(old)
    queue.documents.write_report(queue.node, content)
    assert len(queue.take_in().findings) == 1
    assert (queue.job("one"), queue.now()) == before


# --- all nodes


def test_trouble_with_one_node_stops_no_other(
    queue: QueueOfNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.agent.end("one", P.COMPLETED)
    queue.agent.report()
    other = queue.store.nodes.get("p5", "n2")
    assert other is not None
    report = queue.documents.report

    def refuses(node: Any) -> Any:
        if node.name == "n2":
            raise Unavailable("no answer")
        return report(node)

    monkeypatch.setattr(queue.documents, "report", refuses)
    reports = queue.effects.node_services.reports
    taken = [*reports.take_in_all([other, queue.now()], until=queue.clock.now() + 1)]
    assert [len(one.findings) for one in taken] == [1, 0]
    assert queue.job("one").state is S.COMPLETED
    assert [*reports.take_in_all([queue.now()], until=queue.clock.now())] == []


def test_a_node_that_has_changed_since_it_was_read_becomes_ready() -> None:
    queue = QueueOfNodes(is_ready=False)
    stale = queue.now()
    changed(queue.store, becoming(stale, NodeState.STARTING, created=True))
    queue.agent.report()
    assert queue.take_in(stale).calls_for_pass
    assert queue.now().state is NodeState.READY
