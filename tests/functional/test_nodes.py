"""Nodes through the real handler: their reports wake it by the route of the API and by its tick."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import app
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.gpu_amounts import WHOLE
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import JobState
from slotq_core.model.nodes import Node, NodeState
from slotq_core.model.pools import NodeRules
from slotq_core.ports.stored import NodeChange
from slotq_core.wire.nodes.documents import (
    LARGEST_REPORT,
    AttemptPhase,
    Gpu,
    NodePhase,
    NodeReport,
    Orders,
    ReportedAttempt,
    read_orders,
    read_report,
    written_report,
)
from tests.contract.keeping_nodes import TENANT, a_node
from tests.contract.worlds import REQUEST, a_job, a_pool
from tests.functional.account import NODES_BUCKET, NOW, TABLE, Account, forget, sample

S = JobState


class QueueWithNode:
    """The handler, with a pool that keeps nodes, a starting node and a job that waits for it."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.store = DynamoStore(account.dynamodb, TABLE, clock=account.clock.now)
        pool = replace(a_pool("main", 2), nodes=NodeRules(gpus=2))
        self.store.configuration.change([pool], who="the test", now=NOW)
        generation = self.store.worlds.load(NOW).ledgers["main"].version + 1
        fields: dict[str, Any] = {"started_at": NOW, "created": True, "contents": Demand(gpus=2)}
        node = a_node(pool="main", generation=generation, **fields)
        self.store.decisions.commit([], nodes=[NodeChange(before=None, after=node)])
        self.node = node
        self.number = 0
        self.submit("job1")

    def submit(self, name: str) -> None:
        job = a_job(
            name, gpus=WHOLE, tenant=TENANT, pools=("main",), entry_time=NOW, changed_at=NOW
        )
        self.store.jobs.submit(job, REQUEST)
        self.store.scheduler.bump()

    def now(self) -> Node:
        found = self.store.nodes.get("main", self.node.name)
        assert found is not None
        return found

    def state(self, name: str) -> JobState:
        found = self.store.jobs.get(name)
        assert found is not None
        return found.state

    def reports(self, *attempts: ReportedAttempt, token: str | None = None) -> None:
        """The agent writes a report."""
        self.number += 1
        orders = self.orders()
        report = NodeReport(
            node=self.node.name,
            generation=self.node.generation,
            number=self.number,
            orders=orders.number if orders else 0,
            uptime_ms=60_000,
            state=NodePhase.READY,
            uids=True,
            gpus=(Gpu(index=0, id="0"), Gpu(index=1, id="1")),
            attempts=attempts,
        )
        content = written_report(report, token or self.node.token)
        self.account.s3.objects[NODES_BUCKET, f"{self._folder}/report.json"] = content

    def orders(self) -> Orders | None:
        content = self.account.s3.objects.get((NODES_BUCKET, f"{self._folder}/orders.json"))
        return None if content is None else read_orders(content)

    @property
    def _folder(self) -> str:
        return f"nodes/main/{self.node.name}/{self.node.generation}"

    def posts(self, body: str = "{}") -> tuple[int, dict[str, Any]]:
        """The agent has its report read."""
        return self.account.call({**sample("look-at-node"), "body": body})


@pytest.fixture
def queue(account: Account, monkeypatch: pytest.MonkeyPatch) -> QueueWithNode:
    monkeypatch.setenv("SLOTQ_NODES", NODES_BUCKET)
    monkeypatch.setenv("SLOTQ_ROUTE", "https://queue/prod")
    forget()
    return QueueWithNode(account)


def running(name: str) -> ReportedAttempt:
    return ReportedAttempt(attempt=name, state=AttemptPhase.RUNNING, began_ms=1)


def completed(name: str) -> ReportedAttempt:
    return ReportedAttempt(attempt=name, state=AttemptPhase.COMPLETED, began_ms=1, ended_ms=2)


def ordered(queue: QueueWithNode) -> list[str]:
    orders = queue.orders()
    return [order.attempt for order in orders.attempts] if orders else []


@pytest.mark.parametrize("by", ["route", "tick"])
def test_a_report_is_taken_in_and_decided_on(queue: QueueWithNode, by: str) -> None:
    def told() -> None:
        queue.account.pass_time(1_000)
        if by == "route":
            assert queue.posts() == (200, {"version": 1, "number": queue.number})
            queue.account.settle()
        else:
            queue.account.send("tick")

    queue.reports()
    told()
    assert queue.now().state is NodeState.READY
    assert (queue.state("job1"), ordered(queue)) == (S.STARTING, ["job1"])
    orders = queue.orders()
    assert orders is not None
    assert orders.lease_s == 60
    queue.reports(running("job1"))
    told()
    assert queue.state("job1") is S.RUNNING
    queue.submit("job2")
    queue.reports(completed("job1"))
    told()
    assert (queue.state("job1"), queue.state("job2")) == (S.COMPLETED, S.STARTING)
    assert ordered(queue) == ["job2"]
    assert queue.now().lease_until == queue.account.clock.now() + 61_000


def test_a_report_without_news_runs_no_pass(queue: QueueWithNode) -> None:
    queue.reports()
    queue.posts()
    queue.account.settle()
    queue.reports(running("job1"))
    before = len(queue.account.lambda_.calls)
    assert queue.posts()[0] == 200
    assert queue.posts() == (200, {"version": 1, "number": 2})
    assert len(queue.account.lambda_.calls) == before


