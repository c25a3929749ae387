"""`slotq shell` in SageMaker: messages about what is missing, and the plugin's terminal."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest
from botocore.exceptions import ClientError
from botocore.session import Session
from botocore.validate import ParamValidator
from click.testing import CliRunner

from slotq.cli.app import App
from slotq.cli.exits import ExitCode
from slotq.cli.main import cli
from slotq.configuration.settings import Config
from slotq.errors import NoShell
from slotq.remote_shell.on_node import enter_command
from slotq.remote_shell.plugin import PLUGIN, PluginCall, on_this_terminal
from slotq.remote_shell.ports import parsed
from slotq.remote_shell.ssm_session import Container, NotYet, running_job
from slotq_core.wire.views.nodes import NodeView
from tests.unit.client.fake_queue import (
    MOMENT,
    Clock,
    FakeHttp,
    FakeQueue,
    client_of,
    ended,
    job_view,
    running,
    waiting,
)


class FakeAws:
    """The answers of SageMaker and SSM in the caller's own AWS account."""

    region_name = "eu-west-1"
    profile_name = "research"
    meta = SimpleNamespace(endpoint_url="https://ssm.eu-west-1.amazonaws.com")

    def __init__(self, *, enabled=True, denies=(), codes=(), **described):
        self.described = {"RemoteDebugConfig": {"EnableRemoteDebug": enabled}, **described}
        self.denies = denies
        self.codes = list(codes)
        """How StartSession is refused, one a call; "" starts a session, and so do later calls."""
        self.requests = []

    @property
    def targets(self):
        return [request["Target"] for request in self.requests]

    def client(self, service):
        return self

    def describe_training_job(self, **request):
        if "describe" in self.denies:
            raise refusal("AccessDeniedException", "DescribeTrainingJob")
        return self.described

    def start_session(self, **request):
        if code := self.codes.pop(0) if self.codes else "":
            raise refusal(code, "StartSession")
        self.requests.append(request)
        return {
            "SessionId": "ada-1",
            "TokenValue": "token",
            "StreamUrl": "wss://stream",
            "ResponseMetadata": {"HTTPStatusCode": 200},
        }


def until(holds):
    for _ in range(200):
        if holds():
            return
        time.sleep(0.05)
    raise AssertionError("it does not come to hold")


def refusal(code, operation):
    return ClientError({"Error": {"Code": code, "Message": "no"}}, operation)


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """A Session Manager plugin that records its input and exits with 7."""
    path = tmp_path / PLUGIN
    path.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/given\nexit 7\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return tmp_path / "given"


@pytest.fixture
def sessions(tmp_path, monkeypatch):
    """A plugin that runs until it is interrupted, with a file for each session: its variables, its
    arguments and, last, `ended`."""
    folder = tmp_path / "sessions"
    folder.mkdir()
    path = tmp_path / PLUGIN
    path.write_text(
        f"""#!/bin/bash
if [ "$1" = --version ]; then echo 1.2.650.0; exit; fi
log={folder}/$$
trap 'echo ended >> $log; exit 0' INT
printf '%s\\n' "$AWS_SSM_START_SESSION_RESPONSE" "$@" > $log
[ -e {tmp_path}/interrupt ] && kill -INT $PPID
[ -e {tmp_path}/over ] && exit 3
for n in $(seq 200); do sleep 0.05; done
"""
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return folder


@pytest.fixture
def invoke(client, monkeypatch, sessions, tmp_path):
    """Runs a command whose sessions end by themselves."""
    (tmp_path / "over").touch()
    clock = Clock()
    monkeypatch.setattr("slotq.transport.aws_session.made", lambda *_, **__: FakeAws())
    app = App(connect=lambda _: client, clock=clock, sleep=clock.sleep)
    return lambda *words: CliRunner().invoke(cli, words, obj=app)


@pytest.fixture
def queue():
    return FakeQueue(
        running(2),
        waiting(1, name="waits"),
        job_view("held", "held"),
        running(name="starts", state="starting"),
        running(name="stops", state="stopping"),
        ended(name="done"),
    )


@pytest.fixture
def client(queue):
    return client_of(FakeHttp(queue))


def open_shell(client, name, *, host, aws):
    return Container(client, host=host, aws=aws).shell(running_job(client, name))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("waits", "job waits is pending: a shell needs a running job; `slotq why waits`"),
        ("held", "job held is held: a shell needs a running job"),
        ("starts", "job starts is starting: a shell needs a running job"),
        ("stops", "job stops is stopping: a shell needs a running job"),
        ("done", "job done is completed: a shell needs a running job"),
    ],
)
@pytest.mark.usefixtures("plugin")
def test_only_a_running_job_has_a_shell(client, name, said):
    with pytest.raises(NoShell, match=said):
        open_shell(client, name, host=1, aws=FakeAws())


