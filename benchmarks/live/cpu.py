"""The CPU time of a pass as the function does it, and what a function's memory makes of it.

The handler works with botocore's client on DynamoDB Local, so that signing, sending and reading the
answers count, as they do in Lambda, but for TLS. The engine is another process and does not count.
The table is that of a counted pass, once the queue has learned.

Lambda gives a function a share of a CPU by its memory. Duration and price are reckoned from the
counted rounds and this machine's CPU time; a processor of Lambda may be quicker or slower.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pytest

import app
from benchmarks.live.account import PASS, Live
from benchmarks.live.burst import a_client
from benchmarks.live.meter import LATENCY
from benchmarks.live.passes import MANY_LINES, kinds_of_pass, settled
from benchmarks.live.projects import QUEUES
from benchmarks.live.queues import Size, ends, queue
from slotq.cost.bill import PRICES
from slotq_core.adapters.dynamodb.reading.in_parallel import Threads
from slotq_core.adapters.dynamodb.store import DynamoStore, table_definition
from tests.contract import dynamodb_local
from tests.functional.account import TABLE, forget

WORLDS = {"2,000 lines": MANY_LINES, **QUEUES}
WHOLE_CPU = 1_769
"""The memory (MB) at which a function has one whole CPU (AWS's documentation of Lambda)."""
MEMORIES = (512, 1_024, 1_769)
"""The memories (MB) that are compared."""
RUNS = 7
"""Passes of each kind. The least time counts."""
AT_ONCE = 25
"""Items in one BatchWriteItem."""

Figures = dict[str, float]


def measure() -> Mapping[str, Figures] | None:
    """What each kind of pass takes, by world. None where DynamoDB Local cannot be started."""
    try:
        with dynamodb_local.running("-inMemory") as endpoint:
            client = a_client(endpoint)
            return {
                f"{name}: {kind}": figures
                for name, size in WORLDS.items()
                for kind, figures in _world(client, size).items()
            }
    except dynamodb_local.NotHere as missing:
        print(f"cpu: not measured: {missing}")
        return None


def _world(client: Any, size: Size) -> dict[str, Figures]:
    rounds = {kind: usage.rounds for kind, usage in kinds_of_pass(size).items()}
    with queue(size) as its, pytest.MonkeyPatch.context() as patch:
        settled(its)
        _move(its, client)
        patch.setattr(app, "in_parallel", Threads)
        try:
            _start_cold()
            _pass(its)
            quiet = min(_pass(its) for _ in range(RUNS))
            decision = min(_one_decision(its, size, number) for number in range(RUNS))
            cold = min(_cold(its) for _ in range(RUNS))
        finally:
            client.delete_table(TableName=TABLE)
    seconds = {"quiet": quiet, "one decision": decision, "cold container": cold}
    return {kind: _reckoned(rounds[kind], seconds[kind]) for kind in seconds}


def _move(its: Live, client: Any) -> None:
    """Move the queue's table to the engine of this client."""
    client.create_table(**table_definition(TABLE))
    items = [*its.engine.tables[TABLE].items.values()]
    for begin in range(0, len(items), AT_ONCE):
        puts = [{"PutRequest": {"Item": item}} for item in items[begin : begin + AT_ONCE]]
        assert not client.batch_write_item(RequestItems={TABLE: puts})["UnprocessedItems"]
    its.account.dynamodb = client
    its.other = DynamoStore(client, TABLE)


def _start_cold() -> None:
    forget()
    app.manager()


def _cold(its: Live) -> float:
    """A pass in a new container, whose first client is made. Imports are the cold start's."""
    _start_cold()
    return _pass(its)


def _one_decision(its: Live, size: Size, number: int) -> float:
    ends(its, size.pools + number)
    return _pass(its)


def _pass(its: Live) -> float:
    """The CPU time (s) of a pass that another container has asked for."""
    its.account.lambda_.events.clear()
    its.other.scheduler.bump()
    its.account.clock.set(its.account.clock.now() + 1_000)
    begun = time.process_time()
    its.send(PASS)
    return time.process_time() - begun


def _reckoned(rounds: int, cpu: float) -> Figures:
    """The pass in functions of each memory: its duration (s) and the price of a million (USD)."""
    found: Figures = {"rounds": rounds, "cpu_ms": round(1000 * cpu, 1)}
    for memory in MEMORIES:
        lasts = rounds * LATENCY + cpu / min(1.0, memory / WHOLE_CPU)
        gb_seconds = 1_000_000 * lasts * memory / 1024
        usd = gb_seconds * PRICES["lambda_gb_seconds"].usd_each
        usd += 1_000_000 * PRICES["lambda_requests"].usd_each
        found |= {f"seconds_{memory}": round(lasts, 3), f"usd_{memory}": round(usd, 2)}
    return found
