"""Characters that a terminal or a pipe cannot encode never end a command."""

from __future__ import annotations

import json

import pytest

from slotq.cli.exits import ExitCode
from tests.unit.client.fake_queue import waiting

MESSAGE = "für später … → 🚀"


@pytest.fixture(autouse=True)
def odd(queue):
    queue.jobs["job3"] = waiting(1, MESSAGE, name="job3")


def test_tables_replace_characters_that_cannot_be_encoded(slotq):
    result = slotq("why", "job3", charset="ascii")
    assert result.exit_code == ExitCode.OK
    assert "f?r sp?ter ... -> ?" in result.output


@pytest.mark.parametrize("line", ["show job3", "ls", "watch --all"])
def test_json_keeps_every_character(slotq, line):
    result = slotq(*line.split()[:2], "--json", charset="ascii", input="")
    assert result.output.isascii()
    if line != "watch --all":
        assert MESSAGE in json.dumps(json.loads(result.output), ensure_ascii=False)


def test_usage_and_errors_replace_characters_too(slotq):
    assert slotq("--help", charset="ascii").exit_code == ExitCode.OK
    result = slotq("show", "für", charset="latin-1")
    assert (result.exit_code, "für" in result.stderr) == (ExitCode.NO, True)
    result = slotq("show", "🚀", charset="latin-1")
    assert (result.exit_code, "'?' cannot be" in result.stderr) == (ExitCode.NO, True)
    assert json.loads(slotq("show", "für", "--json", charset="ascii").stderr)["message"]


def test_a_drawing_still_tells_its_marks_apart():
    marks = [each.encode("ascii", "slotq").decode() for each in "░▒█▌✗│"]
    assert len(set(marks)) == len(marks)
    assert "?" not in marks
