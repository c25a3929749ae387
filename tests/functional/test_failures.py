"""Errors that no request is to blame for: what the caller learns and what not."""

import json

import pytest

import app
from slotq_core.errors import Conflict, Unavailable
from tests.functional.account import Account


def test_an_unexpected_error_reveals_only_the_request_id(account: Account, monkeypatch, output):
    def broken(*_, **__):
        raise KeyError("secret-of-the-house")

    monkeypatch.setattr(app.manager().submissions, "submit", broken)
    status, error = account.call("add-job")
    assert (status, error["code"]) == (500, "internal_error")
    assert "request-1" in error["message"]
    assert "KeyError" not in error["message"]
    written = output()
    assert "secret-of-the-house" not in json.dumps(error) + written
    assert "KeyError" in written


@pytest.mark.parametrize("error", [Unavailable("DynamoDB: throttled"), Conflict("again")])
def test_an_unavailable_service_is_a_503(account: Account, monkeypatch, error: Exception):
    def unavailable(*_, **__):
        raise error

    monkeypatch.setattr(app.manager().submissions, "submit", unavailable)
    status, said = account.call("add-job")
    assert (status, said["code"]) == (503, "unavailable")
    assert "again" in said["message"]


def test_a_submission_succeeds_when_no_pass_can_be_requested(account: Account, monkeypatch):
    def refuse(**_):
        from botocore.exceptions import ClientError

        raise ClientError({"Error": {"Code": "TooManyRequestsException"}}, "Invoke")

    monkeypatch.setattr(account.lambda_, "invoke", refuse)
    assert account.call("add-job")[0] == 202
    account.send("tick")
    assert account.state("job1") == "starting"


def test_a_submission_succeeds_when_its_pass_fails(account: Account, monkeypatch):
    monkeypatch.setenv("SLOTQ_INLINE_PASS", "1")

    def unavailable():
        raise Unavailable("SageMaker")

    monkeypatch.setattr(app.manager().passes, "run", unavailable)
    assert account.call("add-job")[0] == 202


def test_a_queue_without_pools_accepts_nothing(account: Account, monkeypatch):
    monkeypatch.setenv("SLOTQ_POOLS", "")
    assert account.call("add-job")[0] == 500
    with pytest.raises(app.Failed, match="Misconfigured"):
        account.send("tick")
    assert account.items() == []
