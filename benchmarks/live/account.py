"""The real handler over the counting engine: an AWS account in this process.

What is measured goes through the handler's events. What only prepares a measurement goes through
another container's store, and is not counted.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import app
from benchmarks.live.engine import Engine
from benchmarks.live.meter import Usage
from slotq_core.adapters.dynamodb.store import DynamoStore
from tests.functional.account import TABLE, Account, add_job, context, sample
from tests.functional.conftest import in_use

PASS = {"source": "slotq", "detail-type": "pass", "detail": {}}
LIMITS = "waiting=1000000,submissions=1000000,priority=1000,waiting_in_all=1000000,lines=1000000"
"""Limits that count every submission, as the template's do, and refuse none."""


class Live:
    """A queue behind its handler."""

    def __init__(self, account: Account, engine: Engine) -> None:
        self.account, self.engine = account, engine
        self.other = DynamoStore(engine, TABLE)
        """The store of another container, for preparations."""
        self.caller = ""
        """Who submits and looks; empty: the caller of the samples."""
        self.tags: list[dict[str, str]] = []
        """The tags of submissions that give none."""

    def send(self, event: dict[str, Any]) -> dict[str, Any]:
        """Invoke the handler once. Passes that it asks for stay in `account.lambda_.events`."""
        with silence():
            answer: dict[str, Any] = app.handler(event, context())
        assert answer.get("statusCode", 200) < 300, answer
        return answer

    def submit(self, name: str, **changes: Any) -> dict[str, Any]:
        asked = add_job(**{"TrainingJobName": name, "Tags": self.tags, **changes})
        return self.send(self.signed(asked))

    def look(self, name: str) -> dict[str, Any]:
        asked = {**sample("get-job"), "path": f"/jobs/{name}"}
        status: dict[str, Any] = json.loads(self.send(self.signed(asked))["body"])
        return status

    def signed(self, event: dict[str, Any]) -> dict[str, Any]:
        if self.caller:
            event["requestContext"]["identity"]["userArn"] = self.caller
        return event

    def deliver(self, training_job: str, event: str) -> dict[str, Any]:
        """Tell the handler of a training job, by the sample of that name."""
        told = sample(event)
        told["detail"].pop("Tags", None)
        told["detail"]["TrainingJobName"] = training_job
        return self.send(told)

    def pass_(self) -> Usage:
        """Ask for a pass from the other container, run it, and return what the pass has used."""
        self.account.lambda_.events.clear()
        self.other.scheduler.bump()
        self.account.clock.set(self.account.clock.now() + 1_000)
        with self.engine.meter.counting() as usage:
            self.send(PASS)
        return usage


def silence() -> contextlib.redirect_stdout[io.StringIO]:
    """Discard the handler's metrics."""
    return contextlib.redirect_stdout(io.StringIO())


@contextmanager
def live(pools: str = "main=2@ml.p4d.24xlarge") -> Iterator[Live]:
    """A queue with these pools (as in SLOTQ_POOLS) over the counting engine."""
    engine = Engine()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app, "in_parallel", lambda: engine.meter.at_once)
        with handler_over(engine, pools) as account:
            yield Live(account, engine)


@contextmanager
def handler_over(dynamodb: Any, pools: str, *, limits: str = LIMITS) -> Iterator[Account]:
    """The handler in a warm container of an account with this DynamoDB: a cold start belongs to no
    job."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLOTQ_ANNOUNCE", "1")
        patch.setenv("SLOTQ_LIMITS", limits)
        for account in in_use(Account(dynamodb), patch):
            patch.setenv("SLOTQ_POOLS", pools)
            patch.setattr(app.logger.registered_handler, "stream", io.StringIO())
            app.manager()
            app.routes()
            yield account
