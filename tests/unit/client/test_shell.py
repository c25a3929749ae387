"""`slotq shell` in SageMaker: messages about what is missing, and the plugin's terminal."""

from __future__ import annotations

import json
import os
import signal
import stat

import pytest
from botocore.exceptions import ClientError
from click.testing import CliRunner

from slotq.cli.app import App
from slotq.cli.exits import Exit
from slotq.cli.main import cli
from slotq.configuration.settings import Config
from slotq.errors import NoShell
from slotq.remote_shell.plugin import PLUGIN, Call, on_this_terminal
from slotq.remote_shell.running import running_job
from slotq.remote_shell.ssm_session import Container
from tests.unit.client.fake_queue import (
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

    def __init__(self, *, enabled=True, denies=(), code=None):
        self.enabled, self.denies, self.code = enabled, denies, code
        self.targets = []

    def client(self, service):
        return self

    def describe_training_job(self, **request):
        if "describe" in self.denies:
            raise refusal("AccessDeniedException", "DescribeTrainingJob")
        return {"RemoteDebugConfig": {"EnableRemoteDebug": self.enabled}}

    def start_session(self, **request):
        if self.code:
            raise refusal(self.code, "StartSession")
        self.targets.append(request["Target"])
        return {
            "SessionId": "ada-1",
            "TokenValue": "token",
            "StreamUrl": "wss://stream",
            "ResponseMetadata": {"HTTPStatusCode": 200},
        }


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
        open_shell(client, "job1", host=1, aws=FakeAws(code=code))


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


def test_the_request_is_read_when_sagemaker_may_not_be_asked(client, queue, plugin):
    queue.requests["job1"] = {"RemoteDebugConfig": {"EnableRemoteDebug": True}}
    assert open_shell(client, "job1", host=1, aws=FakeAws(denies=("describe",))) == 7


def test_ctrl_c_goes_to_the_session_while_it_runs():
    before = signal.getsignal(signal.SIGINT)
    assert on_this_terminal(Call(command=["sh", "-c", "kill -INT $PPID; exit 3"])) == 3
    assert signal.getsignal(signal.SIGINT) is before


def test_the_command_exits_with_the_shells_code(client, plugin, monkeypatch):
    monkeypatch.setattr("slotq.transport.aws_session.made", lambda *_, **__: FakeAws())
    app = App(connect=lambda endpoint: client)
    assert CliRunner().invoke(cli, ["shell", "job1"], obj=app).exit_code == 7
    result = CliRunner().invoke(cli, ["shell", "waits"], obj=app)
    assert (result.exit_code, "slotq why waits" in result.stderr) == (Exit.NO, True)


def test_a_local_address_without_an_emulator_is_an_error(plugin):
    config = Config(endpoint="http://127.0.0.1:9/prod", region="us-east-1")
    app = App(connect=lambda endpoint: client_of(FakeHttp(FakeQueue(running())), config=config))
    result = CliRunner().invoke(cli, ["shell", "job1"], obj=app)
    assert (result.exit_code, "not your emulator" in result.stderr) == (Exit.NO, True)