@pytest.mark.parametrize("body", ["", "{", "[]", '{"attempts": []}', "x" * 10_000])
def test_nothing_of_the_request_counts(queue: QueueWithNode, body: str) -> None:
    queue.reports()
    assert queue.posts(body) == (200, {"version": 1, "number": 1})


def test_a_forged_report_is_counted_as_drift(
    queue: QueueWithNode, capsys: pytest.CaptureFixture[str]
) -> None:
    queue.reports(completed("job1"), token="another")
    before = queue.now()
    assert queue.posts() == (200, {"version": 1, "number": 0})
    assert queue.now() == before
    queue.account.send("tick")
    assert queue.now() == before
    assert '"Drift":[1.0]' in capsys.readouterr().out


@pytest.mark.parametrize("path", ["/nodes/main/n2/report", "/nodes/p4/n1/report"])
def test_a_node_that_does_not_exist_is_refused(queue: QueueWithNode, path: str) -> None:
    status, said = queue.account.call({**sample("look-at-node"), "path": path})
    assert (status, said["code"]) == (404, "no_such_node")


def test_a_deployment_without_a_bucket_knows_no_nodes(
    queue: QueueWithNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLOTQ_NODES")
    forget()
    assert queue.posts()[0] == 404
    queue.account.send("tick")
    assert queue.account.s3.calls == []


def test_a_bucket_that_does_not_answer_stops_nothing_else(
    queue: QueueWithNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(**_: Any) -> None:
        raise OSError("no answer")

    queue.reports()
    with monkeypatch.context() as patched:
        patched.setattr(queue.account.s3, "get_object", fails)
        assert queue.posts()[0] == 503
        queue.account.send("tick")
    assert queue.now().state is NodeState.STARTING
    queue.account.send("tick")
    assert queue.now().state is NodeState.READY


def test_without_nodes_a_tick_asks_the_bucket_for_nothing(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLOTQ_NODES", NODES_BUCKET)
    forget()
    account.call("add-job")
    account.settle()
    account.send("tick")
    assert account.s3.calls == []
    assert app.manager()._effects._node_services is None


def _left_in_its_place(queue: QueueWithNode, how: str) -> bytes:
    """What a job that may write where its node does leaves in place of the report."""
    queue.reports(completed("job1"))
    key = NODES_BUCKET, f"{queue._folder}/report.json"
    right = queue.account.s3.objects[key]
    node = queue.node
    report = read_report(right, token=node.token, node=node.name, generation=node.generation)
    match how:
        case "of the generation before":
            return written_report(replace(report, generation=node.generation - 1), node.token)
        case "of another node":
            return written_report(replace(report, node="n2"), node.token)
        case "with one number changed":
            return right.replace(b'"ended_ms":2', b'"ended_ms":3')
        case "twice the same key":
            return right.replace(b'"node":', b'"node":"n2","node":', 1)
        case "huge":
            return right[:-1] + b" " * LARGEST_REPORT + b"}"
        case "deep":
            return b"[" * 500_000
        case "not a number":
            return right.replace(b'"uptime_ms":60000', b'"uptime_ms":NaN')
    return b"\xff\xfe"


@pytest.mark.parametrize("how", [
    "of the generation before", "of another node", "with one number changed",
    "twice the same key", "huge", "deep", "not a number", "no text",
])  # fmt: skip
def test_what_a_job_leaves_in_place_of_a_report_changes_nothing(
    queue: QueueWithNode, how: str
) -> None:
    queue.reports()
    queue.posts()
    queue.account.settle()
    before = queue.now(), queue.state("job1")
    key = NODES_BUCKET, f"{queue._folder}/report.json"
    queue.account.s3.objects[key] = _left_in_its_place(queue, how)
    assert queue.posts() == (200, {"version": 1, "number": 0})
    queue.account.send("tick")
    assert (queue.now(), queue.state("job1")) == before
    queue.reports(completed("job1"))
    assert queue.posts()[0] == 200
    assert queue.state("job1") is S.COMPLETED


def test_a_report_that_is_played_again_changes_nothing(queue: QueueWithNode) -> None:
    """Nor does it renew the lease, however late it comes."""
    key = NODES_BUCKET, f"{queue._folder}/report.json"
    queue.reports()
    queue.posts()
    queue.account.settle()
    queue.reports(running("job1"))
    early = queue.account.s3.objects[key]
    queue.posts()
    queue.reports(completed("job1"))
    queue.posts()
    after = queue.now()
    queue.account.pass_time(30_000)
    queue.account.s3.objects[key] = early
    assert queue.posts() == (200, {"version": 1, "number": 2})
    queue.account.send("tick")
    assert queue.state("job1") is S.COMPLETED
    assert queue.now().lease_until == after.lease_until


@pytest.mark.parametrize(
    "path",
    ["/nodes/main/../report", "/nodes/main//report", "/nodes//n1/report", "/nodes/m%00/n1/report",
     f"/nodes/main/{'n' * 5_000}/report", "/nodes/POOL%23main/n1/report",
     "/nodes/ma\u00efn/n1/report"],
)  # fmt: skip
def test_odd_names_of_nodes_are_refused(queue: QueueWithNode, path: str) -> None:
    status, _ = queue.account.call({**sample("look-at-node"), "path": path})
    assert status in {400, 404}
