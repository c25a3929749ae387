"""Sessions are started as `aws ssm start-session` does: the same call, and the same plugin call.

SSM is a server of this machine, and the plugin a script that writes down what it is given.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import boto3
import pytest

from slotq.remote_shell.plugin import PLUGIN
from slotq.remote_shell.ports import parsed
from slotq.remote_shell.ssm_session import Container
from tests.e2e.test_aws_cli import AWS

pytestmark = pytest.mark.skipif(not AWS, reason="there is no AWS CLI (`make test` installs it)")

TARGET = "sagemaker-training-job:lab_algo-2"
ANSWER = {"SessionId": "ada-1", "TokenValue": "token", "StreamUrl": "wss://stream"}
JOB = SimpleNamespace(name="lab", training_job="lab", node="")


@pytest.fixture
def ssm():
    """SSM's endpoint. It keeps what it is asked."""

    asked = []

    class Ssm(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            asked.append((self.headers["X-Amz-Target"], json.loads(body)))
            answer = json.dumps(ANSWER).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Ssm) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield SimpleNamespace(url=f"http://127.0.0.1:{server.server_port}", asked=asked)
        server.shutdown()


@pytest.fixture(params=["1.2.497.0", "1.2.650.0"])
def given(request, tmp_path, monkeypatch):
    """What the plugin of a version was given in its last call."""
    path, log = tmp_path / PLUGIN, tmp_path / "given"
    path.write_text(
        f"""#!/bin/sh
if [ "$1" = --version ]; then echo {request.param}; exit; fi
printf '%s\\n' "$AWS_SSM_START_SESSION_RESPONSE" "$@" > {log}
"""
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return lambda: [read_json(line) for line in log.read_text().splitlines()]


def read_json(text):
    try:
        return json.loads(text)
    except ValueError:
        return text


class Aws:
    """boto3, with SSM at an address of this machine, and a SageMaker that has the job."""

    region_name, profile_name = "eu-west-1", "default"

    def __init__(self, url):
        self.url = url

    def client(self, service):
        if service == "ssm":
            return boto3.client("ssm", region_name=self.region_name, endpoint_url=self.url)
        described = {
            "RemoteDebugConfig": {"EnableRemoteDebug": True},
            "SecondaryStatus": "Training",
        }
        return SimpleNamespace(describe_training_job=lambda **_: described)


def by_the_aws_cli(ssm, *words):
    start = ("ssm", "start-session", "--region", "eu-west-1", "--endpoint-url", ssm.url)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([AWS, *start, "--target", TARGET, *words], check=True, env=environment)


def test_a_shell_is_opened_as_the_aws_cli_opens_one(ssm, given):
    by_the_aws_cli(ssm)
    theirs = given()
    assert Container(None, host=2, aws=Aws(ssm.url)).shell(JOB) == 0
    assert given() == theirs
    assert ssm.asked == [("AmazonSSM.StartSession", {"Target": TARGET})] * 2


def test_a_port_is_forwarded_as_the_aws_cli_forwards_one(ssm, given):
    said = []
    container = Container(None, host=2, aws=Aws(ssm.url))
    assert container.forward(JOB, [parsed("8888")], said.append) == 0
    ours = given()
    local = said[0].removeprefix("127.0.0.1:").split()[0]
    by_the_aws_cli(
        ssm,
        *("--document-name", "AWS-StartPortForwardingSession"),
        *("--parameters", f"portNumber=8888,localPortNumber={local}"),
    )
    assert given() == ours
    assert ssm.asked[0] == ssm.asked[1]
