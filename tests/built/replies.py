"""The functions' answers to each file in events/, in an emulator with an empty queue at first and a
SageMaker without capacity: jobs are submitted, tried, and wait."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from slotq_core.adapters.dynamodb.outbox.notices import SOURCE
from tests import cloudformation
from tests.functional.account import EVENTS, sample

FIRST, LAST = ("add-job", "add-job-urgent", "submit-group", "submit-gang"), ("cancel-job",)
NOT_THERE = ("remove-project", "look-at-node")
STATUS = {**dict.fromkeys(FIRST, 202), "remove-pool": 400, **dict.fromkeys(NOT_THERE, 404)}
"""Statuses of API requests other than 200: there is one pool, which the queue keeps, and no
project and no node yet."""
SHORT = (*FIRST, "training-in-progress", "tick", "poison-no-detail", "stream-job-started", *LAST)
"""A shorter story, for when each event takes long: each function, each trigger."""
REFUSALS = 1000
"""The number of starts that the emulator refuses for lack of capacity."""


def names() -> list[str]:
    """The samples in the order that makes one story."""
    between = {path.stem for path in EVENTS.glob("*.json")} - {*FIRST, *LAST}
    return [*FIRST, *sorted(between), *LAST]


def function_of(event: Any) -> str:
    """The function that gets an event, by the template."""
    if is_stream_batch(event):
        return "Notifier"
    if not isinstance(event, Mapping) or "httpMethod" not in event:
        return "QueueManager"
    asked = event["httpMethod"], event["path"]
    return next(name for name, method, path in _routes() if _fits(method, path, *asked))


def is_stream_batch(event: Any) -> bool:
    """Whether the event is a batch of the table's stream."""
    records = event.get("Records") if isinstance(event, Mapping) else None
    return bool(records) and all(record.get("eventSource") == SOURCE for record in records)


@cache
def _routes() -> tuple[tuple[str, str, str], ...]:
    """Function, method and path of each route."""
    resources = cloudformation.template()["Resources"].items()
    functions = {name: it for name, it in resources if it["Type"] == "AWS::Serverless::Function"}
    return tuple(
        (name, event["Properties"]["Method"], event["Properties"]["Path"])
        for name, function in functions.items()
        for event in function["Properties"]["Events"].values()
        if event["Type"] == "Api"
    )


def _fits(method: str, path: str, asked_method: str, asked_path: str) -> bool:
    pattern = re.sub(r"\{\w+\}", "[^/]+", path)
    return method == asked_method and re.fullmatch(pattern, asked_path) is not None


def check(name: str, reply: Any) -> None:
    """Raise AssertionError unless this is a right answer to that sample."""
    assert isinstance(reply, dict), (name, reply)
    if "httpMethod" in sample(name):
        assert reply["statusCode"] == STATUS.get(name, 200), (name, reply)
        assert json.loads(reply["body"]), (name, reply)
    elif is_stream_batch(sample(name)):
        assert reply == {"batchItemFailures": []}, (name, reply)
    elif name.startswith("poison-"):
        assert set(reply) == {"dead_letter"}, (name, reply)
    else:
        assert set(reply) == {"decisions", "busy"}, (name, reply)


def check_story(
    story: Sequence[str], listed: Mapping[str, Any], *, refusals_left: int, letters: int
) -> None:
    """Check the state after all samples. `listed`: the answer to list-jobs."""
    states = {job["name"]: job["state"] for job in json.loads(listed["body"])["jobs"]}
    members = dict.fromkeys(("grid-1", "grid-2", "grid-3", "ring-1", "ring-2"), "pending")
    assert states == {"job1": "cancelled", "job2": "pending", **members}
    assert 0 < refusals_left < REFUSALS, "SageMaker was asked, and refused"
    assert letters == sum(name.startswith("poison-") for name in story)
