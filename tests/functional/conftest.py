"""A queue in an AWS account that exists only in this process."""

import io
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from moto import mock_aws

import app
from slotq.local.services import moto_dynamodb
from slotq.local.services.training_service import PlaneClient
from tests.functional.account import LETTERS, TABLE, Account, dynamodb_client, forget
from tests.functional.checked_dynamodb import CheckedDynamo


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> Any:
    """The account's DynamoDB: the fake, or moto where a test is `ON_MOTO`."""
    on_moto = getattr(request, "param", None) == "moto"
    return request.getfixturevalue("moto_engine") if on_moto else CheckedDynamo()


@pytest.fixture
def moto_engine() -> Iterator[Any]:
    moto_dynamodb.install()
    with mock_aws():
        yield dynamodb_client()


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
