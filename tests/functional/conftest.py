"""A queue in an AWS account that exists in this process only."""

from collections.abc import Iterator

import pytest
from moto import mock_aws

import app
from slotq.local.plane_client import PlaneClient
from tests.functional.account import TABLE, Account, forget


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "slotq-queue-manager")
    monkeypatch.setenv("SLOTQ_TABLE", TABLE)
    monkeypatch.setenv("SLOTQ_POOLS", "main=2@ml.p4d.24xlarge")
    monkeypatch.delenv("SLOTQ_INLINE_PASS", raising=False)
    forget()
    with mock_aws():
        made = Account()
        monkeypatch.setattr(app, "client", made.client)
        monkeypatch.setattr(app, "clock", made.clock)
        monkeypatch.setattr(app, "sagemaker_client", lambda: PlaneClient(made.plane))
        yield made
    forget()
