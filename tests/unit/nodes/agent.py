"""The agent's file as a module, and parts of it without processes and without AWS."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

agent: Any = importlib.import_module("slotq_core.adapters.nodes.agent")


class Refusal(Exception):
    """An error as botocore's clients raise it."""

    def __init__(self, code: str, status: int = 400) -> None:
        super().__init__(code)
        self.response = {
            "Error": {"Code": code},
            "ResponseMetadata": {"HTTPStatusCode": status},
        }


class FakeAws(agent.Aws):
    """S3 with one object for orders and one for reports. `refuses_with`: what it answers."""

    def __init__(self) -> None:
        self.errors = (Refusal,)
        self.control = self.s3 = self
        self.logs = None
        self.refuses_with: Refusal | None = None
        self.orders: bytes | None = None
        self.reads: list[dict[str, Any]] = []
        self.reports: list[bytes] = []
        self.posted: list[tuple[str, bytes]] = []
        self.answer: int | Exception = 200

    def get_object(self, **asked: Any) -> dict[str, Any]:
        self.reads.append(asked)
        if self.refuses_with:
            raise self.refuses_with
        if self.orders is None:
            raise Refusal("NoSuchKey", 404)
        etag = str(hash(self.orders))
        if asked.get("IfNoneMatch") == etag:
            raise Refusal("304", 304)
        return {"Body": SimpleNamespace(read=lambda most: self.orders[:most]), "ETag": etag}

    def put_object(self, **asked: Any) -> None:
        if self.refuses_with:
            raise self.refuses_with
        self.reports.append(asked["Body"])

    def post(self, url: str, body: bytes) -> int:
        self.posted.append((url, body))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class FakeLink:
    def __init__(self) -> None:
        self.told: list[tuple[str, dict[str, Any]]] = []

    def tell(self, word: str, **details: Any) -> None:
        self.told.append((word, details))


class FakeClock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def settings(folder: Path, **more: str) -> Any:
    (folder / "ml").mkdir(exist_ok=True)
    (folder / "work/jobs").mkdir(parents=True, exist_ok=True)
    (folder / "work/inputs").mkdir(parents=True, exist_ok=True)
    return agent.Settings(
        {
            "SLOTQ_NODE": "node",
            "SLOTQ_NODE_GENERATION": "2",
            "SLOTQ_NODE_FOLDER": "s3://bucket/nodes/node/2",
            "SLOTQ_NODE_GPUS": "pretend:2",
            "SLOTQ_NODE_BASE": str(folder / "ml"),
            "SLOTQ_NODE_WORK": str(folder / "work"),
            **more,
        }
    )


def make_node(folder: Path, **more: str) -> Any:
    """A node whose jobs do not begin by themselves."""
    node = agent.Node(
        settings(folder, **more), FakeLink(), FakeAws(), token="token", clock=FakeClock()
    )
    node._problems.clear()  # The Python of this machine may be root's alone.
    return node


def finished_node(folder: Path) -> Any:
    """A node with a job that has ended and a problem."""
    node = make_node(folder)
    order = agent.Order({"attempt": "job-1", "job": "job", "number": 1})
    job = agent.Job(order, node)
    node._jobs[order.attempt] = job
    job.state, job.began, job.ended, job.code = "failed", 1001.0, 1002.5, 1
    job.failure, job.metrics, job.pid = "AlgorithmError: ä\ud7ff", {"loss": 0.1, "acc": 1.0}, 7
    node._problems["x"] = "a problem"
    return node
