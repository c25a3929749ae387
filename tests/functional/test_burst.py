"""Hundreds of concurrent submissions to the real handler: all are accepted, and none waits for a
pass.

Each invocation is a thread, also those that a submission requests, as in Lambda.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

import pytest

import app
from slotq_core.adapters.dynamodb.layout.items import keyed
from slotq_core.adapters.dynamodb.layout.table import DUE, JOB, wake_key
from tests.contract import dynamodb_local
from tests.functional.account import TABLE, Account, add_job
from tests.functional.conftest import in_use

SUBMISSIONS = 500
"""At once."""
MOST_PASSES = 25
MINUTE = 60_000
SAFE = 240.0
"""After this time (s) what should have happened never will."""

UNANSWERED = 5
"""How often a request is sent while a service does not answer: hundreds of threads share one
DynamoDB Local."""


class Watched:
    """A DynamoDB client that counts passes and loads. A pass begins when the lease is granted, and
    each load, of passes only here, precedes a decision."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.passes = 0
        self.looks = 0
        self._lock = threading.Lock()

    def __getattr__(self, method: str) -> Any:
        return getattr(self._client, method)

    def update_item(self, **request: Any) -> Any:
        answer = self._client.update_item(**request)
        took = "#holder = :holder" in request["UpdateExpression"]
        if took and request["Key"] == keyed(wake_key()):
            with self._lock:
                self.passes += 1
        return answer

    def query(self, **request: Any) -> Any:
        values = request["ExpressionAttributeValues"]
        if {"S": DUE} in values.values():
            with self._lock:
                self.looks += 1
        return self._client.query(**request)


class ConcurrentLambda:
    """Each asynchronous invocation begins at once in a new thread."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        self.failures: list[BaseException] = []
        self.answers: list[dict[str, Any]] = []

    def invoke(self, **request: Any) -> dict[str, Any]:
        event, number = json.loads(request["Payload"]), len(self.threads)
        thread = threading.Thread(target=self._run, args=(event, number), name="pass")
        self.threads.append(thread)
        thread.start()
        return {"StatusCode": 202}

    def _run(self, event: dict[str, Any], number: int) -> None:
        try:
            self.answers.append(app.handler(event, context(f"pass-{number}")))
        except BaseException as error:  # noqa: BLE001 - told to the test
            self.failures.append(error)

    def join(self) -> None:
        for thread in self.threads:  # The list may grow meanwhile: a pass may request the next.
            thread.join(SAFE)
            assert not thread.is_alive()
        assert self.failures == []


def context(request_id: str) -> SimpleNamespace:
    return SimpleNamespace(aws_request_id=request_id, get_remaining_time_in_millis=lambda: MINUTE)


def invocations(account: Account) -> ConcurrentLambda:
    assert isinstance(account.lambda_, ConcurrentLambda)
    return account.lambda_


@pytest.fixture
def names() -> list[str]:
    """Names of the jobs submitted at once."""
    return [f"job-{number:03d}" for number in range(SUBMISSIONS)]


@pytest.fixture(params=["emulator", "dynamodb-local"])
def burst(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    """An account with concurrent invocations, which counts passes."""
    if request.param == "emulator":
        engine = request.getfixturevalue("engine")
    else:
        engine = client_of(request.getfixturevalue("dynamodb_local_endpoint"))
    found = in_use(Account(engine), monkeypatch)
    account = next(found)
    account.dynamodb = Watched(account.dynamodb)
    account.lambda_ = ConcurrentLambda()  # type: ignore[assignment]
    metrics_one_at_a_time(monkeypatch)
    account.send("tick")  # The first request stores the pools
    assert account.call(add_job(TrainingJobName=None))[0] == 400  # and builds the routes.
    account.dynamodb.passes = account.dynamodb.looks = 0
    yield account
    account.dynamodb.delete_table(TableName=TABLE)
    next(found, None)


def client_of(endpoint: str) -> Any:
    return dynamodb_local.client(endpoint, max_pool_connections=64)


def metrics_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for counters of metrics."""
    lock = threading.RLock()

    def locked(method: Any) -> Any:
        def run(*args: Any, **kwargs: Any) -> Any:
            with lock:
                return method(*args, **kwargs)

        return run

    provider = app.metrics.provider
    for name in ("add_metric", "flush_metrics"):
        monkeypatch.setattr(provider, name, locked(getattr(provider, name)))


def submit_all(names: list[str]) -> Counter[Any]:
    """Submit all jobs at once. Returns how often each status, or refusal, was answered. As the
    client does, each sends the same request again where a service does not answer."""
    ready = threading.Barrier(len(names))
    statuses: list[Any] = []

    def submit(name: str) -> None:
        event = add_job(TrainingJobName=name)
        ready.wait(SAFE)
        for _ in range(UNANSWERED):
            answer = app.handler(event, context(f"submit-{name}"))
            if answer["statusCode"] != HTTPStatus.SERVICE_UNAVAILABLE:
                break
        body = json.loads(answer["body"])
        # A refusal is counted with its words, so that a failure tells them.
        statuses.append(answer["statusCode"] if body.get("name") == name else answer["body"])

    threads = [threading.Thread(target=submit, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SAFE)
    assert not any(thread.is_alive() for thread in threads)
    return Counter(statuses)


def kept(account: Account) -> dict[str, str]:
    """Every job's state by name. (The API's list may lag behind, because it reads an index.)"""
    pages = account.dynamodb.get_paginator("scan").paginate(TableName=TABLE, ConsistentRead=True)
    jobs = (item for page in pages for item in page["Items"] if item["sk"] == {"S": JOB})
    return {item["jobName"]["S"]: item["jobState"]["S"] for item in jobs}


def accepted(account: Account, names: list[str]) -> None:
    """Each job is stored, and as many hold slots as there are slots."""
    states = kept(account)
    assert sorted(states) == sorted(names)
    assert Counter(states.values()) == {"starting": 2, "pending": len(states) - 2}


# In the emulator a pass takes no time, and so ends before the next submission.
@pytest.mark.parametrize("burst", ["dynamodb-local"], indirect=True)
def test_a_burst_of_submissions_costs_a_few_passes(burst: Account, names: list[str]):
    assert submit_all(names) == {202: len(names)}
    invocations(burst).join()
    accepted(burst, names)
    few_passes(burst)


def few_passes(account: Account) -> None:
    assert 1 <= account.dynamodb.passes <= MOST_PASSES
    assert account.dynamodb.passes <= account.dynamodb.looks <= 2 * MOST_PASSES


def test_none_of_a_burst_waits_for_a_pass_that_takes_a_minute(burst: Account, names, monkeypatch):
    """SageMaker answers the first pass only after everybody else has been answered."""
    held, released = threading.Event(), threading.Event()
    handle = burst.plane.handle

    def slow(operation: str, body: Any) -> Any:
        if operation == "CreateTrainingJob" and not held.is_set():
            held.set()
            assert released.wait(SAFE)
        return handle(operation, body)

    monkeypatch.setattr(burst.plane, "handle", slow)
    assert burst.call(add_job(TrainingJobName="first"))[0] == 202
    assert held.wait(SAFE)
    assert submit_all(names) == {202: len(names)}
    (slow_pass,) = invocations(burst).threads  # Nobody asks for another pass meanwhile.
    assert slow_pass.is_alive()
    assert burst.dynamodb.passes == 1
    burst.clock.set(burst.clock.now() + MINUTE)
    released.set()
    invocations(burst).join()
    accepted(burst, [*names, "first"])
    few_passes(burst)
