"""A shell in a running SageMaker training job, by Systems Manager (SSM).

SageMaker needs RemoteDebugConfig in the job's request, rights for SSM in the job's role, and the
right to start a session for the caller. The Session Manager plugin runs the session. Errors say
what is missing and how to provide it.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from slotq.client import QueueClient
from slotq.errors import NoShell, NotConfigured
from slotq.transport import aws_session
from slotq_core.model.jobs import ACTIVE_STATES, JobState
from slotq_core.wire.views import JobView

PLUGIN = "session-manager-plugin"
Run = Callable[[Sequence[str]], int]
"""Runs a command on this terminal and returns its exit code."""

_GUIDE = "https://docs.aws.amazon.com/sagemaker/latest/dg/train-remote-debugging.html"
_MISSING = {
    "TargetNotConnected": "the container does not answer SSM. If it started less than a minute "
    "ago, try again. Else its role needs "
    "ssmmessages:CreateControlChannel, CreateDataChannel, "
    "OpenControlChannel and OpenDataChannel, and a VPC without internet "
    "needs an endpoint for ssmmessages",
    "AccessDeniedException": "you need ssm:StartSession on the training job and on the "
    "document, and ssm:TerminateSession",
}


def running_job(client: QueueClient, name: str) -> JobView:
    """The job, if it runs as a training job. Raises NoShell, NoSuchJob."""
    job = client.job(name)
    if job.state == JobState.RUNNING and job.training_job:
        return job
    why = f"job {name} is {job.state}"
    if job.state in ACTIVE_STATES:
        raise NoShell(f"{why}: a shell needs a running job")
    if job.state in {JobState.PENDING, JobState.PREEMPTED, JobState.BACKOFF, JobState.HELD}:
        raise NoShell(
            f"{why}: a shell needs a running job; `slotq why {name}` explains what it waits for"
        )
    raise NoShell(f"{why}: a shell needs a running job; `slotq logs {name}` shows what it printed")


def open_shell(
    client: QueueClient, name: str, *, host: int, aws: Any | None = None, run: Run | None = None
) -> int:
    """Open a shell in instance `host` (from 1) of the job; returns its exit code when it is over.

    `aws`: the boto3 session; None: one made from the client's settings. Raises NoShell with what is
    missing, and what QueueClient.job raises.
    """
    job = running_job(client, name)
    training_job = str(job.training_job)
    aws = aws or _session(client)
    region = aws.region_name
    if shutil.which(PLUGIN) is None:
        raise NoShell(
            f"{PLUGIN} is not on the PATH: install it (see “Install the Session Manager plugin "
            "for the AWS CLI” in AWS's documentation), then try again"
        )
    if not _debuggable(aws, client, name, training_job):
        raise NoShell(_not_enabled(training_job))
    target = {"Target": f"sagemaker-training-job:{training_job}_algo-{host}"}
    started = _started(aws, target)
    command = [PLUGIN, json.dumps(started), region, "StartSession", aws.profile_name or ""]
    command += [json.dumps(target), f"https://ssm.{region}.{_domain(region)}"]
    return (run or on_this_terminal)(command)


def _session(client: QueueClient) -> Any:
    config = client.config
    try:
        aws = aws_session.made(
            config.aws_profile, source=config.source("aws_profile"), region=config.signing_region()
        )
    except NotConfigured as error:
        raise NoShell(str(error)) from None
    if aws.region_name is None:
        raise NoShell("the region is not known: set SLOTQ_REGION (or AWS_REGION)")
    return aws


def _debuggable(aws: Any, client: QueueClient, name: str, training_job: str) -> bool:
    """Whether remote debugging is on, from SageMaker or, if that fails, from the request."""
    try:
        described: Mapping[str, Any] = aws.client("sagemaker").describe_training_job(
            TrainingJobName=training_job
        )
    except (ClientError, BotoCoreError):
        described = client.request(name)
    return bool((described.get("RemoteDebugConfig") or {}).get("EnableRemoteDebug"))


def _not_enabled(training_job: str) -> str:
    return (
        "RemoteDebugConfig is not enabled for the job. For this attempt: `aws sagemaker "
        f"update-training-job --training-job-name {training_job} --remote-debug-config "
        "EnableRemoteDebug=true`, while it is downloading or training. For all attempts: submit it "
        'with "RemoteDebugConfig": {"EnableRemoteDebug": true} (SDK v2: '
        f"enable_remote_debug=True). See {_GUIDE}"
    )


def _started(aws: Any, target: Mapping[str, str]) -> dict[str, Any]:
    """SSM's answer to StartSession, which the plugin needs. Raises NoShell."""
    try:
        answer = aws.client("ssm").start_session(**target)
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        what = _MISSING.get(code, f"see {_GUIDE}")
        raise NoShell(f"SSM starts no session in {target['Target']} ({error}): {what}") from None
    except BotoCoreError as error:
        raise NoShell(f"SSM cannot be asked: {error}") from None
    return {key: answer[key] for key in ("SessionId", "TokenValue", "StreamUrl") if key in answer}


def _domain(region: str) -> str:
    return "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"


def on_this_terminal(command: Sequence[str]) -> int:
    """Run a command on this terminal. Keys such as Ctrl-C and Ctrl-Z affect the command alone."""
    with _signals_passed_by():
        # The command is the plugin.
        return subprocess.run(command, check=False).returncode  # noqa: S603 # nosec B603


@contextmanager
def _signals_passed_by() -> Iterator[None]:
    names = ("SIGINT", "SIGQUIT", "SIGTSTP")
    kept = {
        number: signal.signal(number, signal.SIG_IGN)
        for number in (getattr(signal, name, None) for name in names)
        if number is not None
    }
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
