"""Every file in events/ by `sam local invoke`, and the API by `sam local start-api`: what was
built, in Lambda's own image, against the emulator. `make sam-local` runs this; it needs a Docker
engine."""

from __future__ import annotations

import ipaddress
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

from slotq.local.sam_local import TEMPLATE, VALUES
from tests.built import replies
from tests.built.runtime import BUILT, MACHINE, ROOT
from tests.functional.account import EVENTS, sample
from tests.functional.local.account import Account
from tests.functional.local.conftest import slotq, start

pytestmark = pytest.mark.sam_local

SAM = str(ROOT / ".venv" / "sam" / "bin" / "sam")
START_SECONDS = 120.0
CALLER = sample("add-job")["requestContext"]["identity"]["userArn"]
"""Who has signed the samples, so that `sam local start-api` shows what `sam local invoke` made."""
SHORT = os.environ.get("SLOTQ_SAM_LOCAL") == "short"
"""One sample of each trigger, because the SAM CLI takes seconds for each."""


@pytest.fixture(scope="module")
def host() -> str:
    """This machine's address in containers: the first one of the engine's network."""
    form = "{{(index .IPAM.Config 0).Subnet}}"
    asked = ["docker", "network", "inspect", "bridge", "--format", form]
    subnet = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    return str(ipaddress.ip_network(subnet)[1])


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    """The emulator's own queue manager is off: everything comes from the functions under test."""
    folder = tmp_path_factory.mktemp("emulator")
    refuse = ("--knob", f"refuse_creates={replies.REFUSALS}", "--host", "0.0.0.0")
    try:
        yield start(folder, "--pool", "main=2@ml.p4d.24xlarge", "--tick", "3600", *refuse)
    finally:
        slotq("local", "stop", folder=folder)


@pytest.fixture(scope="module")
def letters(emulator: Account) -> str:
    made: str = emulator.endpoint.client("sqs").create_queue(QueueName="dead-letters")["QueueUrl"]
    return made


@pytest.fixture(scope="module")
def sam(emulator: Account, host: str, letters: str, tmp_path_factory) -> Iterator[list[str]]:
    """`sam local` and what each of its commands is told: the files of `slotq local sam`, and what
    else the samples need."""
    slotq("local", "sam", "--build", str(BUILT), "--host", host, folder=emulator.folder)
    values = json.loads((BUILT / VALUES).read_text())
    values["Parameters"] |= {
        "SLOTQ_DEAD_LETTERS": letters.replace("127.0.0.1", host),
        "SLOTQ_EXECUTION_ROLES": json.loads(sample("add-job")["body"])["RoleArn"],
        "SLOTQ_LOCAL_CALLER": CALLER,
    }
    file = tmp_path_factory.mktemp("sam") / "variables.json"
    file.write_text(json.dumps(values))
    keys = emulator.running.keys
    signing = {
        "AWS_ACCESS_KEY_ID": keys.access_key,
        "AWS_SECRET_ACCESS_KEY": keys.secret_key,
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    # The SAM CLI gives its own keys to the function.
    with mock.patch.dict(os.environ, signing):
        yield [
            *("--template", str(BUILT / TEMPLATE), "--env-vars", str(file), "--skip-pull-image"),
            *("--parameter-overrides", f"Architecture={MACHINE}"),
        ]


def invoke(sam: list[str], name: str) -> Any:
    """The answer, after checking it."""
    function, event = replies.function_of(sample(name)), EVENTS / f"{name}.json"
    ran = subprocess.run(
        [SAM, "local", "invoke", function, "--event", str(event), *sam],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, f"{name}: {ran.stderr[-3000:]}"
    reply = json.loads(ran.stdout.strip().splitlines()[-1])
    try:
        replies.check(name, reply)
    except AssertionError:
        pytest.fail(f"{name}: {reply}\n{ran.stderr[-3000:]}")
    return reply


def test_every_sample_is_answered_by_sam_local_invoke(emulator: Account, sam, letters: str):
    story = replies.SHORT if SHORT else replies.names()
    for name in story:
        invoke(sam, name)
    asked = {"QueueUrl": letters, "AttributeNames": ["All"]}
    read = emulator.endpoint.client("sqs").get_queue_attributes(**asked)
    replies.check_story(
        story,
        invoke(sam, "list-jobs"),
        refusals_left=emulator.knobs()["refuse_creates"],
        letters=int(read["Attributes"]["ApproximateNumberOfMessages"]),
    )


@pytest.fixture(scope="module")
def api(sam: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of `sam local start-api`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = tmp_path_factory.mktemp("api") / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [SAM, "local", "start-api", "--port", str(port), "--warm-containers", "LAZY", *sam],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_interruptible,  # noqa: PLW1509 - there are no other threads
        )
    try:
        until = time.monotonic() + START_SECONDS
        while not _listens(port):
            assert process.poll() is None and time.monotonic() < until, log.read_text()[-3000:]
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGINT)  # It removes its containers.
        process.wait(timeout=60)


def _interruptible() -> None:
    """Also when the tests run in the background, where interrupts are ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def call(url: str, method: str = "GET", body: str | None = None) -> tuple[int, dict[str, Any]]:
    data = None if body is None else body.encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=120) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_the_api_answers_under_sam_local_start_api(api: str):
    """The jobs are those submitted by `sam local invoke`."""
    status, listed = call(f"{api}/jobs?state=pending&state=cancelled")
    names = [job["name"] for job in listed["jobs"]]
    assert (status, names[0], names[-1]) == (200, "job2", "job1")
    status, job = call(f"{api}/jobs/job2")
    assert (status, job["state"], job["place"]) == (200, "pending", 1)
    assert job["reason"]["text"]
    assert call(f"{api}/pools")[1]["pools"][0]["name"] == "main"
    assert call(f"{api}/doctor")[0] == 200
    status, told = call(f"{api}/jobs?state=odd")
    assert (status, told["field"]) == (400, "state")
    assert call(f"{api}/jobs/job9")[1]["code"] == "no_such_job"


def test_the_local_caller_submits_and_cancels_under_sam_local_start_api(api: str):
    """`sam local` checks no signatures: the caller is the one in the file of variables."""
    body = {**json.loads(sample("add-job")["body"]), "TrainingJobName": "mine"}
    status, job = call(f"{api}/add-job", "POST", json.dumps(body))
    assert (status, job["submitter"]) == (202, CALLER)
    assert call(f"{api}/jobs/mine/request")[0] == 200
    assert call(f"{api}/jobs/mine", "PATCH", '{"held": true}')[1]["state"] == "held"
    assert call(f"{api}/jobs/mine", "DELETE")[1]["state"] == "cancelled"
