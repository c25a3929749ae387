"""The TrainingService of attempts on nodes, and what the effects make of its answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slotq_core.errors import Unavailable
from slotq_core.model.attempts import AttemptOutcome, StopCause
from slotq_core.model.jobs import JobState
from slotq_core.model.projects import Prescription, Project
from slotq_core.model.sharing import Sharing
from slotq_core.operations.effects import HANDLER_LIFETIME
from slotq_core.operations.nodes.node_training import NodeTraining
from slotq_core.ports.training import Phase, Verdict
from slotq_core.wire.nodes.documents import AttemptPhase, ReportedAttempt
from tests.contract.keeping_nodes import ending_node
from tests.contract.worlds import REQUEST
from tests.unit.nodes.queue_of_nodes import QueueOfNodes

S = JobState


def service(queue: QueueOfNodes, *names: str) -> NodeTraining:
    """The service of these jobs' attempts, as a handler makes it that reads them now."""
    jobs = [queue.job(name) for name in names]
    return queue.effects.node_services.trainings(jobs)[names[0]]


def test_an_attempt_that_was_never_ordered_does_not_exist() -> None:
    queue = QueueOfNodes()
    queue.admit("one", 0)
    training = service(queue, "one")
    assert training.describe("one") is None
    assert training.look_into("one", now=queue.clock.now()) is None
    assert training.live().names == frozenset()


def test_an_attempt_that_is_ordered_starts() -> None:
    queue = QueueOfNodes()
    queue.start("one", 0)
    queue.agent.report()
    training = service(queue, "one")
    seen = training.describe("one")
    assert seen is not None
    assert (seen.phase, training.live().names) == (Phase.STARTING, frozenset({"one"}))
    found = training.look_into("one", now=queue.clock.now())
    assert found is not None
    assert found.ours


def test_a_report_describes_an_attempt() -> None:
    queue = QueueOfNodes()
    queue.start("one", 0)
    queue.agent.read()
    queue.agent.end("one", AttemptPhase.COMPLETED)
    queue.agent.report()
    seen = service(queue, "one").describe("one")
    assert seen is not None
    assert (seen.phase, seen.at) == (Phase.COMPLETED, queue.clock.now())


@pytest.mark.parametrize("others", [0, 32])
def test_an_attempt_that_the_agent_has_forgotten_waits_again(others: int) -> None:
    """Unless the agent is full: it may begin the attempt yet."""
    queue = QueueOfNodes()
    queue.start("one", 0)
    queue.agent.read()
    queue.agent.attempts = {
        f"a{n}": ReportedAttempt(attempt=f"a{n}", state=AttemptPhase.RUNNING) for n in range(others)
    }
    queue.agent.report()
    seen = service(queue, "one").describe("one")
    assert seen is not None
    expected = (Phase.STARTING, Verdict.OK) if others else (Phase.FAILED, Verdict.REQUEUE)
    assert (seen.phase, seen.verdict) == expected


def test_a_report_without_proof_describes_nothing() -> None:
    queue = QueueOfNodes()
    queue.start("one", 0)
    queue.documents.write_report(queue.node, b"{}")
    with pytest.raises(Unavailable):
        service(queue, "one").describe("one")


def test_an_attempt_of_a_node_that_has_ended_waits_again() -> None:
    queue = QueueOfNodes()
    queue.start("one", 0)
    training = service(queue, "one")
    queue.store._state.nodes.clear()  # type: ignore[attr-defined]
    seen = training.describe("one")
    assert seen is not None
    assert seen.verdict is Verdict.REQUEUE
    assert training.live().names == frozenset()
    assert training.stop("one").verdict is Verdict.FAIL
    assert training.create(REQUEST, queue.job("one"), queue.attempt("one")).verdict is (
        Verdict.REQUEUE
    )


