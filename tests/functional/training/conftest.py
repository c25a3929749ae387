"""Elastic gangs whose processes end with their test."""

from __future__ import annotations

import sys

import pytest

from tests.functional.training.breathing import Gang


@pytest.fixture
def gang(tmp_path):
    made = []

    def make(script, place=None, python=sys.executable, **environment):
        gang = Gang(tmp_path, script, place or str(tmp_path / "meet"), python, environment)
        made.append(gang)
        return gang

    yield make
    for process in [process for gang in made for process in gang.running]:
        process.kill()
        process.communicate()