def test_a_missing_plugin_is_an_error_that_says_what_to_install(client, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    aws = FakeAws()
    with pytest.raises(NoShell, match="session-manager-plugin is not on the PATH: install it"):
        open_shell(client, "job1", host=1, aws=aws)
    assert aws.targets == []


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize("denies", [(), ("describe",)])
def test_disabled_remote_debug_is_an_error_that_says_how_to_enable_it(client, denies):
    """Read from the request when SageMaker may not be asked."""
    with pytest.raises(NoShell) as raised:
        open_shell(client, "job1", host=1, aws=FakeAws(enabled=False, denies=denies))
    said = str(raised.value)
    assert "update-training-job --training-job-name job1-qstamp-2-abcdef" in said
    assert '"RemoteDebugConfig": {"EnableRemoteDebug": true}' in said


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("TargetNotConnected", "ssmmessages:CreateControlChannel"),
        ("AccessDeniedException", "ssm:StartSession"),
        ("InternalServerError", "train-remote-debugging"),
    ],
)
def test_a_refusal_of_ssm_is_reported_with_advice(client, code, said):
    with pytest.raises(NoShell, match=said):
        open_shell(client, "job1", host=1, aws=FakeAws(codes=[code]))


def test_the_plugin_gets_the_session_and_the_terminal(client, plugin):
    aws = FakeAws()
    assert open_shell(client, "job1", host=2, aws=aws) == 7
    target = "sagemaker-training-job:job1-qstamp-2-abcdef_algo-2"
    assert aws.targets == [target]
    session, *words, asked, url = plugin.read_text().splitlines()
    assert json.loads(session) == {
        "SessionId": "ada-1",
        "TokenValue": "token",
        "StreamUrl": "wss://stream",
    }
    assert words == ["eu-west-1", "StartSession", "research"]
    assert json.loads(asked) == {"Target": target}
    assert url == "https://ssm.eu-west-1.amazonaws.com"


NODE = NodeView(
    pool="p5",
    name="node-1",
    state="ready",
    instance_type="ml.p5.48xlarge",
    gpus=8,
    free=[],
    jobs=[],
    training_job="slotq-p5-node-1",
    started_at=MOMENT,
)
ON_NODE = {"node": "node-1", "gpus": 1, "gpu_ids": [0], "pool": "p5"}


def test_a_job_on_a_node_is_entered_by_the_training_job_of_its_node(queue, plugin):
    """The parameters are those of `aws ssm start-session --document-name
    AWS-StartInteractiveCommand --parameters command=…`."""
    queue.script(running(2, name="lab", **ON_NODE))
    queue.nodes = [NODE.model_copy(update={"pool": "p4", "training_job": "other"}), NODE]
    client, aws = client_of(FakeHttp(queue)), FakeAws()
    assert open_shell(client, "lab", host=1, aws=aws) == 7
    (request,) = aws.requests
    assert request == {
        "Target": "sagemaker-training-job:slotq-p5-node-1_algo-1",
        "DocumentName": "AWS-StartInteractiveCommand",
        "Parameters": {"command": [enter_command(client.jobs.view("lab").training_job, "node-1")]},
    }
    python, flag, _, *words = shlex.split(request["Parameters"]["command"][0])
    attempt = client.jobs.view("lab").training_job
    assert (python, flag, words) == ("python3", "-c", [attempt, "node-1", "/opt/ml", "/tmp"])
    model = Session().get_service_model("ssm").operation_model("StartSession")
    assert not ParamValidator().validate(request, model.input_shape).has_errors()


@pytest.mark.usefixtures("plugin")
def test_a_node_that_has_ended_or_allows_no_shell_is_an_error(queue):
    queue.script(running(2, name="lab", **ON_NODE))
    client = client_of(FakeHttp(queue))
    with pytest.raises(NoShell, match="node node-1 of job lab has ended"):
        open_shell(client, "lab", host=1, aws=FakeAws())
    queue.nodes = [NODE]
    with pytest.raises(NoShell, match="--training-job-name slotq-p5-node-1"):
        open_shell(client, "lab", host=1, aws=FakeAws(enabled=False))


def a_process(folder, attempt, uid, **variables):
    """A process of a job on a node, as the agent starts it: a session of its own, as the user."""
    code = "import os, sys; os.setsid(); " + (
        f"os.setgroups([]); os.setresgid(*3 * [{uid}]); os.setresuid(*3 * [{uid}]); " if uid else ""
    )
    code += "os.execve('/bin/sleep', ['sleep', '60'], dict(os.environ))"
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env={"TRAINING_JOB_NAME": attempt, **variables},
        cwd=folder,
    )


