"""`slotq local start | stop | env`: their use, and messages about wrong use."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator

from slotq.checkup import CHECKS
from slotq.cli.main import cli
from slotq.cli.schemas import document
from slotq.local.state import GOES_ON
from tests.e2e.waiting import until
from tests.functional.local.account import Account, gone
from tests.functional.local.conftest import SLOTQ, slotq, start


def test_a_shell_can_read_env(account: Account) -> None:
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


def test_a_command_needs_no_more_settings_than_those_of_env(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    # The emulator has two pools of two types, so the type has no default.
    env = {**account.variables, "SLOTQ_CONFIG": os.devnull, "SLOTQ_INSTANCE_TYPE": "ml.m5.large"}
    submitted = ("submit", "--name", "at-once", "--", "python", "-c", "print('hello')")
    slotq(*submitted, folder=account.folder, env=env)
    assert "hello" in slotq("logs", "-f", "at-once", folder=account.folder, env=env).stdout


def test_pools_and_doctor_work_in_the_emulator(account: Account) -> None:
    env = account.variables
    shown = slotq("pools", folder=account.folder, env=env).stdout.splitlines()
    assert [line.split()[0] for line in shown] == ["POOL", "main", "scarce"]
    said = slotq("doctor", "--fix", folder=account.folder, env=env).stdout.splitlines()
    _, *checks, advice, _, found = said
    assert [line.split()[1] for line in checks] == ["ok"] * len(CHECKS)
    assert advice.strip().startswith("Start a program as `slotq exec -- PROGRAM`")
    assert found == "nothing found"


def test_env_as_json_fits_the_schema(account: Account) -> None:
    said = json.loads(slotq("local", "env", "--json", folder=account.folder).stdout)
    schema = {**document(), "$ref": "#/$defs/slotq local env"}
    Draft202012Validator(schema).validate(said)
    assert said["SLOTQ_ENDPOINT"] == account.endpoint.queue


def test_a_change_of_pools_is_recorded_under_the_signers_name(account: Account) -> None:
    def pools(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return slotq("pools", *words, folder=account.folder, env=account.variables, check=check)

    pools("set", "spare", "--slots", "1", "--instance-type", "ml.m5.large", "--state", "paused")
    pools("resize", "spare", "+2")
    refused = pools("set", "spare", "--slots", "9", "--revision", "1", check=False)
    assert (refused.returncode, "read it again" in refused.stderr) == (1, True)
    pools("remove", "spare")
    _, removed, resized, made, *_ = pools("history").stdout.splitlines()
    assert "removed; it had 3 slots" in removed
    assert "slots 1 → 3" in resized
    assert "new: 1 slot of ml.m5.large" in made
    assert all("user/testing" in line for line in (removed, resized, made))


def test_jobs_ask_for_properties_of_pools(account: Account) -> None:
    def run(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return slotq(*words, folder=account.folder, env=account.variables, check=check)

    new = ("--slots", "1", "--instance-type", "ml.m5.large", "--state", "paused")
    run("pools", "set", "large", *new, "--property", "disk_in_GiB=16")
    assert "16 disk_in_GiB" in run("pools", "show", "large").stdout
    wanted = ["--pools", "main,large", "--demand", "disk_in_GiB=16"]
    (account.folder / "job.json").write_text(json.dumps(account.request("asks")))
    file = str(account.folder / "job.json")
    run("submit", file, *wanted)
    shown = json.loads(run("show", "asks", "--json").stdout)
    assert (shown["pools"], shown["requires"]) == (["large"], {"disk_in_GiB": 16})
    assert "disk_in_GiB of 16" in run("show", "asks").stdout
    run("clone", "asks", "again")
    assert json.loads(run("show", "again", "--json").stdout)["requires"] == shown["requires"]
    too_much = ("--name", "never", "--demand", "disk_in_GiB=32")
    refused = run("submit", file, *too_much, check=False)
    assert (refused.returncode, "at least 32, and the most" in refused.stderr) == (1, True)
    run("cancel", "asks", "again")
    run("pools", "remove", "large")


def test_jobs_ask_for_what_instances_contain(account: Account) -> None:
    """Nobody declares anything, and the job runs."""

    def run(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return slotq(*words, folder=account.folder, env=account.variables, check=check)

    run("pools", "set", "p5", "--slots", "1", "--instance-type", "ml.p5.48xlarge")
    shown = run("pools", "show", "p5").stdout
    assert "8 gpus, 192 vcpus, 2048 memory_gib, 80 mem_per_gpu_in_GiB" in shown
    request = account.request("gpu-job", "print('hello')")
    (account.folder / "gpu.json").write_text(json.dumps(request))
    submit = ("submit", str(account.folder / "gpu.json"), "--pools", "p5,main")
    run(*submit, "--demand", "gpus=8", "--demand", "mem_per_gpu_in_GiB=80", "--wait")
    job = json.loads(run("show", "gpu-job", "--json").stdout)
    assert (job["state"], job["pools"], job["demand"]) == ("completed", ["p5"], {"slots": 1})
    assert job["requires"] == {"gpus": 8, "mem_per_gpu_in_GiB": 80}
    assert "gpus of 8" in run("show", "gpu-job").stdout
    refused = run(*submit, "--name", "never", "--demand", "gpus=9", check=False)
    assert (refused.returncode, "that takes 2 instances" in refused.stderr) == (1, True)
    refused = run("pools", "set", "p5", "--resource", "gpus=7", check=False)
    assert "declares 7 gpus, but its ml.p5.48xlarge has 8: leave gpus out" in refused.stderr
    assert refused.returncode == 1
    run("pools", "remove", "p5")


def test_the_emulator_starts_with_no_pool_that_contradicts_its_instances() -> None:
    pool = "p5=2@ml.p5.48xlarge;resources=gpus:12"
    refused = CliRunner().invoke(cli, ["local", "start", "--pool", pool])
    assert refused.exit_code == 2
    assert "declares 12 gpus, but its 2 instances of ml.p5.48xlarge contain 16" in refused.output


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run `slotq local …` in this process, for commands that end with a message."""

    def run(*words: str, folder: Path = tmp_path) -> Result:
        monkeypatch.setenv("SLOTQ_LOCAL_DIR", str(folder))
        return CliRunner().invoke(cli, ["local", *words])

    return run


