"""Fixtures of the client's tests, isolated from the machine's own settings and credentials."""

from __future__ import annotations

import logging
import multiprocessing.spawn
import os
from datetime import UTC, datetime

import boto3
import pytest
from click.testing import CliRunner

from slotq.cli.app import App
from slotq.cli.main import cli
from slotq.session.installed_sdk import sdk_version
from tests.unit.client.fake_aws import FakeServices
from tests.unit.client.fake_queue import (
    Clock,
    FakeHttp,
    FakeNetwork,
    FakeQueue,
    attempt,
    client_of,
    ended,
    running,
    waiting,
)

SHOWING = (logging.StreamHandler,)
NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def own_settings(monkeypatch, tmp_path):
    """After each test, boto3's and multiprocessing's functions are as they were."""
    for name in os.environ:
        if name.startswith(("AWS_", "SLOTQ_", "XDG_", "NO_COLOR")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    monkeypatch.setattr(boto3, "setup_default_session", boto3.setup_default_session)
    spawn = multiprocessing.spawn
    monkeypatch.setattr(spawn, "get_preparation_data", spawn.get_preparation_data)


@pytest.fixture(autouse=True)
def own_log(monkeypatch):
    """Remove logging handlers that other tests and SDKs have added."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [h for h in root.handlers if type(h) not in SHOWING])
    monkeypatch.setattr(root, "level", logging.WARNING)


@pytest.fixture
def queue():
    """job1 runs for the second time, job3 waits, job9 has failed."""
    history = [attempt(1, outcome="evicted", stop_cause="evicted", stopped_for="job4"), attempt(2)]
    return FakeQueue(
        running(2, evictions=1, attempts=history),
        waiting(1, "needs 1 slot; pool p5 has 0 free of 2", name="job3"),
        ended("failed", name="job9", message="AlgorithmError: exit code 1"),
    )


@pytest.fixture
def http(queue):
    return FakeHttp(queue)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def app(http, clock):
    """Options of an App that uses the fake queue, without this machine's clock and network."""

    def make(**fields):
        given = {
            "connect": lambda endpoint: client_of(http, clock=clock),
            "clock": clock,
            "sleep": clock.sleep,
            "now": lambda: NOW,
            "network": FakeNetwork(),
            "aws": FakeServices(),
        }
        return App(**(given | fields))

    return make


@pytest.fixture
def said():
    """The lines that a session says."""
    return []


@pytest.fixture
def slotq(app):
    """Runs a command. `world`: further fields of its App; `charset`: the encoding of its
    streams."""

    def run(*args, world=None, charset="utf-8", **options):
        return CliRunner(charset=charset).invoke(cli, args, obj=app(**(world or {})), **options)

    return run


@pytest.fixture
def no_telemetry(monkeypatch):
    """SageMaker's SDK sends none. Its own setting would be validated seventy times in each fit."""
    pytest.importorskip("sagemaker", reason="no SageMaker SDK is installed")
    package = "sagemaker.core" if sdk_version() == 3 else "sagemaker"
    sender = f"{package}.telemetry.telemetry_logging._send_telemetry_request"
    monkeypatch.setattr(sender, lambda *args, **kwargs: None)
