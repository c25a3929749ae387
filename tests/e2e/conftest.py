"""An emulator for each module, in a separate process, with one slot."""

from __future__ import annotations

import shutil
from pathlib import Path

import boto3
import pytest

import slotq.demo
from tests.emulators import emulator

WAITS = """
import time, train

load, improve = train.load, train.improve

def look(folder):
    weights, step = load(folder)
    if step == 0:
        train.improve = waits_at_15
    return weights, step

def waits_at_15(weights, step):
    if step == 15:
        time.sleep(3600)
    return improve(weights, step)

train.load = look
train.main()
"""


@pytest.fixture(scope="module")
def aws():
    with emulator("one=1@ml.p5.48xlarge") as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def script(tmp_path_factory):
    """A source folder with the demo's `train.py`, which saves each tenth step, and `waits.py`: the
    same training, whose first attempt stands still at step 15 until it is stopped."""
    folder = tmp_path_factory.mktemp("source")
    shutil.copy(Path(slotq.demo.__file__).parent / "job" / "train.py", folder)
    (folder / "waits.py").write_text(WAITS)
    return folder


@pytest.fixture
def said():
    """The lines that a session says."""
    return []


@pytest.fixture(autouse=True)
def _no_session_of_other_tests(monkeypatch):
    """The client uses boto3's default session, if there is one, with its credentials."""
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    monkeypatch.setattr(boto3, "setup_default_session", boto3.setup_default_session)
