"""A burst: four threads submit through the real handler on DynamoDB Local, as a ratio to raw
transactions of the same items with the same threads and client.

The only figure in wall time. Submissions, raw transactions and each other call of a submission by
itself alternate in small parts, so that other load on the machine meets all of them; the median of
five runs counts. The passes that submissions ask for do not run: in Lambda other instances run
them.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import boto3
import pytest

import app
from benchmarks.live.account import handler_over, silence
from slotq_core.adapters.dynamodb.layout.table import CALLERS
from tests.contract import dynamodb_local
from tests.functional.account import TABLE, Account, add_job
from tests.functional.test_burst import context, metrics_one_at_a_time

THREADS = 4
RUNS = 5
JOBS = 200
"""Submissions in one run, all threads together."""
AT_ONCE = 20
"""Calls of one kind before the next kind's turn."""
SAMPLE = "sample-of-the-burst"
SUBMISSION, TRANSACTION, HANDLER = "submission", "transaction", "handler"
Prepare = Callable[[str], Callable[[], None]]
"""Makes one call ready for a name. Only the call itself is measured: its caller's work is neither
the queue's nor the engine's."""


def measure() -> dict[str, Any] | None:
    """The ratio, both rates (1/s), and what a submission consists of, as multiples of the raw
    transaction's time. None where DynamoDB Local cannot be started."""
    try:
        with dynamodb_local.running() as endpoint:
            client = a_client(endpoint)
            runs = [_run(client, JOBS) for _ in range(RUNS)]
    except dynamodb_local.NotHere as missing:
        print(f"burst: not measured: {missing}")
        return None
    ratios = [run[TRANSACTION] / run[SUBMISSION] for run in runs]
    parts = [_parts(run) for run in runs]
    return {
        "ratio": round(median(ratios), 3),
        "runs": [round(ratio, 3) for ratio in ratios],
        "submissions_per_second": round(median(1 / run[SUBMISSION] for run in runs)),
        "transactions_per_second": round(median(1 / run[TRANSACTION] for run in runs)),
        "parts": {name: round(median(each[name] for each in parts), 2) for name in parts[0]},
    }


def _parts(seconds: Mapping[str, float]) -> dict[str, float]:
    """The calls of a submission, each measured alone, and what is left: the handler's own work, and
    that its threads wait for each other."""
    shares = {kind: spent / seconds[TRANSACTION] for kind, spent in seconds.items()}
    whole = shares.pop(SUBMISSION)
    return {**shares, HANDLER: whole - sum(shares.values()), SUBMISSION: whole}


def a_client(endpoint: str) -> Any:
    """A client set up as the function's own."""
    keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
    config = app.client_config("dynamodb")
    return boto3.client(
        "dynamodb", region_name="us-east-1", endpoint_url=endpoint, config=config, **keys
    )


def _run(client: Any, jobs: int) -> dict[str, float]:
    """The time (s) from one submission to the next, and so for raw transactions of the same items
    and for each other call of a submission. In a new table."""
    watched = _Recorder(client)
    with _account(watched):
        _submission("opens-the-line")()
        kinds: dict[str, Prepare] = {SUBMISSION: _submission}
        kinds |= {call.name: partial(_repetition, client, call) for call in watched.sample()}
        seconds = dict.fromkeys(kinds, 0.0)
        for part in range(jobs // AT_ONCE):
            for number, (kind, prepare) in enumerate(kinds.items()):
                names = (f"kind-{number}-part-{part}-{job:06d}" for job in range(AT_ONCE))
                seconds[kind] += _seconds([prepare(name) for name in names])
    return {kind: spent / jobs for kind, spent in seconds.items()}


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


@dataclass(frozen=True, kw_only=True)
class _Call:
    """One of the sample's calls to DynamoDB."""

    method: str
    request: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The item, as in the table of a job's life."""
        if self.method == "transact_write_items":
            return TRANSACTION
        partition, item = (self.request["Key"][name]["S"] for name in ("pk", "sk"))
        return CALLERS if partition == CALLERS else item


class _Recorder:
    """A client that can keep the calls of a sample."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._calls: list[_Call] | None = None

    def __getattr__(self, method: str) -> Any:
        made = getattr(self._client, method)
        if self._calls is None:
            return made
        return partial(self._kept, self._calls, method)

    def sample(self) -> list[_Call]:
        """Submit the sample; return its calls."""
        self._calls = found = list[_Call]()
        _submission(SAMPLE)()
        self._calls = None
        return found

    def _kept(self, calls: list[_Call], method: str, **request: Any) -> Any:
        calls.append(_Call(method=method, request=request))
        return getattr(self._client, method)(**request)


def _submission(name: str) -> Callable[[], None]:
    event, invocation = add_job(TrainingJobName=name), context(f"submit-{name}")

    def submit() -> None:
        answer = app.handler(event, invocation)
        assert answer["statusCode"] == 202, json.loads(answer["body"])

    return submit


def _repetition(client: Any, call: _Call, name: str) -> Callable[[], None]:
    return partial(getattr(client, call.method), **_renamed(call.request, name))


def _renamed(value: Any, name: str) -> Any:
    """The same request for a job of another name."""
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
