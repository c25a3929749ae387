"""A burst: four threads submit through the real handler on DynamoDB Local, as a ratio to raw
transactions of the same items with the same threads and client.

The only figure in wall time. Both kinds alternate in small parts, so that other load on the machine
meets both; the median of five runs counts. The passes that submissions ask for do not run: in
Lambda other instances run them.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any

import boto3
import pytest

import app
from benchmarks.live.account import handler_over, silence
from tests.contract import dynamodb_local
from tests.functional.account import TABLE, Account, add_job
from tests.functional.test_burst import context, metrics_one_at_a_time

THREADS = 4
RUNS = 5
JOBS = 200
"""Submissions in one run, all threads together."""
AT_ONCE = 20
"""Submissions of one kind before the other's turn."""
SAMPLE = "sample-of-the-burst"
Prepare = Callable[[str], Callable[[], None]]
"""Makes one call ready for a name. Only the call itself is measured: its caller's work is neither
the queue's nor the engine's."""


def measure() -> dict[str, Any] | None:
    """The ratio and both rates (1/s). None where DynamoDB Local cannot be started."""
    try:
        with dynamodb_local.running() as endpoint:
            client = _client(endpoint)
            runs = [_run(client, JOBS) for _ in range(RUNS)]
    except dynamodb_local.NotHere as missing:
        print(f"burst: not measured: {missing}")
        return None
    return {
        "ratio": round(median(ours / raw for ours, raw in runs), 3),
        "runs": [round(ours / raw, 3) for ours, raw in runs],
        "submissions_per_second": round(median(ours for ours, _ in runs)),
        "transactions_per_second": round(median(raw for _, raw in runs)),
    }


def _client(endpoint: str) -> Any:
    """A client set up as the function's own."""
    keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
    config = app.client_config("dynamodb")
    return boto3.client(
        "dynamodb", region_name="us-east-1", endpoint_url=endpoint, config=config, **keys
    )


def _run(client: Any, jobs: int) -> tuple[float, float]:
    """Submissions a second, and raw transactions of the same items a second, in a new table."""
    watched = _Recorder(client)
    with _account(watched):
        _submission(SAMPLE)()
        transaction = watched.sample
        kinds: list[Prepare] = [_submission, lambda name: _repetition(client, transaction, name)]
        seconds = [0.0, 0.0]
        for part in range(jobs // AT_ONCE):
            for kind, prepare in enumerate(kinds):
                names = (f"kind-{kind}-part-{part}-{number:06d}" for number in range(AT_ONCE))
                seconds[kind] += _seconds([prepare(name) for name in names])
    ours, raw = (jobs / each for each in seconds)
    return ours, raw


@contextmanager
def _account(client: Any) -> Iterator[Account]:
    try:
        with pytest.MonkeyPatch.context() as patch, handler_over(client, _POOLS) as account:
            metrics_one_at_a_time(patch)
            with silence():
                yield account
    finally:
        client.delete_table(TableName=TABLE)


_POOLS = "main=2@ml.p4d.24xlarge"


class _Recorder:
    """A client that keeps the sample's transaction."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.sample: list[dict[str, Any]] = []

    def __getattr__(self, method: str) -> Any:
        return getattr(self._client, method)

    def transact_write_items(self, **request: Any) -> Any:
        if not self.sample and SAMPLE in repr(request):
            self.sample = request["TransactItems"]
        return self._client.transact_write_items(**request)


def _submission(name: str) -> Callable[[], None]:
    event, invocation = add_job(TrainingJobName=name), context(f"submit-{name}")

    def submit() -> None:
        answer = app.handler(event, invocation)
        assert answer["statusCode"] == 202, json.loads(answer["body"])

    return submit


def _repetition(client: Any, transaction: Any, name: str) -> Callable[[], None]:
    renamed = _renamed(transaction, name)
    return lambda: client.transact_write_items(TransactItems=renamed)


def _renamed(value: Any, name: str) -> Any:
    """The same transaction for a job of another name."""
    if isinstance(value, str):
        return value.replace(SAMPLE, name)
    if isinstance(value, dict):
        return {key: _renamed(each, name) for key, each in value.items()}
    if isinstance(value, list):
        return [_renamed(each, name) for each in value]
    return value


def _seconds(calls: Sequence[Callable[[], None]]) -> float:
    """How long these calls take with all threads at once."""
    failures: list[Exception] = []
    ready = threading.Barrier(THREADS + 1)

    def work(own: Sequence[Callable[[], None]]) -> None:
        ready.wait()
        try:
            for call in own:
                call()
        except Exception as error:  # noqa: BLE001 - told to the caller
            failures.append(error)

    threads = [threading.Thread(target=work, args=(calls[n::THREADS],)) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    ready.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    elapsed = time.perf_counter() - began
    if failures:
        raise failures[0]
    return elapsed
