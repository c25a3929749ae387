"""No test of the client sees the machine's own settings or credentials."""

from __future__ import annotations

import os

import boto3
import pytest


@pytest.fixture(autouse=True)
def own_settings(monkeypatch, tmp_path):
    for name in os.environ:
        if name.startswith(("AWS_", "SLOTQ_", "XDG_", "NO_COLOR")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
