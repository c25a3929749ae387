"""Streams and files that the operating system refuses never end a command with a traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from slotq.cli.exits import ExitCode

PROGRAM = f"'{sys.executable}' -c 'from slotq.cli.main import main; main()'"


def shell(line: str) -> subprocess.CompletedProcess[str]:
    """Run a line of a shell, in which `slotq` is this program."""
    return subprocess.run(
        ["sh", "-c", line.replace("slotq", PROGRAM, 1)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("line", ["slotq cost >&-", "slotq cost --json >&-", "slotq cost <&- >&-"])
def test_a_command_may_have_no_output(line):
    ran = shell(line)
    assert (ran.returncode, ran.stdout, ran.stderr) == (ExitCode.OK, "", "")


def test_a_command_may_have_no_standard_error():
    ran = shell("slotq show nobody 2>&-")
    assert (ran.returncode, ran.stdout) == (ExitCode.USAGE, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("command", ["version", "cost"])
def test_a_full_disk_is_an_error(command):
    ran = shell(f"slotq {command} >/dev/full")
    assert (ran.returncode, ran.stderr) == (ExitCode.USAGE, "slotq: No space left on device\n")


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_file_that_cannot_be_read_is_an_error(slotq, monkeypatch, more):
    def refuse(*_):
        raise OSError(5, "Input/output error", "request.json")

    monkeypatch.setattr("slotq.cli.verbs.submit.read_requests", refuse)
    result = slotq("submit", "-", *more, input="{}")
    said = json.loads(result.stderr)["message"] if more else result.stderr.strip()
    assert result.exit_code == ExitCode.USAGE
    assert said.removeprefix("slotq: ") == "request.json: Input/output error"


def test_a_connection_is_no_file(slotq, monkeypatch):
    def refuse(*_):
        raise ConnectionResetError

    monkeypatch.setattr("slotq.cli.verbs.submit.read_requests", refuse)
    assert isinstance(slotq("submit", "-", input="{}").exception, ConnectionResetError)


def test_a_request_may_begin_with_a_byte_order_mark(slotq, tmp_path):
    file = tmp_path / "request.json"
    with file.open("w", encoding="utf-8-sig") as written:
        json.dump({"TrainingJobName": "from-windows"}, written)
    result = slotq("submit", str(file))
    assert "cannot be read" not in result.output + result.stderr
    assert "RoleArn: is required" in result.stderr
