"""An emulator for each module, in a process of its own as users start it, with one slot."""

from __future__ import annotations

import boto3
import pytest

from slotq.demo.world import emulator


@pytest.fixture(scope="module")
def aws():
    with emulator("one=1@ml.p5.48xlarge") as endpoint:
        yield endpoint


@pytest.fixture(autouse=True)
def _no_session_of_other_tests(monkeypatch):
    """The client takes boto3's default session where there is one, and with it its credentials."""
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