@pytest.fixture
def open_to_all():
    """A folder that each user of this machine may enter: pytest's are this user's alone."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives each job a user of its own")
def test_the_command_becomes_the_user_of_the_job_in_its_folder_and_of_no_other(open_to_all):
    folders = {}
    for attempt, uid in (("lab", 20_100), ("liar", 20_102)):
        folders[attempt] = open_to_all / "slotq-node-1/jobs" / attempt
        folders[attempt].mkdir(parents=True)
        folders[attempt].chmod(0o700)
        os.chown(folders[attempt], uid, uid)
    liar = a_process(folders["liar"], "lab", 20_102, WHOSE="the liar's")
    lab = a_process(folders["lab"], "lab", 20_100, WHOSE="lab's", CUDA_VISIBLE_DEVICES="3")
    command = enter_command("lab", "node-1", (str(open_to_all / "none"), str(open_to_all)))

    def ran(command):
        said = "echo $(id -u) $(pwd) $WHOSE $CUDA_VISIBLE_DEVICES; exit 5"
        return subprocess.run(
            ["sh", "-c", command], check=False, input=said, capture_output=True, text=True
        )

    try:
        until(lambda: ran(command).returncode == 5)
        assert ran(command).stdout == f"20100 {folders['lab']} lab's 3\n"
    finally:
        for process in (liar, lab):
            process.kill()
            process.wait()
    assert "job lab has no process now" in ran(command).stderr
    other = enter_command("other", "node-1", (str(open_to_all),))
    assert "no job other runs on node node-1" in ran(other).stderr


def test_credentials_of_the_environment_need_no_profile(client, plugin):
    aws = FakeAws()
    aws.profile_name = "default"
    open_shell(client, "job1", host=1, aws=aws)
    assert plugin.read_text().splitlines()[1:4] == ["eu-west-1", "StartSession", ""]


def test_the_request_is_read_when_sagemaker_may_not_be_asked(client, queue, plugin):
    queue.requests["job1"] = {"RemoteDebugConfig": {"EnableRemoteDebug": True}}
    assert open_shell(client, "job1", host=1, aws=FakeAws(denies=("describe",))) == 7


def test_ctrl_c_goes_to_the_session_while_it_runs():
    before = signal.getsignal(signal.SIGINT)
    assert on_this_terminal(PluginCall(command=["sh", "-c", "kill -INT $PPID; exit 3"])) == 3
    assert signal.getsignal(signal.SIGINT) is before


def test_the_command_exits_with_the_shells_code(client, plugin, monkeypatch):
    monkeypatch.setattr("slotq.transport.aws_session.made", lambda *_, **__: FakeAws())
    app = App(connect=lambda endpoint: client)
    assert CliRunner().invoke(cli, ["shell", "job1"], obj=app).exit_code == 7
    result = CliRunner().invoke(cli, ["shell", "waits"], obj=app)
    assert (result.exit_code, "slotq why waits" in result.stderr) == (ExitCode.NO, True)


def test_a_local_address_without_an_emulator_is_an_error(plugin):
    config = Config(endpoint="http://127.0.0.1:9/prod", region="us-east-1")
    app = App(connect=lambda endpoint: client_of(FakeHttp(FakeQueue(running())), config=config))
    result = CliRunner().invoke(cli, ["shell", "job1"], obj=app)
    assert (result.exit_code, "not your emulator" in result.stderr) == (ExitCode.NO, True)


def test_a_newer_plugin_gets_the_token_where_other_users_cannot_read_it(client, sessions, tmp_path):
    (tmp_path / "over").touch()
    assert open_shell(client, "job1", host=1, aws=FakeAws()) == 3
    (log,) = sessions.iterdir()
    answer, *words = log.read_text().splitlines()
    assert json.loads(answer)["TokenValue"] == "token"
    assert words[0] == "AWS_SSM_START_SESSION_RESPONSE"
    assert not any("token" in word for word in words)
    assert "AWS_SSM_START_SESSION_RESPONSE" not in os.environ


@pytest.mark.usefixtures("plugin")
def test_network_isolation_is_an_error_that_says_so(client):
    aws = FakeAws(EnableNetworkIsolation=True)
    with pytest.raises(NoShell, match="has network isolation, and SSM reaches no such container"):
        open_shell(client, "job1", host=1, aws=aws)
    assert aws.targets == []


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize("status", ["Starting", "Pending", "Downloading"])
def test_a_container_that_does_not_run_yet_is_an_error_that_says_how_to_wait(client, status):
    aws = FakeAws(SecondaryStatus=status)
    with pytest.raises(NotYet, match=f"is {status}: .* `slotq shell job1 --wait` waits for it"):
        open_shell(client, "job1", host=1, aws=aws)
    assert aws.targets == []


def forwarded(client, *texts, aws, host=1):
    said = []
    forwards = [parsed(text) for text in texts]
    job = running_job(client, "job1")
    return lambda: Container(client, host=host, aws=aws).forward(job, forwards, said.append), said


def test_ports_are_forwarded_by_sessions_of_their_own(client, sessions, tmp_path):
    """The parameters are those of `aws ssm start-session --document-name
    AWS-StartPortForwardingSession --parameters portNumber=8888,localPortNumber=…`."""
    (tmp_path / "over").touch()
    (local,) = free_ports(1)
    aws = FakeAws()
    forward, said = forwarded(client, f"8888:{local}", "6006", aws=aws, host=2)
    assert forward() == 3
    target = "sagemaker-training-job:job1-qstamp-2-abcdef_algo-2"
    assert aws.requests[0] == {
        "Target": target,
        "DocumentName": "AWS-StartPortForwardingSession",
        "Parameters": {"portNumber": ["8888"], "localPortNumber": [str(local)]},
    }
    (other,) = aws.requests[1]["Parameters"]["localPortNumber"]
    assert said == [f"127.0.0.1:{local} -> job1:8888", f"127.0.0.1:{other} -> job1:6006"]
    logs = [log.read_text().splitlines() for log in sessions.iterdir()]
    asked = [json.loads(words[5]) for words in logs]
    assert sorted(asked, key=str) == sorted(aws.requests, key=str)
    model = Session().get_service_model("ssm").operation_model("StartSession")
    for request in aws.requests:
        assert not ParamValidator().validate(request, model.input_shape).has_errors()


def test_ctrl_c_ends_every_session(client, sessions, tmp_path):
    (tmp_path / "interrupt").touch()
    before = signal.getsignal(signal.SIGINT)
    forward, _ = forwarded(client, "8888", "6006", aws=FakeAws())
    with pytest.raises(KeyboardInterrupt):
        forward()
    assert signal.getsignal(signal.SIGINT) is before
    assert all(log.read_text().endswith("ended\n") for log in sessions.iterdir())


def test_a_session_that_does_not_start_ends_those_that_have(client, sessions):
    aws = FakeAws(codes=["", "AccessDeniedException"])
    forward, said = forwarded(client, "8888", "6006", aws=aws)
    with pytest.raises(NoShell, match="AWS-StartPortForwardingSession"):
        forward()
    assert len(said) == 1
    logs = [log.read_text() for log in sessions.iterdir()]
    assert all(log.endswith("ended\n") for log in logs)


@pytest.mark.usefixtures("sessions")
def test_a_port_in_use_starts_no_session(client):
    aws = FakeAws()
    with socket.create_server(("127.0.0.1", 0)) as server:
        forward, _ = forwarded(client, f"8888:{server.getsockname()[1]}", aws=aws)
        with pytest.raises(NoShell, match="in use"):
            forward()
    assert aws.requests == []


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--forward", "0"], "a port is a number from 1 to 65535, not 0"),
        (["--forward", "x"], "is not PORT or PORT:LOCAL"),
        (["--forward", "1:9", "--forward", "2:9"], "two forwards want port 9"),
    ],
)
def test_a_wrong_port_is_a_wrong_command_line(client, options, said):
    result = CliRunner().invoke(cli, ["shell", "job1", *options], obj=App(connect=lambda _: client))
    assert (result.exit_code, said in result.stderr) == (ExitCode.USAGE, True)


@pytest.mark.parametrize(
    ("then", "said", "code"),
    [
        (ended(number=2), "the job is completed after 2 attempts", ExitCode.OK),
        (ended("failed", 2, message="exit code: 1"), "the job is failed", ExitCode.NO),
        (
            waiting(1, name="job1", state="preempted", attempts_begun=2),
            "comes back to it",
            ExitCode.NO,
        ),
        (running(2), "the job is running in pool p5", ExitCode.NO),
    ],
)
def test_the_end_of_forwarding_says_what_became_of_the_job(invoke, queue, then, said, code):
    """The session ends with the container, by SSM's time-out, or when the network is lost."""
    queue.script(running(2), then)
    result = invoke("shell", "job1", "--forward", "8888")
    assert (result.exit_code, said in result.stderr) == (code, True), result.stderr
    assert ("`slotq shell job1 --forward 8888 --wait`" in result.stderr) is (
        then.state in {"preempted", "running"}
    )


def free_ports(number):
    servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    try:
        return [server.getsockname()[1] for server in servers]
    finally:
        for server in servers:
            server.close()
