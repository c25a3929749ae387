"""`slotq local start | stop | env`: what people type, and what they are told when it is wrong."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.functional.local.account import Account
from tests.functional.local.conftest import SLOTQ, slotq, start


def test_env_is_read_by_a_shell(account: Account) -> None:
    command = " ".join(f"'{word}'" for word in SLOTQ)
    shell = subprocess.run(
        ["sh", "-c", f'eval "$({command} local env)"; {command} ls; echo "$SLOTQ_ENDPOINT"'],
        env={**os.environ, "SLOTQ_LOCAL_DIR": str(account.folder), "AWS_PROFILE": "nobody"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert shell.stdout.splitlines()[-1] == account.endpoint.queue
    assert not shell.stderr


def test_one_emulator_a_folder(account: Account) -> None:
    ran = slotq("local", "start", "--port", "0", folder=account.folder, check=False)
    assert ran.returncode == 1
    assert f"running already, at {account.running.url}" in ran.stderr
    assert "slotq local stop" in ran.stderr


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for more in ([], ["--detach"]):
            ran = slotq("local", "start", "--port", port, *more, folder=tmp_path, check=False)
            assert ran.returncode == 1
            assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in ran.stderr
            assert "--port" in ran.stderr


@pytest.mark.parametrize("command", ["stop", "env"])
def test_nothing_runs(command: str, tmp_path: Path) -> None:
    ran = slotq("local", command, folder=tmp_path, check=False)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "no emulator is running" in ran.stderr


WRONG = [
    (["--pool", "p"], "'p' is no pool: write NAME=SLOTS@INSTANCE_TYPE"),
    (["--pool", "p=0"], "slots must be a whole number from 1 to 10000"),
    (["--knob", "colour=1"], "there is no knob 'colour'"),
    (["--knob", "throttle"], "'throttle' is not NAME=VALUE"),
    (["--grace", "-1"], "a number of seconds from 0 up"),
    (["--tick", "0"], "must be more than 0 seconds"),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_wrong_options(options: list[str], message: str, tmp_path: Path) -> None:
    ran = slotq("local", "start", *options, folder=tmp_path, check=False)
    assert ran.returncode == 2
    assert message in " ".join(ran.stderr.split())


def test_in_the_foreground_until_it_is_interrupted(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*SLOTQ, "local", "start", "--port", "0"],
        env={**os.environ, "SLOTQ_LOCAL_DIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("The emulator answers at http://127.0.0.1:")
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    assert said.splitlines()[-1] == "The emulator has ended. What it held is gone."
    assert not (tmp_path / "emulator.json").exists()


def test_after_a_crash_nothing_is_left(tmp_path: Path) -> None:
    """The emulator is killed; `stop` ends what its jobs have left running."""
    account = start(tmp_path)
    account.create("left", "import os, time; print(os.getpid(), flush=True); time.sleep(300)")
    pid = int(account.until(lambda: account.said("left"), "a line")[0])
    os.kill(account.running.pid, signal.SIGKILL)
    time.sleep(0.2)
    said = slotq("local", "stop", folder=tmp_path).stdout
    assert "gone already. 1 processes" in said
    end = time.monotonic() + 5
    while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert not Path(f"/proc/{pid}").exists()


def test_the_function_is_not_found(tmp_path: Path) -> None:
    ran = slotq(
        *("local", "start", "--port", "0"),
        folder=tmp_path,
        env={"SLOTQ_FUNCTION": str(tmp_path / "app.py")},
        check=False,
    )
    assert ran.returncode == 1
    assert "SLOTQ_FUNCTION" in ran.stderr
    assert sys.executable not in ran.stderr
