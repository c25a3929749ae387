"""A queue in an AWS account that exists only in this process."""

import io
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from moto import mock_aws

import app
from slotq.local.services.training_service import PlaneClient
from tests.contract.evented_dynamodb import EventedDynamo
from tests.functional.account import LETTERS, TABLE, Account, forget


@pytest.fixture
def engine() -> Any:
    """The account's DynamoDB."""
    return EventedDynamo()


@pytest.fixture
def moto() -> Iterator[None]:
    """The account's other services, for boto3."""
    with mock_aws():
        yield


@pytest.fixture
def account(engine: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    yield from in_use(Account(engine), monkeypatch)


def in_use(made: Account, monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    """The function's module in this account, as after a cold start."""
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "slotq-queue-manager")
    monkeypatch.setenv("SLOTQ_TABLE", TABLE)
    monkeypatch.setenv("SLOTQ_DEAD_LETTERS", LETTERS)
    monkeypatch.setenv("SLOTQ_POOLS", "main=2@ml.p4d.24xlarge")
    monkeypatch.delenv("SLOTQ_INLINE_PASS", raising=False)
    monkeypatch.delenv("SLOTQ_LOCAL_CALLER", raising=False)
    forget()
    monkeypatch.setattr(app, "client", made.client)
    monkeypatch.setattr(app, "clock", made.clock)
    monkeypatch.setattr(app, "sagemaker_client", lambda: PlaneClient(made.plane))
    yield made
    forget()


@pytest.fixture
def output(
    account: Account, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[[], str]:
    """All output of the function so far: log, metrics and prints."""
    log = io.StringIO()
    monkeypatch.setattr(app.logger.registered_handler, "stream", log)
    written: list[str] = []

    def read() -> str:
        captured = capsys.readouterr()
        written.extend((captured.out, captured.err))
        return "".join((*written, log.getvalue()))

    return read
