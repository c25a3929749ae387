"""What the orders of a node say, whoever writes them and whatever happens meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from slotq_core.errors import Conflict, Unavailable
from slotq_core.gpu_amounts import WHOLE
from slotq_core.model.attempts import AttemptOutcome, StopCause
from slotq_core.model.jobs import JobState
from slotq_core.model.nodes import MOST_JOBS, NodeState
from slotq_core.operations.effects import HANDLER_LIFETIME
from slotq_core.wire.nodes.documents import GRACE, LARGEST_ORDERS
from tests.contract.keeping_nodes import (
    TENANT,
    becoming,
    changed,
    coming,
    ending_node,
    ready,
    waits_for_gpus,
)
from tests.contract.worlds import REQUEST, a_job, commit, completing
from tests.unit.nodes.queue_of_nodes import QueueOfNodes

S = JobState


def test_an_attempt_is_ordered_with_what_it_needs() -> None:
    queue = QueueOfNodes(suspend_grace=7_000)
    queue.start("one", 2, 5)
    orders = queue.orders()
    assert (orders.node, orders.generation) == ("n1", queue.node.generation)
    assert orders.number == queue.clock.now()
    assert (orders.lease_s, orders.leave) == (60, False)
    (order,) = orders.attempts
    assert (order.attempt, order.job, order.number, order.gpus) == ("one", "one", 1, (2, 5))
    assert (order.cpus, order.memory_mib, order.grace_s) == (None, None, 7)
    assert (order.stop, order.suspend) == (False, None)
    assert order.request == {"HyperParameters": REQUEST["HyperParameters"]}
    assert queue.attempt("one").created


def test_an_order_names_the_part_of_the_gpu_and_as_many_cpus() -> None:
    queue = QueueOfNodes()
    queue.start("whole", 0)
    job = waits_for_gpus(queue.store, "part")
    queue.effects.carry_out(commit(queue.store, coming(job, queue.node, 3, part=25)))
    part, whole = queue.orders().attempts
    assert queue.now().contents["vcpus"] == 96
    assert (part.gpus, part.gpu_part, part.cpus) == ((3,), 25, 3)
    assert (whole.gpus, whole.gpu_part, whole.cpus) == ((0,), None, None)


def test_a_pool_without_a_grace_has_that_of_nodes() -> None:
    queue = QueueOfNodes()
    queue.start("one", 0)
    assert queue.orders().attempts[0].grace_s == GRACE


def test_a_job_gets_what_earlier_attempts_left_of_its_runtime() -> None:
    queue = QueueOfNodes()
    queue.start("one", 0, ran=3_600_000)
    request = queue.orders().attempts[0].request
    assert request["StoppingCondition"] == {"MaxRuntimeInSeconds": 86_400 - 3_600}


def test_the_starts_of_a_pass_are_ordered_at_once() -> None:
    queue = QueueOfNodes()
    jobs = [queue.admit(f"job{n}", n) for n in range(8)]
    queue.documents.calls.clear()
    assert queue.effects.carry_out_all(jobs, ahead=True).as_planned
    assert [call.split()[0] for call in queue.documents.calls] == ["GET", "PUT"]
    assert queue.ordered() == {f"job{n}": "run" for n in range(8)}
    assert all(queue.attempt(f"job{n}").created for n in range(8))


def test_orders_that_say_the_same_are_not_written() -> None:
    queue = QueueOfNodes()
    queue.start("one", 0)
    before = queue.orders()
    queue.documents.calls.clear()
    queue.later(1)
    queue.effects.node_services.orders.write(queue.node)
    assert queue.orders() == before
    assert not [call for call in queue.documents.calls if call.startswith("PUT")]


def test_a_start_of_another_handler_is_not_ordered_before_that_handler_does() -> None:
    """It may still take it back."""
    queue = QueueOfNodes()
    queue.admit("theirs", 0)
    queue.start("ours", 1)
    assert queue.ordered() == {"ours": "run"}
    queue.effects.carry_out(queue.job("theirs"))
    queue.effects.node_services.orders.write(queue.node)
    assert queue.ordered() == {"ours": "run", "theirs": "run"}


def test_a_repeated_start_changes_nothing() -> None:
    """Its handler died between the orders and the confirmation."""
    queue = QueueOfNodes()
    job = queue.admit("one", 0)
    queue.effects.node_services.orders.write(queue.node, starts={"one"})
    before = queue.orders()
    queue.later(HANDLER_LIFETIME / 1000)
    assert queue.effects.stale([job]) == [job]
    queue.effects.carry_out(job)
    assert (queue.orders(), queue.attempt("one").created) == (before, True)


def test_an_end_is_left_out_of_the_next_orders() -> None:
    queue = QueueOfNodes()
    queue.start("one", 0)
    commit(queue.store, completing(queue.job("one")))
    queue.start("two", 0)
    assert queue.ordered() == {"two": "run"}


@pytest.mark.parametrize("cause", [StopCause.EVICTED, StopCause.CANCELLED])
def test_a_stop_is_ordered(cause: StopCause) -> None:
    queue = QueueOfNodes()
    queue.start("one", 0)
    queue.effects.carry_out(queue.stop("one", cause))
    assert queue.ordered() == {"one": "stop"}
    stop = queue.attempt("one").stop
    assert stop is not None
    assert stop.sent


def test_a_stop_that_only_its_commit_knows_is_ordered_by_whoever_writes_next() -> None:
    queue = QueueOfNodes()
    queue.start("one", 0)
    queue.stop("one")
    queue.start("two", 1)
    assert queue.ordered() == {"one": "stop", "two": "run"}


def test_a_grace_is_a_request_to_suspend_and_then_a_stop() -> None:
    queue = QueueOfNodes()
    queue.start("one", 0)
    queue.effects.carry_out(queue.stop("one", grace=20_000))
    (order,) = queue.orders().attempts
    assert order.suspend is not None
    assert (order.stop, order.grace_s) == (False, 20)
    assert (order.suspend.by, order.suspend.reason) == ("urgent", "evicted")
    stop = queue.attempt("one").stop
    assert stop is not None
    assert not stop.sent
    queue.later(20)
    assert queue.effects.due([queue.job("one")]) == [queue.job("one")]
    queue.effects.carry_out(queue.job("one"))
    assert queue.ordered() == {"one": "stop"}


def test_a_grace_that_cannot_be_asked_for_is_asked_for_later() -> None:
    queue = QueueOfNodes()
    queue.start("one", 0)
    queue.documents.out_of_reach = True
    job = queue.stop("one", grace=20_000)
    assert len(queue.effects.carry_out_all([job]).troubles) == 1
    queue.documents.out_of_reach = False
    queue.new_handler().carry_out(queue.job("one"))
    assert queue.ordered() == {"one": "suspend"}


def test_a_stop_stays_a_stop() -> None:
    """A clock that is behind sees the grace again."""
    queue = QueueOfNodes()
    queue.start("one", 0)
    queue.stop("one", grace=20_000)
    orders = queue.effects.node_services.orders
    orders.write(queue.node, stops={"one"})
    assert queue.ordered() == {"one": "stop"}
    orders.write(queue.node)
    assert queue.ordered() == {"one": "stop"}


def test_a_node_that_stops_is_ordered_to_leave() -> None:
    queue = QueueOfNodes()
    queue.start("one", 0)
    changed(queue.store, becoming(queue.now(), NodeState.STOPPING))
    queue.effects.node_services.orders.write(queue.node)
    assert queue.orders().leave


def test_nothing_is_written_to_a_node_that_has_ended() -> None:
    queue = QueueOfNodes()
    old = queue.node
    queue.store.decisions.commit([], nodes=[ending_node(old)])
    assert queue.effects.node_services.orders.write(old) is None
    ready(queue.store)
    assert queue.effects.node_services.orders.write(old) is None
    assert not [call for call in queue.documents.calls if call.startswith("PUT")]


def test_a_start_on_a_node_that_has_ended_waits_again() -> None:
    """A restored table may say so."""
    queue = QueueOfNodes()
    job = queue.admit("one", 0)
    queue.store._state.nodes.clear()  # type: ignore[attr-defined]
    queue.effects.carry_out(job)
    assert queue.job("one").state is S.BACKOFF


def test_the_number_rises_whatever_the_clock_says() -> None:
    queue = QueueOfNodes()
    queue.start("one", 0)
    first = queue.orders().number
    queue.start("two", 1)
    assert queue.orders().number == first + 1
    queue.later(10)
    queue.start("three", 2)
    assert queue.orders().number == queue.clock.now()


def test_lost_orders_go_on_above_those_that_the_agent_has_read() -> None:
    queue = QueueOfNodes()
    for n in range(3):
        queue.start(f"job{n}", n)
    queue.settle()
    queue.documents.lose_orders(queue.node)
    queue.later(1)
    queue.start("next", 7)
    assert queue.ordered() == {"job0": "run", "job1": "run", "job2": "run", "next": "run"}
    queue.settle()
    assert queue.agent.begun == ["job0", "job1", "job2", "next"]


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"{}", b'{"version":2}'])
def test_orders_that_cannot_be_read_are_written_anew(content: bytes) -> None:
    queue = QueueOfNodes()
    queue.start("one", 0)
    queue.settle()
    there = queue.documents.orders(queue.node)
    assert there is not None
    queue.documents.put_orders(queue.node, content, replaces=there.version)
    queue.later(1)
    queue.start("two", 1)
    assert queue.ordered() == {"one": "run", "two": "run"}
    queue.settle()
    assert queue.agent.begun == ["one", "two"]


def test_a_job_that_cannot_be_read_runs_on(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = QueueOfNodes()
    queue.start("one", 0)
    several = queue.store.jobs.several

    def without(names: list[str], **more: Any) -> Any:
        assert more == {"readable_only": True}
        return several([name for name in names if name != "one"])

    monkeypatch.setattr(queue.store.jobs, "several", without)
    queue.start("two", 1)
    assert queue.ordered() == {"one": "run", "two": "run"}


def test_a_node_without_users_takes_the_jobs_of_one_person() -> None:
    queue = QueueOfNodes(is_ready=False)
    queue.agent.uids = False
    queue.settle()
    assert queue.now().one_person
    other = "arn:aws:iam::123456789012:user/eve"
    queue.start("ours", 0)
    with pytest.raises(Conflict):
        queue.start("theirs", 1, submitter=other)
    queue.start("ours-too", 2)
    assert queue.ordered() == {"ours": "run", "ours-too": "run"}
    assert queue.job("theirs").state is S.PENDING


def submitted(queue: QueueOfNodes, name: str, value: str, gpu: int) -> None:
    """Start a job with as many and as long hyperparameters as SageMaker takes, of this text."""
    values = {f"{n:0>256}": (value * 2500)[:2500] for n in range(100)}
    fields = {"gpus": WHOLE, "tenant": TENANT}
    job = queue.store.jobs.submit(a_job(name, **fields), {"HyperParameters": values})
    queue.effects.carry_out(queue.admit_again(job, gpu))


def test_a_request_that_would_leave_no_room_for_others_ends_its_job_alone() -> None:
    queue = QueueOfNodes()
    submitted(queue, "long", "x", 0)
    submitted(queue, "longer", "ä", 1)
    queue.start("one", 2)
    assert queue.ordered() == {"long": "run", "one": "run"}
    assert queue.job("longer").state is S.FAILED
    assert "whole instance" in queue.job("longer").message
    document = queue.documents.orders(queue.node)
    assert document is not None
    assert len(document.content) * MOST_JOBS < LARGEST_ORDERS


# --- handlers beside each other


class Interrupted(Exception):
    """A handler dies."""


def interrupt(queue: QueueOfNodes, at: int, do: Callable[[], None]) -> list[str]:
    """Do something before the n-th call of the next handler to the documents, or to the table about
    the node. Returns the calls, as they are made."""
    calls: list[str] = []
    doing = False

    def around(owner: Any, word: str) -> None:
        original = getattr(owner, word)

        def called(*arguments: Any, **more: Any) -> Any:
            nonlocal doing
            if not doing:
                calls.append(word)
                if len(calls) == at:
                    doing = True
                    do()
                    doing = False
            return original(*arguments, **more)

        setattr(owner, word, called)

    around(queue.documents, "orders")
    around(queue.documents, "put_orders")
    around(queue.store.nodes, "get")
    around(queue.store.nodes, "jobs")
    around(queue.store.jobs, "several")
    around(queue.store.decisions, "commit")
    return calls


def starts_another(queue: QueueOfNodes) -> None:
    queue.start("other", 1)


def stops_another(queue: QueueOfNodes) -> None:
    queue.effects.carry_out(queue.stop("there"))


def ends_another(queue: QueueOfNodes) -> None:
    commit(queue.store, completing(queue.job("there")))
    queue.effects.node_services.orders.write(queue.node)


def leaves(queue: QueueOfNodes) -> None:
    changed(queue.store, becoming(queue.now(), NodeState.STOPPING))
    queue.effects.node_services.orders.write(queue.node)


MEANWHILE: dict[Callable[[QueueOfNodes], None], dict[str, str]] = {
    starts_another: {"there": "run", "one": "run", "other": "run"},
    stops_another: {"there": "stop", "one": "run"},
    ends_another: {"one": "run"},
    leaves: {"there": "run", "one": "run"},
}
STEPS = 8
"""The calls of a handler that starts a job: its commit, get, orders, get, jobs, several, put_orders
and the commit of the confirmation."""


@pytest.mark.parametrize("at", range(2, STEPS + 1))
@pytest.mark.parametrize("meanwhile", MEANWHILE, ids=lambda do: do.__name__)
def test_the_last_orders_contain_every_commit(
    meanwhile: Callable[[QueueOfNodes], None], at: int
) -> None:
    queue = QueueOfNodes()
    queue.start("there", 0)
    calls = interrupt(queue, at, lambda: meanwhile(queue))
    queue.start("one", 2)
    assert len(calls) >= STEPS
    assert queue.ordered() == MEANWHILE[meanwhile]
    assert queue.orders().leave is (meanwhile is leaves)
    assert queue.attempt("one").created


@pytest.mark.parametrize("at", range(1, STEPS))
def test_a_handler_that_dies_at_any_call_is_finished_by_the_next(at: int) -> None:
    queue = QueueOfNodes()
    job = queue.admit("one", 0)

    def die() -> None:
        raise Interrupted

    interrupt(queue, at, die)
    with pytest.raises(Interrupted):
        queue.effects.carry_out(job)
    queue.later(HANDLER_LIFETIME / 1000)
    queue.settle()
    for left in queue.effects.stale([queue.job("one")]):
        queue.effects.carry_out(left)
    queue.settle()
    assert (queue.ordered(), queue.agent.begun) == ({"one": "run"}, ["one"])
    assert queue.job("one").state is S.RUNNING


def test_whoever_loses_each_time_leaves_its_intent() -> None:
    queue = QueueOfNodes()
    queue.start("there", 0)
    orders, put = queue.effects.node_services.orders, queue.documents.put_orders

    def always_late(node: Any, content: bytes, *, replaces: str | None) -> None:
        raise Conflict("others have been written")

    queue.documents.put_orders = always_late  # type: ignore[method-assign]
    job = queue.admit("one", 1)
    with pytest.raises(Unavailable):
        queue.effects.carry_out(job)
    with pytest.raises(Conflict):
        orders.write(queue.node, starts={"one"})
    queue.documents.put_orders = put  # type: ignore[method-assign]
    queue.effects.carry_out(queue.job("one"))
    assert queue.ordered() == {"there": "run", "one": "run"}


# --- failures of the bucket


def test_starts_that_may_have_been_ordered_are_not_taken_back() -> None:
    """A write without an answer may have taken effect."""
    queue = QueueOfNodes()
    jobs = [queue.admit(f"job{n}", n) for n in range(3)]
    put = queue.documents.put_orders

    def unanswered(*arguments: Any, **more: Any) -> None:
        put(*arguments, **more)
        raise Unavailable("no answer")

    queue.documents.put_orders = unanswered  # type: ignore[method-assign]
    carried = queue.effects.carry_out_all(jobs, ahead=True)
    assert (carried.untried, len(carried.troubles)) == ((), 3)
    assert queue.ordered() == {"job0": "run", "job1": "run", "job2": "run"}
    queue.documents.put_orders = put  # type: ignore[method-assign]
    assert queue.effects.carry_out_all([queue.job(job.name) for job in jobs]).as_planned


def test_starts_that_are_ordered_are_not_taken_back_for_want_of_time() -> None:
    queue = QueueOfNodes()
    jobs = [queue.admit(f"job{n}", n) for n in range(3)]
    until, put = queue.clock.now() + 1, queue.documents.put_orders

    def slow(*arguments: Any, **more: Any) -> None:
        put(*arguments, **more)
        queue.later(1)

    queue.documents.put_orders = slow  # type: ignore[method-assign]
    carried = queue.effects.carry_out_all(jobs, until=until, ahead=True)
    assert (carried.untried, len(carried.troubles)) == ((), 2)
    assert len(queue.ordered()) == 3


def test_starts_without_time_are_left_to_be_taken_back() -> None:
    queue = QueueOfNodes()
    jobs = [queue.admit(f"job{n}", n) for n in range(2)]
    carried = queue.effects.carry_out_all(jobs, until=queue.clock.now(), ahead=True)
    assert [job.name for job in carried.untried] == ["job0", "job1"]
    assert queue.documents.calls == []


def test_a_deployment_without_a_bucket_leaves_the_intents_of_nodes() -> None:
    queue = QueueOfNodes()
    job = queue.admit("one", 0)
    queue.documents = None  # type: ignore[assignment]
    (trouble,) = queue.new_handler().carry_out_all([job]).troubles
    assert "keeps no nodes" in trouble
    assert queue.job("one").state is S.STARTING


def test_a_cancelled_job_ends_cancelled() -> None:
    queue = QueueOfNodes()
    queue.start("one", 0)
    queue.settle()
    queue.effects.carry_out(queue.stop("one", StopCause.CANCELLED))
    queue.settle()
    found = queue.store.jobs.with_attempts("one")
    assert found is not None
    job, (attempt,) = found
    assert (job.state, attempt.outcome) == (S.CANCELLED, AttemptOutcome.CANCELLED)
