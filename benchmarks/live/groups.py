"""What the submission of a group costs, and that of many single jobs by the client."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from benchmarks.live.account import Live
from benchmarks.live.meter import Usage
from benchmarks.live.passes import settled
from benchmarks.live.queues import Size, queue
from slotq.client import QueueClient
from slotq.configuration.settings import Config
from slotq.transport.signed_http import HttpAnswer, Transport
from tests.functional.account import add_job, sample

MEMBERS = {"30 members": 30, "200 members": 200}
JOBS = 1_000

Figures = dict[str, float]


def measure() -> dict[str, Figures]:
    """By the group's size, with the write units of one member."""
    found = {}
    for name, members in MEMBERS.items():
        found[name] = _of_one(submitted(members), members)
    return found


def measure_batches() -> dict[str, Figures]:
    """A thousand single jobs: of one kind, of ten kinds, and the same again."""
    found = {}
    for name, kinds in {"1,000 jobs": 1, "1,000 jobs of 10 kinds": 10}.items():
        with _empty() as its:
            client = QueueClient(
                config=Config(endpoint="https://queue/prod"), transport=_Direct(its)
            )
            jobs = [_job(its, f"job-{number:04d}", number % kinds) for number in range(JOBS)]
            found[name] = _of_one(_batch(its, client, jobs), JOBS)
            if kinds == 1:
                found["the same again"] = _of_one(_batch(its, client, jobs), JOBS)
    return found


class _Direct(Transport):
    """A client's transport that calls the handler in this process."""

    def __init__(self, its: Live) -> None:
        self._its = its

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: bytes | None = None,
        known: str = "",
    ) -> HttpAnswer:
        assert (method, path, query, known) == ("POST", "/jobs", None, "")
        answer = self._its.send({**sample("submit-jobs"), "body": (body or b"").decode()})
        return SimpleNamespace(
            status_code=answer["statusCode"], content=answer["body"].encode(), headers={}
        )


def _batch(its: Live, client: QueueClient, jobs: list[dict[str, Any]]) -> Usage:
    with its.engine.meter.counting() as usage:
        outcomes = client.submit_many(jobs)
    assert all(outcome.job for outcome in outcomes), outcomes
    return usage


def _job(its: Live, name: str, priority: int) -> dict[str, Any]:
    """No two jobs are alike."""
    text = random.Random(name).randbytes(20).hex()
    return {
        **json.loads(add_job()["body"]),
        "TrainingJobName": name,
        "HyperParameters": {"text": text},
        "Tags": [*its.tags, {"Key": "priority", "Value": str(priority)}],
    }


def _of_one(usage: Usage, jobs: int) -> Figures:
    figures = usage.figures()
    return {**figures, "write_units_of_one": round(figures["write_units"] / jobs, 2)}


def submitted(members: int) -> Usage:
    """A sweep comes into an empty queue. No two members are alike."""
    with _empty() as its:
        member = json.loads(add_job()["body"]) | {"Tags": its.tags}
        body = {
            "name": "group",
            "max_parallel": 4,
            "members": [
                {
                    **member,
                    "TrainingJobName": f"member-{number:03d}",
                    "HyperParameters": {"text": random.Random(number).randbytes(20).hex()},
                }
                for number in range(members)
            ],
        }
        with its.engine.meter.counting() as usage:
            its.send({**sample("submit-group"), "body": json.dumps(body)})
        return usage


@contextmanager
def _empty() -> Iterator[Live]:
    """An empty queue that a pass has looked at."""
    with queue(Size(waiting=0, lines=1, active=2, pools=1)) as its:
        settled(its)
        yield its
