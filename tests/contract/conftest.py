"""The stores that one suite runs against: in memory, on DynamoDB Local, and on the emulator's
DynamoDB, which the suite proves to be exact; also as the fault campaign has it, with transactions
that take time (`tests/faults/fake_dynamodb.py`).
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from typing import Any

import pytest

from slotq_core.adapters.dynamodb.store import DynamoStore, table_definition
from slotq_core.adapters.memory.store import MemoryStore
from slotq_core.ports.store import Store
from tests.contract import dynamodb_local
from tests.contract.by_hand import Table
from tests.contract.evented_dynamodb import EventedDynamo
from tests.contract.worlds import NOW
from tests.faults.fake_dynamodb import FakeDynamo

ENGINES = {"emulator": "evented_client", "dynamodb-local": "local_client", "fake": "fake_client"}
"""The fixtures of their clients."""
CONFIG: dict[str, Any] = {"max_pool_connections": 20, "retries": {"total_max_attempts": 1}}
_numbers = itertools.count()


def a_store(client: Any, table: str) -> DynamoStore:
    """A store whose clock stands still at the tests' time."""
    return DynamoStore(client, table, clock=lambda: NOW)


@pytest.fixture(scope="session")
def local_client(dynamodb_local_endpoint: str) -> Any:
    """A client of DynamoDB Local."""
    return dynamodb_local.client(dynamodb_local_endpoint, **CONFIG)


@pytest.fixture(params=["emulator", "dynamodb-local"])
def client(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(ENGINES[request.param])


@pytest.fixture
def table(client: Any) -> Iterator[str]:
    """The name of an empty table."""
    yield from _table(client)


@pytest.fixture
def items(client: Any, table: str) -> Table:
    """The table's items, to be changed by hand."""
    return Table(client, table)


@pytest.fixture
def dynamo(client: Any, table: str) -> DynamoStore:
    return a_store(client, table)


@pytest.fixture
def fake_client() -> FakeDynamo:
    return FakeDynamo()


@pytest.fixture
def evented_client() -> EventedDynamo:
    """A client for tests that count, change or refuse its calls."""
    return EventedDynamo()


@pytest.fixture
def evented_store(evented_client: EventedDynamo) -> Iterator[tuple[DynamoStore, str]]:
    """A store on that client with its table."""
    for table in _table(evented_client):
        yield a_store(evented_client, table), table


@pytest.fixture(params=["memory", "dynamodb-local", "fake"])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """An empty store without pools."""
    yield from _store(request)


@pytest.fixture(params=["memory", "dynamodb-local", "emulator"])
def racing_store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """The same, for threads."""
    yield from _store(request)


def _store(request: pytest.FixtureRequest) -> Iterator[Store]:
    if request.param == "memory":
        yield MemoryStore()
        return
    client = request.getfixturevalue(ENGINES[request.param])
    for table in _table(client):
        yield a_store(client, table)


def _table(client: Any) -> Iterator[str]:
    name = f"sagemaker-queue-{os.getpid()}-{next(_numbers)}"
    client.create_table(**table_definition(name))
    yield name
    client.delete_table(TableName=name)
