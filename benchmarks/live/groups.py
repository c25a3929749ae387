"""What the submission of a group costs."""

from __future__ import annotations

import json
import random

from benchmarks.live.meter import Usage
from benchmarks.live.passes import settled
from benchmarks.live.queues import Size, queue
from tests.functional.account import add_job, sample

MEMBERS = {"30 members": 30, "200 members": 200}

Figures = dict[str, float]


def measure() -> dict[str, Figures]:
    """By the group's size, with the write units of one member."""
    found = {}
    for name, members in MEMBERS.items():
        figures = submitted(members).figures()
        each = round(figures["write_units"] / members, 2)
        found[name] = {**figures, "write_units_of_one": each}
    return found


def submitted(members: int) -> Usage:
    """A sweep comes into an empty queue. No two members are alike."""
    with queue(Size(waiting=0, lines=1, active=2, pools=1)) as its:
        settled(its)
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
