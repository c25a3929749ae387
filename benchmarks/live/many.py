"""What much at once costs: groups of 200, a queue with everything configured, 200 pools, lines over
permutations of pools, and many ends that a tick finds."""

from __future__ import annotations

import json
import random

from benchmarks.live.meter import Usage
from benchmarks.live.passes import settled
from benchmarks.live.queues import Size, queue
from tests.functional.account import add_job, sample

MEMBERS = 200

Figures = dict[str, float]


def measure(*, short: bool = False) -> dict[str, dict[str, Figures]]:
    every = {
        "200 members of one group": lambda: _group(alike=False),
        "200 members of one template": lambda: _group(alike=True),
        "200 pools, quiet": lambda: _pools(200),
    }
    return {name: _with_members(count()) for name, count in every.items()}


def _with_members(usage: Usage) -> Figures:
    figures = usage.figures()
    return {**figures, "write_units_each": round(figures["write_units"] / MEMBERS, 2)}


def _group(*, alike: bool) -> Usage:
    """A sweep of 200 members is submitted to an empty queue."""
    with queue(Size(waiting=0, lines=1, active=2, pools=1)) as its:
        settled(its)
        body = json.loads(add_job()["body"])
        body["Tags"] = its.tags
        members = []
        for number in range(MEMBERS):
            member = {**body, "TrainingJobName": f"member-{number:03d}"}
            if not alike:
                member["HyperParameters"] = {"seed": str(number), "text": _text(number)}
            members.append(member)
        event = sample("submit-group")
        event["body"] = json.dumps({"name": "group", "members": members, "max_parallel": 4})
        with its.engine.meter.counting() as usage:
            its.send(event)
        return usage


def _text(number: int) -> str:
    return random.Random(number).randbytes(20).hex()


def _pools(number: int) -> Usage:
    with queue(Size(waiting=2_000, lines=200, active=number, pools=number)) as its:
        return settled(its)