def test_a_folder_has_at_most_one_emulator(account: Account, here: Callable[..., Result]) -> None:
    ran = here("start", "--port", "0", folder=account.folder)
    assert ran.exit_code == 1
    assert f"an emulator already runs at {account.running.url}" in ran.stderr
    assert "slotq local stop" in ran.stderr


def test_a_taken_port_is_an_error(here: Callable[..., Result]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for more in ([], ["--detach"]):
            ran = here("start", "--port", port, *more)
            assert ran.exit_code == 1
            assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in ran.stderr
            assert "--port" in ran.stderr


def test_an_address_of_another_machine_is_an_error(here: Callable[..., Result]) -> None:
    ran = here("start", "--host", "192.0.2.1", "--port", "0")  # An address for examples.
    assert ran.exit_code == 1
    assert "Cannot assign requested address" in ran.stderr
    assert "--host" in ran.stderr
    assert "slotq local stop" not in ran.stderr


@pytest.mark.parametrize("command", ["start", "stop", "env"])
@pytest.mark.parametrize("place", ["a file", "a file/below", "/proc/nowhere", "~nobody-here/x"])
def test_a_state_folder_that_cannot_be_used_is_an_error(
    command: str, place: str, tmp_path: Path, here: Callable[..., Result]
) -> None:
    (tmp_path / "a file").touch()
    folder = Path(place) if place.startswith("~") else tmp_path / place
    ran = here(command, folder=folder)
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert f"cannot keep its state in {folder}: " in ran.stderr
    assert "Set SLOTQ_LOCAL_DIR to a folder that you can write" in ran.stderr


def test_a_state_folder_that_cannot_be_written_is_an_error(
    monkeypatch: pytest.MonkeyPatch, here: Callable[..., Result]
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # Root may write everywhere.
    ran = here("start")
    assert (ran.exit_code, "it cannot be written. Set SLOTQ_LOCAL_DIR" in ran.stderr) == (1, True)


@pytest.mark.parametrize("command", ["stop", "env", "sam", "as Operator -- true"])
def test_commands_without_an_emulator_are_errors(command: str, here: Callable[..., Result]) -> None:
    ran = here(*command.split())
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "no emulator is running" in ran.stderr


WRONG = [
    (["--pool", "p"], "'p' is not a pool: write NAME=SLOTS@INSTANCE_TYPE"),
    (["--pool", "p=-1"], "slots must be a whole number from 0 to 10000"),
    (["--knob", "colour=1"], "there is no knob 'colour'"),
    (["--knob", "throttle"], "'throttle' is not NAME=VALUE"),
    (["--grace", "-1"], "'-1' is neither seconds nor a time such as 90s"),
    (["--tick", "0"], "must be more than 0 seconds"),
    (["--tick", "nan"], "'nan' is neither seconds nor a time"),
    (["--tick", "inf"], "'inf' is neither seconds nor a time"),
    (["--port", "65536"], "65536 is not in the range 0<=x<=65535"),
    (["--port", "-1"], "-1 is not in the range 0<=x<=65535"),
    (["--region", "us-east-9"], "there is no region 'us-east-9'; the regions are"),
    (["--region", ""], "there is no region ''; the regions are"),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_wrong_options_are_refused(
    options: list[str], message: str, here: Callable[..., Result]
) -> None:
    ran = here("start", *options)
    assert ran.exit_code == 2
    assert message in " ".join(ran.stderr.split())


STAYS = """
import os, pathlib, subprocess, sys, time
away = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"],
                        start_new_session=True)
print(os.getpid(), away.pid, sys.argv[-1], os.environ["SM_MODEL_DIR"], flush=True)
time.sleep(300)
"""


def stays(account: Account) -> tuple[list[int], list[str]]:
    """A job that keeps running, with a child in a separate process group: both processes, and its
    output."""
    config = {"S3Uri": f"s3://{account.bucket}/checkpoints"}
    parameters = {"at": "/opt/ml/x"}
    account.create("stays", STAYS, parameters=parameters, CheckpointConfig=config)
    line = account.until(lambda: account.said("stays"), "a line")[0].split()
    pids = [int(word) for word in line[:2]]
    assert not any(gone(pid) for pid in pids)
    return pids, line[2:]


HEARS_ALL = """
import os, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""Runs a command that hears SIGHUP, also where the tests themselves run under `nohup`."""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_start_runs_in_the_foreground_until_its_end_or_its_terminals(
    tmp_path: Path, number: signal.Signals
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HEARS_ALL, *SLOTQ, "local", "start", "--port", "0"],
        env={**os.environ, "SLOTQ_LOCAL_DIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("The emulator answers at http://127.0.0.1:")
    account = Account(tmp_path)
    pids, _ = stays(account)
    process.send_signal(number)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert said.splitlines()[-1] == f"The emulator has ended. {GOES_ON}"
    account.until(lambda: all(gone(pid) for pid in pids), "the end of its jobs")
    assert not (tmp_path / "emulator.json").exists()
    assert not (tmp_path / "jobs").exists()


def test_a_signal_that_reaches_another_thread_ends_the_emulator_too(tmp_path: Path) -> None:
    account = start(tmp_path)
    pid = account.running.pid
    other = next(
        int(thread.name)
        for thread in Path(f"/proc/{pid}/task").iterdir()
        if int(thread.name) != pid
    )
    os.kill(other, signal.SIGTERM)
    account.until(lambda: gone(pid), "the emulator's end")
    assert not (tmp_path / "emulator.json").exists()


@pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="there is no IPv6 here")
def test_an_emulator_at_every_address_of_both_families_answers(tmp_path: Path) -> None:
    account = start(tmp_path, "--host", "::")
    try:
        assert account.running.url.startswith("http://127.0.0.1:")
        assert account.control("health")["run"] == account.running.run
    finally:
        slotq("local", "stop", folder=tmp_path)


def test_stop_ends_leftover_jobs_after_a_crash_without_namespaces(tmp_path: Path) -> None:
    """The emulator is killed; `stop` ends the processes that its jobs have left."""
    account = start(tmp_path, "--no-isolation")
    assert account.control("health")["isolated"] is False
    pids, (argument, model) = stays(account)
    assert argument.endswith("/stays/algo-1/ml/x")
    assert model.endswith("/stays/algo-1/ml/model")
    os.kill(account.running.pid, signal.SIGKILL)
    account.until(lambda: gone(account.running.pid), "the end of the emulator")
    said = slotq("local", "stop", folder=tmp_path).stdout
    assert "had already ended. 2 processes" in said
    account.until(lambda: all(gone(pid) for pid in pids), "the end of its jobs")


def test_the_next_start_ends_leftover_jobs_after_a_crash(tmp_path: Path) -> None:
    account = start(tmp_path)
    pids, _ = stays(account)
    os.kill(account.running.pid, signal.SIGKILL)
    account.until(lambda: gone(account.running.pid), "the end of the emulator")
    assert not any(gone(pid) for pid in pids)
    start(tmp_path)
    try:
        account.until(lambda: all(gone(pid) for pid in pids), "the end of its jobs")
    finally:
        slotq("local", "stop", folder=tmp_path)


def test_an_emulator_that_does_not_answer_keeps_its_folder_until_it_is_stopped(
    tmp_path: Path, here: Callable[..., Result]
) -> None:
    """Ctrl-Z suspends it. A second one would write over what it saves."""
    account = start(tmp_path)
    pids, _ = stays(account)
    os.kill(account.running.pid, signal.SIGSTOP)
    for more in ([], ["--detach"]):
        refused = here("start", "--port", "0", *more)
        assert refused.exit_code == 1
        assert f"(process {account.running.pid})" in refused.stderr
    assert not any(gone(pid) for pid in pids)
    assert "has ended" in here("stop").stdout
    ended = [account.running.pid, *pids]
    account.until(lambda: all(gone(pid) for pid in ended), "the end of it and of its jobs")
    assert (tmp_path / "kept/state.json").exists()


def test_an_interrupted_start_in_the_background_leaves_nothing(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*SLOTQ, "local", "start", "--port", "0", "--detach"],
        env={**os.environ, "SLOTQ_LOCAL_DIR": str(tmp_path)},
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    until(children.read_text, "the emulator's process")
    (emulator,) = map(int, children.read_text().split())
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=120) != 0
    until(lambda: gone(emulator), "its end")


DEMO = """
import time
from slotq.demo.world import emulator
with emulator("p=1@ml.m5.large"):
    print("runs", flush=True)
    time.sleep(300)
"""


def test_the_emulator_of_a_killed_demo_ends_with_its_jobs(tmp_path: Path) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-c", DEMO],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    with demo:
        assert demo.stdout is not None
        assert demo.stdout.readline() == "runs\n"
        (folder,) = tmp_path.glob("slotq-demo-*")
        account = Account(folder)
        pids, _ = stays(account)
        demo.kill()
    account.until(
        lambda: all(gone(pid) for pid in [account.running.pid, *pids]), "the end of the emulator"
    )
    assert not (folder / "emulator.json").exists()


def test_only_with_until_eof_does_an_emulator_end_with_its_input(
    tmp_path: Path, here: Callable[..., Result]
) -> None:
    for option, ends in (((), False), (("--until-eof",), True)):
        process = subprocess.Popen(
            [*SLOTQ, "local", "start", "--port", "0", *option],
            env={**os.environ, "SLOTQ_LOCAL_DIR": str(tmp_path)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        with process:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("The emulator answers at")
            if not ends:
                with pytest.raises(subprocess.TimeoutExpired):
                    process.wait(timeout=1)
                process.terminate()
            assert process.stdout.read().endswith(f"{GOES_ON}\n")
        assert process.returncode == 0
    refused = here("start", "--detach", "--until-eof")
    assert (refused.exit_code, "leave one of them out" in refused.stderr) == (2, True)


def test_a_missing_function_is_an_error(tmp_path: Path) -> None:
    ran = slotq(
        *("local", "start", "--port", "0"),
        folder=tmp_path,
        env={"SLOTQ_FUNCTION": str(tmp_path / "app.py")},
        check=False,
    )
    assert ran.returncode == 1
    assert "SLOTQ_FUNCTION" in ran.stderr
    assert sys.executable not in ran.stderr
