"""What an open page costs in a minute, and `slotq ls --watch` and `slotq top`: read units of the
queue's table with 5,000 waiting jobs, while nothing changes and while another container changes
something every two seconds.

The client's own code asks the real handler, with tags and pauses as on a user's machine. The page's
pauses are the same (`client_sdk/ui/test/live.test.tsx` counts its requests).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import app
from benchmarks.live.account import Live, silence
from benchmarks.live.passes import settled
from benchmarks.live.queues import Size, ends, queue
from slotq.cli.views.watching import WATCHED
from slotq.client import QueueClient
from slotq.configuration.settings import Config
from slotq.jobs.follow import EXAMINED, pause_after
from slotq.output.plain_table import LIVING
from slotq.transport.signed_http import PlainAnswer, Transport
from slotq_core.wire.views.jobs import JobView
from tests.functional.account import context, sample
from tests.unit.client.fake_queue import FakeAws

QUEUES = {
    "5,000 waiting, 100 lines": Size(waiting=5_000, lines=100),
    "5,000 waiting, 2,000 lines": Size(waiting=5_000, lines=2_000),
    "30 waiting": Size(waiting=30, lines=5, active=10),
}
SHORT = ("30 waiting",)
CHANGES = 2_000
"""The time (ms) between two changes in a busy queue."""
MINUTES = 2
"""How many minutes are measured, after one that is not."""
_MINUTE = 60_000

Ask = Callable[[QueueClient], tuple[object, int]]
"""Asks once; returns the answer, and how many jobs the queue read for it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Poll:
    """A question that is asked again and again."""

    ask: Ask
    every: float
    """The shortest pause (s)."""


def _jobs(**asked: Any) -> Ask:
    def ask(client: QueueClient) -> tuple[list[JobView], int]:
        jobs = client.jobs(LIVING, **asked)
        return jobs, max(len(jobs), jobs.examined // EXAMINED)

    return ask


def lookers(size: Size) -> Mapping[str, tuple[Poll, ...]]:
    """What people look at, each with its questions."""
    first, shown = _jobs(limit=WATCHED, places=True), min(WATCHED, size.waiting + size.active)
    return {
        "page, queue": (
            Poll(ask=first, every=3),
            Poll(ask=lambda client: (client.pools.view(), shown), every=3),
            Poll(ask=lambda client: (client.projects(), shown), every=15),
        ),
        "page, jobs": (Poll(ask=_jobs(limit=1_000), every=3),),
        "page, groups": (Poll(ask=lambda client: (client.groups(), size.waiting // 4), every=5),),
        "ls --watch in a terminal": (Poll(ask=first, every=5),),
        "ls --watch to a file": (Poll(ask=_jobs(), every=5),),
        "top": (Poll(ask=lambda client: ((client.pools.view(), first(client)), shown), every=2),),
    }


def measure(*, short: bool = False) -> dict[str, dict[str, dict[str, float]]]:
    """By queue and looker, for a minute: calls, read units, answers that were sent, their KB."""
    wanted = SHORT if short else tuple(QUEUES)
    return {name: in_queue(QUEUES[name]) for name in wanted}


def in_queue(size: Size, *, only: str = "") -> dict[str, dict[str, float]]:
    """What the lookers whose names contain `only` cost in a queue of this size."""
    looks = {name: polls for name, polls in lookers(size).items() if only in name}
    found = {}
    with queue(size) as its:
        settled(its)
        for name, polls in looks.items():
            found[f"{name}, quiet"] = _minute(its, polls, changes=None)
        changes = _changes(its, size)
        for name, polls in looks.items():
            found[f"{name}, busy"] = _minute(its, polls, changes=changes)
    return found


def _minute(
    its: Live, polls: tuple[Poll, ...], *, changes: Iterator[None] | None
) -> dict[str, float]:
    """What these questions cost in a minute, on average."""
    with _client(its) as (client, handler):
        _look_for(its, client, polls, changes, _MINUTE)
        handler.sent = handler.length = 0
        with its.engine.meter.counting() as usage:
            _look_for(its, client, polls, changes, MINUTES * _MINUTE)
    return {
        "calls": len(usage.calls) / MINUTES,
        "read_units": usage.read_units / MINUTES,
        "answers": handler.sent / MINUTES,
        "kilobytes": round(handler.length / MINUTES / 1000),
    }


def _look_for(
    its: Live,
    client: QueueClient,
    polls: tuple[Poll, ...],
    changes: Iterator[None] | None,
    length: int,
) -> None:
    clock = its.account.clock
    begin = clock.now()
    due: list[float] = [begin] * len(polls)
    before: list[object] = [None] * len(polls)
    unchanged = [0] * len(polls)
    changed = begin
    while (now := min(due)) < begin + length:
        while changes is not None and changed <= now:
            clock.set(changed)
            with _uncounted(its):
                next(changes)
            changed += CHANGES
        clock.set(max(clock.now(), round(now)))
        number = due.index(now)
        answer, jobs = polls[number].ask(client)
        unchanged[number] = unchanged[number] + 1 if answer == before[number] else 0
        before[number] = answer
        due[number] = now + 1000 * pause_after(jobs, polls[number].every, unchanged[number])
    clock.set(begin + length)


def _changes(its: Live, size: Size) -> Iterator[None]:
    """Jobs come, by another container; now and then one ends."""
    waiting = its.other.jobs.get("waiting-000000")
    assert waiting is not None
    number = 0
    while True:
        number += 1
        name = f"comes-{number:06d}"
        job = replace(waiting, name=name, entry_time=its.account.clock.now(), version=1)
        its.other.jobs.submit(job, {"TrainingJobName": name})
        if number % 10 == 0 and size.pools + number // 10 < size.active:
            ends(its, size.pools + number // 10)
        its.other.scheduler.bump()
        yield


@contextmanager
def _uncounted(its: Live) -> Iterator[None]:
    kept = len(its.engine.meter.calls)
    try:
        yield
    finally:
        del its.engine.meter.calls[kept:]


class Handler:
    """The handler in place of the network. It counts what is sent."""

    def __init__(self, its: Live) -> None:
        self._its = its
        self.sent = self.length = 0

    def send(self, request: Any) -> PlainAnswer:
        parts = urlsplit(request.url)
        query = parse_qs(parts.query, keep_blank_values=True)
        event = {
            **sample("get-job"),
            "path": unquote(parts.path).removeprefix("/prod"),
            "resource": "/{proxy+}",
            "headers": dict(request.headers.items()),
            "multiValueHeaders": {name: [text] for name, text in request.headers.items()},
            "queryStringParameters": {key: values[-1] for key, values in query.items()} or None,
            "multiValueQueryStringParameters": query or None,
        }
        with silence():
            answer: dict[str, Any] = app.handler(event, context())
        headers = {name: values[-1] for name, values in answer["multiValueHeaders"].items()}
        assert answer["statusCode"] in {HTTPStatus.OK, HTTPStatus.NOT_MODIFIED}, answer
        self.sent += answer["statusCode"] == HTTPStatus.OK
        self.length += len(answer["body"])
        content = answer["body"].encode()
        return PlainAnswer(status_code=answer["statusCode"], headers=headers, content=content)


@contextmanager
def _client(its: Live) -> Iterator[tuple[QueueClient, Handler]]:
    handler = Handler(its)
    config = Config(endpoint="http://127.0.0.1:4777/prod", region="us-east-1")
    transport = Transport(config, http=handler, aws=FakeAws())
    yield QueueClient(config=config, transport=transport), handler