def test_another_generation_is_another_node() -> None:
    queue = QueueOfNodes()
    queue.start("one", 0)
    job = queue.job("one")
    assert job.attempt
    later = replace(job.attempt, node_generation=job.attempt.node_generation + 1)
    training = queue.effects.node_services.trainings([replace(job, attempt=later)])["one"]
    assert training.create(REQUEST, job, later).verdict is Verdict.REQUEUE
    assert queue.documents.calls.count("PUT") == 0


# --- intents of dead handlers


def cancelled_before_its_orders(*, ordered: bool) -> QueueOfNodes:
    """The handler of a start dies, before or after it has written the orders; then somebody cancels
    the job."""
    queue = QueueOfNodes()
    queue.admit("one", 0)
    if ordered:
        queue.effects.node_services.orders.write(queue.node, starts={"one"})
    queue.stop("one", StopCause.CANCELLED)
    queue.later(HANDLER_LIFETIME / 1000)
    assert queue.effects.stale([queue.job("one")])
    queue.effects.carry_out(queue.job("one"))
    return queue


def test_a_cancelled_start_without_orders_is_over() -> None:
    queue = cancelled_before_its_orders(ordered=False)
    assert queue.job("one").state is S.CANCELLED
    assert queue.documents.orders(queue.node) is None


def test_a_cancelled_start_with_orders_is_stopped() -> None:
    queue = cancelled_before_its_orders(ordered=True)
    assert queue.ordered() == {"one": "stop"}
    queue.settle()
    assert queue.job("one").state is S.CANCELLED


def in_a_project(queue: QueueOfNodes, **rules: Any) -> None:
    project = Project(name="vision", requests=Prescription(**rules))
    sharing = Sharing(projects=(project,))
    queue.store.configuration.change(None, sharing=sharing, who="the test", now=queue.clock.now())


FORBIDS = {"instance_types": {"training": ("ml.none.*",)}}


@pytest.mark.parametrize("ordered", [False, True])
def test_what_a_project_forbids_is_not_started(ordered: bool) -> None:
    """What a dead handler has ordered under earlier rules runs on, as on SageMaker."""
    queue = QueueOfNodes()
    in_a_project(queue)
    job = queue.admit("one", 0, project="vision")
    if ordered:
        queue.effects.node_services.orders.write(queue.node, starts={"one"})
        queue.later(HANDLER_LIFETIME / 1000)
    in_a_project(queue, **FORBIDS)
    queue.effects.carry_out(job)
    if ordered:
        assert (queue.ordered(), queue.attempt("one").created) == ({"one": "run"}, True)
        return
    found = queue.store.jobs.with_attempts("one")
    assert found is not None
    assert (found[0].state, found[1][0].outcome) == (S.HELD, AttemptOutcome.FORBIDDEN)
    assert queue.documents.orders(queue.node) is None


def test_what_has_started_runs_on_though_its_orders_are_lost() -> None:
    queue = QueueOfNodes()
    in_a_project(queue)
    queue.start("one", 0, project="vision")
    queue.settle()
    in_a_project(queue, **FORBIDS)
    queue.documents.lose_orders(queue.node)
    queue.later(1)
    queue.effects.node_services.orders.write(queue.node)
    assert queue.ordered() == {"one": "run"}


def test_orders_have_what_a_project_prescribes() -> None:
    queue = QueueOfNodes()
    in_a_project(queue, fixed={"Environment": {"TEAM": "vision"}})
    queue.start("one", 0, project="vision")
    assert queue.orders().attempts[0].request["Environment"] == {"TEAM": "vision"}


def test_a_node_that_ends_takes_no_order_with_it() -> None:
    queue = QueueOfNodes()
    queue.start("one", 0)
    queue.settle()
    queue.agent.end("one", AttemptPhase.COMPLETED)
    queue.settle()
    queue.store.decisions.commit([], nodes=[ending_node(queue.now())])
    assert queue.effects.node_services.trainings([queue.job("one")]) == {}
