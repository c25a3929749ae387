"""An emulator for each module, in a separate process as users start it, with one slot."""

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
    """The client uses boto3's default session, if there is one, with its credentials."""
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
